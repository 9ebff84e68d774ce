//! Loads of weights go ahead of everything else.
//!
//! What a program reads of weights comes from memory and takes longest, and its address follows from the program's
//! number and the loop's counter alone. So what stands in no loop is asked for at the front of its block; and where few
//! programs are beside one another, a loop asks in each turn for what the next one needs, and carries it there as it
//! came. (Where there are many, they fill each other's waiting, and registers are better spent on more of them.)
//! Compilers of the chip's code leave loads in their turn. Nothing writes weights, so no order is lost.

use super::ir::{Address, Bin, Block, Cmp, Inst, LaneKernel, Op, Space, Ty, Un, Val};
use cranelift_entity::PrimaryMap;
use hrx_ir::tile::{Access, Content, Extent, GridExpr, Kernel};
use std::collections::HashMap;

/// Words that a loop carries at most: each is a register more. Where waves of a SIMD are few, and where they are some.
const MOST: usize = 32;
const MOST_OF_SOME: usize = 16;

/// Waves of a SIMD that are few, and some.
const FEW: u64 = 5;
const SOME: u64 = 6;

/// Programs of a launch for one token.
pub(crate) fn programs_of_one_token(k: &Kernel) -> u64 {
    k.grid.iter().map(of_one).product()
}

fn of_one(e: &GridExpr) -> u64 {
    match e {
        GridExpr::Extent(Extent::Const(n)) => u64::from(*n),
        GridExpr::Extent(Extent::Param(_)) => 1,
        GridExpr::CeilDiv(a, by) => of_one(a).div_ceil(u64::from(*by).max(1)),
        GridExpr::Mul(a, b) => of_one(a) * of_one(b),
        GridExpr::Add(a, b) => of_one(a) + of_one(b),
    }
}

/// Moves the loads of a kernel for a chip of so many SIMDs.
pub(super) fn loads_ahead(k: &Kernel, simds: u32, lanes: &mut LaneKernel) {
    let waves = programs_of_one_token(k) * u64::from(k.waves);
    let most = match waves.div_ceil(u64::from(simds.max(1))) {
        n if n <= FEW => MOST,
        n if n <= SOME => MOST_OF_SOME,
        _ => 0,
    };
    let constants = lanes.body.iter().filter_map(|i| match (&i.op, &i.results[..]) {
        (Op::Const(bits), &[r]) => Some((r, *bits as i32)),
        _ => None,
    });
    let constants = constants.collect();
    let rounds = Vec::new();
    let mut ahead = Ahead { k, types: &mut lanes.types, constants, rounds, most };
    ahead.block(&mut lanes.body);
}

struct Ahead<'a> {
    k: &'a Kernel,
    types: &'a mut PrimaryMap<Val, Ty>,
    /// Registers that are constants.
    constants: HashMap<Val, i32>,
    /// Registers that are predicates as numbers: bounds of loops of one round or none.
    rounds: Vec<Val>,
    /// Words that loops carry at most of what the next turns need.
    most: usize,
}

impl Ahead<'_> {
    fn block(&mut self, block: &mut Block) {
        let mut out = Vec::with_capacity(block.len());
        for mut inst in block.drain(..) {
            if let (Op::Un(Un::BToI, _), &[r]) = (&inst.op, &inst.results[..]) {
                self.rounds.push(r);
            }
            if let Op::For { bounds, body, .. } = &mut inst.op {
                let once = self.rounds.contains(&bounds[1]);
                self.block(body);
                if self.most > 0 && !once {
                    out.extend(self.pipelined(&mut inst));
                }
            }
            out.push(inst);
        }
        *block = out;
        self.weights_first(block);
    }

    /// Moves loads to the front, with what their addresses follow from; those of rows that were loaded themselves to behind
    /// that load.
    fn weights_first(&self, block: &mut Block) {
        let made = made_in(block);
        // For each instruction that moves, the one that it stands behind, counted from 1; 0 is the front.
        let mut moves: Vec<Option<usize>> = vec![None; block.len()];
        for (i, inst) in block.iter().enumerate() {
            if self.is_weights(inst) {
                moves[i] = Some(earliest(block, &made, i, &mut moves));
            }
        }
        let mut places: Vec<Vec<Inst>> = (0..=block.len()).map(|_| Vec::new()).collect();
        let mut stays: Vec<Option<Inst>> = Vec::with_capacity(block.len());
        for (inst, moves) in block.drain(..).zip(moves) {
            match moves {
                Some(place) => {
                    places[place].push(inst);
                    stays.push(None);
                }
                None => stays.push(Some(inst)),
            }
        }
        let mut places = places.into_iter();
        block.extend(places.next().into_iter().flatten());
        for (inst, behind) in stays.into_iter().zip(places) {
            block.extend(inst);
            block.extend(behind);
        }
    }

    fn is_weights(&self, inst: &Inst) -> bool {
        let Op::Load { at: Address { space: Space::Global(view), .. }, .. } = &inst.op else { return false };
        let data = &self.k.views[*view];
        data.access == Access::In && matches!(data.content, Content::Quant(_))
    }

    /// Lets a loop ask in each turn for what the next one needs; gives what stands before it.
    fn pipelined(&mut self, inst: &mut Inst) -> Vec<Inst> {
        let Op::For { bounds, inits, params, body, yields } = &mut inst.op else { return Vec::new() };
        let made = made_in(body);
        let (mut needed, mut loads) = (Vec::new(), Vec::new());
        for (i, load) in body.iter().enumerate() {
            let mut own = Vec::new();
            let long = self.is_weights(load) && slice(body, &made, load, &mut own);
            let carried = |v: &Val| params[1..].contains(v);
            if long && !own.iter().chain([&i]).any(|&n| operands(&body[n].op).iter().any(carried)) {
                loads.push(i);
                needed.extend(own);
            }
        }
        let words: usize = loads.iter().map(|&i| body[i].results.len()).sum();
        if words == 0 || words > self.most {
            return Vec::new();
        }
        needed.extend(&loads);
        needed.sort_unstable();
        needed.dedup();
        let [lower, upper, step] = *bounds;
        let both = self.constants.get(&lower).zip(self.constants.get(&upper));
        let mut before = Vec::new();
        // A loop that may have no turn asks for nothing then.
        let some = match both {
            Some((lower, upper)) if lower < upper => None,
            _ => Some(self.emit(&mut before, Op::Cmp(Cmp::SLt, lower, upper), Ty::B1)),
        };
        let first = self.copies(body, &needed, &loads, (params[0], lower), some, &mut before);
        // The last turn asks for its own once more.
        let mut ahead = Vec::new();
        let next = self.emit(&mut ahead, Op::Bin(Bin::Add, params[0], step), Ty::I32);
        let more = self.emit(&mut ahead, Op::Cmp(Cmp::SLt, next, upper), Ty::B1);
        let next = self.emit(&mut ahead, Op::Select(more, next, params[0]), Ty::I32);
        let later = self.copies(body, &needed, &loads, (params[0], next), None, &mut ahead);
        // What was loaded in the turn is what it carries.
        for &i in &loads {
            params.extend(&body[i].results);
        }
        inst.results.extend(first.iter().map(|&v| self.types.push(self.types[v])));
        inits.extend(first);
        yields.extend(later);
        let mut at = 0..;
        body.retain(|_| at.next().is_some_and(|i: usize| !loads.contains(&i)));
        ahead.append(body);
        *body = ahead;
        before
    }

    fn emit(&mut self, to: &mut Block, op: Op, ty: Ty) -> Val {
        let r = self.types.push(ty);
        to.push(Inst { op, results: vec![r] });
        r
    }

    /// Copies instructions with another value for the counter; gives what the loads among them load, where `only` is set.
    fn copies(
        &mut self,
        body: &Block,
        needed: &[usize],
        loads: &[usize],
        (counter, value): (Val, Val),
        only: Option<Val>,
        to: &mut Block,
    ) -> Vec<Val> {
        let mut renamed = HashMap::from([(counter, value)]);
        let mut loaded = Vec::new();
        for &i in needed {
            let mut op = body[i].op.clone();
            rename(&mut op, &renamed);
            let is_load = loads.contains(&i);
            if let (true, Some(only), Op::Load { mask, .. }) = (is_load, only, &mut op) {
                *mask = Some(match *mask {
                    Some(m) => self.emit(to, Op::Bin(Bin::And, m, only), Ty::B1),
                    None => only,
                });
            }
            let results: Vec<Val> = body[i].results.iter().map(|&r| self.types.push(self.types[r])).collect();
            renamed.extend(body[i].results.iter().copied().zip(results.iter().copied()));
            if is_load {
                loaded.extend(&results);
            }
            to.push(Inst { op, results });
        }
        loaded
    }
}

/// Which instruction of a block makes each of its registers.
fn made_in(block: &Block) -> HashMap<Val, usize> {
    block.iter().enumerate().flat_map(|(i, inst)| inst.results.iter().map(move |&r| (r, i))).collect()
}

/// The operands of arithmetic, and of a load; what else there is has none that are looked at.
fn operands(op: &Op) -> Vec<Val> {
    match op {
        Op::Un(_, a) => vec![*a],
        Op::Bin(_, a, b) | Op::Cmp(_, a, b) => vec![*a, *b],
        Op::Select(a, b, c) | Op::Fma(a, b, c) => vec![*a, *b, *c],
        Op::Load { at, mask, .. } => [at.uniform, at.lane].into_iter().chain(*mask).collect(),
        _ => Vec::new(),
    }
}

/// Gives the same operands other names.
fn rename(op: &mut Op, names: &HashMap<Val, Val>) {
    let to = |v: &mut Val| *v = names.get(v).copied().unwrap_or(*v);
    match op {
        Op::Un(_, a) => to(a),
        Op::Bin(_, a, b) | Op::Cmp(_, a, b) => [a, b].into_iter().for_each(to),
        Op::Select(a, b, c) | Op::Fma(a, b, c) => [a, b, c].into_iter().for_each(to),
        Op::Load { at, mask, .. } => [&mut at.uniform, &mut at.lane].into_iter().chain(mask).for_each(to),
        _ => {}
    }
}

/// Behind which instruction of the block, counted from 1, another one can stand at the earliest if the arithmetic that it
/// follows from moves with it; which is noted in `moves`.
fn earliest(block: &Block, made: &HashMap<Val, usize>, at: usize, moves: &mut [Option<usize>]) -> usize {
    let mut place = 0;
    for v in operands(&block[at].op) {
        let Some(&i) = made.get(&v) else { continue };
        let behind = match (moves[i], is_arithmetic(&block[i].op)) {
            (Some(known), _) => known,
            (None, true) => {
                let known = earliest(block, made, i, moves);
                moves[i] = Some(known);
                known
            }
            (None, false) => i + 1,
        };
        place = place.max(behind);
    }
    place
}

/// Whether an operation is one of numbers that a lane has.
fn is_arithmetic(op: &Op) -> bool {
    matches!(
        op,
        Op::Const(_)
            | Op::Lane
            | Op::Wave
            | Op::Program(_)
            | Op::Param(_)
            | Op::Un(..)
            | Op::Bin(..)
            | Op::Cmp(..)
            | Op::Select(..)
            | Op::Fma(..)
    )
}

/// Collects which instructions of the block a load's address and predicate follow from; whether they are all arithmetic.
fn slice(block: &Block, made: &HashMap<Val, usize>, load: &Inst, needed: &mut Vec<usize>) -> bool {
    let mut open = operands(&load.op);
    while let Some(v) = open.pop() {
        let Some(&i) = made.get(&v) else { continue };
        if needed.contains(&i) {
            continue;
        }
        needed.push(i);
        if !is_arithmetic(&block[i].op) {
            return false;
        }
        open.extend(operands(&block[i].op));
    }
    true
}
