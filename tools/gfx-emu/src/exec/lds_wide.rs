//! Accesses to LDS of whole words, all of them inside and aligned, of which nothing is to be said: done register by register.

use super::MemOp;
use crate::run::{Context, Wave, each};

/// An address of each lane.
pub type Addresses = [u32; 64];

/// Runs an access of active lanes; whether it is such a one. If not, nothing was done that others would not do again. Lanes
/// that are not active have the address of one that is.
pub fn run(w: &mut Wave, cx: &mut Context<'_>, op: MemOp, at: &Addresses, register: u16) -> bool {
    let bytes = op.bytes();
    let lanes = &at[..w.lanes() as usize];
    let (most, bits) = lanes.iter().fold((0, 0), |(most, bits), &a| (most.max(a), bits | a));
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

/// Whether a note of each lane's access finds nothing. A lane that has the address of the one before it, or of the one 16
/// before it, as fragments of matrices have, is noted with that.
#[inline(always)]
fn is_clean(at: &Addresses, exec: u64, mut note: impl FnMut(usize) -> bool) -> bool {
    let mut last = u32::MAX;
    each(exec).all(|lane| {
        let address = at[lane as usize];
        let noted = address == last || (lane >= 16 && at[lane as usize - 16] == address);
        last = address;
        noted || note(address as usize / 4)
    })
}

fn load<const WORDS: usize>(w: &mut Wave, cx: &mut Context<'_>, at: &Addresses, first: u16) -> bool {
    let exec = w.exec();
    let (wave, epoch) = (w.number, cx.epoch);
    if cx.check() && !is_clean(at, exec, |word| cx.shadow.reads::<WORDS>(word, wave, epoch)) {
        return false;
    }
    let lds = cx.lds.as_chunks::<4>().0;
    for register in 0..WORDS {
        for half in 0..w.halves {
            let row = &mut w.v[(first as usize + register) * w.halves + half];
            let lanes = (exec >> (32 * half)) as u32;
            let at = &at[32 * half..][..32];
            let value = |at: u32| u32::from_le_bytes(lds[at as usize / 4 + register]);
            if lanes == u32::MAX {
                for (to, &at) in row.iter_mut().zip(at) {
                    *to = value(at);
                }
            } else {
                each(lanes.into()).for_each(|lane| row[lane as usize] = value(at[lane as usize]));
            }
        }
        w.unknown_v[first as usize + register] &= !exec;
    }
    true
}

fn store<const WORDS: usize>(w: &Wave, cx: &mut Context<'_>, at: &Addresses, first: u16) -> bool {
    let exec = w.exec();
    let (wave, epoch) = (w.number, cx.epoch);
    if cx.check() && !is_clean(at, exec, |word| cx.shadow.writes::<WORDS>(word, wave, epoch)) {
        return false;
    }
    let lds = cx.lds.as_chunks_mut::<4>().0;
    // Of lanes with one address the last one's word stays, whichever of its words another writes there.
    for half in 0..w.halves {
        let rows: [&[u32; 32]; WORDS] = std::array::from_fn(|i| &w.v[(first as usize + i) * w.halves + half]);
        for lane in each(exec >> (32 * half) & u64::from(u32::MAX)) {
            let word = at[32 * half + lane as usize] as usize / 4;
            for (to, row) in lds[word..].iter_mut().zip(rows) {
                *to = row[lane as usize].to_le_bytes();
            }
        }
    }
    true
}
