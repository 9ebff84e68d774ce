//! Visits the instructions of a kernel in textual order. Works on kernels that no verifier has seen: entities outside
//! their arenas are skipped, a block is entered once, and there is no recursion.

use super::kernel::{Block, Inst, Kernel};
use super::op::Op;
use std::collections::HashSet;

/// The deepest nesting of loops, and of grid expressions, that a kernel may have.
pub const MAX_NESTING: usize = 64;

/// One step of [`walk`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// An instruction. A loop's body follows, if this is the first loop that has it, then [`Step::End`].
    Inst {
        /// The instruction; inside its arena.
        inst: Inst,
        /// The block that lists it.
        block: Block,
        /// Whether it is the last one listed there.
        last: bool,
        /// How many loops are around it.
        depth: usize,
    },
    /// The end of a loop.
    End {
        /// The loop.
        inst: Inst,
        /// Whether its body has been visited.
        entered: bool,
        /// How many loops are around it.
        depth: usize,
    },
}

/// Calls `f` with each step through the kernel's body.
pub fn walk(k: &Kernel, mut f: impl FnMut(Step)) {
    if !k.blocks.is_valid(k.body) {
        return;
    }
    let mut entered = HashSet::from([k.body]);
    // Open blocks, each with the place in it and the loop that it is the body of.
    let mut open: Vec<(Block, usize, Option<Inst>)> = vec![(k.body, 0, None)];
    while let Some((block, at, of)) = open.last_mut() {
        let block = *block;
        let insts = &k.blocks[block].insts;
        let Some(&inst) = insts.get(*at) else {
            let of = *of;
            open.pop();
            if let Some(inst) = of {
                f(Step::End { inst, entered: true, depth: open.len() - 1 });
            }
            continue;
        };
        *at += 1;
        let last = *at == insts.len();
        let depth = open.len() - 1;
        let Some(data) = k.insts.get(inst) else { continue };
        f(Step::Inst { inst, block, last, depth });
        if let Op::For { body, .. } = data.op {
            if k.blocks.is_valid(body) && entered.insert(body) {
                open.push((body, 0, Some(inst)));
            } else {
                f(Step::End { inst, entered: false, depth });
            }
        }
    }
}
