//! Global, flat and scratch accesses.

use super::access::{combined, device, put, put_old, registers, stored};
use super::scalar::look;
use super::wide::{self, Addresses};
use super::{MemOp, lds};
use crate::decode::{Counter, Mem, SSrc, Space, scalar};
use crate::report::Kind;
use crate::run::{Context, PRIVATE_APERTURE, SHARED_APERTURE, Wave, each};
use hrx_compiler::hsaco::Generation;

/// Runs an access that is not a buffer's.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, m: &Mem) {
    access(w, cx, m);
}

/// The same for whatever the CPU has: closures of functions that need features would not become part of loops.
#[inline(always)]
fn access(w: &mut Wave, cx: &mut Context<'_>, m: &Mem) {
    before(w, cx, m);
    let exec = w.exec();
    let base = m.saddr.map(|s| w.scalar(s, if m.space == Space::Scratch { 1 } else { 2 }));
    let at = addresses(w, m, base);
    let mut to_lds = false;
    let is_device = |address: u64| ![SHARED_APERTURE, PRIVATE_APERTURE].contains(&((address >> 32) as u32));
    // Lanes that access device memory.
    let device_lanes = match m.space {
        Space::Scratch => 0,
        Space::Flat => each(exec).filter(|&lane| is_device(at[lane as usize])).fold(0, |lanes, lane| lanes | 1 << lane),
        Space::Global | Space::Buffer => exec,
    };
    count(cx, &at, device_lanes, m.op.bytes());
    if !wide::run(w, cx, m.op, &at, device_lanes, [m.dst, m.data]) {
        for lane in each(device_lanes) {
            device(w, cx, lane, at[lane as usize], m.op, m.dst, m.data);
        }
    }
    for lane in each(exec & !device_lanes) {
        let address = at[lane as usize];
        match ((address >> 32) as u32, m.space) {
            (_, Space::Scratch) => {
                scratch(w, cx, lane, address as u32 as i32 as i64 as u64, m.op, m.dst, m.data);
            }
            (PRIVATE_APERTURE, _) => scratch(w, cx, lane, address & 0xffff_ffff, m.op, m.dst, m.data),
            _ => {
                to_lds = true;
                lds::one(w, cx, lane, address as u32, m.op, m.dst, [m.data, m.data + m.op.words()]);
            }
        }
    }
    if m.to_lds {
        through(w, cx, m);
    }
    issue(w, cx, m, to_lds);
}

/// Stores to LDS what active lanes have loaded: from where M0 and the offset say on, a place for each lane.
pub fn through(w: &mut Wave, cx: &mut Context<'_>, m: &Mem) {
    cx.known_scalar(w, scalar::M0, 1, "an address");
    let first = (w.s[scalar::M0 as usize] & 0xffff).wrapping_add(m.offset as u32);
    let bytes = m.op.bytes().max(4);
    let store = MemOp::Store { bytes: bytes as u8, high: false };
    for lane in each(w.exec()) {
        lds::one(w, cx, lane, first.wrapping_add(bytes * lane), store, 0, [m.dst; 2]);
    }
}

/// The address of each lane.
#[inline(always)]
fn addresses(w: &Wave, m: &Mem, base: Option<u64>) -> Addresses {
    let mut all = [base.unwrap_or(0).wrapping_add(m.offset as u64); 64];
    let Some(v) = m.vaddr else { return all };
    let row = |register: u16| w.v[register as usize * w.halves..][..w.halves].as_flattened();
    for (at, &low) in all.iter_mut().zip(row(v)) {
        *at = at.wrapping_add(low.into());
    }
    if m.wide && base.is_none() {
        for (at, &high) in all.iter_mut().zip(row(v + 1)) {
            *at = at.wrapping_add(u64::from(high) << 32);
        }
    }
    all
}

/// Counts an access and the cache lines that it touches.
#[inline(always)]
pub fn count(cx: &mut Context<'_>, at: &Addresses, lanes: u64, bytes: u32) {
    cx.counters.vmem_accesses += 1;
    cx.counters.vmem_lines += ascending(at, lanes, bytes).unwrap_or_else(|| distinct(at, lanes, bytes));
}

/// The first and the last cache line of a lane's bytes.
#[inline(always)]
fn lines(address: u64, bytes: u32) -> (u64, u64) {
    (address / 128, (address + u64::from(bytes) - 1) / 128)
}

/// How many cache lines lanes touch, if none comes before that of the lane before it.
#[inline(always)]
fn ascending(at: &Addresses, lanes: u64, bytes: u32) -> Option<u64> {
    let (mut count, mut highest) = (0, None);
    for lane in each(lanes) {
        let (first, last) = lines(at[lane as usize], bytes);
        if highest.is_some_and(|highest| first < highest) {
            return None;
        }
        count += u64::from(highest != Some(first)) + u64::from(last != first);
        highest = Some(last);
    }
    Some(count)
}

/// The same of any lanes.
#[inline(never)]
fn distinct(at: &Addresses, lanes: u64, bytes: u32) -> u64 {
    let (mut seen, mut count) = ([0; 128], 0);
    for lane in each(lanes) {
        let (first, last) = lines(at[lane as usize], bytes);
        for line in [first, last] {
            if !seen[..count].contains(&line) {
                seen[count] = line;
                count += 1;
            }
        }
    }
    count as u64
}

/// Operands: written, and not on their way.
pub fn before(w: &Wave, cx: &mut Context<'_>, m: &Mem) {
    if !cx.check() {
        return;
    }
    let exec = w.exec();
    if let Some(v) = m.vaddr {
        let count = 1 + u16::from(m.wide) + u16::from(m.offen && m.idxen);
        cx.waited(w, v, count);
        cx.known(w, v, count, exec, "an address");
    }
    if let Some(s) = m.saddr {
        let words = match m.space {
            Space::Buffer => 4,
            Space::Scratch => 1,
            _ => 2,
        };
        cx.waited_scalar(w, s, words);
        cx.known_scalar(w, s, words as u8, "an address");
    }
    if let SSrc::Reg(first, _) = m.soffset {
        look(w, cx, m.soffset);
        if first != scalar::NULL {
            cx.known_scalar(w, first, 1, "an address");
        }
    }
    let [data, dst] = registers(m.op, m.dst, m.data);
    if let Some((first, count)) = data {
        cx.waited(w, first, count);
        cx.known(w, first, count, exec, "what is stored");
    }
    if let Some((first, count)) = dst.filter(|_| !m.to_lds) {
        cx.waited_load(w, first, count, Counter::Load);
    }
}

/// Counts the operation, and notes what it loads.
pub fn issue(w: &mut Wave, cx: &Context<'_>, m: &Mem, to_lds: bool) {
    let [_, dst] = registers(m.op, m.dst, m.data);
    let apart = cx.launch.generation >= Generation::Gfx10;
    let counter = match dst {
        None if apart => Counter::Store,
        _ if to_lds => Counter::Lds,
        _ => Counter::Load,
    };
    let operation = w.pending.issue(counter);
    if let Some((first, count)) = dst.filter(|_| !m.to_lds) {
        w.pending.load_vector(first, count, operation);
    }
}

/// One lane's access to its scratch memory.
pub fn scratch(w: &mut Wave, cx: &mut Context<'_>, lane: u32, at: u64, op: MemOp, dst: u16, data: u16) {
    let bytes = op.bytes();
    let room = u64::from(w.scratch_bytes);
    if at > room || u64::from(bytes) > room - at {
        cx.report(Kind::OutOfBounds, Some(lane), || format!("{bytes} bytes at {at} of {room} bytes of scratch memory"));
        put(w, dst, lane, op, &[0; 4]);
        return;
    }
    let from = (u64::from(lane) * room + at) as usize;
    let range = from..from + bytes as usize;
    let reads = !matches!(op, MemOp::Store { .. });
    if reads && cx.check() && !w.scratch_written[range.clone()].iter().all(|&b| b) {
        cx.report(Kind::UninitialisedMemory, Some(lane), || format!("{bytes} bytes at {at} of scratch memory"));
    }
    let mut words = [0; 4];
    for (i, byte) in w.scratch[range.clone()].iter().enumerate() {
        words[i / 4] |= u32::from(*byte) << (8 * (i % 4));
    }
    let old = u64::from(words[0]) | u64::from(words[1]) << 32;
    let new = match op {
        MemOp::Load { .. } => {
            put(w, dst, lane, op, &words);
            return;
        }
        MemOp::Store { .. } => stored(w, data, lane, op),
        MemOp::Atomic { .. } => {
            let new = combined(op, old, &stored(w, data, lane, op));
            put_old(w, dst, lane, op, old);
            [new as u32, (new >> 32) as u32, 0, 0]
        }
    };
    for (i, byte) in w.scratch[range.clone()].iter_mut().enumerate() {
        *byte = (new[i / 4] >> (8 * (i % 4))) as u8;
    }
    w.scratch_written[range].fill(true);
}
