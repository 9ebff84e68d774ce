//! Stages: which steps run side by side.

use super::lower::{Operand, Step};
use std::collections::HashMap;

/// The stage of each step: one behind the last stage that writes what it reads. Activations are written once, and what
/// a step of the program writes to a cache is read only by later stages of it, so there are no other hazards.
pub fn stages(steps: &[Step]) -> Vec<usize> {
    let mut written: HashMap<Operand, usize> = HashMap::new();
    steps
        .iter()
        .map(|step| {
            let after = |o: &Operand| written.get(o).map_or(0, |stage| stage + 1);
            let stage = step.reads.iter().map(after).max().unwrap_or(0);
            for &o in &step.writes {
                let last = written.entry(o).or_insert(stage);
                *last = stage.max(*last);
            }
            stage
        })
        .collect()
}

/// The indices of the steps of each stage.
pub fn by_stage(stages: &[usize]) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); stages.iter().max().map_or(0, |m| m + 1)];
    for (step, &stage) in stages.iter().enumerate() {
        out[stage].push(step);
    }
    out
}
