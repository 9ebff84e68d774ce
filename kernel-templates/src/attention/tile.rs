//! Queries of some tokens and heads over the cache with the matrix unit (Dao et al. 2022, FlashAttention).
//!
//! A program's rows are the queries of some tokens, of each for some heads that share one of the cache. Positions come in
//! steps, whose keys and values lie in local memory twice: while the matrix unit works on one step, the next is brought
//! there. Scores `[rows, keys]` are products of queries and keys; their weights, as `f16`, are multiplied with the values
//! and added to the sums `[rows, value_dim]`, which stay in registers from the first step to the last.
//!
//! The matrix unit takes rows of its second factor, so values are transposed: on their way to local memory, or out of it
//! where lanes can load transposed matrices.

use super::own::{Own, Place};
use super::waves::part_of;
use super::{Args, Attention, Sink, TileAttention, UNSEEN, with_sink};
use crate::emit::{load_index, places, scaled, softcap, times};
use crate::linear::PAD;
use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, GridExpr, ReduceOp, Shape, UnaryOp, Value, View};

/// Columns of a piece of the sums: no more than a step has keys, so that waves share both products' rows alike.
const PIECE: u32 = 32;

/// What largest scores begin as: above any unseen score, so that the weight of one is 0 even where nothing was seen.
const NOTHING_SEEN: f64 = UNSEEN / 16.0;

/// Emits the kernel's body.
pub(super) fn emit(b: &mut Builder, l: &Attention, t: &TileAttention, a: &Args) {
    b.waves(t.waves);
    b.grid(0, GridExpr::constant(l.heads / t.group));
    if t.parts > 1 {
        return emit_part(b, l, t, a);
    }
    b.grid(1, GridExpr::ceil_div(a.n_tokens, t.tokens));
    let (program, tile) = (b.program_id(0), b.program_id(1));
    // Later tokens see more, so their programs begin first.
    let (all, size) = (b.index(i64::from(t.tokens) - 1), b.index(i64::from(t.tokens)));
    let tiles = b.add(a.n_tokens, all);
    let tiles = b.div(tiles, size);
    let one = b.index(1);
    let last = b.sub(tiles, one);
    let tile = b.sub(last, tile);
    // Programs of one head of the cache follow one another.
    let share = b.index(i64::from(l.heads / l.kv_heads / t.group));
    let kv_head = b.div(program, share);
    let head = times(b, program, t.group);
    let token = times(b, tile, t.tokens);
    let (place, tokens) = places(b, token, t.tokens, a.n_tokens);
    let position = b.load(a.positions, &[tokens], &[t.tokens], None);
    let position = b.repeat(position, t.group);
    let position = b.reshape(position, &[t.rows(), 1]);
    let [keys, values] = local(b, l, t);
    let tile = Tile { l, t, a, head, kv_head, tokens, position, keys, values };
    let [first, end] = tile.range(b, token);
    let sums = tile.sums(b, first, [first, end], None);
    tile.finish(b, [token, place], &sums);
}

/// Emits the body of a program that has the heads of one token, in rows of which the last are filled up, and a part of its
/// positions.
fn emit_part(b: &mut Builder, l: &Attention, t: &TileAttention, a: &Args) {
    b.grid(1, GridExpr::Extent(a.n_tokens.into()));
    b.grid(2, GridExpr::constant(t.parts));
    let (program, token, part) = (b.program_id(0), b.program_id(1), b.program_id(2));
    let share = b.index(i64::from(l.heads / l.kv_heads / t.group));
    let kv_head = b.div(program, share);
    let (iota, first, last) = (b.iota(t.rows()), times(b, program, t.group), b.index(i64::from(t.group) - 1));
    let places = b.min(iota, last);
    let head = b.add(places, first);
    let at = load_index(b, a.positions, token);
    let one = b.index(1);
    let leads = (l.heads / l.kv_heads > t.group).then(|| {
        let of_head = b.mul(kv_head, share);
        b.cmp(CmpOp::Eq, program, of_head)
    });
    let place = Place { token, first, kv_head, position: at, part };
    let own = Own::turned(b, (l, t, a), place, leads);
    // The own position is in the cache, or apart.
    let end = if own.is_some() { at } else { b.add(at, one) };
    let whole = a.first_seen(b, token, at, l.window);
    let step = b.index(i64::from(t.keys));
    let start = b.div(whole, step);
    let start = b.mul(start, step);
    let start = if l.window.is_none() { whole } else { start };
    let [from, to] = part_of(b, [start, end], part, [t.keys, t.parts]);
    let position = b.broadcast(at, Shape::new(&[t.rows(), 1]));
    let [keys, values] = local(b, l, t);
    let tile = Tile { l, t, a, head, kv_head, tokens: token, position, keys, values };
    // A part that has no positions reads what is there, and uses none of it.
    let some = b.cmp(CmpOp::Lt, from, to);
    let safe = b.select(some, from, start);
    let sums = tile.sums(b, safe, [from, to], own.map(|own| (own, places)));
    tile.store_part(b, [places, part], &sums);
}

/// Local memory for keys and values.
fn local(b: &mut Builder, l: &Attention, t: &TileAttention) -> [View; 2] {
    let keys = b.local_padded(Elem::F16, &[2, t.keys, l.head_dim], PAD);
    let values = match t.turned {
        true => b.local_padded(Elem::F16, &[2, l.value_dim, t.keys], PAD),
        false => b.local_padded(Elem::F16, &[2, t.keys, l.value_dim], PAD),
    };
    [keys, values]
}

/// Where the pieces of `n` elements begin, and their lengths: powers of two from 16 to `most`.
fn pieces(n: u32, most: u32) -> Vec<[u32; 2]> {
    let mut out = Vec::new();
    let mut start = 0;
    while start < n {
        let len = most.min(1 << (n - start).ilog2());
        out.push([start, len]);
        start += len;
    }
    out
}

struct Tile<'a> {
    l: &'a Attention,
    t: &'a TileAttention,
    a: &'a Args,
    /// First query head; of a part the head of each row.
    head: Value,
    kv_head: Value,
    /// The tokens, as loads take them; of a part the one.
    tokens: Value,
    /// The position of each row's token, `i32 [rows, 1]`.
    position: Value,
    /// Local memory: `f16 [2, keys, head_dim]`, and `f16 [2, keys, value_dim]` or, turned, `[2, value_dim, keys]`.
    keys: View,
    values: View,
}

/// What a tile has at the end: largest scores and totals `[rows, 1]`, and its pieces of sums.
struct Sums {
    largest: Value,
    total: Value,
    pieces: Vec<Value>,
}

impl Tile<'_> {
    /// The positions that the tile's tokens see, from the start of a step on. Positions do not fall from token to token.
    fn range(&self, b: &mut Builder, token: Value) -> [Value; 2] {
        let (one, tokens) = (b.index(1), b.index(i64::from(self.t.tokens)));
        let behind = b.add(token, tokens);
        let behind = b.min(behind, self.a.n_tokens);
        let last = b.sub(behind, one);
        let last = load_index(b, self.a.positions, last);
        let end = b.add(last, one);
        let first = match self.l.window {
            Some(_) => load_index(b, self.a.positions, token),
            None => last,
        };
        let first = self.a.first_seen(b, token, first, self.l.window);
        if self.l.window.is_none() {
            return [first, end];
        }
        let step = b.index(i64::from(self.t.keys));
        let first = b.div(first, step);
        [b.mul(first, step), end]
    }

    /// The queries, scaled, in pieces `f16 [rows, piece]`.
    fn queries(&self, b: &mut Builder) -> Vec<Value> {
        let [tokens, group] = if self.t.parts > 1 { [1, self.t.rows()] } else { [self.t.tokens, self.t.group] };
        let load = |[start, d]: [u32; 2]| {
            let start = b.index(i64::from(start));
            let q = b.load(self.a.queries, &[self.tokens, self.head, start], &[tokens, group, d], None);
            let q = b.reshape(q, &[self.t.rows(), d]);
            let q = scaled(b, self.l.scale.f64(), q);
            b.convert(q, Elem::F16)
        };
        pieces(self.l.head_dim, u32::MAX).into_iter().map(load).collect()
    }

    /// Reads a step's keys and values.
    fn load(&self, b: &mut Builder, at: Value) -> [Vec<Value>; 2] {
        [(self.a.keys, self.l.head_dim), (self.a.values, self.l.value_dim)].map(|(view, d)| {
            let load = |[start, d]: [u32; 2]| {
                let start = b.index(i64::from(start));
                b.load(view, &[self.kv_head, at, start], &[1, self.t.keys, d], None)
            };
            pieces(d, u32::MAX).into_iter().map(load).collect()
        })
    }

    /// Puts them into one half of local memory.
    fn put(&self, b: &mut Builder, [keys, values]: &[Vec<Value>; 2], half: Value) {
        let zero = b.index(0);
        let mut store = |view: View, parts: &[Value], turned: bool| {
            let mut start = 0;
            for &v in parts {
                let d = b.ty(v).shape.last();
                let at = b.index(i64::from(start));
                start += d;
                match turned {
                    true => {
                        let v = b.transpose(v);
                        b.store(view, &[half, at, zero], v, None);
                    }
                    false => b.store(view, &[half, zero, at], v, None),
                }
            }
        };
        store(self.keys, keys, false);
        store(self.values, values, self.t.turned);
    }

    /// Goes over the positions, beginning to read at `safe`, which is the first of them if there is one. What is not in
    /// the cache comes before them, for the rows' heads among it.
    fn sums(&self, b: &mut Builder, safe: Value, [first, end]: [Value; 2], own: Option<(Own, Value)>) -> Sums {
        let (l, t) = (self.l, self.t);
        let rows = t.rows();
        let queries = match &own {
            Some((own, places)) => {
                pieces(l.head_dim, u32::MAX).into_iter().map(|piece| own.queries(b, *places, piece)).collect()
            }
            None => self.queries(b),
        };
        let (zero, one, step) = (b.index(0), b.index(1), b.index(i64::from(t.keys)));
        let staged = self.load(b, safe);
        self.put(b, &staged, zero);
        // The last step reads its own positions once more, which nobody uses.
        let seen = b.sub(end, one);
        let seen = b.sub(seen, first);
        let steps = b.div(seen, step);
        let last = b.mul(steps, step);
        let last = b.add(first, last);
        let nothing = b.float(NOTHING_SEEN, &[rows, 1]);
        let [largest, total] = match &own {
            Some((own, places)) => own.begin(b, *places, nothing),
            None => [nothing, b.float(0.0, &[rows, 1])],
        };
        let mut inits = vec![zero, largest, total];
        inits.extend(pieces(l.value_dim, PIECE).into_iter().map(|piece| match &own {
            Some((own, _)) => own.sum(b, l, rows, piece),
            None => b.float(0.0, &[rows, piece[1]]),
        }));
        let out = b.for_loop([first, end, step], &inits, |b, at, carried| {
            let half = carried[0];
            let other = b.sub(one, half);
            let next = b.add(at, step);
            let next = b.min(next, last);
            let next = self.load(b, next);
            let before = Sums { largest: carried[1], total: carried[2], pieces: carried[3..].to_vec() };
            let sums = self.step(b, at, half, &queries, &before);
            self.put(b, &next, other);
            [vec![other, sums.largest, sums.total], sums.pieces].concat()
        });
        Sums { largest: out[1], total: out[2], pieces: out[3..].to_vec() }
    }

    /// A step's scores, `f32 [rows, keys]`.
    fn scores(&self, b: &mut Builder, at: Value, half: Value, queries: &[Value]) -> Value {
        let (l, t) = (self.l, self.t);
        let zero = b.index(0);
        let mut score = b.float(0.0, &[t.rows(), t.keys]);
        for ([start, d], &query) in pieces(l.head_dim, u32::MAX).into_iter().zip(queries) {
            let start = b.index(i64::from(start));
            let keys = b.load(self.keys, &[half, zero, start], &[1, t.keys, d], None);
            let keys = b.reshape(keys, &[t.keys, d]);
            score = b.mma(query, keys, score);
        }
        if let Some(cap) = l.softcap {
            score = softcap(b, cap.f64(), score);
        }
        let places = b.iota(t.keys);
        let places = b.add(places, at);
        let places = b.reshape(places, &[1, t.keys]);
        let wide = Shape::new(&[t.rows(), t.keys]);
        // The own position, where it is apart, is behind all in the cache.
        let before = if l.own.is_some() { CmpOp::Lt } else { CmpOp::Le };
        let mut seen = b.cmp(before, places, self.position);
        if let Some(window) = l.window {
            let window = b.index(i64::from(window));
            let before = b.sub(self.position, window);
            let inside = b.cmp(CmpOp::Gt, places, before);
            seen = b.binary(BinaryOp::And, seen, inside);
        }
        let unseen = b.float(UNSEEN, wide.dims());
        b.select(seen, score, unseen)
    }

    fn step(&self, b: &mut Builder, at: Value, half: Value, queries: &[Value], before: &Sums) -> Sums {
        let t = self.t;
        let zero = b.index(0);
        let score = self.scores(b, at, half, queries);
        let top = b.reduce(ReduceOp::Max, score, 1);
        let largest = b.max(before.largest, top);
        let change = b.sub(before.largest, largest);
        let shrink = b.unary(UnaryOp::Exp, change);
        let below = b.sub(score, largest);
        let weight = b.unary(UnaryOp::Exp, below);
        let added = b.reduce(ReduceOp::Sum, weight, 1);
        let total = b.fma(before.total, shrink, added);
        let weight = b.convert(weight, Elem::F16);
        let mut sums = Vec::with_capacity(before.pieces.len());
        for ([start, d], &sum) in pieces(self.l.value_dim, PIECE).into_iter().zip(&before.pieces) {
            let start = b.index(i64::from(start));
            let values = match t.turned {
                true => b.load(self.values, &[half, start, zero], &[1, d, t.keys], None),
                false => {
                    let values = b.load(self.values, &[half, zero, start], &[1, t.keys, d], None);
                    b.transpose(values)
                }
            };
            let values = b.reshape(values, &[d, t.keys]);
            let kept = b.mul(sum, shrink);
            sums.push(b.mma(weight, values, kept));
        }
        Sums { largest, total, pieces: sums }
    }

    /// Stores a part's sums, and its largest scores and totals, of the rows that are heads.
    fn store_part(&self, b: &mut Builder, [places, part]: [Value; 2], sums: &Sums) {
        let (t, rows, zero) = (self.t, self.t.rows(), b.index(0));
        let Sink::Parts { sums: to, totals } = self.a.out else { unreachable!("a part is written as one") };
        let iota = b.iota(rows);
        let own = b.cmp(CmpOp::Eq, iota, places);
        let own = b.reshape(own, &[1, rows, 1]);
        let row = times(b, self.head, t.parts);
        let row = b.add(row, part);
        for ([start, d], &sum) in pieces(self.l.value_dim, PIECE).into_iter().zip(&sums.pieces) {
            let start = b.index(i64::from(start));
            let sum = b.reshape(sum, &[1, rows, d]);
            b.store(to, &[self.tokens, row, start], sum, Some(own));
        }
        for (which, v) in [(zero, sums.largest), (b.index(1), sums.total)] {
            let v = b.reshape(v, &[1, rows, 1]);
            b.store(totals, &[self.tokens, row, which], v, Some(own));
        }
    }

    /// Divides by the totals and stores the rows of the tokens that there are.
    fn finish(&self, b: &mut Builder, [token, place]: [Value; 2], sums: &Sums) {
        let (l, t, a) = (self.l, self.t, self.a);
        let Sink::Heads(out) = a.out else { unreachable!("a tile is written by heads") };
        let one = b.float(1.0, &[t.rows(), 1]);
        let mut total = sums.total;
        let shrink = a.sinks.map(|sinks| {
            let zero = b.index(0);
            let sink = b.load(sinks, &[zero, self.head], &[1, t.group], None);
            let sink = b.broadcast(sink, Shape::new(&[t.tokens, t.group]));
            let sink = b.reshape(sink, &[t.rows(), 1]);
            let [shrink, with_sink] = with_sink(b, sums.largest, total, sink);
            total = with_sink;
            shrink
        });
        let mut inverse = b.div(one, total);
        if let Some(shrink) = shrink {
            inverse = b.mul(inverse, shrink);
        }
        let place = b.reshape(place, &[t.tokens, 1, 1]);
        let mask = b.cmp(CmpOp::Lt, place, a.n_tokens);
        for ([start, d], &sum) in pieces(l.value_dim, PIECE).into_iter().zip(&sums.pieces) {
            let start = b.index(i64::from(start));
            let y = b.mul(sum, inverse);
            let y = b.reshape(y, &[t.tokens, t.group, d]);
            b.store(out, &[token, self.head, start], y, Some(mask));
        }
    }
}
