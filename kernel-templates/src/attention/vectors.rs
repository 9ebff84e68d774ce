//! A program has the queries of `group` heads that share one head of the cache, for `tokens` tokens: its *lines*. It
//! walks over the cache in tiles of `tile` positions. For each tile it makes the scores of all lines (products along the
//! head, so that a key is read once for all lines), turns them into weights, and adds the weighted values to the lines'
//! sums. Scores, sums, maxima and totals live in local memory, so heads and groups of any size fit the registers.
//!
//! Tiles start at multiples of `tile`, and a tile in which a line sees nothing leaves it as it is to the last bit, so a
//! token's result does not depend on which tokens share its program.

use super::{Args, Attention, AttentionTiling, LANES, Sink, UNSEEN};
use crate::emit::{clamped, load_index, plus, scaled, softcap, times};
use crate::row::{PIECE, for_pieces};
use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, GridExpr, ReduceOp, Type, UnaryOp, Value, View};

/// Positions whose values are added in one iteration.
const VALUES: u32 = 4;

/// Local memory, a row for each line.
struct Locals {
    /// Scores, then weights: `f32 [lines, tile]`.
    scores: View,
    /// Sums of weighted values: `f32 [lines, head_dim]`.
    sums: View,
    /// Largest score: `f32 [lines, 1]`.
    largest: View,
    /// Sum of weights: `f32 [lines, 1]`.
    total: View,
    /// What sums are to be multiplied by since the largest score changed: `f32 [lines, 1]`.
    shrink: View,
    /// The line's position: `i32 [lines, 1]`.
    position: View,
}

/// Where a program works.
struct Place {
    /// The row of each token, clamped to the last one.
    tokens: Vec<Value>,
    /// First query head.
    head: Value,
    /// Head of the cache.
    kv_head: Value,
}

/// Emits the kernel's body.
pub(super) fn emit(b: &mut Builder, l: &Attention, t: &AttentionTiling, a: &Args) {
    Vectors { l, t, a }.emit(b);
}

struct Vectors<'a> {
    l: &'a Attention,
    t: &'a AttentionTiling,
    a: &'a Args,
}

impl Vectors<'_> {
    fn lines(&self) -> u32 {
        self.t.group * self.t.tokens
    }

    fn emit(&self, b: &mut Builder) {
        let (t, a) = (self.t, self.a);
        b.grid(0, GridExpr::constant(self.l.heads / t.group));
        b.grid(1, GridExpr::ceil_div(a.n_tokens, t.tokens));
        let (program, batch) = (b.program_id(0), b.program_id(1));
        // Programs of one head of the cache follow one another.
        let share = b.index(i64::from(self.l.heads / self.l.kv_heads / t.group));
        let kv_head = b.div(program, share);
        let head = times(b, program, t.group);
        let first_token = times(b, batch, t.tokens);
        let tokens = match t.tokens {
            1 => vec![batch],
            n => (0..n).map(|i| clamped(b, first_token, i, a.n_tokens)).collect(),
        };
        let place = Place { tokens, head, kv_head };
        let (locals, [from, end]) = self.start(b, &place);
        let tile = b.index(i64::from(t.tile));
        b.for_loop([from, end, tile], &[], |b, first, _| {
            let rest = b.sub(end, first);
            let part = [first, b.min(tile, rest)];
            self.scores(b, &place, &locals, part);
            self.weights(b, &locals, first);
            self.add_values(b, &place, &locals, part);
            vec![]
        });
        let (zero, one, all) = (b.index(0), b.index(1), b.index(i64::from(t.tokens)));
        let rest = b.sub(a.n_tokens, first_token);
        let count = b.min(all, rest);
        b.for_loop([zero, count, one], &[], |b, token, _| {
            let row = b.add(first_token, token);
            self.finish(b, &place, &locals, [token, row]);
            vec![]
        });
    }

    /// Makes local memory and fills it: no score seen, nothing summed, each line's position. Returns the positions that
    /// some line sees as a range, from the start of a tile on.
    fn start(&self, b: &mut Builder, place: &Place) -> (Locals, [Value; 2]) {
        let lines = self.lines();
        let mut local = |elem, n| b.local(elem, &[lines, n]);
        let l = Locals {
            scores: local(Elem::F32, self.t.tile),
            sums: local(Elem::F32, self.l.value_dim),
            largest: local(Elem::F32, 1),
            total: local(Elem::F32, 1),
            shrink: local(Elem::F32, 1),
            position: local(Elem::I32, 1),
        };
        let (zero, one) = (b.index(0), b.index(1));
        let unseen = b.float(UNSEEN, &[lines, 1]);
        let nothing = b.float(0.0, &[lines, 1]);
        b.store(l.largest, &[zero, zero], unseen, None);
        b.store(l.total, &[zero, zero], nothing, None);
        for (view, n) in [(l.scores, self.t.tile), (l.sums, self.l.value_dim)] {
            let end = b.index(i64::from(n));
            let step = b.index(i64::from(LANES));
            b.for_loop([zero, end, step], &[], |b, at, _| {
                let zeros = b.float(0.0, &[lines, LANES]);
                b.store(view, &[zero, at], zeros, None);
                vec![]
            });
        }
        let mut range: Option<[Value; 2]> = None;
        for (i, &token) in place.tokens.iter().enumerate() {
            let position = load_index(b, self.a.positions, token);
            let shape = Type::new(Elem::I32, &[self.t.group, 1]).shape;
            let line = b.index(i as i64 * i64::from(self.t.group));
            let tile = b.broadcast(position, shape);
            b.store(l.position, &[line, zero], tile, None);
            let first = self.a.first_seen(b, token, position, self.l.window);
            range = Some(match range {
                Some([lo, hi]) => [b.min(lo, first), b.max(hi, position)],
                None => [first, position],
            });
        }
        let [first, last] = range.unwrap_or([zero, zero]);
        let tile = b.index(i64::from(self.t.tile));
        let first = b.binary(BinaryOp::Div, first, tile);
        let first = b.mul(first, tile);
        (l, [first, b.add(last, one)])
    }

    /// The products of all lines' queries with `count` keys from `first` on.
    fn scores(&self, b: &mut Builder, place: &Place, l: &Locals, [first, count]: [Value; 2]) {
        let t = &self.t;
        let (zero, step) = (b.index(0), b.index(i64::from(t.keys)));
        // A loop iteration covers 32 elements of the head where that divides it.
        let pieces = if self.l.head_dim.is_multiple_of(PIECE) { PIECE / LANES } else { 1 };
        b.for_loop([zero, count, step], &[], |b, at, _| {
            let key = b.add(first, at);
            let nothing = b.float(0.0, &[t.keys, LANES]);
            let bounds = [zero, b.index(i64::from(self.l.head_dim)), b.index(i64::from(pieces * LANES))];
            let sums = b.for_loop(bounds, &vec![nothing; self.lines() as usize], |b, d, sums| {
                let mut sums = sums.to_vec();
                for piece in 0..pieces {
                    let d = plus(b, d, piece * LANES);
                    let k = b.load(self.a.keys, &[place.kv_head, key, d], &[1, t.keys, LANES], None);
                    let k = b.convert(k, Elem::F32);
                    let k = b.reshape(k, &[t.keys, LANES]);
                    for (line, sum) in sums.iter_mut().enumerate() {
                        let head = plus(b, place.head, line as u32 % t.group);
                        let token = place.tokens[line / t.group as usize];
                        let q = b.load(self.a.queries, &[token, head, d], &[1, 1, LANES], None);
                        let q = b.reshape(q, &[1, LANES]);
                        *sum = b.fma(k, q, *sum);
                    }
                }
                sums
            });
            for (line, sum) in sums.into_iter().enumerate() {
                let line = b.index(line as i64);
                let sum = b.reduce(ReduceOp::Sum, sum, 1);
                let sum = b.reshape(sum, &[1, t.keys]);
                b.store(l.scores, &[line, at], sum, None);
            }
            vec![]
        });
    }

    /// Turns scores into weights, line by line, and brings the line's state up to date.
    fn weights(&self, b: &mut Builder, l: &Locals, first: Value) {
        let tile = self.t.tile;
        let (zero, one, lines) = (b.index(0), b.index(1), b.index(i64::from(self.lines())));
        b.for_loop([zero, lines, one], &[], |b, line, _| {
            let mut s = b.load(l.scores, &[line, zero], &[1, tile], None);
            s = scaled(b, self.l.scale.f64(), s);
            if let Some(cap) = self.l.softcap {
                s = softcap(b, cap.f64(), s);
            }
            let position = b.load(l.position, &[line, zero], &[1, 1], None);
            let at = b.iota(tile);
            let at = b.add(at, first);
            let at = b.reshape(at, &[1, tile]);
            let mut seen = b.cmp(CmpOp::Le, at, position);
            if let Some(w) = self.l.window {
                let w = b.int(i64::from(w), Type::new(Elem::I32, &[1, 1]));
                let before = b.sub(position, w);
                let inside = b.cmp(CmpOp::Gt, at, before);
                seen = b.binary(BinaryOp::And, seen, inside);
            }
            let unseen = b.float(UNSEEN, &[1, tile]);
            let nothing = b.float(0.0, &[1, tile]);
            s = b.select(seen, s, unseen);
            let before = b.load(l.largest, &[line, zero], &[1, 1], None);
            let largest = b.reduce(ReduceOp::Max, s, 1);
            let largest = b.max(before, largest);
            b.store(l.largest, &[line, zero], largest, None);
            let change = b.sub(before, largest);
            let shrink = b.unary(UnaryOp::Exp, change);
            b.store(l.shrink, &[line, zero], shrink, None);
            let below = b.sub(s, largest);
            let weight = b.unary(UnaryOp::Exp, below);
            // Where a line sees nothing of the tile, the largest score may be that of an unseen position.
            let weight = b.select(seen, weight, nothing);
            b.store(l.scores, &[line, zero], weight, None);
            let sum = b.reduce(ReduceOp::Sum, weight, 1);
            let total = b.load(l.total, &[line, zero], &[1, 1], None);
            let total = b.fma(total, shrink, sum);
            b.store(l.total, &[line, zero], total, None);
            vec![]
        });
    }

    /// Adds the weighted values of `count` positions from `first` on.
    fn add_values(&self, b: &mut Builder, place: &Place, l: &Locals, [first, count]: [Value; 2]) {
        let depth = self.t.depth;
        let zero = b.index(0);
        let bounds = [zero, b.index(i64::from(self.l.value_dim)), b.index(i64::from(depth))];
        b.for_loop(bounds, &[], |b, d, _| {
            let lines: Vec<Value> = (0..self.lines()).map(|i| b.index(i64::from(i))).collect();
            let sums: Vec<Value> = lines
                .iter()
                .map(|&line| {
                    let sum = b.load(l.sums, &[line, d], &[1, depth], None);
                    let shrink = b.load(l.shrink, &[line, zero], &[1, 1], None);
                    b.mul(sum, shrink)
                })
                .collect();
            let step = b.index(i64::from(VALUES));
            let sums = b.for_loop([zero, count, step], &sums, |b, at, sums| {
                let mut sums = sums.to_vec();
                for i in 0..VALUES {
                    let at = plus(b, at, i);
                    let position = b.add(first, at);
                    let v = b.load(self.a.values, &[place.kv_head, position, d], &[1, 1, depth], None);
                    let v = b.convert(v, Elem::F32);
                    let v = b.reshape(v, &[1, depth]);
                    for (&line, sum) in lines.iter().zip(&mut sums) {
                        let weight = b.load(l.scores, &[line, at], &[1, 1], None);
                        *sum = b.fma(v, weight, *sum);
                    }
                }
                sums
            });
            for (line, sum) in lines.into_iter().zip(sums) {
                b.store(l.sums, &[line, d], sum, None);
            }
            vec![]
        });
    }

    /// Divides by the total and stores the lines of one token. `token` counts in the program, `row` in the launch.
    fn finish(&self, b: &mut Builder, place: &Place, l: &Locals, [token, row]: [Value; 2]) {
        let (zero, one, group) = (b.index(0), b.index(1), b.index(i64::from(self.t.group)));
        b.for_loop([zero, group, one], &[], |b, i, _| {
            let line = times(b, token, self.t.group);
            let line = b.add(line, i);
            let mut total = b.load(l.total, &[line, zero], &[1, 1], None);
            let head = b.add(place.head, i);
            let sink = self.a.sinks.map(|s| b.load(s, &[zero, head], &[1, 1], None));
            // A sink is taken in at the end: only the total has a part of it.
            let shrink = sink.map(|sink| {
                let largest = b.load(l.largest, &[line, zero], &[1, 1], None);
                let [shrink, with_sink] = super::with_sink(b, largest, total, sink);
                total = with_sink;
                shrink
            });
            let unit = b.float(1.0, &[1, 1]);
            let mut inverse = b.div(unit, total);
            if let Some(shrink) = shrink {
                inverse = b.mul(inverse, shrink);
            }
            let first = times(b, head, self.l.value_dim);
            for_pieces(b, self.l.value_dim, PIECE, &[], |b, d, mask, _| {
                let sum = b.load(l.sums, &[line, d], &[1, PIECE], mask);
                let y = b.mul(sum, inverse);
                let col = b.add(first, d);
                let Sink::Rows(out) = self.a.out else { unreachable!("a cut for vectors has all positions") };
                out.store(b, [row, col], y, mask, self.l.heads * self.l.value_dim);
                vec![]
            });
            vec![]
        });
    }
}
