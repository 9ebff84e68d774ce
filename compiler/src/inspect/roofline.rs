//! A kernel's place under the roofs of a board.
//!
//! One pass of a wave through a region is counted: operations, bytes, the cycles that its SIMD issues vector instructions
//! and those that its matrix unit is busy. With all SIMDs at work, memory gives each of them its part of the bandwidth.
//! What takes longest is the bound; nothing is faster than that, but much may be slower: latencies, LDS, scalar
//! instructions and waits are not counted.
//!
//! A SIMD of GCN and CDNA has 16 lanes and takes four cycles for a wave; one of RDNA has 32 (AMD, "RDNA Architecture",
//! white paper of 2019). Reciprocals, roots and the like run at a quarter of that rate.

use super::asm::Inst;
use super::class::{Class, class, matrix_ops};
use super::flow::Flow;
use super::mix::region_of;
use super::report::{Bound, GlobalAccess, LineGroup, Region, Roofline};
use crate::hsaco::Generation;
use crate::target::Chip;
use crate::target::amd::{Board, MatrixOp};

/// What a pass through a region comes to.
#[derive(Clone, Copy, Debug)]
struct Pass {
    ops: f64,
    bytes: f64,
    /// Whether bytes that lanes share are counted once.
    distinct: bool,
    issue: f64,
    matrix: Option<f64>,
    /// The largest rate of its matrix instructions: operations of a CU and clock.
    rate: Option<u32>,
}

impl Pass {
    const NOTHING: Pass = Pass { ops: 0.0, bytes: 0.0, distinct: true, issue: 0.0, matrix: Some(0.0), rate: None };

    fn add(&mut self, other: &Pass, times: f64) {
        self.ops += other.ops * times;
        self.bytes += other.bytes * times;
        self.distinct &= other.distinct;
        self.issue += other.issue * times;
        self.matrix = self.matrix.zip(other.matrix).map(|(a, b)| a + b * times);
        self.rate = self.rate.max(other.rate);
    }
}

/// Everything that a kernel's passes are counted from.
pub struct Counted<'a> {
    /// Its instructions.
    pub insts: &'a [Inst],
    /// Its flow.
    pub flow: &'a Flow,
    /// Its regions.
    pub regions: &'a [Region],
    /// Its accesses whose addresses are known.
    pub global: &'a [GlobalAccess],
    /// What they touch together.
    pub groups: &'a [LineGroup],
    /// Lanes of a wave.
    pub wave: u32,
    /// The generation of its processor.
    pub generation: Generation,
    /// The chip.
    pub chip: &'a Chip,
}

impl Counted<'_> {
    /// The place of the region that weighs most. None if nothing is executed that has a bound, if the work of a matrix
    /// instruction is not known, or the bandwidth of the board.
    pub fn roofline(&self, board: &Board) -> Option<Roofline> {
        let (measured, bandwidth) = match (board.measured, board.bandwidth) {
            (Some(b), _) => (true, f64::from(b.value)),
            (None, b) => (false, f64::from(b?.value)),
        };
        let simds = f64::from(board.cus * self.chip.simds / self.chip.block.cus());
        // GB/s and MHz: bytes that a SIMD gets in a cycle.
        let bytes_per_cycle = bandwidth * 1e3 / (simds * f64::from(board.boost_mhz));
        let cycles = |pass: &Pass| (pass.bytes / bytes_per_cycle).max(pass.issue).max(pass.matrix.unwrap_or(0.0));
        let passes = self.passes();
        let trips = |r: usize| self.regions[r].of.as_ref().and_then(|l| l.trips).map_or(1.0, |n| n as f64);
        let weight = |r: usize| passes[r].as_ref().map_or(0.0, |p| cycles(p) * trips(r));
        // Regions that are counted whole and not part of another such one.
        let outermost = |r: usize| match self.parent(r) {
            None => true,
            Some(parent) => passes[parent].is_none(),
        };
        let candidates = (0..self.regions.len()).filter(|&r| passes[r].is_some() && outermost(r));
        let region = candidates.max_by(|&a, &b| weight(a).total_cmp(&weight(b)).then(b.cmp(&a)))?;
        let pass = passes[region]?;
        let matrix = pass.matrix?;
        let memory = pass.bytes / bytes_per_cycle;
        let all = cycles(&pass);
        if all == 0.0 {
            return None;
        }
        let bound = if memory >= all {
            Bound::Memory
        } else if pass.issue >= all {
            Bound::Issue
        } else {
            Bound::Matrix
        };
        let per_clock = f64::from(board.cus) * f64::from(board.boost_mhz) / 1e3;
        let vector_peak = board
            .f32_peak
            .map(|p| f64::from(p.value) * 1e3)
            .or_else(|| self.chip.f32_rate.map(|r| f64::from(r.value) * per_clock));
        Some(Roofline {
            board: board.name.into(),
            bandwidth,
            bandwidth_measured: measured,
            clock_mhz: board.boost_mhz,
            cus: board.cus,
            vector_peak,
            matrix_peak: pass.rate.map(|r| f64::from(r) * per_clock),
            region,
            ops: pass.ops.round() as u64,
            bytes: pass.bytes.round() as u64,
            bytes_distinct: pass.distinct,
            intensity: (pass.bytes > 0.0 && pass.ops > 0.0).then(|| pass.ops / pass.bytes),
            memory_cycles: memory,
            issue_cycles: pass.issue,
            matrix_cycles: Some(matrix).filter(|&m| m > 0.0),
            bound,
            attainable: (pass.ops > 0.0).then(|| pass.ops / all * simds * f64::from(board.boost_mhz) / 1e3),
        })
    }

    /// The region around a region.
    fn parent(&self, region: usize) -> Option<usize> {
        let l = self.regions[region].of.as_ref()?;
        Some(l.parent.unwrap_or(0))
    }

    /// A pass through each region with all loops in it. None if it is not known how often one of them is executed.
    fn passes(&self) -> Vec<Option<Pass>> {
        let mut passes: Vec<Option<Pass>> = self.own().into_iter().map(Some).collect();
        // Inner loops before those around them.
        let depth = |r: &usize| self.regions[*r].of.as_ref().map_or(0, |l| l.depth);
        let mut order: Vec<usize> = (1..self.regions.len()).collect();
        order.sort_by_key(|r| std::cmp::Reverse(depth(r)));
        for inner in order {
            let Some(outer) = self.parent(inner) else { continue };
            let trips = self.regions[inner].of.as_ref().and_then(|l| l.trips);
            let whole = passes[inner].zip(trips);
            passes[outer] = passes[outer].zip(whole).map(|(mut pass, (inner, trips))| {
                pass.add(&inner, trips as f64);
                pass
            });
        }
        passes
    }

    /// A pass through what is in each region and in no loop of it.
    fn own(&self) -> Vec<Pass> {
        let per_wave = f64::from(self.wave);
        let mut passes: Vec<Pass> = self
            .regions
            .iter()
            .map(|counts| Pass {
                ops: counts.lane_ops as f64 * per_wave,
                bytes: f64::from(counts.global_bytes_of_lane.sum()) * per_wave,
                ..Pass::NOTHING
            })
            .collect();
        // What a wave touches, instead of what its lanes ask for, where that is known.
        for access in self.global {
            passes[access.region].bytes -= f64::from(access.bytes) * per_wave;
        }
        for group in self.groups {
            passes[group.region].bytes += f64::from(group.distinct_bytes);
        }
        for (r, (pass, counts)) in passes.iter_mut().zip(self.regions).enumerate() {
            let accesses: u32 = counts.mix.iter().filter(|(k, _)| k.is_vmem()).map(|(_, n)| n).sum();
            pass.distinct = self.global.iter().filter(|a| a.region == r).count() == accesses as usize;
        }
        let cycles = self.valu_cycles();
        for (i, inst) in self.insts.iter().enumerate() {
            let pass = &mut passes[region_of(self.flow, i)];
            match class(inst.name()) {
                Class::Matrix => {
                    let op = self.matrix_op(inst.name());
                    let busy = op.and_then(|op| op.cycles).map(|c| f64::from(c.value));
                    pass.matrix = pass.matrix.zip(busy).map(|(a, b)| a + b);
                    pass.ops += matrix_ops(inst.name(), Some(self.chip)).map_or(0.0, |n| n as f64);
                    pass.rate = pass.rate.max(op.and_then(|op| self.chip.matrix_rate(op).ok()));
                }
                Class::ValuTrans => pass.issue += 4.0 * cycles,
                kind if kind.is_valu() => pass.issue += cycles,
                _ => {}
            }
        }
        passes
    }

    fn matrix_op(&self, name: &str) -> Option<&'static MatrixOp> {
        self.chip.matrix_ops.iter().find(|op| op.mnemonic == name)
    }

    /// Cycles in which a SIMD takes a vector instruction of a wave.
    fn valu_cycles(&self) -> f64 {
        let lanes = if self.generation < Generation::Gfx10 { 16 } else { 32 };
        f64::from(self.wave / lanes)
    }
}
