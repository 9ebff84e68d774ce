//! One token's queries of some heads over the cache, the lanes of a workgroup sharing out positions and elements of a head.
//!
//! A step takes some positions, read in a fixed place each: its *slots*. Each slot has a softmax of its own over the
//! positions that come to it, step after step: largest score, total, and sums of weighted values. So nothing but the
//! product of a query and a key crosses lanes in the loop. At the end the slots are brought to the largest score of all
//! and summed.

use super::{Args, Attention, Sink, UNSEEN, WaveAttention};
use crate::emit::{load_index, scaled, softcap, times};
use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, GridExpr, ReduceOp, Type, UnaryOp, Value, View};

/// Elements that a head may fill whatever its own are.
const LONG: u32 = 256;

/// What a head's slots carry from step to step.
const STATE: usize = 3;

/// Emits the kernel's body.
pub(super) fn emit(b: &mut Builder, l: &Attention, t: &WaveAttention, a: &Args) {
    b.waves(t.waves);
    b.grid(0, GridExpr::constant(l.heads / t.group));
    b.grid(1, GridExpr::Extent(a.n_tokens.into()));
    b.grid(2, GridExpr::constant(t.parts));
    let (program, token) = (b.program_id(0), b.program_id(1));
    // Programs of one head of the cache follow one another.
    let share = b.index(i64::from(l.heads / l.kv_heads / t.group));
    let kv_head = b.div(program, share);
    let head = times(b, program, t.group);
    let position = load_index(b, a.positions, token);
    let part = b.program_id(2);
    let w = Waves { l, t, a, token, head, kv_head, position, part };
    let whole = w.range(b);
    let [first, end] = if t.parts == 1 { whole } else { part_of(b, whole, part, [t.positions, t.parts]) };
    let queries: Vec<Vec<Value>> = (0..t.group).map(|i| w.query(b, i)).collect();
    let mut inits = Vec::new();
    for _ in 0..t.group {
        inits.push(b.float(UNSEEN, &[t.positions, 1]));
        inits.push(b.float(0.0, &[t.positions, 1]));
        inits.push(b.float(0.0, &[t.positions, l.value_dim]));
    }
    let step = b.index(i64::from(t.positions));
    let state = b.for_loop([first, end, step], &inits, |b, at, state| w.step(b, at, &queries, state));
    for (i, slots) in state.chunks(STATE).enumerate() {
        w.finish(b, i as u32, [slots[0], slots[1], slots[2]]);
    }
}

/// Where the pieces of a head begin, and their elements. A tile fills lanes and registers up to a power of two, so a long
/// head that is none is taken apart.
fn pieces(d: u32) -> Vec<(u32, u32)> {
    if d.next_power_of_two() <= LONG || d.is_power_of_two() {
        return vec![(0, d)];
    }
    let first = 1 << d.ilog2();
    let rest = pieces(d - first).into_iter().map(|(start, d)| (first + start, d));
    std::iter::once((0, first)).chain(rest).collect()
}

/// One of some equal parts of a range: as many steps as each other part, but for the last ones.
pub(super) fn part_of(b: &mut Builder, [first, end]: [Value; 2], part: Value, [step, parts]: [u32; 2]) -> [Value; 2] {
    let n = b.sub(end, first);
    let (less, all) = (b.index(i64::from(step * parts) - 1), b.index(i64::from(step * parts)));
    let n = b.add(n, less);
    let steps = b.div(n, all);
    let len = times(b, steps, step);
    let before = b.mul(part, len);
    let first = b.add(first, before);
    let behind = b.add(first, len);
    [first, b.min(end, behind)]
}

struct Waves<'a> {
    l: &'a Attention,
    t: &'a WaveAttention,
    a: &'a Args,
    token: Value,
    /// First query head.
    head: Value,
    kv_head: Value,
    /// The token's position.
    position: Value,
    /// Which part of the positions.
    part: Value,
}

impl Waves<'_> {
    /// The positions that the token sees, from the start of a step on.
    fn range(&self, b: &mut Builder) -> [Value; 2] {
        let one = b.index(1);
        let end = b.add(self.position, one);
        let first = self.a.first_seen(b, self.token, self.position, self.l.window);
        if self.l.window.is_none() {
            return [first, end];
        }
        let step = b.index(i64::from(self.t.positions));
        let first = b.binary(BinaryOp::Div, first, step);
        [b.mul(first, step), end]
    }

    /// A head's query in pieces, `[1, piece]` each.
    fn query(&self, b: &mut Builder, i: u32) -> Vec<Value> {
        let i = b.index(i64::from(i));
        let head = b.add(self.head, i);
        let load = |(start, d): (u32, u32)| {
            let start = b.index(i64::from(start));
            let q = b.load(self.a.queries, &[self.token, head, start], &[1, 1, d], None);
            b.reshape(q, &[1, d])
        };
        pieces(self.l.head_dim).into_iter().map(load).collect()
    }

    /// A step's keys or values, `f32 [positions, d]` from element `start` on.
    fn cached(&self, b: &mut Builder, view: View, at: Value, [start, d]: [u32; 2]) -> Value {
        let (start, n) = (b.index(i64::from(start)), self.t.positions);
        let v = b.load(view, &[self.kv_head, at, start], &[1, n, d], None);
        let v = b.reshape(v, &[n, d]);
        b.convert(v, Elem::F32)
    }

    /// Which positions of a step the token sees, `[positions, 1]`.
    fn seen(&self, b: &mut Builder, at: Value) -> Value {
        let n = self.t.positions;
        let places = b.iota(n);
        let places = b.add(places, at);
        let limit = b.broadcast(self.position, Type::new(Elem::I32, &[n]).shape);
        let mut seen = b.cmp(CmpOp::Le, places, limit);
        if let Some(window) = self.l.window {
            let window = b.index(i64::from(window));
            let before = b.sub(self.position, window);
            let inside = b.cmp(CmpOp::Gt, places, before);
            seen = b.binary(BinaryOp::And, seen, inside);
        }
        b.reshape(seen, &[n, 1])
    }

    /// The next state of all heads' slots.
    fn step(&self, b: &mut Builder, at: Value, queries: &[Vec<Value>], state: &[Value]) -> Vec<Value> {
        let places = pieces(self.l.head_dim);
        let keys: Vec<Value> = places.iter().map(|&(start, d)| self.cached(b, self.a.keys, at, [start, d])).collect();
        let values = match self.l.shared {
            true if places[0].1 == self.l.value_dim => keys[0],
            true if places.len() == 1 => b.slice(keys[0], 1, 0, self.l.value_dim),
            _ => self.cached(b, self.a.values, at, [0, self.l.value_dim]),
        };
        let seen = self.seen(b, at);
        let (unseen, nothing) = (b.float(UNSEEN, &[self.t.positions, 1]), b.float(0.0, &[self.t.positions, 1]));
        let mut next = Vec::with_capacity(state.len());
        for (query, slots) in queries.iter().zip(state.chunks(STATE)) {
            let [before, total, sums] = [slots[0], slots[1], slots[2]];
            let parts: Vec<Value> = keys
                .iter()
                .zip(query)
                .map(|(&keys, &query)| {
                    let products = b.mul(keys, query);
                    b.reduce(ReduceOp::Sum, products, 1)
                })
                .collect();
            let mut score = parts[0];
            for &part in &parts[1..] {
                score = b.add(score, part);
            }
            score = scaled(b, self.l.scale.f64(), score);
            if let Some(cap) = self.l.softcap {
                score = softcap(b, cap.f64(), score);
            }
            let score = b.select(seen, score, unseen);
            let largest = b.max(before, score);
            let change = b.sub(before, largest);
            let shrink = b.unary(UnaryOp::Exp, change);
            let below = b.sub(score, largest);
            let weight = b.unary(UnaryOp::Exp, below);
            // A slot that has seen nothing yet has an unseen position's score as its largest.
            let weight = b.select(seen, weight, nothing);
            next.push(largest);
            next.push(b.fma(total, shrink, weight));
            let kept = b.mul(sums, shrink);
            next.push(b.fma(values, weight, kept));
        }
        next
    }

    /// Brings a head's slots together and stores its result.
    fn finish(&self, b: &mut Builder, i: u32, [largest, total, sums]: [Value; 3]) {
        let d = self.l.value_dim;
        let top = b.reduce(ReduceOp::Max, largest, 0);
        let below = b.sub(largest, top);
        let factor = b.unary(UnaryOp::Exp, below);
        let totals = b.mul(total, factor);
        let mut total = b.reduce(ReduceOp::Sum, totals, 0);
        let sums = b.mul(sums, factor);
        let sum = b.reduce(ReduceOp::Sum, sums, 0);
        let (zero, one) = (b.index(0), b.float(1.0, &[1, 1]));
        let i = b.index(i64::from(i));
        let head = b.add(self.head, i);
        let out = match self.a.out {
            Sink::Rows(out) => out,
            Sink::Heads(_) => unreachable!("heads are written by tiles"),
            Sink::Parts { sums, totals } => {
                let row = times(b, head, self.t.parts);
                let row = b.add(row, self.part);
                let sum = b.reshape(sum, &[1, 1, d]);
                b.store(sums, &[self.token, row, zero], sum, None);
                let both = b.concat(top, total, 1);
                let both = b.reshape(both, &[1, 1, 2]);
                b.store(totals, &[self.token, row, zero], both, None);
                return;
            }
        };
        let shrink = self.a.sinks.map(|sinks| {
            let sink = b.load(sinks, &[zero, head], &[1, 1], None);
            let [shrink, with_sink] = super::with_sink(b, top, total, sink);
            total = with_sink;
            shrink
        });
        let mut inverse = b.div(one, total);
        if let Some(shrink) = shrink {
            inverse = b.mul(inverse, shrink);
        }
        let y = b.mul(sum, inverse);
        let col = times(b, head, d);
        out.store(b, [self.token, col], y, None, self.l.heads * d);
    }
}
