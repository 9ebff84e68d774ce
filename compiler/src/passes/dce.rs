//! Removes instructions whose results nobody uses.

use hrx_ir::tile::{Block, Inst, Kernel, Op, Value};
use std::collections::HashSet;

/// Takes every instruction out of its block that has no effect and no used result. Loops are kept.
pub fn remove_unused(k: &mut Kernel) {
    let mut used = HashSet::new();
    mark(k, k.body, &mut used);
    sweep(k, k.body, &used);
}

fn mark(k: &Kernel, block: Block, used: &mut HashSet<Value>) {
    for &inst in k.blocks[block].insts.iter().rev() {
        let data = &k.insts[inst];
        if needed(k, inst, used) {
            data.op.for_each_operand(|v| {
                used.insert(v);
            });
            if let Op::For { body, .. } = data.op {
                mark(k, body, used);
            }
        }
    }
}

fn needed(k: &Kernel, inst: Inst, used: &HashSet<Value>) -> bool {
    let data = &k.insts[inst];
    data.op.has_effect() || data.results.iter().any(|r| used.contains(r))
}

fn sweep(k: &mut Kernel, block: Block, used: &HashSet<Value>) {
    let insts = std::mem::take(&mut k.blocks[block].insts);
    for &inst in &insts {
        if let Op::For { body, .. } = k.insts[inst].op {
            sweep(k, body, used);
        }
    }
    k.blocks[block].insts = insts.into_iter().filter(|&i| needed(k, i, used)).collect();
}
