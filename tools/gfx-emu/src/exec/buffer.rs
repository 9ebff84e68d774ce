//! Buffer accesses: addresses and bounds from a resource of four words.

use super::MemOp;
use super::access::{device, put, put_old};
use super::flat::{before, count, issue, scratch, through};
use super::scalar::value;
use super::wide::{self, Addresses};
use crate::decode::Mem;
use crate::run::{Context, PRIVATE_APERTURE, Wave, each};
use hrx_compiler::hsaco::Generation;

/// A buffer resource.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    /// Its address.
    pub base: u64,
    /// Bytes from a record to the next.
    pub stride: u32,
    /// Records, or bytes if there is no stride.
    pub records: u32,
    /// Which rule of bounds holds, from gfx10 on.
    select: u32,
    /// Whether records are interleaved.
    swizzled: bool,
}

/// Where lanes access: addresses, those of which all bytes are inside, and those of which no word is.
struct Offsets {
    at: Addresses,
    inside: u64,
    outside: u64,
}

impl Resource {
    /// From four scalar registers.
    pub fn read(w: &Wave, first: u16, generation: Generation) -> Resource {
        let word = |i: u16| w.s[(first + i) as usize];
        let swizzle = if generation >= Generation::Gfx11 { word(1) >> 30 } else { word(1) >> 31 };
        Resource {
            base: u64::from(word(0)) | u64::from(word(1) & 0xffff) << 32,
            stride: word(1) >> 16 & 0x3fff,
            records: word(2),
            select: word(3) >> 28 & 3,
            swizzled: swizzle != 0,
        }
    }

    /// Where lanes access that have offsets alone.
    #[inline(always)]
    fn offsets(&self, w: &Wave, m: &Mem, uniform: u64) -> Offsets {
        let mut at = [m.offset as u64 + uniform; 64];
        if let Some(v) = m.vaddr.filter(|_| m.offen) {
            let row = w.v[v as usize * w.halves..][..w.halves].as_flattened();
            for (sum, &offset) in at.iter_mut().zip(row) {
                *sum += u64::from(offset);
            }
        }
        let (bytes, records) = (u64::from(m.op.bytes()), u64::from(self.records));
        let (mut inside, mut outside) = (0, 0);
        for (lane, at) in at.iter_mut().enumerate() {
            inside |= u64::from(*at + bytes <= records) << lane;
            outside |= u64::from(*at + bytes.min(4) > records) << lane;
            *at += self.base;
        }
        Offsets { at, inside: inside & w.exec(), outside: outside & w.exec() }
    }

    /// Whether bytes at an offset of a record lie outside.
    fn is_outside(&self, generation: Generation, index: Option<u64>, offset: u64, sum: u64, bytes: u64) -> bool {
        let records = u64::from(self.records);
        let raw = sum + bytes > records;
        let Some(index) = index.filter(|_| self.stride != 0) else { return raw };
        if generation < Generation::Gfx10 {
            return index >= records;
        }
        match self.select {
            0 => index >= records || offset + bytes > self.stride.into(),
            1 => index >= records,
            2 => records == 0,
            _ => index * u64::from(self.stride) + sum + bytes > records,
        }
    }
}

/// Runs an access through a resource.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, m: &Mem) {
    access(w, cx, m);
}

/// The same for whatever the CPU has: closures of functions that need features would not become part of loops.
#[inline(always)]
fn access(w: &mut Wave, cx: &mut Context<'_>, m: &Mem) {
    before(w, cx, m);
    let generation = cx.launch.generation;
    let resource = Resource::read(w, m.saddr.unwrap_or(0), generation);
    let uniform = value(w, m.soffset) & 0xffff_ffff;
    let is_scratch = (resource.base >> 32) as u32 == PRIVATE_APERTURE & 0xffff && resource.base as u32 == 0;
    if resource.swizzled && !is_scratch {
        cx.report(crate::Kind::OutOfBounds, None, || "a swizzled buffer, which is not emulated".into());
        return;
    }
    let (mut at, mut whole) = ([0; 64], 0);
    let mut rest = w.exec();
    if !is_scratch && !m.idxen {
        let offsets = resource.offsets(w, m, uniform);
        (at, whole) = (offsets.at, offsets.inside);
        rest &= !offsets.inside;
        if offsets.outside != 0 && zeros(w, m, offsets.outside) {
            rest &= !offsets.outside;
        }
    }
    for lane in each(rest) {
        let mut offset = m.offset as u64;
        let mut index = None;
        if let Some(v) = m.vaddr {
            let first = u64::from(w.lane(v, lane));
            match (m.idxen, m.offen) {
                (true, true) => {
                    index = Some(first);
                    offset += u64::from(w.lane(v + 1, lane));
                }
                (true, false) => index = Some(first),
                (false, true) => offset += first,
                (false, false) => {}
            }
        }
        if is_scratch {
            scratch(w, cx, lane, offset + uniform, m.op, m.dst, m.data);
            continue;
        }
        let sum = offset + uniform;
        let bytes = u64::from(m.op.bytes());
        let address = resource.base + index.unwrap_or(0) * u64::from(resource.stride) + sum;
        if !resource.is_outside(generation, index, offset, sum, bytes) {
            at[lane as usize] = address;
            whole |= 1 << lane;
            continue;
        }
        // Each word has bounds of its own.
        let inside = |i: u64| !resource.is_outside(generation, index, offset + 4 * i, sum + 4 * i, bytes.min(4));
        outside(w, cx, m, lane, address, &inside);
    }
    count(cx, &at, whole, m.op.bytes());
    if !wide::run(w, cx, m.op, &at, whole, [m.dst, m.data]) {
        for lane in each(whole) {
            device(w, cx, lane, at[lane as usize], m.op, m.dst, m.data);
        }
    }
    if m.to_lds {
        through(w, cx, m);
    }
    issue(w, cx, m, false);
}

/// What an access of words does in lanes that are all outside; whether it is such a one.
#[inline(always)]
fn zeros(w: &mut Wave, m: &Mem, lanes: u64) -> bool {
    match m.op {
        MemOp::Load { bytes, .. } if bytes >= 4 => {
            for row in m.dst..m.dst + m.op.words() {
                for half in 0..w.halves {
                    let lanes = (lanes >> (32 * half)) as u32;
                    for (lane, to) in w.v[row as usize * w.halves + half].iter_mut().enumerate() {
                        *to = if lanes >> lane & 1 != 0 { 0 } else { *to };
                    }
                }
                w.unknown_v[row as usize] &= !lanes;
            }
            true
        }
        MemOp::Store { .. } => true,
        _ => false,
    }
}

/// An access that is not all inside: words outside are read as zero and not written.
fn outside(w: &mut Wave, cx: &mut Context<'_>, m: &Mem, lane: u32, address: u64, inside: &dyn Fn(u64) -> bool) {
    let words = u64::from(m.op.words());
    match m.op {
        MemOp::Load { bytes, .. } if bytes > 4 => {
            for i in 0..words {
                let one = MemOp::Load { bytes: 4, signed: false, half: None };
                if inside(i) {
                    device(w, cx, lane, address + 4 * i, one, m.dst + i as u16, 0);
                } else {
                    put(w, m.dst + i as u16, lane, one, &[0; 4]);
                }
            }
        }
        MemOp::Load { .. } => put(w, m.dst, lane, m.op, &[0; 4]),
        MemOp::Store { bytes, .. } if bytes > 4 => {
            let one = MemOp::Store { bytes: 4, high: false };
            for i in (0..words).filter(|&i| inside(i)) {
                device(w, cx, lane, address + 4 * i, one, 0, m.data + i as u16);
            }
        }
        MemOp::Store { .. } => {}
        MemOp::Atomic { .. } => put_old(w, m.dst, lane, m.op, 0),
    }
}
