//! Activation memory by lifetime: buffers that are never in use at the same stage share bytes of one arena.

use super::lower::{Lowered, Operand};
use cranelift_entity::SecondaryMap;
use hrx_ir::graph::Rows;

/// Buffers start at multiples of this: a page of cache lines, and more than any vector load wants.
const ALIGN: u64 = 256;

/// Where every buffer lies in the arena.
#[derive(Debug)]
pub struct Plan {
    /// Byte offset of each buffer.
    pub offsets: SecondaryMap<super::lower::Buf, u64>,
    /// Bytes of the arena.
    pub bytes: u64,
    /// Bytes that the buffers would take one behind another.
    pub unshared: u64,
}

/// Plans memory for steps whose stages are known, with room for this many tokens and outputs. The output buffer stays
/// until the end.
pub fn plan(lowered: &Lowered, stages: &[usize], tokens: u32, outputs: u32) -> Plan {
    let end = stages.iter().max().map_or(0, |m| m + 1);
    let mut lives = SecondaryMap::with_default(None::<(usize, usize)>);
    for (step, &stage) in lowered.steps.iter().zip(stages) {
        for o in step.reads.iter().chain(&step.writes) {
            if let Operand::Buf(b) = o {
                let (from, to) = lives[*b].unwrap_or((stage, stage));
                lives[*b] = Some((from.min(stage), to.max(stage)));
            }
        }
    }
    if let Some((_, to)) = &mut lives[lowered.output] {
        *to = end;
    }
    let size = |b| {
        let d = &lowered.bufs[b];
        let rows = match d.rows {
            Rows::Tokens => tokens,
            Rows::Outputs => outputs,
            Rows::Const(n) => n,
            Rows::Cached => 0,
        };
        (u64::from(rows) * u64::from(d.row_bytes)).next_multiple_of(ALIGN)
    };
    // Largest first: they are the hardest to place.
    let mut order: Vec<_> = lowered.bufs.keys().filter(|&b| lives[b].is_some()).collect();
    order.sort_by_key(|&b| (std::cmp::Reverse(size(b)), b));
    let mut offsets = SecondaryMap::with_default(0);
    let mut placed: Vec<(super::lower::Buf, u64)> = Vec::new();
    let (mut bytes, mut unshared) = (0, 0);
    for b in order {
        let meets = |other: super::lower::Buf| match (lives[b], lives[other]) {
            (Some((f, t)), Some((g, u))) => f <= u && g <= t,
            _ => false,
        };
        let mut taken: Vec<(u64, u64)> =
            placed.iter().filter(|(o, _)| meets(*o)).map(|&(o, at)| (at, at + size(o))).collect();
        taken.sort_unstable();
        let mut at = 0;
        for (from, to) in taken {
            if from >= at + size(b) {
                break;
            }
            at = at.max(to);
        }
        offsets[b] = at;
        bytes = bytes.max(at + size(b));
        unshared += size(b);
        placed.push((b, at));
    }
    Plan { offsets, bytes, unshared }
}
