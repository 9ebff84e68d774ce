//! Attention of the queries of some tokens over a KV cache, with the online softmax (Milakov & Gimelshein 2018).
//!
//! A program has the queries of `group` heads that share one head of the cache, for `tokens` tokens: its *lines*. It
//! walks over the cache in tiles of `tile` positions. For each tile it makes the scores of all lines (products along the
//! head, so that a key is read once for all lines), turns them into weights, and adds the weighted values to the lines'
//! sums. Scores, sums, maxima and totals live in local memory, so heads and groups of any size fit the registers.
//!
//! Tiles start at multiples of `tile`, and a tile in which a line sees nothing leaves it as it is to the last bit, so a
//! token's result does not depend on which tokens share its program.

use crate::Template;
use crate::emit::{clamped, load_index, plus, scaled, softcap, times};
use crate::facts::{Output, Real, TargetShape, TemplateError};
use crate::row::{PIECE, RowSink, check_output, for_pieces};
use crate::slot::{Interface, Slot, declare, slots_of};
use hrx_ir::tile::{Access, BinaryOp, Builder, CmpOp, Elem, GridExpr, Kernel, ReduceOp, Type, UnaryOp, Value, View};

/// Attention with grouped queries, causal by position.
///
/// Token t, at position p = Positions[t], sees the positions 0..=p, with a `window` the last `window` of them. They must
/// have been stored before the launch.
///
/// Slots: NTokens; NCtx (a multiple of 64); HeadStride; Positions `i32 [T]`, each below NCtx; X: the queries
/// `f32 [T, heads * head_dim]`; KeyCache and ValueCache `[kv_heads, NCtx, head_dim]`, finite everywhere; Out
/// `f32 [T, heads * head_dim]`, or OutCodes and OutScales.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Query heads: a multiple of `kv_heads`.
    pub heads: u32,
    /// Heads of the cache.
    pub kv_heads: u32,
    /// Elements of a head: a multiple of 8.
    pub head_dim: u32,
    /// The cache's element type.
    pub cache: Elem,
    /// How many positions a token sees, itself included; all up to its own if absent.
    pub window: Option<u32>,
    /// What scores are multiplied by.
    pub scale: Real,
    /// The cap of cap * tanh(score / cap).
    pub softcap: Option<Real>,
    /// The form of the result.
    pub output: Output,
    /// How the work is cut.
    pub tiling: AttentionTiling,
}

/// How the work of an [`Attention`] is cut. The result does not depend on `group`, `tokens`, `keys` and `depth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionTiling {
    /// Query heads of a program: divides heads / kv_heads.
    pub group: u32,
    /// Tokens of a program.
    pub tokens: u32,
    /// Positions of a tile: 8, 16, 32 or 64.
    pub tile: u32,
    /// Keys whose scores are summed together: divides `tile`.
    pub keys: u32,
    /// Elements of a head whose weighted values are summed together: divides `head_dim`.
    pub depth: u32,
}

impl AttentionTiling {
    /// A tiling for `group` = heads / kv_heads, for launches of about this many tokens.
    pub fn choose(shape: &TargetShape, group: u32, head_dim: u32, tokens: u32) -> AttentionTiling {
        let power = |n: u32| 1u32 << n.max(1).ilog2();
        // Registers for sums; the rest holds what is multiplied.
        let sums = (shape.registers * 3 / 4).max(1);
        let lines = 8.min(sums);
        let group = (1..=group.min(lines)).rev().find(|&g| group.is_multiple_of(g)).unwrap_or(1);
        let tokens = power(tokens.min(lines / group));
        let accumulator = LANES.div_ceil(shape.lanes.max(1));
        let keys = power(sums / accumulator / (group * tokens)).min(4);
        let room = sums * shape.lanes / (group * tokens);
        let depth = [64, 32, 16, 8].into_iter().find(|&d| d <= room && head_dim.is_multiple_of(d)).unwrap_or(LANES);
        AttentionTiling { group, tokens, tile: 32, keys, depth }
    }
}

/// Lanes of a score's sum: a fact of the arithmetic, the same for all tilings.
const LANES: u32 = 8;
/// The score of a position that is not seen: its weight is 0 beside any other, and differences stay finite.
const UNSEEN: f64 = -1e30;
/// Positions whose values are added in one iteration.
const VALUES: u32 = 4;

struct Args {
    n_tokens: Value,
    positions: View,
    queries: View,
    keys: View,
    values: View,
    out: RowSink,
}

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

const FAMILY: &str = "attention";

impl Attention {
    fn check(&self) -> Result<(), TemplateError> {
        let unless = |ok, fact: String, reason| TemplateError::unless(ok, FAMILY, fact, reason);
        let t = &self.tiling;
        let heads = format!("{} heads over {}", self.heads, self.kv_heads);
        let grouped = self.kv_heads > 0 && self.heads > 0 && self.heads.is_multiple_of(self.kv_heads);
        unless(grouped && self.heads <= 4096, heads, "each head of the cache has an equal share of at most 4096")?;
        let d = self.head_dim;
        unless(
            d > 0 && d.is_multiple_of(LANES) && d <= 1024,
            format!("head_dim = {d}"),
            "it is a multiple of 8, at most 1024",
        )?;
        check_output(FAMILY, self.output, d)?;
        unless(self.cache.is_float(), format!("a cache of {}", self.cache), "it is not a float")?;
        unless(self.window != Some(0), "window = 0".into(), "a token sees itself")?;
        let share = t.group > 0 && (self.heads / self.kv_heads).is_multiple_of(t.group);
        unless(share, format!("{t:?}"), "group divides the heads that share one of the cache")?;
        unless((1..=64).contains(&t.tokens) && t.group <= 64, format!("{t:?}"), "tokens and group are 1 to 64")?;
        unless([8, 16, 32, 64].contains(&t.tile), format!("{t:?}"), "tile is 8, 16, 32 or 64")?;
        unless(t.keys > 0 && t.tile.is_multiple_of(t.keys), format!("{t:?}"), "keys divides tile")?;
        unless(t.depth > 0 && d.is_multiple_of(t.depth), format!("{t:?}"), "depth divides head_dim")
    }

    fn lines(&self) -> u32 {
        self.tiling.group * self.tiling.tokens
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let size = [i.index(Slot::NCtx), i.index(Slot::HeadStride)];
        let t = n_tokens.into();
        let cache = [self.kv_heads, self.head_dim];
        Args {
            n_tokens,
            positions: i.view(Slot::Positions, Elem::I32, &[t], Access::In),
            queries: i.view(Slot::X, Elem::F32, &[t, self.heads.into(), self.head_dim.into()], Access::In),
            keys: i.cache(Slot::KeyCache, self.cache, cache, size, Access::In),
            values: i.cache(Slot::ValueCache, self.cache, cache, size, Access::In),
            out: RowSink::declare(i, self.output, t, self.heads.saturating_mul(self.head_dim)),
        }
    }

    /// Makes local memory and fills it: no score seen, nothing summed, each line's position. Returns the positions that
    /// some line sees as a range, from the start of a tile on.
    fn start(&self, b: &mut Builder, a: &Args, place: &Place) -> (Locals, [Value; 2]) {
        let lines = self.lines();
        let mut local = |elem, n| b.local(elem, &[lines, n]);
        let l = Locals {
            scores: local(Elem::F32, self.tiling.tile),
            sums: local(Elem::F32, self.head_dim),
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
        for (view, n) in [(l.scores, self.tiling.tile), (l.sums, self.head_dim)] {
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
            let position = load_index(b, a.positions, token);
            let shape = Type::new(Elem::I32, &[self.tiling.group, 1]).shape;
            let line = b.index(i as i64 * i64::from(self.tiling.group));
            let tile = b.broadcast(position, shape);
            b.store(l.position, &[line, zero], tile, None);
            let first = match self.window {
                Some(w) => {
                    let before = b.index(i64::from(w) - 1);
                    let first = b.sub(position, before);
                    b.max(first, zero)
                }
                None => zero,
            };
            range = Some(match range {
                Some([lo, hi]) => [b.min(lo, first), b.max(hi, position)],
                None => [first, position],
            });
        }
        let [first, last] = range.unwrap_or([zero, zero]);
        let tile = b.index(i64::from(self.tiling.tile));
        let first = b.binary(BinaryOp::Div, first, tile);
        let first = b.mul(first, tile);
        (l, [first, b.add(last, one)])
    }

    /// The products of all lines' queries with `count` keys from `first` on.
    fn scores(&self, b: &mut Builder, a: &Args, place: &Place, l: &Locals, [first, count]: [Value; 2]) {
        let t = &self.tiling;
        let (zero, step) = (b.index(0), b.index(i64::from(t.keys)));
        // A loop iteration covers 32 elements of the head where that divides it.
        let pieces = if self.head_dim.is_multiple_of(PIECE) { PIECE / LANES } else { 1 };
        b.for_loop([zero, count, step], &[], |b, at, _| {
            let key = b.add(first, at);
            let nothing = b.float(0.0, &[t.keys, LANES]);
            let bounds = [zero, b.index(i64::from(self.head_dim)), b.index(i64::from(pieces * LANES))];
            let sums = b.for_loop(bounds, &vec![nothing; self.lines() as usize], |b, d, sums| {
                let mut sums = sums.to_vec();
                for piece in 0..pieces {
                    let d = plus(b, d, piece * LANES);
                    let k = b.load(a.keys, &[place.kv_head, key, d], &[1, t.keys, LANES], None);
                    let k = b.convert(k, Elem::F32);
                    let k = b.reshape(k, &[t.keys, LANES]);
                    for (line, sum) in sums.iter_mut().enumerate() {
                        let head = plus(b, place.head, line as u32 % t.group);
                        let token = place.tokens[line / t.group as usize];
                        let q = b.load(a.queries, &[token, head, d], &[1, 1, LANES], None);
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
        let tile = self.tiling.tile;
        let (zero, one, lines) = (b.index(0), b.index(1), b.index(i64::from(self.lines())));
        b.for_loop([zero, lines, one], &[], |b, line, _| {
            let mut s = b.load(l.scores, &[line, zero], &[1, tile], None);
            s = scaled(b, self.scale.f64(), s);
            if let Some(cap) = self.softcap {
                s = softcap(b, cap.f64(), s);
            }
            let position = b.load(l.position, &[line, zero], &[1, 1], None);
            let at = b.iota(tile);
            let at = b.add(at, first);
            let at = b.reshape(at, &[1, tile]);
            let mut seen = b.cmp(CmpOp::Le, at, position);
            if let Some(w) = self.window {
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
    fn add_values(&self, b: &mut Builder, a: &Args, place: &Place, l: &Locals, [first, count]: [Value; 2]) {
        let depth = self.tiling.depth;
        let zero = b.index(0);
        let bounds = [zero, b.index(i64::from(self.head_dim)), b.index(i64::from(depth))];
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
                    let v = b.load(a.values, &[place.kv_head, position, d], &[1, 1, depth], None);
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
    fn finish(&self, b: &mut Builder, a: &Args, place: &Place, l: &Locals, [token, row]: [Value; 2]) {
        let (zero, one, group) = (b.index(0), b.index(1), b.index(i64::from(self.tiling.group)));
        b.for_loop([zero, group, one], &[], |b, i, _| {
            let line = times(b, token, self.tiling.group);
            let line = b.add(line, i);
            let total = b.load(l.total, &[line, zero], &[1, 1], None);
            let unit = b.float(1.0, &[1, 1]);
            let inverse = b.div(unit, total);
            let head = b.add(place.head, i);
            let first = times(b, head, self.head_dim);
            for_pieces(b, self.head_dim, PIECE, &[], |b, d, mask, _| {
                let sum = b.load(l.sums, &[line, d], &[1, PIECE], mask);
                let y = b.mul(sum, inverse);
                let col = b.add(first, d);
                a.out.store(b, [row, col], y, mask, self.heads * self.head_dim);
                vec![]
            });
            vec![]
        });
    }
}

impl Template for Attention {
    fn name(&self) -> String {
        let t = &self.tiling;
        let mut name = format!("{FAMILY}_{}_h{}_kv{}_d{}", self.cache, self.heads, self.kv_heads, self.head_dim);
        name += &format!("_g{}t{}_s{}k{}v{}", t.group, t.tokens, t.tile, t.keys, t.depth);
        name += &format!("_scale{}", self.scale.tag());
        if let Some(w) = self.window {
            name += &format!("_w{w}");
        }
        if let Some(c) = self.softcap {
            name += &format!("_cap{}", c.tag());
        }
        name + self.output.tag()
    }

    fn slots(&self) -> Vec<Slot> {
        slots_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.check()?;
        let t = &self.tiling;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.grid(0, GridExpr::constant(self.heads / t.group));
        b.grid(1, GridExpr::ceil_div(a.n_tokens, t.tokens));
        let (program, batch) = (b.program_id(0), b.program_id(1));
        // Programs of one head of the cache follow one another.
        let share = b.index(i64::from(self.heads / self.kv_heads / t.group));
        let kv_head = b.div(program, share);
        let head = times(&mut b, program, t.group);
        let first_token = times(&mut b, batch, t.tokens);
        let tokens = match t.tokens {
            1 => vec![batch],
            n => (0..n).map(|i| clamped(&mut b, first_token, i, a.n_tokens)).collect(),
        };
        let place = Place { tokens, head, kv_head };
        let (locals, [from, end]) = self.start(&mut b, &a, &place);
        let tile = b.index(i64::from(t.tile));
        b.for_loop([from, end, tile], &[], |b, first, _| {
            let rest = b.sub(end, first);
            let part = [first, b.min(tile, rest)];
            self.scores(b, &a, &place, &locals, part);
            self.weights(b, &locals, first);
            self.add_values(b, &a, &place, &locals, part);
            vec![]
        });
        let (zero, one, all) = (b.index(0), b.index(1), b.index(i64::from(t.tokens)));
        let rest = b.sub(a.n_tokens, first_token);
        let count = b.min(all, rest);
        b.for_loop([zero, count, one], &[], |b, token, _| {
            let row = b.add(first_token, token);
            self.finish(b, &a, &place, &locals, [token, row]);
            vec![]
        });
        Ok(b.finish())
    }
}
