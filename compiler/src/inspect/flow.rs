//! Basic blocks and loops of a kernel's code.

use super::asm::{Inst, Operand};
use std::collections::{BTreeSet, HashMap};

/// Instructions that are executed one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The first instruction.
    pub first: usize,
    /// The one after the last.
    pub end: usize,
    /// Blocks that may follow.
    pub next: Vec<usize>,
    /// Blocks that it may follow.
    pub previous: Vec<usize>,
}

/// A natural loop: everything between jumps back to a header and the header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loop {
    /// The block that is entered first.
    pub header: usize,
    /// Blocks that jump back to it.
    pub latches: Vec<usize>,
    /// Its blocks, inner loops' among them.
    pub blocks: BTreeSet<usize>,
    /// The loop that it is directly in.
    pub parent: Option<usize>,
    /// How many loops it is in, itself included.
    pub depth: u32,
}

/// The flow of control.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    /// Blocks by address; the first is entered.
    pub blocks: Vec<Block>,
    /// Loops by address of their headers.
    pub loops: Vec<Loop>,
    /// The innermost loop of each block.
    pub loop_of: Vec<Option<usize>>,
    /// Whether there are jumps whose goals are not known, or out of the code, or into the middle of an instruction.
    pub unknown_jumps: bool,
    /// Whether there are so many blocks that no loops were looked for.
    pub too_large: bool,
    /// Whether functions are called, whose code is not looked at.
    pub calls: bool,
}

/// Most blocks among which loops are looked for. Kernels have hundreds; more may be made to take long.
const MOST_BLOCKS: usize = 1 << 12;

/// What an instruction does to the flow.
enum Step {
    /// Goes on.
    On,
    /// Ends the program, or returns.
    End,
    /// Jumps to a byte of the code.
    Jump(i64),
    /// Jumps there or goes on.
    Fork(i64),
    /// Jumps, nobody knows where.
    Lost,
    /// Calls a function and goes on.
    Call,
}

/// Instructions with several jumps or none that follow their operand.
const LOST: [&str; 8] = [
    "s_setpc_b64",
    "s_set_pc_i64",
    "s_rfe_b64",
    "s_rfe_restore_b64",
    "s_rfe_i64",
    "s_cbranch_g_fork",
    "s_cbranch_i_fork",
    "s_cbranch_join",
];

fn step(inst: &Inst) -> Step {
    let name = inst.name();
    // Words from the next instruction on, 16 bits with sign.
    let goal = || match inst.ops[0].operands.last() {
        Some(&Operand::Number(n)) => Some((inst.offset + inst.size) as i64 + 4 * i64::from(n as i16)),
        _ => None,
    };
    match name {
        _ if name.starts_with("s_endpgm") => Step::End,
        _ if LOST.contains(&name) => Step::Lost,
        _ if name.starts_with("s_swappc") || name.starts_with("s_swap_pc") || name.starts_with("s_call") => Step::Call,
        "s_branch" => goal().map_or(Step::Lost, Step::Jump),
        _ if name.starts_with("s_cbranch") => goal().map_or(Step::Lost, Step::Fork),
        _ => Step::On,
    }
}

impl Flow {
    /// Of all instructions of a kernel.
    pub fn new(insts: &[Inst]) -> Flow {
        let mut flow = Flow::default();
        flow.find_blocks(insts);
        flow.too_large = flow.blocks.len() > MOST_BLOCKS;
        if flow.too_large {
            flow.loop_of = vec![None; flow.blocks.len()];
        } else {
            flow.find_loops();
        }
        flow
    }

    /// The block of an instruction.
    pub fn block_of(&self, inst: usize) -> usize {
        self.blocks.partition_point(|b| b.first <= inst).saturating_sub(1)
    }

    /// The innermost loop of an instruction.
    pub fn loop_of(&self, inst: usize) -> Option<usize> {
        self.loop_of.get(self.block_of(inst)).copied().flatten()
    }

    /// How many loops an instruction is in.
    pub fn depth(&self, inst: usize) -> u32 {
        self.loop_of(inst).map_or(0, |l| self.loops[l].depth)
    }

    /// Whether no other loop is in it.
    pub fn is_innermost(&self, of: usize) -> bool {
        self.loops.iter().all(|l| l.parent != Some(of))
    }

    /// Blocks that can be reached, each after all that it follows but for jumps back.
    pub fn order(&self) -> Vec<usize> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.blocks.len()];
        if self.blocks.is_empty() {
            return order;
        }
        // Depth first without recursion: code may have any number of blocks.
        let mut stack = vec![(0, 0)];
        seen[0] = true;
        while let Some((block, at)) = stack.pop() {
            match self.blocks[block].next.get(at) {
                Some(&next) => {
                    stack.push((block, at + 1));
                    if !std::mem::replace(&mut seen[next], true) {
                        stack.push((next, 0));
                    }
                }
                None => order.push(block),
            }
        }
        order.reverse();
        order
    }

    fn find_blocks(&mut self, insts: &[Inst]) {
        let at: HashMap<i64, usize> = insts.iter().enumerate().map(|(i, inst)| (inst.offset as i64, i)).collect();
        let mut starts = BTreeSet::from([0]);
        let mut jumps: HashMap<usize, Option<usize>> = HashMap::new();
        for (i, inst) in insts.iter().enumerate() {
            match step(inst) {
                Step::On => {}
                Step::Call => self.calls = true,
                Step::End => {
                    starts.insert(i + 1);
                }
                Step::Lost => {
                    self.unknown_jumps = true;
                    starts.insert(i + 1);
                }
                Step::Jump(goal) | Step::Fork(goal) => {
                    starts.insert(i + 1);
                    let goal = at.get(&goal).copied();
                    self.unknown_jumps |= goal.is_none();
                    starts.extend(goal);
                    jumps.insert(i, goal);
                }
            }
        }
        let starts: Vec<usize> = starts.into_iter().filter(|&s| s < insts.len()).collect();
        let block_at: HashMap<usize, usize> = starts.iter().enumerate().map(|(b, &i)| (i, b)).collect();
        for (b, &first) in starts.iter().enumerate() {
            let end = starts.get(b + 1).copied().unwrap_or(insts.len());
            let last = end - 1;
            let falls = matches!(step(&insts[last]), Step::On | Step::Call | Step::Fork(_)) && end < insts.len();
            let goal = jumps.get(&last).copied().flatten().map(|i| block_at[&i]);
            let mut next: Vec<usize> = falls.then_some(b + 1).into_iter().chain(goal).collect();
            next.dedup();
            self.blocks.push(Block { first, end, next, previous: Vec::new() });
        }
        for b in 0..self.blocks.len() {
            for next in self.blocks[b].next.clone() {
                self.blocks[next].previous.push(b);
            }
        }
    }

    /// The immediate dominator of each block that can be reached, by the algorithm of Cooper, Harvey and Kennedy ("A
    /// Simple, Fast Dominance Algorithm").
    fn dominators(&self, order: &[usize]) -> Vec<Option<usize>> {
        let mut rank = vec![usize::MAX; self.blocks.len()];
        for (i, &b) in order.iter().enumerate() {
            rank[b] = i;
        }
        let mut dominator = vec![None; self.blocks.len()];
        if let Some(&entry) = order.first() {
            dominator[entry] = Some(entry);
        }
        let mut changed = true;
        while changed {
            changed = false;
            for &b in order.iter().skip(1) {
                let known = self.blocks[b].previous.iter().copied().filter(|&p| dominator[p].is_some());
                let common = known.reduce(|mut x, mut y| {
                    while x != y {
                        // Each step goes up the tree, whose root is the entry.
                        let lower = if rank[x] > rank[y] { &mut x } else { &mut y };
                        *lower = dominator[*lower].unwrap_or(order[0]);
                    }
                    x
                });
                if dominator[b] != common {
                    dominator[b] = common;
                    changed = true;
                }
            }
        }
        dominator
    }

    fn find_loops(&mut self) {
        let order = self.order();
        let dominator = self.dominators(&order);
        let dominates = |a: usize, mut b: usize| {
            while b != a {
                match dominator[b] {
                    Some(up) if up != b => b = up,
                    _ => return false,
                }
            }
            true
        };
        let mut found: HashMap<usize, (Vec<usize>, BTreeSet<usize>)> = HashMap::new();
        for &latch in &order {
            for &header in self.blocks[latch].next.iter().filter(|&&header| dominates(header, latch)) {
                let (latches, blocks) = found.entry(header).or_insert_with(|| (Vec::new(), BTreeSet::from([header])));
                latches.push(latch);
                let mut stack = vec![latch];
                while let Some(b) = stack.pop() {
                    if dominator[b].is_some() && blocks.insert(b) {
                        stack.extend(&self.blocks[b].previous);
                    }
                }
            }
        }
        let mut loops: Vec<Loop> = found
            .into_iter()
            .map(|(header, (latches, blocks))| Loop { header, latches, blocks, parent: None, depth: 1 })
            .collect();
        loops.sort_by_key(|l| l.header);
        // A loop that has another's header has all of it; the smallest of them is the parent.
        for at in 0..loops.len() {
            let around = |&o: &usize| o != at && loops[o].blocks.contains(&loops[at].header);
            let outer: Vec<usize> = (0..loops.len()).filter(around).collect();
            loops[at].depth = outer.len() as u32 + 1;
            loops[at].parent = outer.into_iter().min_by_key(|&o| loops[o].blocks.len());
        }
        self.loop_of = vec![None; self.blocks.len()];
        for (l, found) in loops.iter().enumerate() {
            for &b in &found.blocks {
                let deeper = self.loop_of[b].is_none_or(|other: usize| loops[other].depth < found.depth);
                if deeper {
                    self.loop_of[b] = Some(l);
                }
            }
        }
        self.loops = loops;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Instructions of one word each.
    fn flow(lines: &[&str]) -> Flow {
        let insts: Vec<Inst> = lines.iter().enumerate().map(|(i, text)| Inst::parse(4 * i, 4, text)).collect();
        Flow::new(&insts)
    }

    #[test]
    fn code_without_jumps_is_one_block() {
        let flow = flow(&["s_nop 0", "s_nop 0", "s_endpgm"]);
        assert_eq!((flow.blocks.len(), flow.loops.len()), (1, 0));
        assert!(!flow.unknown_jumps && !flow.calls);
    }

    #[test]
    fn a_loop_in_a_loop() {
        let flow = flow(&[
            "s_mov_b32 s0, 0",
            "s_mov_b32 s1, 0",     // 1: outer header
            "s_add_i32 s1, s1, 1", // 2: inner header
            "s_cbranch_scc1 65534",
            "s_add_i32 s0, s0, 1",
            "s_cbranch_scc1 65531",
            "s_endpgm",
        ]);
        assert_eq!(flow.blocks.iter().map(|b| b.first).collect::<Vec<_>>(), [0, 1, 2, 4, 6]);
        let shown: Vec<_> = flow.loops.iter().map(|l| (l.header, l.depth, l.parent, l.blocks.len())).collect();
        assert_eq!(shown, [(1, 1, None, 3), (2, 2, Some(0), 1)]);
        assert_eq!([0, 1, 2, 3, 4, 6].map(|i| flow.depth(i)), [0, 1, 2, 2, 1, 0]);
        assert!(flow.is_innermost(1) && !flow.is_innermost(0));
    }

    #[test]
    fn a_loop_with_two_ways_through_it() {
        let flow = flow(&[
            "s_nop 0",
            "s_cbranch_scc0 1", // 1: header
            "s_nop 1",
            "s_cbranch_scc1 65533", // 3: back to 1
            "s_endpgm",
        ]);
        assert_eq!(flow.loops.len(), 1);
        assert_eq!(flow.loops[0].blocks.len(), 3);
    }

    #[test]
    fn jumps_to_nowhere_are_noticed() {
        assert!(flow(&["s_branch 100", "s_endpgm"]).unknown_jumps);
        assert!(flow(&["s_branch 65000", "s_endpgm"]).unknown_jumps);
        assert!(flow(&["s_setpc_b64 s[30:31]"]).unknown_jumps);
        assert!(flow(&["s_swappc_b64 s[30:31], s[4:5]", "s_endpgm"]).calls);
    }

    #[test]
    fn code_that_nothing_reaches_is_in_no_loop() {
        let flow = flow(&["s_endpgm", "s_nop 0", "s_branch 65534"]);
        assert_eq!(flow.loops.len(), 0);
        assert_eq!(flow.order(), [0]);
    }

    #[test]
    fn nothing_is_no_block() {
        assert_eq!(Flow::new(&[]).blocks.len(), 0);
    }
}
