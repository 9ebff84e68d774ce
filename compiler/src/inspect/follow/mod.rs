//! Follows what registers hold through a kernel's code, to know which addresses the lanes of a wave access.
//!
//! A value is a known number for each lane plus multiples of symbols: numbers that are not known but are the same for all
//! lanes ([`value`]). What parts lanes from each other is mostly computed from their number, so that the differences of
//! addresses are known where the addresses are not. Blocks are executed in order until nothing changes; where ways meet,
//! what lanes share becomes a symbol of that place, and what differs must be the same on all ways. Which lanes are active
//! is followed too, so that values of some lanes are not taken for those of all ([`masks`]).
//!
//! What can't be followed, such as what lanes load, is not known, and nothing is said of accesses that depend on it.

mod access;
mod arithmetic;
mod entry;
mod masks;
mod scalar;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod value;
mod vector;

pub use access::{Access, Space};
pub use value::{Lanes, Origin, Sum, Symbol, Symbols};

use super::asm::Inst;
use super::flow::Flow;
use super::report::Workgroup;
use crate::hsaco::{Generation, Kernel};
use masks::Sets;
use state::{Scalar, State};
use std::collections::HashMap;
use step::{Context, Step};

/// How often all blocks are executed at most. Each time takes something from what is known, and a loop's values settle
/// after a few.
const MOST_ROUNDS: usize = 60;

/// What is known of a kernel's values.
pub struct Followed {
    /// Accesses of memory and LDS.
    pub accesses: Vec<Access>,
    /// Symbols.
    pub symbols: Symbols,
    /// Whether bounds that are not known were taken as not reached.
    pub assumes_full_tiles: bool,
    /// How each symbol of a loop's start moves.
    pub moves: HashMap<Origin, Move>,
    /// How often each loop is executed each time that it is entered, if that is known.
    pub trips: Vec<Option<u64>>,
}

/// Follows the values of a kernel. None if it can't be done for its code: with jumps to where is not known, for chips
/// before gfx9, or if nothing settles.
pub fn follow(
    insts: &[Inst],
    flow: &Flow,
    kernel: &Kernel<'_>,
    generation: Generation,
    wave: u32,
    workgroup: Option<&Workgroup>,
) -> Option<Followed> {
    if flow.unknown_jumps || flow.too_large || generation < Generation::Gfx9 || flow.blocks.is_empty() {
        return None;
    }
    // A workgroup of less than a wave leaves the last lanes off.
    let lanes = workgroup.filter(|w| !w.at_most).map_or(wave, |w| w.work_items.min(wave));
    let full = u64::MAX >> (64 - lanes);
    let mut symbols = Symbols::default();
    let entry = entry::state(kernel, generation, wave, workgroup, &mut symbols);
    let context = Context { kernel, wave, symbols, sets: Sets::new(full), assumes_full_tiles: false };
    let mut walk = Walk { insts, flow, context, entry, after: vec![None; flow.blocks.len()] };
    walk.settle()?;
    Some(walk.results())
}

/// How a symbol of a loop's start moves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// What it is in the first iteration, if it is then the same for all lanes and on all ways.
    pub first: Option<Sum>,
    /// What each iteration adds.
    pub step: u32,
}

struct Walk<'a> {
    insts: &'a [Inst],
    flow: &'a Flow,
    context: Context<'a>,
    entry: State,
    /// The state after each block that was executed.
    after: Vec<Option<State>>,
}

impl Walk<'_> {
    /// Executes all blocks until nothing changes.
    fn settle(&mut self) -> Option<()> {
        let order = self.flow.order();
        for _ in 0..MOST_ROUNDS {
            self.context.symbols.changed = false;
            self.context.sets.changed = false;
            let mut changed = false;
            for &block in &order {
                let Some(mut state) = self.before(block) else { continue };
                for at in self.flow.blocks[block].first..self.flow.blocks[block].end {
                    self.context.execute(&self.insts[at], at, &mut state);
                }
                if self.after[block].as_ref() != Some(&state) {
                    self.after[block] = Some(state);
                    changed = true;
                }
            }
            if !changed && !self.context.symbols.changed && !self.context.sets.changed {
                return Some(());
            }
        }
        None
    }

    /// The state before a block; none if none of the blocks before it was executed yet.
    fn before(&mut self, block: usize) -> Option<State> {
        let entry = (block == 0).then_some(&self.entry);
        let previous = self.flow.blocks[block].previous.iter().filter_map(|&p| self.after[p].as_ref());
        let states: Vec<&State> = entry.into_iter().chain(previous).collect();
        State::join(&states, block, &mut self.context.symbols, &mut self.context.sets)
    }

    /// Executes each block once more and takes down what it accesses and compares.
    fn results(mut self) -> Followed {
        // What was taken for granted on the way may not matter in the end.
        self.context.assumes_full_tiles = false;
        let mut accesses = Vec::new();
        let mut compared = HashMap::new();
        for block in self.flow.order() {
            let Some(mut state) = self.before(block) else { continue };
            for at in self.flow.blocks[block].first..self.flow.blocks[block].end {
                let inst = &self.insts[at];
                let mut step = Step { context: &mut self.context, state: &state, op: &inst.ops[0], at, part: 1 << 8 };
                accesses.extend(step.access());
                if inst.name().starts_with("s_cmp") {
                    compared.insert(at, [step.operand(0), step.operand(1)]);
                }
                self.context.execute(inst, at, &mut state);
            }
        }
        accesses.sort_by_key(|a: &Access| a.at);
        let moves = self.moves();
        let trips = (0..self.flow.loops.len()).map(|l| self.trips(l, &compared, &moves)).collect();
        Followed {
            accesses,
            trips,
            moves,
            symbols: self.context.symbols,
            assumes_full_tiles: self.context.assumes_full_tiles,
        }
    }

    /// How symbols of loops' starts move.
    fn moves(&mut self) -> HashMap<Origin, Move> {
        let mut moves = HashMap::new();
        for l in &self.flow.loops {
            let Some(before) = self.before(l.header) else { continue };
            let (again, first): (Vec<usize>, Vec<usize>) =
                self.flow.blocks[l.header].previous.iter().partition(|p| l.latches.contains(p));
            let states = |of: Vec<usize>| of.into_iter().filter_map(|b| self.after[b].as_ref()).collect::<Vec<_>>();
            let (again, first) = (states(again), states(first));
            for register in 0..before.scalar.len() {
                let origin = Origin::ScalarAt(l.header, register as u16);
                let value = |s: &State| match &s.scalar[register] {
                    Scalar::Value(v) => Some(v.clone()),
                    Scalar::Mask(_) | Scalar::High => None,
                };
                moves.extend(self.moved(origin, &before, [&first, &again], &value));
            }
            for register in 0..before.vector.len() {
                let origin = Origin::VectorAt(l.header, register as u16);
                let value = |s: &State| s.vector[register].value.clone();
                moves.extend(self.moved(origin, &before, [&first, &again], &value));
            }
        }
        moves
    }

    /// How a register's symbol moves, if the register has one and each way back adds the same.
    fn moved(
        &self,
        origin: Origin,
        before: &State,
        [first, again]: [&[&State]; 2],
        value: &dyn Fn(&State) -> Option<Sum>,
    ) -> Option<(Origin, Move)> {
        let start = value(before)?;
        let (symbol, times) = start.terms.iter().find(|(s, _)| self.context.symbols.origin(*s) == origin)?;
        let rest = start.sub(&start.of(*symbol));
        // The same in all states, and for all lanes.
        let same = |states: &[&State], from: &Sum| {
            let mut all = states.iter().map(|s| Some(value(s)?.sub(from)));
            let first = all.next()?.filter(Sum::is_uniform)?;
            all.all(|n| n.as_ref() == Some(&first)).then_some(first)
        };
        let once = *times == Lanes::All(1);
        let step = same(again, &start)?.as_number()?;
        Some((origin, Move { first: same(first, &rest).filter(|_| once), step }))
    }

    /// How often a loop is executed that ends with a comparison of a counter with a number.
    fn trips(
        &mut self,
        at: usize,
        compared: &HashMap<usize, [Option<Sum>; 2]>,
        moves: &HashMap<Origin, Move>,
    ) -> Option<u64> {
        let l = &self.flow.loops[at];
        let &[latch] = &l.latches[..] else { return None };
        let leaves = |&&b: &&usize| self.flow.blocks[b].next.iter().any(|next| !l.blocks.contains(next));
        let ends = l.blocks.iter().any(|&b| self.flow.blocks[b].next.is_empty());
        if ends || l.blocks.iter().filter(leaves).ne([&latch]) {
            return None;
        }
        let block = &self.flow.blocks[latch];
        let jump = &self.insts[block.end - 1];
        let goes_on = match jump.name() {
            "s_cbranch_scc1" => true,
            "s_cbranch_scc0" => false,
            _ => return None,
        };
        // The jump goes back, or out of the loop: its goal is the last of what may follow.
        let goes_on = if block.next.last() == Some(&l.header) { goes_on } else { !goes_on };
        let compare = (block.first..block.end - 1).rev().find(|&i| writes_condition(&self.insts[i]))?;
        let test = Test::of(self.insts[compare].name())?;
        let sides = compared.get(&compare)?;
        let entry: Vec<&State> = self.flow.blocks[l.header]
            .previous
            .iter()
            .filter(|&&p| p != latch)
            .filter_map(|&p| self.after[p].as_ref())
            .collect();
        // What a side is in the first iteration, and how far it moves in each.
        let side = |sum: &Sum| -> Option<(u32, u32)> {
            let mut start = sum.as_known().map_or_else(|| sum.lanes.at(0), |l| l.at(0));
            let mut step = 0_u32;
            for (symbol, times) in &sum.terms {
                let origin = self.context.symbols.origin(*symbol);
                let Origin::ScalarAt(block, register) = origin else { return None };
                let moves = moves.get(&origin).filter(|_| block == l.header)?.step;
                let mut starts = entry.iter().map(|s| match &s.scalar[usize::from(register)] {
                    Scalar::Value(v) => v.as_number(),
                    Scalar::Mask(_) | Scalar::High => None,
                });
                let first = starts.next()??;
                if !starts.all(|s| s == Some(first)) {
                    return None;
                }
                start = start.wrapping_add(times.at(0).wrapping_mul(first));
                step = step.wrapping_add(times.at(0).wrapping_mul(moves));
            }
            Some((start, step))
        };
        let [a, b] = sides;
        test.trips(side(a.as_ref()?)?, side(b.as_ref()?)?, goes_on)
    }
}

/// Whether an instruction writes the condition bit, for certain or perhaps.
fn writes_condition(inst: &Inst) -> bool {
    let name = inst.name();
    let keeps = [
        "s_mov",
        "s_mul_i32",
        "s_mulk",
        "s_cselect",
        "s_cmov",
        "s_load",
        "s_wait",
        "s_delay",
        "s_nop",
        "s_clause",
        "s_barrier",
        "s_buffer_load",
        "s_pack",
        "s_bitset",
        "s_sext",
        "s_setprio",
        "s_sleep",
        "s_set",
    ];
    name.starts_with("s_") && !keeps.iter().any(|k| name.starts_with(k))
}

/// A scalar comparison.
struct Test {
    test: &'static str,
    signed: bool,
}

impl Test {
    fn of(name: &str) -> Option<Test> {
        let rest = name.strip_prefix("s_cmpk_").or_else(|| name.strip_prefix("s_cmp_"))?;
        let (test, kind) = rest.split_once('_')?;
        let signed = match kind {
            "i32" => true,
            "u32" => false,
            _ => return None,
        };
        let test = ["eq", "lg", "lt", "le", "gt", "ge"].into_iter().find(|t| *t == test)?;
        Some(Test { test, signed })
    }

    fn holds(&self, a: u32, b: u32) -> bool {
        let key = |n: u32| if self.signed { n ^ 1 << 31 } else { n };
        let (a, b) = (key(a), key(b));
        match self.test {
            "eq" => a == b,
            "lg" => a != b,
            "lt" => a < b,
            "le" => a <= b,
            "gt" => a > b,
            _ => a >= b,
        }
    }

    /// The first iteration after which the loop is left, of two sides that start somewhere and move.
    fn trips(&self, a: (u32, u32), b: (u32, u32), goes_on: bool) -> Option<u64> {
        const MOST: u64 = 1 << 20;
        let at = |(start, step): (u32, u32), i: u64| start.wrapping_add(step.wrapping_mul(i as u32));
        (0..MOST).find(|&i| self.holds(at(a, i), at(b, i)) != goes_on).map(|i| i + 1)
    }
}
