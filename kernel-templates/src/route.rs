//! The router of a mixture of experts: which experts a row goes to, and with which weights.

use crate::Template;
use crate::facts::{Real, RowCut, TemplateError};
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, BinaryOp, Builder, CmpOp, Elem, GridExpr, Kernel, ReduceOp, Type, UnaryOp, Value, View};

/// How logits become scores, and the scores of the chosen experts weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scoring {
    /// Softmax over all experts.
    Softmax,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// Scores are the logits; weights are the softmax over the chosen ones.
    SoftmaxOfChosen,
}

/// The `used` experts with the largest scores (plus biases), in falling order, the first one of equals. Their weights are
/// their scores without bias, with `normalize` over their sum (at least 2^-14), times `scale`. With groups of neighbours
/// only the experts of the `groups[1]` groups with the largest sums of their two best scores are open.
///
/// Slots: NTokens; X: the logits `f32 [T, experts]`; with `bias` Bias `f32 [experts]`; Out `f32 [T, 2 * used]`: the experts'
/// numbers, then the weights. One program a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Experts: 1 to 1024.
    pub experts: u32,
    /// Experts of a row.
    pub used: u32,
    /// Scores and weights.
    pub scoring: Scoring,
    /// Whether scores have a bias for the choice.
    pub bias: bool,
    /// Whether weights are divided by their sum.
    pub normalize: bool,
    /// What weights are multiplied by.
    pub scale: Real,
    /// Groups, and how many are open; 1 and 1 for none.
    pub groups: [u32; 2],
    /// How rows are cut: a piece has all experts.
    pub cut: RowCut,
}

/// How the programs of a product choose experts by a router's logits: as [`Route`] does, without biases and groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Routing {
    /// Scores and weights.
    pub scoring: Scoring,
    /// Whether weights are divided by their sum.
    pub normalize: bool,
    /// What weights are multiplied by.
    pub scale: Real,
}

struct Args {
    n_tokens: Value,
    logits: View,
    bias: Option<View>,
    out: View,
}

const FAMILY: &str = "route";

/// A score below all: differences with it stay finite.
const LEAST: f64 = -1e30;

/// Lanes that share out experts.
const LANES: u32 = 32;

/// The least sum that weights are divided by.
const LEAST_SUM: f64 = 1.0 / 16384.0;

impl Route {
    /// The cut for so many experts: one wave, or a processor's vectors.
    pub fn cut(experts: u32) -> RowCut {
        RowCut { piece: experts.next_power_of_two().max(32), waves: 1 }
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let (t, n) = (n_tokens.into(), self.experts.into());
        Args {
            n_tokens,
            logits: i.view(Slot::X, Elem::F32, &[t, n], Access::In),
            bias: self.bias.then(|| i.view(Slot::Bias, Elem::F32, &[1.into(), n], Access::In)),
            out: i.view(Slot::Out, Elem::F32, &[t, self.used.saturating_mul(2).into()], Access::Out),
        }
    }

    fn check(&self) -> Result<(), TemplateError> {
        let unless = |ok, reason| TemplateError::unless(ok, FAMILY, format!("{self:?}"), reason);
        unless((1..=1024).contains(&self.experts), "there are 1 to 1024 experts")?;
        let [groups, open] = self.groups;
        let whole = groups > 0 && self.experts.is_multiple_of(groups) && (1..=groups).contains(&open);
        unless(whole, "groups divide the experts, and some are open")?;
        let size = self.experts / groups;
        unless(
            groups == 1 || (size >= 2 && self.experts.is_power_of_two()),
            "groups are of a power of two, 2 and more",
        )?;
        unless((1..=size * open).contains(&self.used) && self.used <= 64, "1 to 64 of the open experts are used")?;
        self.cut.check(FAMILY)?;
        unless(self.cut.piece >= self.experts, "a piece has all experts")
    }
}

/// The first index `[1, 1]` of the largest element of `x [1, n]`, where `places` are the indices.
fn first_largest(b: &mut Builder, x: Value, places: Value, axis: usize) -> Value {
    let largest = b.reduce(ReduceOp::Max, x, axis);
    let is_largest = b.cmp(CmpOp::Eq, x, largest);
    let shape = b.ty(places).shape;
    let none = b.int(i64::from(i32::MAX), Type { elem: Elem::I32, shape });
    let found = b.select(is_largest, places, none);
    b.reduce(ReduceOp::Min, found, axis)
}

/// 0, 1, … of `rows` rows of `n`, along the second axis.
fn places(b: &mut Builder, rows: u32, n: u32) -> Value {
    let iota = b.iota(n);
    let line = b.reshape(iota, &[1, n]);
    if rows == 1 { line } else { b.broadcast(line, Type::new(Elem::I32, &[rows, n]).shape) }
}

impl Route {
    fn routing(&self) -> Routing {
        let &Route { scoring, normalize, scale, .. } = self;
        Routing { scoring, normalize, scale }
    }

    /// Scores with those of closed groups at the least.
    fn open(&self, b: &mut Builder, scores: Value) -> Value {
        let [groups, open] = self.groups;
        if groups == 1 {
            return scores;
        }
        let (piece, size) = (self.cut.piece, self.experts / groups);
        let used = b.slice(scores, 1, 0, self.experts);
        let grid = b.reshape(used, &[groups, size]);
        let least = b.float(LEAST, &[groups, size]);
        let at = places(b, groups, size);
        let best = b.reduce(ReduceOp::Max, grid, 1);
        let place = first_largest(b, grid, at, 1);
        let is_best = b.cmp(CmpOp::Eq, at, place);
        let others = b.select(is_best, least, grid);
        let second = b.reduce(ReduceOp::Max, others, 1);
        let sums = b.add(best, second);
        let mut sums = b.reshape(sums, &[1, groups]);
        let at = places(b, 1, groups);
        let least_sum = b.float(2.0 * LEAST, &[1, groups]);
        let mut kept: Option<Value> = None;
        for _ in 0..open {
            let place = first_largest(b, sums, at, 1);
            let is_best = b.cmp(CmpOp::Eq, at, place);
            sums = b.select(is_best, least_sum, sums);
            kept = Some(match kept {
                Some(k) => b.binary(BinaryOp::Or, k, is_best),
                None => is_best,
            });
        }
        let Some(kept) = kept else { return scores };
        let kept = b.reshape(kept, &[groups, 1]);
        let kept = b.broadcast(kept, Type::new(Elem::I32, &[groups, size]).shape);
        let masked = b.select(kept, grid, least);
        let masked = b.reshape(masked, &[1, self.experts]);
        if piece == self.experts {
            return masked;
        }
        let rest = b.float(LEAST, &[1, piece - self.experts]);
        b.concat(masked, rest, 1)
    }
}

impl Routing {
    /// The most experts.
    pub const MOST: u32 = 256;

    pub(crate) fn tag(&self) -> String {
        let normalize = if self.normalize { "norm" } else { "" };
        format!("_by{}{normalize}{}", self.scoring.tag(), self.scale.tag())
    }

    /// The numbers of a token's experts in local memory, `f32 [1, used]`, in the order of a [`Route`]; `out` gets what that
    /// would write, if it is told to by the predicate behind it.
    ///
    /// Each wave does all of it: a lane has neighbouring experts, and what is largest is exchanged between lanes alone.
    pub(crate) fn choose(
        &self,
        b: &mut Builder,
        [n, used]: [u32; 2],
        [logits, out]: [View; 2],
        token: Value,
        writes: Value,
    ) -> View {
        let piece = n.next_power_of_two().max(32);
        let (zero, one, rounds) = (b.index(0), b.index(1), b.index(i64::from(used)));
        let inside = (n < piece).then(|| crate::emit::below(b, zero, piece, n));
        let logits = b.load(logits, &[token, zero], &[1, piece], inside);
        let own = piece / LANES;
        let by_lane = |b: &mut Builder, v: Value| -> Vec<Value> {
            let v = b.reshape(v, &[LANES, own]);
            (0..own).map(|i| b.slice(v, 1, i, 1)).collect()
        };
        let mut tiles = by_lane(b, logits);
        let iota = b.iota(piece);
        let at = by_lane(b, iota);
        if n < piece {
            let (least, end) = (b.float(LEAST, &[LANES, 1]), b.int(i64::from(n), Type::new(Elem::I32, &[LANES, 1])));
            for (tile, &at) in tiles.iter_mut().zip(&at) {
                let there = b.cmp(CmpOp::Lt, at, end);
                *tile = b.select(there, *tile, least);
            }
        }
        let all = |b: &mut Builder, op: ReduceOp, tiles: &[Value]| {
            let join = |b: &mut Builder, x, y| match op {
                ReduceOp::Max => b.max(x, y),
                ReduceOp::Min => b.min(x, y),
                ReduceOp::Sum => b.add(x, y),
            };
            let own = tiles[1..].iter().fold(tiles[0], |all, &t| join(b, all, t));
            b.reduce(op, own, 0)
        };
        match self.scoring {
            Scoring::SoftmaxOfChosen => {}
            Scoring::Sigmoid => {
                tiles.iter_mut().for_each(|t| *t = crate::emit::activation(b, crate::Activation::Sigmoid, *t))
            }
            Scoring::Softmax => {
                let largest = all(b, ReduceOp::Max, &tiles);
                for tile in &mut tiles {
                    let below = b.sub(*tile, largest);
                    *tile = b.unary(UnaryOp::Exp, below);
                }
                let sum = all(b, ReduceOp::Sum, &tiles);
                tiles.iter_mut().for_each(|t| *t = b.div(*t, sum));
            }
        }
        let numbers = b.local(Elem::F32, &[1, used]);
        let scores = b.local(Elem::F32, &[1, used]);
        // Where all is NaN nothing equals the largest: then it is the last expert, so that there is one.
        let last = b.int(i64::from(n) - 1, Type::new(Elem::I32, &[1, 1]));
        let none = b.int(i64::from(i32::MAX), Type::new(Elem::I32, &[LANES, 1]));
        let taken = b.float(2.0 * LEAST, &[LANES, 1]);
        b.for_loop([zero, rounds, one], &tiles, |b, slot, tiles| {
            let largest = all(b, ReduceOp::Max, tiles);
            let found: Vec<Value> = tiles
                .iter()
                .zip(&at)
                .map(|(&tile, &at)| {
                    let is_largest = b.cmp(CmpOp::Eq, tile, largest);
                    b.select(is_largest, at, none)
                })
                .collect();
            let place = all(b, ReduceOp::Min, &found);
            let place = b.min(place, last);
            let number = b.convert(place, Elem::F32);
            b.store(numbers, &[zero, slot], number, None);
            b.store(scores, &[zero, slot], largest, None);
            let rest = tiles.iter().zip(&at).map(|(&tile, &at)| {
                let is_place = b.cmp(CmpOp::Eq, at, place);
                b.select(is_place, taken, tile)
            });
            rest.collect()
        });
        let room = used.next_power_of_two();
        let chosen = (used < room).then(|| crate::emit::below(b, zero, room, used));
        let weights = b.load(scores, &[zero, zero], &[1, room], chosen);
        let weights = self.weights(b, weights, chosen);
        let written = b.load(numbers, &[zero, zero], &[1, room], chosen);
        let mask = chosen.map_or(writes, |chosen| b.binary(BinaryOp::And, chosen, writes));
        b.store(out, &[token, zero], written, Some(mask));
        b.store(out, &[token, rounds], weights, Some(mask));
        numbers
    }

    /// Weights of the chosen experts of their scores, both `[1, room]`.
    fn weights(&self, b: &mut Builder, mut weights: Value, chosen: Option<Value>) -> Value {
        if self.scoring == Scoring::SoftmaxOfChosen {
            if let Some(chosen) = chosen {
                let room = b.ty(weights).shape.last();
                let least = b.float(LEAST, &[1, room]);
                weights = b.select(chosen, weights, least);
            }
            weights = softmax(b, weights, chosen);
        }
        if self.normalize {
            let sum = b.reduce(ReduceOp::Sum, weights, 1);
            let least = b.float(LEAST_SUM, &[1, 1]);
            let sum = b.max(sum, least);
            weights = b.div(weights, sum);
        }
        crate::emit::scaled(b, self.scale.f64(), weights)
    }
}

impl Scoring {
    fn tag(self) -> &'static str {
        match self {
            Scoring::Softmax => "softmax",
            Scoring::Sigmoid => "sigmoid",
            Scoring::SoftmaxOfChosen => "chosen",
        }
    }

    /// Scores of logits `[1, piece]`, of which a mask says which there are; of others the least.
    fn scores(self, b: &mut Builder, mut logits: Value, inside: Option<Value>) -> Value {
        let piece = b.ty(logits).shape.last();
        let least = b.float(LEAST, &[1, piece]);
        if let Some(inside) = inside {
            logits = b.select(inside, logits, least);
        }
        let scores = match self {
            Scoring::Softmax => softmax(b, logits, inside),
            Scoring::Sigmoid => crate::emit::activation(b, crate::Activation::Sigmoid, logits),
            Scoring::SoftmaxOfChosen => logits,
        };
        match inside {
            Some(inside) => b.select(inside, scores, least),
            None => scores,
        }
    }
}

/// Softmax of `x [1, n]` over the places of a mask.
fn softmax(b: &mut Builder, x: Value, inside: Option<Value>) -> Value {
    let n = b.ty(x).shape.last();
    let zero = b.float(0.0, &[1, n]);
    let largest = b.reduce(ReduceOp::Max, x, 1);
    let below = b.sub(x, largest);
    let mut e = b.unary(UnaryOp::Exp, below);
    if let Some(inside) = inside {
        e = b.select(inside, e, zero);
    }
    let sum = b.reduce(ReduceOp::Sum, e, 1);
    b.div(e, sum)
}

impl Template for Route {
    fn name(&self) -> String {
        let scoring = self.scoring.tag();
        let bias = if self.bias { "_bias" } else { "" };
        let normalize = if self.normalize { "_norm" } else { "" };
        let groups = match self.groups {
            [1, _] => String::new(),
            [groups, open] => format!("_g{groups}of{open}"),
        };
        let (n, used, scale, cut) = (self.experts, self.used, self.scale.tag(), self.cut.tag());
        format!("{FAMILY}_{scoring}_n{n}_u{used}{bias}{normalize}_scale{scale}{groups}{cut}")
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.check()?;
        let (n, piece) = (self.experts, self.cut.piece);
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.cut.waves);
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        let (row, zero) = (b.program_id(0), b.index(0));
        let inside = (n < piece).then(|| crate::emit::below(&mut b, zero, piece, n));
        let nothing = b.float(0.0, &[1, piece]);
        let least = b.float(LEAST, &[1, piece]);
        let logits = b.load(a.logits, &[row, zero], &[1, piece], inside);
        let scores = self.scoring.scores(&mut b, logits, inside);
        let mut ranked = scores;
        if let Some(bias) = a.bias {
            let bias = b.load(bias, &[zero, zero], &[1, piece], inside);
            ranked = b.add(ranked, bias);
        }
        if let Some(inside) = inside {
            ranked = b.select(inside, ranked, least);
        }
        ranked = self.open(&mut b, ranked);
        let at = places(&mut b, 1, piece);
        let room = self.used.next_power_of_two();
        let slots = places(&mut b, 1, room);
        let none = b.float(0.0, &[1, room]);
        let (one, used) = (b.index(1), b.index(i64::from(self.used)));
        // Where all is NaN nothing equals the largest: then it is the last expert, so that there is one.
        let last = b.int(i64::from(n) - 1, Type::new(Elem::I32, &[1, 1]));
        let chosen = b.for_loop([zero, used, one], &[ranked, none], |b, slot, carried| {
            let [ranked, weights] = [carried[0], carried[1]];
            let place = first_largest(b, ranked, at, 1);
            let place = b.min(place, last);
            let number = b.convert(place, Elem::F32);
            b.store(a.out, &[row, slot], number, None);
            let is_place = b.cmp(CmpOp::Eq, at, place);
            let score = b.select(is_place, scores, nothing);
            let score = b.reduce(ReduceOp::Sum, score, 1);
            let slot = b.broadcast(slot, Type::new(Elem::I32, &[1, room]).shape);
            let is_slot = b.cmp(CmpOp::Eq, slots, slot);
            let score = b.broadcast(score, Type::new(Elem::F32, &[1, room]).shape);
            let weights = b.select(is_slot, score, weights);
            let taken = b.float(2.0 * LEAST, &[1, piece]);
            vec![b.select(is_place, taken, ranked), weights]
        });
        let weights = chosen[1];
        let chosen = (self.used < room).then(|| crate::emit::below(&mut b, zero, room, self.used));
        let weights = self.routing().weights(&mut b, weights, chosen);
        b.store(a.out, &[row, used], weights, chosen);
        Ok(b.finish())
    }
}
