//! Runs of quantised chunks: codes, scales, offsets and values, read from the blocks as they lie in the file.
//!
//! Element e of a run has the bits of its place in a chunk and, above them, those of the chunk's number. Each of them
//! moves an address or a shift (see [`blocks`](crate::lanes::blocks)), by a constant where it tells registers apart, and
//! by the lane's number where it tells lanes apart; the number of the first chunk adds what all lanes share.

use super::tile::{Data, Tile};
use super::{Builder, Result, refuse};
use crate::lanes::ir::{Address, Bin, Cmp, Space, Un, Val};
use crate::lanes::layout::{Axis, Layout, Place};
use hrx_ir::quant::{CHUNK, Format};
use hrx_ir::tile::{BlockPart, Elem, Extent, RunPart, Type, Value, View};
use std::collections::HashMap;

/// Words of blocks that were read, by view, address and predicate.
pub(super) type Headers = HashMap<(View, Val, Val, u32, Option<Val>), Val>;

/// log2 of [`CHUNK`].
pub(super) const CHUNK_BITS: usize = CHUNK.trailing_zeros() as usize;

/// A run: where it is and how it is spread over lanes.
pub(super) struct Run {
    pub(super) view: View,
    pub(super) format: &'static Format,
    /// The number of the first chunk.
    pub(super) chunk: Val,
    /// Uniform part of the address: of the rows and of the first chunk's block.
    pub(super) uniform: Val,
    /// For each register along the rows its lane part and constant part.
    pub(super) rows: Vec<(Val, u32)>,
    /// log2 of the chunks of a run.
    bits: usize,
    /// The number of chunks of a row, if the run may reach beyond it.
    limit: Option<Val>,
}

impl Run {
    /// log2 of the chunks of a block.
    pub(super) fn block_bits(&self) -> usize {
        self.format.chunks().trailing_zeros() as usize
    }

    /// The bits of a chunk's number in its block that all lanes share, as there are more chunks in a block than in the run.
    pub(super) fn shared_bits(&self) -> std::ops::Range<usize> {
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
    pub(super) fn word(
        &mut self,
        run: &Run,
        row: usize,
        lane: Val,
        uniform: Val,
        imms: &[u32],
        mask: Option<Val>,
    ) -> Vec<Val> {
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

    /// Whether a chunk is in its row: the axis' bits that number chunks, and the part of the number that registers tell.
    /// None where all are.
    pub(super) fn chunk_mask(&mut self, run: &Run, chunk_bits: &[Place], chunk: u32) -> Option<Val> {
        let limit = run.limit?;
        let steps: Vec<(Place, u32)> = chunk_bits.iter().enumerate().map(|(i, &p)| (p, 1 << i)).collect();
        let lane = self.e.lane_sum(&steps);
        let number = self.e.add(run.chunk, lane);
        let imm = self.e.int(i64::from(chunk));
        let number = self.e.add(number, imm);
        Some(self.e.cmp(Cmp::ULt, number, limit))
    }

    /// The sum over the shared bits of a step for each.
    pub(super) fn shared(&mut self, run: &Run, step: impl Fn(usize) -> u32) -> Val {
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
            BlockPart::Indices(_) | BlockPart::Factors | BlockPart::MinFactors => {
                return refuse("what codes and scales of a block are made of: lanes read these whole");
            }
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
pub(super) struct Group {
    pub(super) row: usize,
    pub(super) register: u32,
    pub(super) bits: Vec<Place>,
}
