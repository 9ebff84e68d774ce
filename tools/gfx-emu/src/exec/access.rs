//! What all accesses of lanes have in common: between registers and words of memory, and device memory itself.

use super::MemOp;
use crate::memory::Allocation;
use crate::report::Kind;
use crate::run::{Context, Wave};

/// The words of one lane's access.
pub type Words = [u32; 4];

/// Writes what a lane loaded into its registers.
#[inline(always)]
pub fn put(w: &mut Wave, dst: u16, lane: u32, op: MemOp, words: &Words) {
    let MemOp::Load { bytes, .. } = op else { return };
    if bytes >= 4 {
        for (i, &word) in words.iter().enumerate().take(bytes as usize / 4) {
            w.set_lane(dst + i as u16, lane, word);
        }
        return;
    }
    w.set_lane(dst, lane, loaded(op, words[0], w.lane(dst, lane)));
}

/// What a register holds after a load of part of a word, by the bits of that and what was there before.
#[inline(always)]
pub fn loaded(op: MemOp, bits: u32, before: u32) -> u32 {
    let MemOp::Load { bytes, signed, half } = op else { return before };
    let extended = match (bytes, signed) {
        (1, true) => bits as u8 as i8 as u32,
        (1, false) => bits & 0xff,
        (2, true) => bits as u16 as i16 as u32,
        (2, false) => bits & 0xffff,
        _ => bits,
    };
    match half {
        None => extended,
        Some(false) => before & 0xffff_0000 | extended & 0xffff,
        Some(true) => before & 0xffff | extended << 16,
    }
}

/// The words that a lane stores.
#[inline(always)]
pub fn stored(w: &Wave, data: u16, lane: u32, op: MemOp) -> Words {
    let mut words = [0; 4];
    match op {
        MemOp::Store { bytes, high } => {
            for (i, word) in words.iter_mut().enumerate().take((bytes as usize).div_ceil(4)) {
                *word = w.lane(data + i as u16, lane);
            }
            if high {
                words[0] >>= 16;
            }
        }
        MemOp::Atomic { words: n, compares, .. } => {
            let count = n as usize * if compares { 2 } else { 1 };
            for (i, word) in words.iter_mut().enumerate().take(count) {
                *word = w.lane(data + i as u16, lane);
            }
        }
        MemOp::Load { .. } => {}
    }
    words
}

/// The new value of an atomic operation. Of data, those that are compared with come after those that are written.
pub fn combined(op: MemOp, old: u64, data: &Words) -> u64 {
    let MemOp::Atomic { f, words, .. } = op else { return old };
    let pair = |i: usize| u64::from(data[i]) | u64::from(data[i + 1]) << 32;
    let new = if words == 2 { f(old, pair(0), pair(2)) } else { f(old, data[0].into(), data[1].into()) };
    if words == 2 { new } else { new & u64::from(u32::MAX) }
}

/// Writes what an atomic operation found to a lane's registers.
pub fn put_old(w: &mut Wave, dst: u16, lane: u32, op: MemOp, old: u64) {
    if let MemOp::Atomic { words, returns: true, .. } = op {
        w.set_lane(dst, lane, old as u32);
        if words == 2 {
            w.set_lane(dst + 1, lane, (old >> 32) as u32);
        }
    }
}

/// Registers that hold an access' data, and those it writes.
pub fn registers(op: MemOp, dst: u16, data: u16) -> [Option<(u16, u16)>; 2] {
    match op {
        MemOp::Load { .. } => [None, Some((dst, op.words()))],
        MemOp::Store { .. } => [Some((data, op.words())), None],
        MemOp::Atomic { words, compares, returns, .. } => {
            let count = u16::from(words) * if compares { 2 } else { 1 };
            [Some((data, count)), returns.then_some((dst, words.into()))]
        }
    }
}

/// Words of memory at an offset of an allocation.
#[inline(always)]
pub fn read(found: &Allocation, at: u64, bytes: u32) -> Words {
    let mut words = [0; 4];
    if bytes >= 4 {
        for i in 0..u64::from(bytes / 4) {
            words[i as usize] = found.word(at + 4 * i);
        }
    } else {
        let mut raw = [0; 4];
        found.read(at, &mut raw[..bytes as usize]);
        words[0] = u32::from_le_bytes(raw);
    }
    words
}

#[inline(always)]
fn write(found: &Allocation, at: u64, bytes: u32, words: &Words) {
    if bytes >= 4 {
        for i in 0..u64::from(bytes / 4) {
            found.set_word(at + 4 * i, words[i as usize]);
        }
    } else {
        found.write(at, &words[0].to_le_bytes()[..bytes as usize]);
    }
}

/// One lane's access to device memory.
#[inline(always)]
pub fn device(w: &mut Wave, cx: &mut Context<'_>, lane: u32, address: u64, op: MemOp, dst: u16, data: u16) {
    let bytes = op.bytes();
    let Some((found, at)) = cx.find(address, bytes, Some(lane)) else {
        if let MemOp::Load { .. } = op {
            put(w, dst, lane, op, &[0; 4]);
        }
        put_old(w, dst, lane, op, 0);
        return;
    };
    let (reads, writes) = (!matches!(op, MemOp::Store { .. }), !matches!(op, MemOp::Load { .. }));
    let atomic = reads && writes;
    if atomic && !address.is_multiple_of(bytes.into()) {
        cx.report(Kind::Misaligned, Some(lane), || format!("an atomic of {bytes} bytes at {address:#x}"));
    }
    if cx.check() {
        checked(w, cx, Some(lane), found, at, bytes, [reads, writes]);
    }
    match op {
        MemOp::Load { .. } => put(w, dst, lane, op, &read(found, at, bytes)),
        MemOp::Store { .. } => {
            write(found, at, bytes, &stored(w, data, lane, op));
            found.written.mark(at as usize, bytes as usize);
        }
        MemOp::Atomic { .. } => {
            let words = read(found, at, bytes);
            let old = u64::from(words[0]) | u64::from(words[1]) << 32;
            let new = combined(op, old, &stored(w, data, lane, op));
            write(found, at, bytes, &[new as u32, (new >> 32) as u32, 0, 0]);
            found.written.mark(at as usize, bytes as usize);
            put_old(w, dst, lane, op, old);
            if let MemOp::Atomic { returns: true, .. } = op {
                // What other workgroups wrote before is ordered by what this found.
                w.acquired = true;
            }
        }
    }
}

/// Whether what is read was written, and whether others access it.
#[inline(always)]
pub fn checked(
    w: &Wave,
    cx: &mut Context<'_>,
    lane: Option<u32>,
    found: &Allocation,
    at: u64,
    bytes: u32,
    [reads, writes]: [bool; 2],
) {
    if reads && !found.written.is(at as usize, bytes as usize) {
        let message = || format!("{bytes} bytes at offset {at} of an allocation of {} bytes", found.len());
        cx.report(Kind::UninitialisedMemory, lane, message);
    }
    if let Some(accesses) = found.accesses() {
        let who = cx.accessor(w, reads && writes);
        if let Some(what) = accesses.note(at as usize, bytes as usize, writes, who) {
            let verb = if writes { "written" } else { "read" };
            let message =
                || format!("{bytes} bytes at offset {at} of {} are {verb}, that another wave has {what}", found.len());
            cx.report(Kind::GlobalRace, lane, message);
        }
    }
}
