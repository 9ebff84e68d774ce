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
pub fn run(w: &mut Wave, cx: &mut Context<'_>, op: MemOp, at: &Addresses, lanes: u64, [dst, data]: [u16; 2]) -> bool {
    let bytes = op.bytes();
    let is_store = match op {
        MemOp::Load { .. } => false,
        MemOp::Store { .. } if bytes >= 4 => true,
        _ => return false,
    };
    let (least, most) = each(lanes)
        .fold((u64::MAX, 0), |(least, most), lane| (least.min(at[lane as usize]), most.max(at[lane as usize])));
    let end = most.checked_add(bytes.into());
    let around = end.and_then(|end| cx.around(least, end.checked_sub(least)?));
    let Some((found, start)) = around else { return false };
    let mut places = [0; 64];
    each(lanes).for_each(|lane| places[lane as usize] = at[lane as usize] - least + start);
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

/// Whether all bytes that are read were written, and nothing races. A lane that has the place of the one before it goes
/// with that.
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
    let mut last = u64::MAX;
    each(lanes).all(|lane| {
        let place = at[lane as usize];
        let (at, len) = (place as usize, bytes as usize);
        let same = std::mem::replace(&mut last, place) == place;
        same || ((written || found.written.is(at, len))
            && accesses.is_none_or(|accesses| accesses.note_clean(at, len, is_store, who)))
    })
}

fn load(w: &mut Wave, found: &Allocation, at: &Addresses, lanes: u64, op: MemOp, first: u16) {
    let bytes = op.bytes();
    for register in 0..op.words() {
        let row = (first + register) as usize;
        for half in 0..w.halves {
            let to = &mut w.v[row * w.halves + half];
            let active = (lanes >> (32 * half)) as u32;
            let at = &at[32 * half..][..32];
            let word = |at: u64| found.word(at + 4 * u64::from(register));
            match bytes {
                1 => each(active.into()).for_each(|lane| {
                    let raw = found.byte(at[lane as usize]).into();
                    to[lane as usize] = loaded(op, raw, to[lane as usize]);
                }),
                2 => each(active.into()).for_each(|lane| {
                    let raw = found.short(at[lane as usize]).into();
                    to[lane as usize] = loaded(op, raw, to[lane as usize]);
                }),
                _ if active == u32::MAX => to.iter_mut().zip(at).for_each(|(to, &at)| *to = word(at)),
                _ => each(active.into()).for_each(|lane| to[lane as usize] = word(at[lane as usize])),
            }
        }
        w.unknown_v[row] &= !lanes;
    }
}

/// Of lanes with one address the last one's word stays.
fn store(w: &Wave, found: &Allocation, at: &Addresses, lanes: u64, bytes: u32, first: u16) {
    for lane in each(lanes) {
        let place = at[lane as usize];
        for register in 0..bytes as u16 / 4 {
            found.set_word(place + 4 * u64::from(register), w.lane(first + register, lane));
        }
        found.written.mark(place as usize, bytes as usize);
    }
}
