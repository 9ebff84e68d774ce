//! Accesses to LDS.

use super::MemOp;
use super::access::{Words, combined, put, put_old, registers, stored};
use super::lds_wide::{self as wide, Addresses};
use crate::decode::{Counter, Ds};
use crate::report::Kind;
use crate::run::{Between, Context, Wave, each};

/// Runs an access.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, d: &Ds) {
    access(w, cx, d);
}

/// The same for whatever the CPU has: closures of functions that need features would not become part of loops.
#[inline(always)]
fn access(w: &mut Wave, cx: &mut Context<'_>, d: &Ds) {
    before(w, cx, d);
    let exec = w.exec();
    let words = d.op.words();
    let places = if d.two { 2 } else { 1 };
    // All addresses are read before anything is written: results may go to the address' register.
    let addresses = addresses(w, d.addr, exec);
    for place in 0..places {
        let at = addresses.map(|a| a.wrapping_add(d.offsets[place]));
        let dst = d.dst + place as u16 * words;
        let data = if d.two { [d.data[place]; 2] } else { d.data };
        let register = if let MemOp::Load { .. } = d.op { dst } else { data[0] };
        if !wide::run(w, cx, d.op, &at, register) {
            for lane in each(exec) {
                one(w, cx, lane, at[lane as usize], d.op, dst, data);
            }
        }
        cx.counters.lds_accesses += 1;
        cx.counters.lds_conflicts += cx.patterns.conflicts(cx.pc, exec, &at.map(|a| a / 4), words.into());
    }
    let operation = w.pending.issue(Counter::Lds);
    if let [_, Some((first, count))] = registers(d.op, d.dst, 0) {
        w.pending.load_vector(first, count * places as u16, operation);
    }
}

/// Addresses of all lanes; of those that are not active, what one that is has.
#[inline(always)]
fn addresses(w: &Wave, register: Option<u16>, exec: u64) -> Addresses {
    let Some(register) = register else { return [0; 64] };
    let row = w.v[register as usize * w.halves..][..w.halves].as_flattened();
    if exec == u64::MAX >> (64 - row.len()) {
        let mut all = [row[0]; 64];
        all[..row.len()].copy_from_slice(row);
        return all;
    }
    let mut all = [row[exec.trailing_zeros() as usize % row.len()]; 64];
    for (lane, (at, &own)) in all.iter_mut().zip(row).enumerate() {
        *at = if exec >> lane & 1 != 0 { own } else { *at };
    }
    all
}

fn before(w: &Wave, cx: &mut Context<'_>, d: &Ds) {
    if !cx.check() {
        return;
    }
    let exec = w.exec();
    if let Some(register) = d.addr {
        cx.waited(w, register, 1);
        cx.known(w, register, 1, exec, "an address");
    }
    let count = match d.op {
        MemOp::Load { .. } => 0,
        MemOp::Store { .. } => 1 + usize::from(d.two),
        MemOp::Atomic { compares, .. } => 1 + usize::from(compares),
    };
    for &data in &d.data[..count] {
        cx.waited(w, data, d.op.words());
        cx.known(w, data, d.op.words(), exec, "what is stored");
    }
    if let [_, Some((first, count))] = registers(d.op, d.dst, 0) {
        cx.waited_load(w, first, count * if d.two { 2 } else { 1 }, Counter::Lds);
    }
}

/// One lane's access at one address.
#[inline(always)]
pub fn one(w: &mut Wave, cx: &mut Context<'_>, lane: u32, at: u32, op: MemOp, dst: u16, data: [u16; 2]) {
    let bytes = op.bytes();
    let room = cx.lds.len() as u32;
    if at > room || bytes > room - at {
        cx.report(Kind::OutOfBounds, Some(lane), || format!("{bytes} bytes at {at} of {room} bytes of LDS"));
        put(w, dst, lane, op, &[0; 4]);
        put_old(w, dst, lane, op, 0);
        return;
    }
    let (reads, writes) = (!matches!(op, MemOp::Store { .. }), !matches!(op, MemOp::Load { .. }));
    let atomic = reads && writes;
    let align = if atomic { bytes } else { bytes.min(4) };
    if !at.is_multiple_of(align) {
        cx.report(Kind::Misaligned, Some(lane), || format!("{bytes} bytes at {at} of LDS"));
    }
    if cx.check() {
        // Atomics do not race with each other, but with what is not atomic.
        let (wave, epoch) = (w.number, cx.epoch);
        let found = if atomic {
            cx.shadow.note_atomic(at, bytes, wave, epoch)
        } else {
            cx.shadow.note(at, bytes, wave, epoch, writes, reads)
        };
        if w.signalled > 0 {
            cx.between.push(Between { at, bytes, wave, atomic, writes, reads });
        }
        if let Some((verb, other)) = found.race.filter(|_| cx.waves > 1) {
            let other = if other > 31 { "another wave".into() } else { format!("wave {other}") };
            let message = || format!("{bytes} bytes at {at} of LDS that {other} {verb} since the last barrier");
            cx.report(Kind::LdsRace, Some(lane), message);
        }
        if found.unwritten {
            cx.report(Kind::UninitialisedLds, Some(lane), || format!("{bytes} bytes at {at} of LDS"));
        }
    }
    let range = at as usize..(at + bytes) as usize;
    if let MemOp::Store { .. } = op {
        let words = stored(w, data[0], lane, op);
        set(&mut cx.lds[range], &words);
        return;
    }
    let words = get(&cx.lds[range.clone()]);
    if let MemOp::Load { .. } = op {
        put(w, dst, lane, op, &words);
        return;
    }
    let old = u64::from(words[0]) | u64::from(words[1]) << 32;
    let n = op.words();
    let mut operands = [0; 4];
    for i in 0..n {
        operands[i as usize] = w.lane(data[0] + i, lane);
        operands[(n + i) as usize] = w.lane(data[1] + i, lane);
    }
    let new = combined(op, old, &operands);
    set(&mut cx.lds[range], &[new as u32, (new >> 32) as u32, 0, 0]);
    put_old(w, dst, lane, op, old);
}

#[inline(always)]
fn get(bytes: &[u8]) -> Words {
    let mut words = [0; 4];
    if bytes.len() < 4 {
        words[0] = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
    }
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

#[inline(always)]
fn set(bytes: &mut [u8], words: &Words) {
    if bytes.len() < 4 {
        let from = words[0].to_le_bytes();
        bytes.iter_mut().zip(from).for_each(|(to, byte)| *to = byte);
        return;
    }
    for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
}
