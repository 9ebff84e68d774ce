//! What regions of a kernel execute.

use super::asm::Inst;
use super::class::{Class, bytes, class, lane_ops, matrix_ops};
use super::flow::Flow;
use super::report::{LoopReport, Moved, Region};
use crate::target::Chip;
use std::collections::BTreeMap;

/// The region of an instruction: 0 outside of loops, else that of its innermost loop.
pub fn region_of(flow: &Flow, inst: usize) -> usize {
    flow.loop_of(inst).map_or(0, |l| l + 1)
}

/// All regions: outside of loops, then each loop. `trips` are those of loops, where they are known.
pub fn regions(insts: &[Inst], flow: &Flow, chip: Option<&Chip>, trips: &[Option<u64>]) -> Vec<Region> {
    let loops = flow.loops.iter().enumerate().map(|(i, l)| LoopReport {
        offset: insts[flow.blocks[l.header].first].offset,
        depth: l.depth,
        parent: l.parent.map(|p| p + 1),
        innermost: flow.is_innermost(i),
        trips: trips.get(i).copied().flatten(),
    });
    let mut regions: Vec<Region> = std::iter::once(None).chain(loops.map(Some)).map(empty).collect();
    for (i, inst) in insts.iter().enumerate() {
        count(&mut regions[region_of(flow, i)], inst, chip);
    }
    regions
}

fn empty(of: Option<LoopReport>) -> Region {
    Region {
        of,
        instructions: 0,
        mix: BTreeMap::new(),
        global_bytes_of_lane: Moved::default(),
        lds_bytes_of_lane: Moved::default(),
        scratch_bytes_of_lane: Moved::default(),
        scalar_bytes: 0,
        unsized_accesses: 0,
        lane_ops: 0,
        matrix_ops: Some(0),
    }
}

fn count(region: &mut Region, inst: &Inst, chip: Option<&Chip>) {
    region.instructions += 1;
    // A pair is one instruction; its kind is that of the first operation.
    let kind = class(inst.name());
    *region.mix.entry(kind).or_default() += 1;
    region.lane_ops += inst.ops.iter().map(|op| u64::from(lane_ops(op))).sum::<u64>();
    if kind == Class::Matrix {
        region.matrix_ops = region.matrix_ops.zip(matrix_ops(inst.name(), chip)).map(|(a, b)| a.saturating_add(b));
    }
    let moved = bytes(inst.name());
    let to = match kind {
        Class::VmemLoad => &mut region.global_bytes_of_lane.read,
        Class::VmemStore | Class::VmemAtomic => &mut region.global_bytes_of_lane.written,
        Class::LdsRead => &mut region.lds_bytes_of_lane.read,
        Class::LdsWrite | Class::LdsAtomic => &mut region.lds_bytes_of_lane.written,
        Class::ScratchLoad => &mut region.scratch_bytes_of_lane.read,
        Class::ScratchStore => &mut region.scratch_bytes_of_lane.written,
        Class::Smem => &mut region.scalar_bytes,
        _ => return,
    };
    match moved {
        Some(bytes) => *to += bytes,
        None => region.unsized_accesses += 1,
    }
}
