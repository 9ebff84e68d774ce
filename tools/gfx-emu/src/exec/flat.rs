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
pub fn run(w: &mut Wave, cx: &mut Context<'_>, m: &Mem) {
    before(w, cx, m);
    let exec = w.exec();
    let base = m.saddr.map(|s| w.scalar(s, if m.space == Space::Scratch { 1 } else { 2 }));
    let at = addresses(w, m, base);
    let mut to_lds = false;
    let is_device = |address: u64| ![SHARED_APERTURE, PRIVATE_APERTURE].contains(&((address >> 32) as u32));
    let device_alone = match m.space {
        Space::Scratch => false,
        Space::Flat => each(exec).all(|lane| is_device(at[lane as usize])),
        Space::Global | Space::Buffer => true,
    };
    let mut lines = Lines::default();
    if device_alone {
        lines.touch_all(&at, exec, m.op.bytes());
    }
    if !device_alone || !wide::run(w, cx, m.op, &at, exec, [m.dst, m.data]) {
        for lane in each(exec) {
            let address = at[lane as usize];
            let high = (address >> 32) as u32;
            match m.space {
                Space::Scratch => scratch(w, cx, lane, address as u32 as i32 as i64 as u64, m.op, m.dst, m.data),
                Space::Flat if high == PRIVATE_APERTURE => {
                    scratch(w, cx, lane, address & 0xffff_ffff, m.op, m.dst, m.data);
                }
                Space::Flat if high == SHARED_APERTURE => {
                    to_lds = true;
                    lds::one(w, cx, lane, address as u32, m.op, m.dst, [m.data, m.data + m.op.words()]);
                }
                _ => {
                    if !device_alone {
                        lines.touch(address, m.op.bytes());
                    }
                    device(w, cx, lane, address, m.op, m.dst, m.data);
                }
            }
        }
    }
    lines.count(cx);
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

/// Cache lines that a wave's access touches.
pub struct Lines {
    /// Lines one after the other, ascending, and others after them.
    seen: [u64; 128],
    count: usize,
    highest: u64,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines { seen: [0; 128], count: 0, highest: 0 }
    }
}

impl Lines {
    /// Notes a lane's bytes.
    #[inline(always)]
    pub fn touch(&mut self, address: u64, bytes: u32) {
        let (first, last) = (address / 128, (address + u64::from(bytes) - 1) / 128);
        self.add(first);
        if last != first {
            self.add(last);
        }
    }

    /// Notes the bytes of active lanes.
    #[inline(always)]
    pub fn touch_all(&mut self, at: &Addresses, exec: u64, bytes: u32) {
        each(exec).for_each(|lane| self.touch(at[lane as usize], bytes));
    }

    #[inline(always)]
    fn add(&mut self, line: u64) {
        if line > self.highest || self.count == 0 {
            self.highest = line;
        } else if line == self.highest || self.seen[..self.count].contains(&line) {
            return;
        }
        self.seen[self.count] = line;
        self.count += 1;
    }

    /// Adds them to the counts.
    pub fn count(&self, cx: &mut Context<'_>) {
        cx.counters.vmem_accesses += 1;
        cx.counters.vmem_lines += self.count as u64;
    }
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
