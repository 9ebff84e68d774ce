//! Accesses of a wave to device memory of which nothing is to be said: all lanes in one allocation, every byte written
//! that is read, no race. They are checked first and then done register by register.

use super::MemOp;
use super::access::loaded;
use crate::memory::Allocation;
use crate::run::{Context, Wave, each};

/// An address of each lane.
pub type Addresses = [u64; 64];

/// Runs a load or store of some lanes, to or from registers; whether it is such a one. If not, nothing was done that
/// others would not do again.
#[inline(always)]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, op: MemOp, at: &Addresses, lanes: u64, [dst, data]: [u16; 2]) -> bool {
    let bytes = op.bytes();
    let is_store = match op {
        MemOp::Load { .. } => false,
        MemOp::Store { .. } if bytes >= 4 => true,
        _ => return false,
    };
    if lanes == 0 {
        return true;
    }
    // Lanes that have no part in it are as the first that has.
    let first = at[lanes.trailing_zeros() as usize];
    let mut places = [first; 64];
    for (lane, (place, &at)) in places.iter_mut().zip(at).enumerate() {
        *place = if lanes >> lane & 1 != 0 { at } else { *place };
    }
    let (mut least, mut most) = (u64::MAX, 0);
    for &at in &places {
        (least, most) = (least.min(at), most.max(at));
    }
    let end = most.checked_add(bytes.into());
    let around = end.and_then(|end| cx.around(least, end.checked_sub(least)?));
    let Some((found, start)) = around else { return false };
    for place in &mut places {
        *place = *place - least + start;
    }
    if cx.check() && !is_clean(w, cx, found, &places, lanes, bytes, is_store) {
        return false;
    }
    if is_store {
        store(w, found, &places, lanes, bytes, data);
    } else {
        load(w, found, &places, lanes, op, dst);
    }
    true
}

/// Whether all bytes that are read were written, and nothing races. Lanes whose bytes follow each other go together; one
/// that has the place of the one before it goes with that.
#[inline(always)]
fn is_clean(
    w: &Wave,
    cx: &Context<'_>,
    found: &Allocation,
    at: &Addresses,
    lanes: u64,
    bytes: u32,
    is_store: bool,
) -> bool {
    let written = is_store || found.written.is_whole();
    let who = cx.accessor(w, false);
    let accesses = found.accesses();
    let (first, count) = (at[0], w.lanes() as usize);
    let mut in_turn = first.is_multiple_of(4) && bytes >= 4 && lanes == u64::MAX >> (64 - count);
    for (lane, &at) in at[..count].iter().enumerate() {
        in_turn &= at == first + u64::from(bytes) * lane as u64;
    }
    if in_turn {
        let (at, len) = (first as usize, bytes as usize * count);
        return (written || found.written.is(at, len))
            && accesses.is_none_or(|accesses| accesses.note_clean(at, len, is_store, who));
    }
    let mut last = u64::MAX;
    for lane in each(lanes) {
        let place = at[lane as usize];
        let (at, len) = (place as usize, bytes as usize);
        if place == last {
            continue;
        }
        last = place;
        if !(written || found.written.is(at, len)) {
            return false;
        }
        if accesses.is_some_and(|accesses| !accesses.note_clean(at, len, is_store, who)) {
            return false;
        }
    }
    true
}

#[inline(always)]
fn load(w: &mut Wave, found: &Allocation, at: &Addresses, lanes: u64, op: MemOp, first: u16) {
    match op.bytes() {
        1 => load_by(w, at, lanes, op, first, |at, _, before| loaded(op, found.byte(at).into(), before)),
        2 => load_by(w, at, lanes, op, first, |at, _, before| loaded(op, found.short(at).into(), before)),
        _ => load_by(w, at, lanes, op, first, |at, register, _| found.word(at + 4 * u64::from(register))),
    }
}

#[inline(always)]
fn load_by(w: &mut Wave, at: &Addresses, lanes: u64, op: MemOp, first: u16, value: impl Fn(u64, u16, u32) -> u32) {
    for register in 0..op.words() {
        let row = (first + register) as usize;
        for half in 0..w.halves {
            let to = &mut w.v[row * w.halves + half];
            let active = (lanes >> (32 * half)) as u32;
            let at = &at[32 * half..][..32];
            // Lanes that have no part in it have the place of one that has.
            for (lane, (to, &at)) in to.iter_mut().zip(at).enumerate() {
                let value = value(at, register, *to);
                *to = if active >> lane & 1 != 0 { value } else { *to };
            }
        }
        w.unknown_v[row] &= !lanes;
    }
}

/// Of lanes with one address the last one's word stays.
#[inline(always)]
fn store(w: &Wave, found: &Allocation, at: &Addresses, lanes: u64, bytes: u32, first: u16) {
    for lane in each(lanes) {
        let place = at[lane as usize];
        for register in 0..bytes as u16 / 4 {
            found.set_word(place + 4 * u64::from(register), w.lane(first + register, lane));
        }
        found.written.mark(place as usize, bytes as usize);
    }
}
