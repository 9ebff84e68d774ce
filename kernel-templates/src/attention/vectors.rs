//! A program has the queries of `group` heads that share one head of the cache, for `tokens` tokens: its *lines*. It
//! walks over the cache in tiles of `tile` positions. For each tile it makes the scores of all lines (a key is read once
//! for all of them), turns them into weights, and adds the weighted values to the lines' sums. Scores, sums, maxima and
//! totals live in local memory, so heads and groups of any size fit the registers; what is in registers are the scores of
//! all lines for some keys, and the sums of all lines for some elements.
//!
//! The cache is stored in one of two ways. In [panels](PANEL) a vector has one element of neighbouring keys, and a score is
//! a lane's sum along the head, in order. In rows, as values are which lie in their keys, a vector has elements of one key,
//! and a score is what its lanes come to.
//!
//! Positions are summed up part by part ([`parts`]): a program has all of them, or one.
//!
//! Tiles start at multiples of `tile`, and a tile or a part in which a line sees nothing leaves it as it is to the last
//! bit, so a token's result does not depend on which tokens share its program.

use super::parts::{self, PARTS, Sums, width};
use super::weigh::{larger, largest, power};
use super::{Args, Attention, AttentionTiling, LANES, Sink, UNSEEN};
use crate::emit::{clamped, load_index, plus, scaled, shifted_right, softcap, times};
use crate::row::{PIECE, for_pieces};
use crate::slot::{PANEL, value_block};
use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, GridExpr, ReduceOp, Type, Value, View};

/// Positions whose values are added in one iteration.
const VALUES: u32 = 4;

/// Elements of keys in panels that one iteration multiplies: all heads' sizes are multiples of it.
const ELEMENTS: u32 = 8;

/// Local memory, a row for each line.
struct Locals {
    /// Queries, scaled: `f32 [lines, head_dim]`.
    queries: View,
    /// Scores, then weights: `f32 [lines, tile]`.
    scores: View,
    /// What is summed of a part of the positions.
    part: Sums,
    /// Largest scores so far, this tile's among them: `f32 [1, width(lines)]`.
    top: View,
    /// Sums of this tile's weights: `f32 [1, width(lines)]`.
    added: View,
    /// What sums are to be multiplied by since the largest scores changed: `f32 [1, width(lines)]`.
    shrink: View,
    /// The line's position: `i32 [lines, 1]`.
    position: View,
}

/// Where a program works.
struct Place {
    /// First token, and how many there are.
    tokens: [Value; 2],
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
        b.grid(0, GridExpr::constant(self.l.heads / t.group * t.parts()));
        b.grid(1, GridExpr::ceil_div(a.n_tokens, t.tokens));
        let (program, batch) = (b.program_id(0), b.program_id(1));
        // The parts of a head follow one another, as do programs of one head of the cache.
        let (program, part) = match t.parts() {
            1 => (program, None),
            n => {
                let n = b.index(n.into());
                (b.div(program, n), Some(b.binary(BinaryOp::Rem, program, n)))
            }
        };
        let share = b.index(i64::from(self.l.heads / self.l.kv_heads / t.group));
        let kv_head = b.div(program, share);
        let head = times(b, program, t.group);
        let first_token = times(b, batch, t.tokens);
        let (zero, one, all) = (b.index(0), b.index(1), b.index(i64::from(t.tokens)));
        let rest = b.sub(a.n_tokens, first_token);
        let count = b.min(all, rest);
        let place = Place { tokens: [first_token, count], head, kv_head };
        match part {
            Some(part) => self.one_part(b, &place, part),
            None => {
                let sums = self.all_parts(b, &place);
                b.for_loop([zero, count, one], &[], |b, token, _| {
                    let row = b.add(first_token, token);
                    self.finish(b, &place, &sums, [token, row]);
                    vec![]
                });
            }
        }
    }

    /// Goes over one part, and stores what comes of it.
    fn one_part(&self, b: &mut Builder, place: &Place, part: Value) {
        let (group, zero, one) = (self.t.group, b.index(0), b.index(1));
        let Sink::Parts { sums: to, totals } = self.a.out else { unreachable!("a part is written as one") };
        let token = place.tokens[0];
        let [first, range @ ..] = self.seen(b, place);
        let rows = parts::rows(b, part, first, range);
        // The head's part, and the row of each of the group's.
        let at = times(b, place.head, PARTS);
        let at = b.add(at, part);
        let row_of = |b: &mut Builder, line: Value| {
            let line = times(b, line, PARTS);
            b.add(at, line)
        };
        let lines = b.index(group.into());
        let nothing = b.float(0.0, &[1, 1, 1]);
        b.for_loop([zero, lines, one], &[], |b, line, _| {
            let row = row_of(b, line);
            b.store(totals, &[token, row, one], nothing, None);
            vec![]
        });
        let locals = self.locals(b);
        parts::if_any(b, rows, |b| {
            self.begin(b, place, &locals);
            self.walk(b, place, &locals, rows);
            b.for_loop([zero, lines, one], &[], |b, line, _| {
                let row = row_of(b, line);
                for (which, v) in [zero, one].into_iter().zip(locals.part.numbers(b, line)) {
                    let v = b.reshape(v, &[1, 1, 1]);
                    b.store(totals, &[token, row, which], v, None);
                }
                for_pieces(b, self.l.value_dim, PIECE, &[], |b, at, mask, _| {
                    let sum = b.load(locals.part.values, &[line, at], &[1, PIECE], mask);
                    let sum = b.reshape(sum, &[1, 1, PIECE]);
                    let mask = mask.map(|m| b.reshape(m, &[1, 1, PIECE]));
                    b.store(to, &[token, row, at], sum, mask);
                    vec![]
                });
                vec![]
            });
        });
    }

    /// Goes over all parts, and brings them together.
    fn all_parts(&self, b: &mut Builder, place: &Place) -> Sums {
        let (lines, dim) = (self.lines(), self.l.value_dim);
        let (zero, one) = (b.index(0), b.index(1));
        let locals = self.locals(b);
        let all = Sums::new(b, lines, dim);
        all.clear(b, lines, dim);
        self.begin(b, place, &locals);
        let [first, range @ ..] = self.seen(b, place);
        let rows = b.sub(range[1], first);
        let count = parts::count(b, rows);
        b.for_loop([zero, count, one], &[], |b, part, _| {
            let rows = parts::rows(b, part, first, range);
            parts::if_any(b, rows, |b| {
                self.walk(b, place, &locals, rows);
                let lines = b.index(lines.into());
                b.for_loop([zero, lines, one], &[], |b, line, _| {
                    let part = locals.part;
                    let numbers = part.numbers(b, line);
                    all.add(b, line, dim, numbers, |b, at, mask| b.load(part.values, &[line, at], &[1, PIECE], mask));
                    vec![]
                });
            });
            vec![]
        });
        all
    }

    fn locals(&self, b: &mut Builder) -> Locals {
        let lines = self.lines();
        let part = Sums::new(b, lines, self.l.value_dim);
        let [queries, scores] = [self.l.head_dim, self.t.tile].map(|n| b.local(Elem::F32, &[lines, n]));
        let [top, added, shrink] = [0; 3].map(|_| b.local(Elem::F32, &[1, width(lines)]));
        Locals { queries, scores, part, top, added, shrink, position: b.local(Elem::I32, &[lines, 1]) }
    }

    /// The row of one of the program's tokens, of the last one where there is none.
    fn row(&self, b: &mut Builder, place: &Place, token: Value) -> Value {
        let row = b.add(place.tokens[0], token);
        clamped(b, row, 0, self.a.n_tokens)
    }

    /// The first row of the tokens' sequence, and the rows that some line sees as a range, from the start of a tile on.
    fn seen(&self, b: &mut Builder, place: &Place) -> [Value; 3] {
        let one = b.index(1);
        let sequence = self.a.first_row(b, place.tokens[0]);
        let position = load_index(b, self.a.positions, place.tokens[0]);
        let first = self.a.first_seen(b, place.tokens[0], position, self.l.window);
        let range = match self.t.tokens {
            1 => vec![first, position],
            _ => b.for_loop([one, place.tokens[1], one], &[first, position], |b, token, range| {
                let row = b.add(place.tokens[0], token);
                let position = load_index(b, self.a.positions, row);
                let first = self.a.first_seen(b, row, position, self.l.window);
                vec![b.min(range[0], first), b.max(range[1], position)]
            }),
        };
        let tile = b.index(i64::from(self.t.tile));
        let first = b.binary(BinaryOp::Div, range[0], tile);
        let first = b.mul(first, tile);
        [sequence, first, b.add(range[1], one)]
    }

    /// Brings queries and positions to local memory.
    fn begin(&self, b: &mut Builder, place: &Place, l: &Locals) {
        let (group, zero, one) = (self.t.group, b.index(0), b.index(1));
        // Scores that no tile has made are not seen, but read; and lines that there are not.
        let lines = self.lines();
        let none = b.float(0.0, &[1, width(lines)]);
        for view in [l.top, l.added] {
            b.store(view, &[zero, zero], none, None);
        }
        for at in (0..self.t.tile).step_by(LANES as usize) {
            let at = b.index(at.into());
            let zeros = b.float(0.0, &[lines, LANES]);
            b.store(l.scores, &[zero, at], zeros, None);
        }
        let tokens = b.index(self.t.tokens.into());
        b.for_loop([zero, tokens, one], &[], |b, token, _| {
            let row = self.row(b, place, token);
            let line = times(b, token, group);
            let position = load_index(b, self.a.positions, row);
            let positions = b.broadcast(position, Type::new(Elem::I32, &[group, 1]).shape);
            b.store(l.position, &[line, zero], positions, None);
            for_pieces(b, self.l.head_dim, PIECE, &[], |b, at, mask, _| {
                let mask = mask.map(|m| b.reshape(m, &[1, 1, PIECE]));
                let q = b.load(self.a.queries, &[row, place.head, at], &[1, group, PIECE], mask);
                let q = b.reshape(q, &[group, PIECE]);
                let q = scaled(b, self.query_scale(), q);
                let mask = mask.map(|m| b.reshape(m, &[1, PIECE]));
                b.store(l.queries, &[line, at], q, mask);
                vec![]
            });
            vec![]
        });
    }

    /// Sums up rows of the cache that lie in one part.
    fn walk(&self, b: &mut Builder, place: &Place, l: &Locals, [from, end]: [Value; 2]) {
        l.part.clear(b, self.lines(), self.l.value_dim);
        let tile = b.index(i64::from(self.t.tile));
        b.for_loop([from, end, tile], &[], |b, first, _| {
            let rest = b.sub(end, first);
            let rows = [first, b.min(tile, rest)];
            match self.t.panels {
                true => self.scores_of_panels(b, place, l, rows),
                false => self.scores_of_rows(b, place, l, rows),
            }
            self.weights(b, l, first);
            self.add_values(b, place, l, rows);
            vec![]
        });
    }

    /// The panel that has a row of the cache, and the row's place in it.
    fn panel(&self, b: &mut Builder, row: Value) -> [Value; 2] {
        let within = b.index(i64::from(PANEL) - 1);
        let place = b.binary(BinaryOp::And, row, within);
        [shifted_right(b, row, PANEL.trailing_zeros()), place]
    }

    /// The products of all lines' queries with `count` keys from `first` on, which lie in panels.
    fn scores_of_panels(&self, b: &mut Builder, place: &Place, l: &Locals, [first, count]: [Value; 2]) {
        let (keys, lines) = (self.t.keys, self.lines());
        let (zero, step) = (b.index(0), b.index(keys.into()));
        let [panel, lane] = self.panel(b, first);
        b.for_loop([zero, count, step], &[], |b, at, _| {
            let lane = b.add(lane, at);
            let bounds = [zero, b.index(i64::from(self.l.head_dim)), b.index(ELEMENTS.into())];
            let nothing = b.float(0.0, &[1, keys]);
            let sums = b.for_loop(bounds, &vec![nothing; lines as usize], |b, d, sums| {
                let mut sums = sums.to_vec();
                for i in 0..ELEMENTS {
                    let d = plus(b, d, i);
                    let k = b.load(self.a.keys, &[place.kv_head, panel, d, lane], &[1, 1, 1, keys], None);
                    let k = b.convert(k, Elem::F32);
                    let k = b.reshape(k, &[1, keys]);
                    for (line, sum) in (0..).zip(&mut sums) {
                        let line = b.index(line);
                        let q = b.load(l.queries, &[line, d], &[1, 1], None);
                        *sum = b.fma(k, q, *sum);
                    }
                }
                sums
            });
            for (line, sum) in (0..).zip(sums) {
                let line = b.index(line);
                b.store(l.scores, &[line, at], sum, None);
            }
            vec![]
        });
    }

    /// The products of all lines' queries with `count` keys from `first` on, which are rows.
    fn scores_of_rows(&self, b: &mut Builder, place: &Place, l: &Locals, [first, count]: [Value; 2]) {
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
                    for (line, sum) in (0..).zip(&mut sums) {
                        let line = b.index(line);
                        let q = b.load(l.queries, &[line, d], &[1, LANES], None);
                        *sum = b.fma(k, q, *sum);
                    }
                }
                sums
            });
            for (line, sum) in (0..).zip(sums) {
                let line = b.index(line);
                let sum = b.reduce(ReduceOp::Sum, sum, 1);
                let sum = b.reshape(sum, &[1, t.keys]);
                b.store(l.scores, &[line, at], sum, None);
            }
            vec![]
        });
    }

    /// What queries are multiplied by: scores are counted in powers of two, but for what is capped first.
    fn query_scale(&self) -> f64 {
        self.l.scale.f64() * if self.l.softcap.is_some() { 1.0 } else { std::f64::consts::LOG2_E }
    }

    /// Turns scores into weights, and brings the lines' state up to date. A line that has seen nothing yet, of this tile or
    /// before, has weights that count nothing once it sees something: sums are shrunk to zero then.
    fn weights(&self, b: &mut Builder, l: &Locals, first: Value) {
        let tile = self.t.tile;
        let (zero, one, lines) = (b.index(0), b.index(1), b.index(i64::from(self.lines())));
        b.for_loop([zero, lines, one], &[], |b, line, _| {
            let mut s = b.load(l.scores, &[line, zero], &[1, tile], None);
            if let Some(cap) = self.l.softcap {
                s = softcap(b, cap.f64(), s);
                s = scaled(b, std::f64::consts::LOG2_E, s);
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
            s = b.select(seen, s, unseen);
            b.store(l.scores, &[line, zero], s, None);
            let before = b.load(l.part.largest, &[zero, line], &[1, 1], None);
            let top = largest(b, s);
            let top = larger(b, before, top);
            b.store(l.top, &[zero, line], top, None);
            vec![]
        });
        let all = [1, width(self.lines())];
        let before = b.load(l.part.largest, &[zero, zero], &all, None);
        let top = b.load(l.top, &[zero, zero], &all, None);
        b.store(l.part.largest, &[zero, zero], top, None);
        let change = b.sub(before, top);
        let shrink = power(b, change);
        b.store(l.shrink, &[zero, zero], shrink, None);
        b.for_loop([zero, lines, one], &[], |b, line, _| {
            let s = b.load(l.scores, &[line, zero], &[1, tile], None);
            let top = b.load(l.top, &[zero, line], &[1, 1], None);
            let below = b.sub(s, top);
            let weight = power(b, below);
            b.store(l.scores, &[line, zero], weight, None);
            let sum = b.reduce(ReduceOp::Sum, weight, 1);
            b.store(l.added, &[zero, line], sum, None);
            vec![]
        });
        let before = b.load(l.part.total, &[zero, zero], &all, None);
        let added = b.load(l.added, &[zero, zero], &all, None);
        let total = b.fma(before, shrink, added);
        b.store(l.part.total, &[zero, zero], total, None);
    }

    /// Adds the weighted values of `count` positions from `first` on.
    fn add_values(&self, b: &mut Builder, place: &Place, l: &Locals, [first, count]: [Value; 2]) {
        let depth = self.t.depth;
        let zero = b.index(0);
        let bounds = [zero, b.index(i64::from(self.l.value_dim)), b.index(i64::from(depth))];
        b.for_loop(bounds, &[], |b, d, _| {
            let from = self.t.panels.then(|| {
                let [panel, row] = self.panel(b, first);
                let block = value_block(self.l.value_dim);
                let width = b.index(block.into());
                let (number, column) = (b.div(d, width), b.binary(BinaryOp::Rem, d, width));
                let rows = times(b, number, PANEL);
                [panel, b.add(rows, row), column]
            });
            let lines: Vec<Value> = (0..self.lines()).map(|i| b.index(i64::from(i))).collect();
            let sums: Vec<Value> = lines
                .iter()
                .map(|&line| {
                    let sum = b.load(l.part.values, &[line, d], &[1, depth], None);
                    let shrink = b.load(l.shrink, &[zero, line], &[1, 1], None);
                    b.mul(sum, shrink)
                })
                .collect();
            let step = b.index(i64::from(VALUES));
            let sums = b.for_loop([zero, count, step], &sums, |b, at, sums| {
                let mut sums = sums.to_vec();
                for i in 0..VALUES {
                    let at = plus(b, at, i);
                    let v = match from {
                        // Rows of a panel's block follow one another.
                        Some([panel, row, column]) => {
                            let row = b.add(row, at);
                            b.load(self.a.values, &[place.kv_head, panel, row, column], &[1, 1, 1, depth], None)
                        }
                        None => {
                            let position = b.add(first, at);
                            b.load(self.a.values, &[place.kv_head, position, d], &[1, 1, depth], None)
                        }
                    };
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
                b.store(l.part.values, &[line, d], sum, None);
            }
            vec![]
        });
    }

    /// Divides by the total and stores the lines of one token. `token` counts in the program, `row` in the launch.
    fn finish(&self, b: &mut Builder, place: &Place, sums: &Sums, [token, row]: [Value; 2]) {
        let (zero, one, group) = (b.index(0), b.index(1), b.index(i64::from(self.t.group)));
        let Sink::Rows(out) = self.a.out else { unreachable!("what has all positions is written as rows") };
        b.for_loop([zero, group, one], &[], |b, i, _| {
            let line = times(b, token, self.t.group);
            let line = b.add(line, i);
            let head = b.add(place.head, i);
            let sink = self.a.sinks.map(|s| b.load(s, &[zero, head], &[1, 1], None));
            let column = times(b, head, self.l.value_dim);
            sums.finish(b, line, self.l.value_dim, sink, (out, [row, column], self.l.heads * self.l.value_dim));
            vec![]
        });
    }
}
