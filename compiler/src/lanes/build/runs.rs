//! Runs of quantised chunks: codes, scales, offsets and values, read from the blocks as they lie in the file.
//!
//! Element e of a run has the bits of its place in a chunk and, above them, those of the chunk's number. Each of them
//! moves an address or a shift (see [`blocks`](crate::lanes::blocks)), by a constant where it tells registers apart, and
//! by the lane's number where it tells lanes apart; the number of the first chunk adds what all lanes share.

use super::tile::{Data, Tile};
use super::{Builder, Result, refuse};
use crate::lanes::blocks::{Term, block_terms, terms};
use crate::lanes::ir::{Address, Bin, Cmp, Space, Ty, Un, Val};
use crate::lanes::layout::{Axis, Layout, Place};
use hrx_ir::quant::{Bytes, CHUNK, Format, Scales};
use hrx_ir::tile::{BlockPart, Elem, Extent, RunPart, Type, Value, View};
use std::collections::HashMap;

/// Words of blocks that were read, by view, address and predicate.
pub(super) type Headers = HashMap<(View, Val, Val, u32, Option<Val>), Val>;

/// log2 of [`CHUNK`].
const CHUNK_BITS: usize = CHUNK.trailing_zeros() as usize;

/// A run: where it is and how it is spread over lanes.
struct Run {
    view: View,
    format: &'static Format,
    /// The number of the first chunk.
    chunk: Val,
    /// Uniform part of the address: of the rows and of the first chunk's block.
    uniform: Val,
    /// For each register along the rows its lane part and constant part.
    rows: Vec<(Val, u32)>,
    /// log2 of the chunks of a run.
    bits: usize,
    /// The number of chunks of a row, if the run may reach beyond it.
    limit: Option<Val>,
}

impl Run {
    /// log2 of the chunks of a block.
    fn block_bits(&self) -> usize {
        self.format.chunks().trailing_zeros() as usize
    }

    /// The bits of a chunk's number in its block that all lanes share, as there are more chunks in a block than in the run.
    fn shared_bits(&self) -> std::ops::Range<usize> {
        self.bits..self.block_bits().max(self.bits)
    }
}

impl Builder<'_> {
    fn run_of(&mut self, view: View, index: [Value; 2], rows: &Axis, chunks: u32) -> Result<Run> {
        let format = self.view_content(view)?;
        let chunk = self.scalar(index[1]);
        let known = self.multiple_of(index[1]);
        let per_row = match self.k.views[view].dims[1] {
            Extent::Const(n) => Some(n.saturating_mul(format.chunks())),
            Extent::Param(_) => None,
        };
        // Runs are inside the row or begin behind it where they divide it; then the last one's start tells which.
        let last = self.range_of(index[1]).map(|(_, last)| last);
        let inside = |n: u32| n.is_multiple_of(chunks) && last.is_some_and(|last| last < i64::from(n));
        let whole = known.is_multiple_of(chunks) && per_row.is_some_and(inside);
        let limit = if whole { None } else { Some(self.chunks_of_row(view, format)) };
        self.run_at(view, index[0], rows, chunk, chunks, limit)
    }

    fn chunks_of_row(&mut self, view: View, format: &Format) -> Val {
        match self.k.views[view].dims[1] {
            Extent::Const(n) => self.e.int(i64::from(n) * i64::from(format.chunks())),
            Extent::Param(v) => {
                let n = self.scalar(v);
                self.e.times(n, format.chunks())
            }
        }
    }

    fn run_at(
        &mut self,
        view: View,
        row: Value,
        rows: &Axis,
        chunk: Val,
        chunks: u32,
        limit: Option<Val>,
    ) -> Result<Run> {
        let format = self.view_content(view)?;
        let strides = self.k.views[view].strides.clone();
        let of_rows = Layout { axes: vec![rows.clone()] };
        let (uniform, rows) = self.offset_parts(&strides[..1], format.block_bytes, &[row], &of_rows)?;
        let block = self.e.shr(chunk, format.chunks().trailing_zeros());
        let block = self.e.times(block, format.block_bytes);
        let uniform = self.e.add(uniform, block);
        Ok(Run { view, format, chunk, uniform, rows, bits: chunks.trailing_zeros() as usize, limit })
    }

    /// A word of a block.
    fn word(&mut self, run: &Run, row: usize, lane: Val, uniform: Val, imms: &[u32], mask: Option<Val>) -> Vec<Val> {
        let (row_lane, row_imm) = run.rows[row];
        let lane = self.e.add(row_lane, lane);
        let uniform = self.e.add(run.uniform, uniform);
        let key = |imm: u32| (run.view, lane, uniform, imm.wrapping_add(row_imm), mask);
        let found = |b: &Self, imm: u32| b.headers.iter().rev().find_map(|h| h.get(&key(imm)).copied());
        let mut missing: Vec<u32> = imms.iter().copied().filter(|&i| found(self, i).is_none()).collect();
        missing.sort_unstable();
        missing.dedup();
        let mut at = 0;
        while at < missing.len() {
            let first = missing[at];
            let n = (1..4).take_while(|&n| missing.get(at + n) == Some(&(first + 4 * n as u32))).count() + 1;
            let address =
                Address { space: Space::Global(run.view), uniform, lane, imm: first.wrapping_add(row_imm), align: 1 };
            let words = self.e.load(address, 4 * n as u32, mask);
            for (i, w) in words.into_iter().enumerate() {
                if let Some(scope) = self.headers.last_mut() {
                    scope.insert(key(first + 4 * i as u32), w);
                }
            }
            at += n;
        }
        imms.iter().filter_map(|&i| found(self, i)).collect()
    }

    /// What the chunk bits of an axis and the shared ones add to the address of a block: `(lane, uniform, for each bit of
    /// the axis from `first` on a constant)`. `step` gives for a chunk bit what it adds inside a block.
    fn chunk_mask(&mut self, run: &Run, chunk_bits: &[Place], chunk: u32) -> Option<Val> {
        let limit = run.limit?;
        let steps: Vec<(Place, u32)> = chunk_bits.iter().enumerate().map(|(i, &p)| (p, 1 << i)).collect();
        let lane = self.e.lane_sum(&steps);
        let number = self.e.add(run.chunk, lane);
        let imm = self.e.int(i64::from(chunk));
        let number = self.e.add(number, imm);
        Some(self.e.cmp(Cmp::ULt, number, limit))
    }

    /// The sum over the shared bits of a step for each.
    fn shared(&mut self, run: &Run, step: impl Fn(usize) -> u32) -> Val {
        let mut sum = self.e.int(0);
        for bit in run.shared_bits() {
            let by = step(bit);
            if by == 0 {
                continue;
            }
            let moved = self.e.shr(run.chunk, bit as u32);
            let set = self.e.and(moved, 1);
            let part = self.e.times(set, by);
            sum = self.e.add(sum, part);
        }
        sum
    }

    pub(super) fn load_run(
        &mut self,
        view: View,
        index: [Value; 2],
        part: RunPart,
        ty: Type,
        layout: &Layout,
    ) -> Result<Data> {
        let format = self.view_content(view)?;
        let n = ty.shape.last();
        let chunks = match part {
            RunPart::Codes | RunPart::Values => n / CHUNK,
            RunPart::Scales | RunPart::Offsets => n * format.group / CHUNK,
        };
        let run = self.run_of(view, index, &layout.axes[0], chunks)?;
        self.part_of_run(&run, part, ty, layout)
    }

    /// A part of one block is a run of one chunk, or of all of the block's.
    pub(super) fn load_block(
        &mut self,
        view: View,
        index: [Value; 2],
        part: BlockPart,
        ty: Type,
        layout: &Layout,
    ) -> Result<Data> {
        let format = self.view_content(view)?;
        let (part, first, chunks) = match part {
            BlockPart::Codes(c) => (RunPart::Codes, c, 1),
            BlockPart::Values(c) => (RunPart::Values, c, 1),
            BlockPart::Scales => (RunPart::Scales, 0, format.chunks()),
            BlockPart::Offsets => (RunPart::Offsets, 0, format.chunks()),
            BlockPart::Raw(_) => return refuse("raw bytes of a block: blocks are not expanded for lanes"),
        };
        let block = self.scalar(index[1]);
        let chunk = self.e.times(block, format.chunks());
        let first = self.e.int(i64::from(first));
        let chunk = self.e.add(chunk, first);
        let run = self.run_at(view, index[0], &layout.axes[0], chunk, chunks, None)?;
        self.part_of_run(&run, part, ty, layout)
    }

    fn part_of_run(&mut self, run: &Run, part: RunPart, ty: Type, layout: &Layout) -> Result<Data> {
        Ok(Data::Tile(match part {
            RunPart::Codes => self.codes(run, ty, layout)?,
            RunPart::Scales => self.groups(run, layout, &|b, run, g| b.scale(run, g))?,
            RunPart::Offsets => self.groups(run, layout, &|b, run, g| b.offset(run, g))?,
            RunPart::Values => self.run_values(run, ty, layout)?,
        }))
    }

    /// Codes, four a word.
    fn codes(&mut self, run: &Run, ty: Type, layout: &Layout) -> Result<Tile> {
        let axis = &layout.axes[1];
        if axis.low_registers() < 2 {
            // Words are made in one lane.
            let own = layout.with_axis(1, Axis::registers(ty.shape.last()));
            let t = self.codes(run, ty, &own)?;
            return Ok(self.convert_layout(&t, layout));
        }
        let Some(block) = block_terms(run.format) else {
            return refuse(format!("codes of {} are not in a form that lanes can share", run.format.name));
        };
        let chunk_bits = axis.bits.get(CHUNK_BITS..).unwrap_or_default().to_vec();
        let block_bits = run.block_bits();
        // What bit i of an element's number, from 2 on, adds to an address and a shift.
        let step = |t: &crate::lanes::blocks::TermOfBlock, i: usize| -> (u32, u32) {
            let chunk_bit = i.checked_sub(CHUNK_BITS);
            match chunk_bit {
                Some(c) if c >= block_bits => (run.format.block_bytes << (c - block_bits), 0),
                _ => (t.at[i - 2], t.shift[i - 2]),
            }
        };
        let along: Vec<u32> = Layout { axes: vec![axis.clone()] }.coords().iter().map(|c| c[0]).step_by(4).collect();
        let rows = run.rows.len();
        let mut words: Vec<Vec<Val>> = vec![Vec::new(); rows * along.len()];
        for t in &block {
            let places = |which: fn((u32, u32)) -> u32| -> Vec<(Place, u32)> {
                (2..axis.bits.len()).map(|i| (axis.bits[i], which(step(t, i)))).collect()
            };
            let lane_at = self.e.lane_sum(&places(|s| s.0));
            let lane_shift = self.e.lane_sum(&places(|s| s.1));
            // Shared bits count as the element's above those of the run.
            let shared_at = self.shared(run, |c| t.at[c + CHUNK_BITS - 2]);
            let shared_shift = self.shared(run, |c| t.shift[c + CHUNK_BITS - 2]);
            let shift = self.e.add(lane_shift, shared_shift);
            let sum = |e: u32, which: fn((u32, u32)) -> u32| -> u32 {
                (2..axis.bits.len()).filter(|&i| e >> i & 1 == 1).map(|i| which(step(t, i))).sum()
            };
            for row in 0..rows {
                // All addresses of a predicate at once, so that neighbours go together.
                let mut by_mask: Vec<(Option<Val>, Vec<u32>)> = Vec::new();
                for &e in &along {
                    let mask = self.chunk_mask(run, &chunk_bits, e / CHUNK);
                    let imm = t.first.at + sum(e, |s| s.0);
                    match by_mask.iter_mut().find(|(m, _)| *m == mask) {
                        Some((_, list)) => list.push(imm),
                        None => by_mask.push((mask, vec![imm])),
                    }
                }
                for (mask, imms) in &by_mask {
                    self.word(run, row, lane_at, shared_at, imms, *mask);
                }
                for (i, &e) in along.iter().enumerate() {
                    let mask = self.chunk_mask(run, &chunk_bits, e / CHUNK);
                    let imm = t.first.at + sum(e, |s| s.0);
                    let raw = self.word(run, row, lane_at, shared_at, &[imm], mask)[0];
                    let moved = Term { shift: t.first.shift + sum(e, |s| s.1), ..t.first };
                    words[row * along.len() + i].push(self.term(moved, raw, shift));
                }
            }
        }
        let words = words
            .into_iter()
            .map(|parts| {
                let first = parts[0];
                parts[1..].iter().fold(first, |w, &p| self.e.bin(Bin::Or, w, p))
            })
            .collect();
        Ok(Tile { elem: ty.elem, layout: layout.clone(), pack: 4, words })
    }

    /// A term of a word, with what lanes add to its shift.
    fn term(&mut self, t: Term, raw: Val, shift: Val) -> Val {
        let by = self.e.int(i64::from(t.shift));
        let by = self.e.add(shift, by);
        let mut word = if t.spread {
            self.e.bin(Bin::Spread, raw, by)
        } else {
            let moved = self.e.bin(Bin::LShr, raw, by);
            if t.mask == 0xFF && self.e.known(by) == Some(0) { moved } else { self.e.and(moved, t.mask * 0x0101_0101) }
        };
        if t.left > 0 {
            let by = self.e.int(i64::from(t.left));
            word = self.e.bin(Bin::Shl, word, by);
        }
        word
    }

    /// One value a group: `f` makes it for a group's place.
    fn groups(
        &mut self,
        run: &Run,
        layout: &Layout,
        f: &dyn Fn(&mut Self, &Run, &Group) -> Result<Val>,
    ) -> Result<Tile> {
        let axis = &layout.axes[1];
        let along: Vec<u32> = Layout { axes: vec![axis.clone()] }.coords().iter().map(|c| c[0]).collect();
        let mut elements = Vec::new();
        for row in 0..run.rows.len() {
            for &g in &along {
                elements.push(f(self, run, &Group { row, register: g, bits: axis.bits.clone() })?);
            }
        }
        Ok(Tile::from_elements(&mut self.e, Elem::F32, layout.clone(), &elements))
    }

    fn scale(&mut self, run: &Run, g: &Group) -> Result<Val> {
        self.header(run, g, &(run.format.scales)())
    }

    /// [`Format::offset`] in registers.
    fn offset(&mut self, run: &Run, g: &Group) -> Result<Val> {
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
    fn header(&mut self, run: &Run, g: &Group, s: &Scales) -> Result<Val> {
        let f = run.format;
        let per_chunk = (CHUNK / f.group).trailing_zeros() as usize;
        let in_block = f.groups().trailing_zeros() as usize;
        // Bits of the group's number that say which block it is in.
        let steps: Vec<(Place, u32)> =
            g.bits.iter().enumerate().skip(in_block).map(|(i, &p)| (p, f.block_bytes << (i - in_block))).collect();
        let lane = self.e.lane_sum(&steps);
        let block = (g.register >> in_block) * f.block_bytes;
        let chunk_bits = g.bits.get(per_chunk..).unwrap_or_default();
        let mask = self.chunk_mask(run, chunk_bits, g.register >> per_chunk);
        let zero = self.e.int(0);
        let mut wanted = Vec::new();
        for part in [Some((f.scales)()), f.mins.map(|m| m())].into_iter().flatten() {
            header_words(&part, f, &mut wanted);
        }
        let imms: Vec<u32> = wanted.iter().map(|w| block + w).collect();
        self.word(run, g.row, lane, zero, &imms, mask);
        let at = match s {
            Scales::One { at, .. } | Scales::Scaled { at, .. } => *at,
        };
        let half = self.half(run, g.row, lane, block, at, mask);
        match s {
            Scales::One { negate: false, .. } => Ok(half),
            Scales::One { .. } => {
                let bits = self.e.un(Un::Bits, half);
                let sign = self.e.constant(0x8000_0000, Ty::I32);
                let bits = self.e.bin(Bin::Xor, bits, sign);
                let negative = self.e.un(Un::Float, bits);
                Ok(self.zero_beyond(negative, mask))
            }
            Scales::Scaled { by, signed, .. } => {
                let factor = self.factor(run, g, by, *signed, (lane, block, mask))?;
                let product = self.e.bin(Bin::FMul, half, factor);
                Ok(if *signed { self.zero_beyond(product, mask) } else { product })
            }
        }
    }

    /// A value that is a zero with a sign where its block was not read, as one without.
    fn zero_beyond(&mut self, v: Val, mask: Option<Val>) -> Val {
        let Some(mask) = mask else { return v };
        let zero = self.e.float(0.0);
        self.e.select(mask, v, zero)
    }

    /// A binary16 of a block.
    fn half(&mut self, run: &Run, row: usize, lane: Val, block: u32, at: u32, mask: Option<Val>) -> Val {
        let word = at & !3;
        if word + 4 <= run.format.block_bytes && at.is_multiple_of(2) {
            let zero = self.e.int(0);
            let w = self.word(run, row, lane, zero, &[block + word], mask)[0];
            return self.e.un(Un::HalfToF((at / 2 % 2) as u8), w);
        }
        // Its word would reach beyond the block, and maybe the view.
        let (row_lane, row_imm) = run.rows[row];
        let lane = self.e.add(row_lane, lane);
        let imm = (block + at).wrapping_add(row_imm);
        let address = Address { space: Space::Global(run.view), uniform: run.uniform, lane, imm, align: 1 };
        let w = self.e.load(address, 2, mask)[0];
        self.e.un(Un::HalfToF(0), w)
    }

    /// The integer that a group's scale is multiplied by: a byte of the words that the format packs them in, chosen by
    /// the bits of the group's number in its block.
    fn factor(
        &mut self,
        run: &Run,
        g: &Group,
        by: &Bytes,
        signed: bool,
        (lane, block, mask): (Val, u32, Option<Val>),
    ) -> Result<Val> {
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
            let Some(list) = terms(by, j) else {
                return refuse(format!("scales of {} are not in a form that lanes can share", f.name));
            };
            let mut word: Option<Val> = None;
            for t in list {
                let raw = self.word(run, g.row, lane, zero, &[block + t.at], mask)[0];
                let part = self.term(t, raw, zero);
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
        let word = self.e.bin(Bin::LShr, word, shift);
        let byte = known & 3;
        Ok(if signed {
            let moved = self.e.shr(word, 8 * byte);
            let n = self.e.un(Un::SExt(8), moved);
            self.e.un(Un::SToF, n)
        } else {
            self.e.un(Un::ByteToF(byte as u8), word)
        })
    }

    /// Dequantised elements, rounded as the format's reference does.
    fn run_values(&mut self, run: &Run, ty: Type, layout: &Layout) -> Result<Tile> {
        let f = run.format;
        let group_bits = f.group.trailing_zeros() as usize;
        let axis = &layout.axes[1];
        let codes = self.codes(run, ty.with_elem(f.code_elem()), layout)?;
        let mut of_groups = Axis::registers(ty.shape.last() / f.group);
        let n = of_groups.bits.len();
        of_groups.bits.copy_from_slice(&axis.bits[group_bits..group_bits + n]);
        let groups = layout.with_axis(1, of_groups);
        let scales = self.groups(run, &groups, &|b, run, g| b.scale(run, g))?;
        let mins = match f.mins {
            Some(mins) => Some(self.groups(run, &groups, &|b, run, g| b.header(run, g, &mins()))?),
            None => None,
        };
        let mut elements = Vec::new();
        for (r, c) in layout.coords().iter().enumerate() {
            let code = match f.signed {
                true => {
                    let v = codes.element(&mut self.e, r);
                    self.e.un(Un::SToF, v)
                }
                false => self.e.un(Un::ByteToF((r % 4) as u8), codes.words[r / 4]),
            };
            let code = if f.zero == 0 {
                code
            } else {
                let zero = self.e.float(f.zero as f32);
                self.e.bin(Bin::FSub, code, zero)
            };
            let g = groups.register_of(&[c[0], c[1] / f.group]);
            let mut x = self.e.bin(Bin::FMul, scales.words[g], code);
            if let Some(mins) = &mins {
                x = self.e.bin(Bin::FSub, x, mins.words[g]);
            }
            // A scale of zero times a code that is not: a zero with a sign.
            if f.zero != 0 {
                let mask = self.chunk_mask(run, axis.bits.get(CHUNK_BITS..).unwrap_or_default(), c[1] / CHUNK);
                x = self.zero_beyond(x, mask);
            }
            elements.push(x);
        }
        Ok(Tile::from_elements(&mut self.e, Elem::F32, layout.clone(), &elements))
    }
}

/// A group's place: the row's register, the bits of its number that are registers', and where all its bits lie.
struct Group {
    row: usize,
    register: u32,
    bits: Vec<Place>,
}

/// The words of a block that its scales are read from.
fn header_words(s: &Scales, f: &Format, out: &mut Vec<u32>) {
    let mut add = |at: u32| {
        if at + 4 <= f.block_bytes && !out.contains(&at) {
            out.push(at);
        }
    };
    match s {
        Scales::One { at, .. } => add(at & !3),
        Scales::Scaled { at, by, .. } => {
            add(at & !3);
            for j in 0..(f.groups() / 4).max(1) {
                for t in terms(by, j).unwrap_or_default() {
                    add(t.at);
                }
            }
        }
    }
}
