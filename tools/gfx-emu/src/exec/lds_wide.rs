//! Accesses to LDS of whole words, all of them inside and aligned, of which nothing is to be said: done register by register.

use super::MemOp;
use crate::run::{Context, Wave, each};

/// An address of each lane.
pub type Addresses = [u32; 64];

/// Runs an access of active lanes; whether it is such a one. If not, nothing was done that others would not do again. Lanes
/// that are not active have the address of one that is.
#[inline(always)]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, op: MemOp, at: &Addresses, register: u16) -> bool {
    let bytes = op.bytes();
    let lanes = &at[..w.lanes() as usize];
    let (mut most, mut bits) = (0, 0);
    for &at in lanes {
        (most, bits) = (most.max(at), bits | at);
    }
    let inside = u64::from(most) + u64::from(bytes) <= cx.lds.len() as u64;
    if !inside || bits % 4 != 0 || w.signalled > 0 || w.exec() == 0 {
        return false;
    }
    match (op, bytes) {
        (MemOp::Load { .. }, 4) => load::<1>(w, cx, at, register),
        (MemOp::Load { .. }, 8) => load::<2>(w, cx, at, register),
        (MemOp::Load { .. }, 12) => load::<3>(w, cx, at, register),
        (MemOp::Load { .. }, 16) => load::<4>(w, cx, at, register),
        (MemOp::Store { .. }, 4) => store::<1>(w, cx, at, register),
        (MemOp::Store { .. }, 8) => store::<2>(w, cx, at, register),
        (MemOp::Store { .. }, 12) => store::<3>(w, cx, at, register),
        (MemOp::Store { .. }, 16) => store::<4>(w, cx, at, register),
        _ => false,
    }
}

/// Whether notes of all lanes find nothing. Lanes whose words follow each other are noted together; a lane that has the
/// address of the one before it, or of the one 16 before it, as fragments of matrices have, is noted with that.
#[inline(always)]
fn is_clean<const WORDS: usize, const WRITES: bool>(w: &Wave, cx: &mut Context<'_>, at: &Addresses) -> bool {
    if !cx.check() {
        return true;
    }
    let (exec, wave, epoch) = (w.exec(), w.number, cx.epoch);
    let (first, count) = (at[0], w.lanes() as usize);
    let mut in_turn = exec == u64::MAX >> (64 - count);
    for (lane, &at) in at[..count].iter().enumerate() {
        in_turn &= at == first.wrapping_add((4 * WORDS * lane) as u32);
    }
    if in_turn {
        return cx.shadow.note_clean::<WRITES>(first as usize / 4, WORDS * count, wave, epoch);
    }
    let mut last = u32::MAX;
    for lane in each(exec) {
        let address = at[lane as usize];
        let noted = address == last || (lane >= 16 && at[lane as usize - 16] == address);
        last = address;
        if !noted && !cx.shadow.note_clean::<WRITES>(address as usize / 4, WORDS, wave, epoch) {
            return false;
        }
    }
    true
}

#[inline(always)]
fn load<const WORDS: usize>(w: &mut Wave, cx: &mut Context<'_>, at: &Addresses, first: u16) -> bool {
    if !is_clean::<WORDS, false>(w, cx, at) {
        return false;
    }
    let exec = w.exec();
    let lds = cx.lds.as_chunks::<4>().0;
    for register in 0..WORDS {
        for half in 0..w.halves {
            let row = &mut w.v[(first as usize + register) * w.halves + half];
            let lanes = (exec >> (32 * half)) as u32;
            let at = &at[32 * half..][..32];
            for (lane, (to, &at)) in row.iter_mut().zip(at).enumerate() {
                // Lanes that are not active have the address of one that is.
                let word = u32::from_le_bytes(lds[at as usize / 4 + register]);
                *to = if lanes >> lane & 1 != 0 { word } else { *to };
            }
        }
        w.unknown_v[first as usize + register] &= !exec;
    }
    true
}

#[inline(always)]
fn store<const WORDS: usize>(w: &Wave, cx: &mut Context<'_>, at: &Addresses, first: u16) -> bool {
    if !is_clean::<WORDS, true>(w, cx, at) {
        return false;
    }
    let lds = cx.lds.as_chunks_mut::<4>().0;
    // Of lanes with one address the last one's word stays, whichever of its words another writes there.
    for half in 0..w.halves {
        let mut rows: [&[u32; 32]; WORDS] = [&[0; 32]; WORDS];
        for (word, row) in rows.iter_mut().enumerate() {
            *row = &w.v[(first as usize + word) * w.halves + half];
        }
        for lane in each(w.exec() >> (32 * half) & u64::from(u32::MAX)) {
            let word = at[32 * half + lane as usize] as usize / 4;
            for (to, row) in lds[word..][..WORDS].iter_mut().zip(rows) {
                *to = row[lane as usize].to_le_bytes();
            }
        }
    }
    true
}
