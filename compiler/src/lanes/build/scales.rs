//! Scales, minima and offsets of runs: one value for each group, made of the numbers that blocks keep beside their codes.

use super::codes::{Source, Spot};
use super::runs::{Group, Run};
use super::{Builder, Result, refuse};
use crate::lanes::blocks::{group_numbers, terms};
use crate::lanes::ir::{Address, Bin, Cmp, Space, Ty, Un, Val};
use crate::lanes::layout::Place;
use hrx_ir::quant::{Bytes, CHUNK, E4M3_FACTOR, E4M3_NAN, E8M0_SUBNORMAL, Format, Number, Scales};

/// Where a group's block is: what lanes and registers add to its address, and which blocks there are.
#[derive(Clone, Copy)]
struct Block {
    row: usize,
    lane: Val,
    imm: u32,
    mask: Option<Val>,
}

impl Builder<'_> {
    pub(super) fn scale(&mut self, run: &Run, g: &Group) -> Result<Val> {
        self.header(run, g, &(run.format.scales)())
    }

    /// [`Format::offset`] in registers.
    pub(super) fn offset(&mut self, run: &Run, g: &Group) -> Result<Val> {
        let f = run.format;
        let min = match f.mins {
            Some(mins) => Some(self.header(run, g, &mins())?),
            None => None,
        };
        let zero = if f.zero != 0 {
            let scale = self.scale(run, g)?;
            let zero = self.e.float(f.zero as f32);
            Some(self.e.bin(Bin::FMul, scale, zero))
        } else {
            None
        };
        Ok(match (zero, min) {
            (Some(z), Some(m)) => self.e.bin(Bin::FAdd, z, m),
            (Some(v), None) | (None, Some(v)) => v,
            (None, None) => self.e.float(0.0),
        })
    }

    /// A scale or minimum of a group. Scales and minima of a block are read together.
    pub(super) fn header(&mut self, run: &Run, g: &Group, s: &Scales) -> Result<Val> {
        let f = run.format;
        let per_chunk = (CHUNK / f.group).trailing_zeros() as usize;
        let in_block = f.groups().trailing_zeros() as usize;
        // Bits of the group's number that say which block it is in.
        let steps: Vec<(Place, u32)> =
            g.bits.iter().enumerate().skip(in_block).map(|(i, &p)| (p, f.block_bytes << (i - in_block))).collect();
        let lane = self.e.lane_sum(&steps);
        let chunk_bits = g.bits.get(per_chunk..).unwrap_or_default();
        let mask = self.chunk_mask(run, chunk_bits, g.register >> per_chunk);
        let at = Block { row: g.row, lane, imm: (g.register >> in_block) * f.block_bytes, mask };
        let mut wanted = Vec::new();
        for part in [Some((f.scales)()), f.mins.map(|m| m())].into_iter().flatten() {
            header_words(&part, f, &mut wanted);
        }
        let zero = self.e.int(0);
        let imms: Vec<u32> = wanted.iter().map(|w| at.imm + w).collect();
        self.word(run, g.row, lane, zero, &imms, mask);
        match s {
            Scales::One { d, negate } => {
                let value = self.block_number(run, at, *d);
                let value = if *negate {
                    let bits = self.e.un(Un::Bits, value);
                    let sign = self.e.constant(0x8000_0000, Ty::I32);
                    let bits = self.e.bin(Bin::Xor, bits, sign);
                    self.e.un(Un::Float, bits)
                } else {
                    value
                };
                // Zeros were read behind the row's end: what they stand for is not zero everywhere.
                let zero_is_zero = !negate && !matches!(d, Number::E8m0(_));
                Ok(if zero_is_zero { value } else { self.zero_beyond(value, mask) })
            }
            Scales::Scaled { d, by, signed, times, plus } => {
                let value = self.block_number(run, at, *d);
                let (word, byte) = self.integer(run, g, at, by)?;
                let mut factor = if *signed {
                    let moved = self.e.shr(word, 8 * byte);
                    let n = self.e.un(Un::SExt(8), moved);
                    self.e.un(Un::SToF, n)
                } else {
                    self.e.un(Un::ByteToF(byte as u8), word)
                };
                if *times != 1.0 {
                    let times = self.e.float(*times);
                    factor = self.e.bin(Bin::FMul, factor, times);
                }
                if *plus != 0.0 {
                    let plus = self.e.float(*plus);
                    factor = self.e.bin(Bin::FAdd, factor, plus);
                }
                let product = self.e.bin(Bin::FMul, value, factor);
                Ok(if *signed || *plus < 0.0 { self.zero_beyond(product, mask) } else { product })
            }
            Scales::E4m3 { by } => {
                let (word, byte) = self.integer(run, g, at, by)?;
                let moved = self.e.shr(word, 8 * byte);
                let byte = self.e.and(moved, 0xFF);
                let bits = self.e.times(byte, 1 << 7);
                let bits = self.e.and(bits, 0x7F << 7);
                let half = self.e.un(Un::HalfToF(0), bits);
                let factor = self.e.float(E4M3_FACTOR);
                let x = self.e.bin(Bin::FMul, half, factor);
                let nan = self.e.int(i64::from(E4M3_NAN));
                let is_nan = self.e.cmp(Cmp::Eq, byte, nan);
                let zero = self.e.float(0.0);
                Ok(self.e.select(is_nan, zero, x))
            }
        }
    }

    /// A value that is not zero, or a zero with a sign, where its block was not read: as zero.
    pub(super) fn zero_beyond(&mut self, v: Val, mask: Option<Val>) -> Val {
        let Some(mask) = mask else { return v };
        let zero = self.e.float(0.0);
        self.e.select(mask, v, zero)
    }

    /// A word of a block that all lanes read at the same place of theirs.
    fn header_word(&mut self, run: &Run, at: Block, byte: u32) -> Val {
        let zero = self.e.int(0);
        self.word(run, at.row, at.lane, zero, &[at.imm + byte], at.mask)[0]
    }

    /// The number that scales a block.
    fn block_number(&mut self, run: &Run, at: Block, d: Number) -> Val {
        match d {
            Number::F16(byte) => self.half(run, at, byte),
            Number::F32(byte) => {
                let w = self.header_word(run, at, byte);
                self.e.un(Un::Float, w)
            }
            Number::Nibbles(byte) => {
                // Bits 12 to 15 and 28 to 31 of two words.
                let [low, high] = [0, 4].map(|n| self.header_word(run, at, byte + n));
                let parts = [(low, 12, 0xF), (low, 24, 0xF0), (high, 4, 0xF00), (high, 16, 0xF000)];
                let parts = parts.map(|(word, shift, mask)| {
                    let moved = self.e.shr(word, shift);
                    self.e.and(moved, mask)
                });
                let bits = parts[1..].iter().fold(parts[0], |all, &p| self.e.bin(Bin::Or, all, p));
                self.e.un(Un::HalfToF(0), bits)
            }
            Number::E8m0(byte) => {
                let w = self.header_word(run, at, byte & !3);
                let moved = self.e.shr(w, 8 * (byte & 3));
                let exponent = self.e.and(moved, 0xFF);
                let first = self.e.int(2);
                let is_subnormal = self.e.cmp(Cmp::ULt, exponent, first);
                let shift = self.e.and(exponent, 1);
                let low = self.e.constant(E8M0_SUBNORMAL, Ty::I32);
                let low = self.e.bin(Bin::Shl, low, shift);
                let one = self.e.int(1);
                let high = self.e.bin(Bin::Sub, exponent, one);
                let high = self.e.times(high, 1 << 23);
                let bits = self.e.select(is_subnormal, low, high);
                self.e.un(Un::Float, bits)
            }
        }
    }

    /// A binary16 of a block.
    fn half(&mut self, run: &Run, block: Block, at: u32) -> Val {
        let word = at & !3;
        if word + 4 <= run.format.block_bytes && at.is_multiple_of(2) {
            let w = self.header_word(run, block, word);
            return self.e.un(Un::HalfToF((at / 2 % 2) as u8), w);
        }
        // Its word would reach beyond the block, and maybe the view.
        let (row_lane, row_imm) = run.rows[block.row];
        let lane = self.e.add(row_lane, block.lane);
        let imm = (block.imm + at).wrapping_add(row_imm);
        let address = Address { space: Space::Global(run.view), uniform: run.uniform, lane, imm, align: 1 };
        let w = self.e.load(address, 2, block.mask)[0];
        self.e.un(Un::HalfToF(0), w)
    }

    /// The integer of a group: a byte of a word, whose number is returned with it.
    fn integer(&mut self, run: &Run, g: &Group, at: Block, by: &Bytes) -> Result<(Val, u32)> {
        let f = run.format;
        if (0..f.groups().div_ceil(4)).all(|j| terms(by, j, f.block_bytes).is_some()) {
            return self.integer_of_words(run, g, at, by);
        }
        let Some(common) = group_numbers(by, f) else {
            return refuse(format!("scales of {} are not in a form that lanes can share", f.name));
        };
        let in_block = f.groups().trailing_zeros() as usize;
        let per_chunk = (CHUNK / f.group).trailing_zeros() as usize;
        let sources: Vec<Source> = (0..in_block)
            .map(|bit| g.bits.get(bit).map_or_else(|| Source::Shared((bit - per_chunk) as u32), |&p| Source::Axis(p)))
            .collect();
        let known = g.register & ((1 << in_block) - 1);
        let numbers = common.numbers.iter().map(|all| self.number(run, all, &sources, known)).collect();
        let spot = Spot { run, row: g.row, mask: at.mask, lane_block: at.lane, imm_block: at.imm, numbers };
        Ok((self.small_of(&common.tree, &spot), 0))
    }

    /// A byte of the words that the format packs its integers in, chosen by the bits of the group's number in its block.
    fn integer_of_words(&mut self, run: &Run, g: &Group, at: Block, by: &Bytes) -> Result<(Val, u32)> {
        let f = run.format;
        let in_block = f.groups().trailing_zeros() as usize;
        let zero = self.e.int(0);
        // Bit i of the group's number in its block: known, or a predicate.
        let per_chunk = (CHUNK / f.group).trailing_zeros() as usize;
        let mut known = 0u32;
        let mut dynamic: Vec<Option<Val>> = vec![None; in_block];
        let mut shift_steps = Vec::new();
        let mut shift = self.e.int(0);
        for (bit, slot) in dynamic.iter_mut().enumerate() {
            match g.bits.get(bit) {
                Some(Place::Reg) => known |= g.register & 1 << bit,
                Some(&place) if bit < 2 => shift_steps.push((place, 8 << bit)),
                Some(&place) => *slot = Some(self.e.bit(place)),
                None => {
                    let moved = self.e.shr(run.chunk, (bit - per_chunk) as u32);
                    let set = self.e.and(moved, 1);
                    if bit < 2 {
                        let part = self.e.times(set, 8 << bit);
                        shift = self.e.add(shift, part);
                    } else {
                        *slot = Some(self.e.cmp(Cmp::Ne, set, zero));
                    }
                }
            }
        }
        let lane_shift = self.e.lane_sum(&shift_steps);
        let shift = self.e.add(shift, lane_shift);
        let mut words: Vec<Option<Val>> = Vec::new();
        for j in 0..(f.groups() / 4).max(1) {
            let reachable = (2..in_block).all(|bit| dynamic[bit].is_some() || (j << 2 ^ known) >> bit & 1 == 0);
            if !reachable {
                words.push(None);
                continue;
            }
            let mut word: Option<Val> = None;
            for t in terms(by, j, f.block_bytes).unwrap_or_default() {
                let raw = self.header_word(run, at, t.at);
                let by = self.e.int(i64::from(t.shift));
                let part = self.term(t, raw, by);
                word = Some(match word {
                    Some(w) => self.e.bin(Bin::Or, w, part),
                    None => part,
                });
            }
            words.push(word);
        }
        // Chosen from the top bit down.
        for bit in (2..in_block).rev() {
            let half = words.len() / 2;
            let upper = words.split_off(half);
            words = words
                .into_iter()
                .zip(upper)
                .map(|(low, high)| match (low, high, dynamic[bit]) {
                    (Some(l), Some(h), Some(set)) => Some(self.e.select(set, h, l)),
                    (l, h, _) => l.or(h),
                })
                .collect();
        }
        let Some(word) = words.first().copied().flatten() else { return refuse("a scale of no group") };
        Ok((self.e.bin(Bin::LShr, word, shift), known & 3))
    }
}

/// The words of a block that its scales are read from, of those that all lanes read.
fn header_words(s: &Scales, f: &Format, out: &mut Vec<u32>) {
    let mut add = |at: u32| {
        if at + 4 <= f.block_bytes && !out.contains(&at) {
            out.push(at);
        }
    };
    let (number, by) = match s {
        Scales::One { d, .. } => (Some(*d), None),
        Scales::Scaled { d, by, .. } => (Some(*d), Some(by)),
        Scales::E4m3 { by } => (None, Some(by)),
    };
    match number {
        Some(Number::F16(at) | Number::E8m0(at)) => add(at & !3),
        Some(Number::F32(at)) => add(at),
        Some(Number::Nibbles(at)) => [at, at + 4].into_iter().for_each(&mut add),
        None => {}
    }
    let words = (f.groups() / 4).max(1);
    for t in by.into_iter().flat_map(|by| (0..words).filter_map(|j| terms(by, j, f.block_bytes))).flatten() {
        add(t.at);
    }
}
