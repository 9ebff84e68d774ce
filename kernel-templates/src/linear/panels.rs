//! Products with matrices packed for a processor's vectors, rows in lanes: no lane needs what another one has.
//!
//! A program has some outputs of a few tokens. It takes the outputs a tile at a time, a panel of the matrix or a part of one:
//! for each token there are sums in registers, to which steps along K are added in rising order. The sums land in local
//! memory, from where the [epilogue](super::vectors::epilogue) takes them.
//!
//! The order of a sum, whatever the tile: with Q8 or Q15 activations for each group of a format in rising order
//! `fma(scale * x_scale, Σ (code - zero) * x, sum)`, the inner sum in integers, and then, where the format has minima,
//! `fma(-minimum, x_scale * Σ x, sum)`; with floats `fma(w, x, sum)` for each element.

use super::dot::Input;
use super::experts::{Chosen, Experts};
use super::{Args, Linear, PanelTiling, vectors};
use crate::emit::{clamped, shifted_right, times};
use crate::facts::WeightType;
use crate::fixed::HIGH;
use crate::packed::{PANEL, Panels, Place, Records, declare_floats, negative};
use crate::slot::{Interface, Slot};
use hrx_ir::quant::{CHUNK, FOURS, Packed};
use hrx_ir::tile::{BinaryOp, Builder, Elem, GridExpr, ReduceOp, Type, Value, View};

/// Columns of a step along packed floats.
pub(super) const STEP: u32 = 8;

/// A packed matrix.
pub(super) enum Matrix {
    Records(Records),
    Floats(View),
}

impl Matrix {
    /// Declares the views of a matrix `[n, k]` that [`Panels::check`] has nothing against.
    pub fn declare(i: &mut Interface, at: u8, ty: WeightType, panels: Panels, nk: [u32; 2]) -> Matrix {
        let slot = Slot::Weight(at);
        match ty {
            WeightType::Quant(f) => {
                let packed = Packed::of(f).unwrap_or_else(|| unreachable!("the facts were checked"));
                Matrix::Records(Records::declare(i, slot, packed, panels, nk))
            }
            WeightType::Float(e) => Matrix::Floats(declare_floats(i, slot, e, nk, STEP)),
        }
    }
}

/// What a matrix needs of the activations beside their codes, by group of K. For several tokens it is made before the
/// products and kept in local memory; for one along with them, while memory is waited for.
struct Beside {
    /// Elements of the groups.
    group: u32,
    /// The code for zero, if it is another than 0: sums of products begin with minus that times the sum of x' codes.
    zero: Option<(i32, Option<View>)>,
    /// Sums of x, if there are minima.
    sums: Option<Option<View>>,
}

pub(super) fn emit(b: &mut Builder, l: &Linear, t: &PanelTiling, a: &Args) {
    if let Some(experts) = l.experts.filter(|e| e.grouped) {
        return grouped(b, l, t, a, experts);
    }
    // Tokens change fastest: a program's part of the matrix stays in the cache for those that follow.
    b.grid(0, GridExpr::ceil_div(a.n_tokens, t.tokens));
    b.grid(1, GridExpr::ceil_div(l.n, t.program_rows));
    let (group, program) = (b.program_id(0), b.program_id(1));
    let first = times(b, program, t.program_rows);
    if t.tokens == 1 {
        let of = l.chosen(b, a, group);
        let locals = PanelDot { l, t, a, tokens: &[of.map_or(group, |c| c.x_row)] }.program(b, first, of);
        let zero = b.index(0);
        return vectors::epilogue(b, l, a, t.program_rows, &locals, [zero, group, first], of);
    }
    let first_token = times(b, group, t.tokens);
    let tokens: Vec<Value> = (0..t.tokens).map(|i| clamped(b, first_token, i, a.n_tokens)).collect();
    let locals = PanelDot { l, t, a, tokens: &tokens }.program(b, first, None);
    let rest = b.sub(a.n_tokens, first_token);
    let (zero, one, all) = (b.index(0), b.index(1), b.index(i64::from(t.tokens)));
    let end = b.min(all, rest);
    b.for_loop([zero, end, one], &[], |b, at, _| {
        let token = b.add(first_token, at);
        vectors::epilogue(b, l, a, t.program_rows, &locals, [at, token, first], None);
        vec![]
    });
}

/// The rows that go to one expert, some at a time.
fn grouped(b: &mut Builder, l: &Linear, t: &PanelTiling, a: &Args, experts: Experts) {
    b.grid(0, GridExpr::ceil_div(l.n, t.program_rows));
    b.grid(1, GridExpr::constant(experts.count));
    let (program, expert) = (b.program_id(0), b.program_id(1));
    let first = times(b, program, t.program_rows);
    let Some((list, count)) = a.experts.as_ref().and_then(|args| experts.group(b, args, expert)) else { return };
    let of = Chosen { expert, first: times(b, expert, l.n), x_row: expert };
    let (zero, one, step) = (b.index(0), b.index(1), b.index(i64::from(t.tokens)));
    let listed = |b: &mut Builder, at: Value| {
        let row = b.load(list, &[expert, at], &[1, 1], None);
        b.reshape(row, &[])
    };
    b.for_loop([zero, count, step], &[], |b, at, _| {
        let tokens: Vec<Value> = (0..t.tokens)
            .map(|i| {
                let at = clamped(b, at, i, count);
                let row = listed(b, at);
                experts.x_rows(b, row)
            })
            .collect();
        let locals = PanelDot { l, t, a, tokens: &tokens }.program(b, first, Some(of));
        let rest = b.sub(count, at);
        let end = b.min(step, rest);
        b.for_loop([zero, end, one], &[], |b, i, _| {
            let at = b.add(at, i);
            let row = listed(b, at);
            vectors::epilogue(b, l, a, t.program_rows, &locals, [i, row, first], Some(of));
            vec![]
        });
        vec![]
    });
}

/// Activations as bytes.
struct Bytes {
    /// Row, chunk, byte.
    codes: View,
    scales: View,
    /// Where in a chunk the parts of its numbers begin, the highest first.
    parts: &'static [u32],
}

/// Sums of high parts, as much as they count.
fn high(b: &mut Builder, sums: Value) -> Value {
    let by = b.int(HIGH.into(), b.ty(sums));
    b.binary(BinaryOp::Shl, sums, by)
}

struct PanelDot<'a> {
    l: &'a Linear,
    t: &'a PanelTiling,
    a: &'a Args,
    tokens: &'a [Value],
}

impl PanelDot<'_> {
    /// The sums of the program's outputs from `first` on, in local memory `f32 [tokens, program_rows]` for each matrix.
    fn program(&self, b: &mut Builder, first: Value, of: Option<Chosen>) -> Vec<View> {
        let (l, t, a) = (self.l, self.t, self.a);
        let beside: Vec<Option<Beside>> = a.packed.iter().map(|m| self.beside(b, m)).collect();
        if t.tokens > 1 {
            self.prepare(b, &beside);
        }
        let (locals, end) = vectors::outputs(b, l, first, [a.packed.len() as u32, t.tokens, t.program_rows]);
        let (zero, step) = (b.index(0), b.index(i64::from(t.rows)));
        // The first row in the matrix that experts' matrices make.
        let base = of.map_or(first, |of| b.add(first, of.first));
        b.for_loop([zero, end, step], &[], |b, at, _| {
            let row = b.add(base, at);
            let panel = shifted_right(b, row, PANEL.trailing_zeros());
            let within = b.index(i64::from(PANEL) - 1);
            let within = if t.rows == PANEL { zero } else { b.binary(BinaryOp::And, row, within) };
            for ((matrix, beside), &local) in a.packed.iter().zip(&beside).zip(&locals) {
                let sums = match (matrix, beside) {
                    (Matrix::Records(m), Some(beside)) => self.blocks(b, m, beside, [panel, within]),
                    (Matrix::Floats(view), _) => self.floats(b, *view, [panel, within]),
                    (Matrix::Records(_), None) => unreachable!("quantised matrices have sums beside them"),
                };
                for (token, sum) in sums.into_iter().enumerate() {
                    let token = b.index(token as i64);
                    b.store(local, &[token, at], sum, None);
                }
            }
            vec![]
        });
        locals
    }

    fn chunks(&self) -> u32 {
        self.l.k / CHUNK
    }

    /// A number as a row's lanes.
    fn spread(&self, b: &mut Builder, v: Value) -> Value {
        let ty = b.ty(v);
        let v = b.reshape(v, &[1, 1]);
        b.broadcast(v, Type::new(ty.elem, &[1, self.t.rows]).shape)
    }

    /// What a matrix needs of the activations beside their codes, with memory for several tokens.
    fn beside(&self, b: &mut Builder, m: &Matrix) -> Option<Beside> {
        let Matrix::Records(m) = m else { return None };
        let group = m.packed.format.group;
        let dims = [self.t.tokens, self.l.k / group];
        let mut memory = |elem| (self.t.tokens > 1).then(|| b.local(elem, &dims));
        Some(Beside {
            group,
            zero: (m.zero() != 0).then(|| (m.zero(), memory(Elem::I32))),
            sums: m.packed.minima.map(|_| memory(Elem::F32)),
        })
    }

    /// Where the activations are that packed blocks are multiplied by.
    fn bytes(&self) -> Bytes {
        match self.a.x {
            Input::Q8 { codes, scales } => Bytes { codes, scales, parts: &[0] },
            Input::Q15 { codes, scales } => Bytes { codes, scales, parts: &[0, CHUNK] },
            Input::F32(_) => unreachable!("packed blocks are multiplied by Q8 or Q15"),
        }
    }

    /// Sums of fours of a token's numbers of a chunk, `i32 [1, FOURS]`.
    fn fours(&self, b: &mut Builder, token: Value, chunk: Value) -> Value {
        let x = self.bytes();
        let ones = b.int(1, Type::new(Elem::U8, &[1, CHUNK]));
        let mut sums = None;
        for &part in x.parts {
            let part = b.index(part.into());
            let x = b.load(x.codes, &[token, chunk, part], &[1, 1, CHUNK], None);
            let x = b.reshape(x, &[1, CHUNK]);
            let so_far = match sums {
                Some(sums) => high(b, sums),
                None => b.int(0, Type::new(Elem::I32, &[1, FOURS])),
            };
            sums = Some(b.dot4(ones, x, so_far));
        }
        sums.unwrap_or_else(|| unreachable!("numbers have a part"))
    }

    /// The sums of groups of a chunk, of its fours: `i32 [1, groups]`.
    fn of_groups(b: &mut Builder, fours: Value, groups: u32) -> Value {
        let of_groups = b.reshape(fours, &[groups, FOURS / groups]);
        let sums = b.reduce(ReduceOp::Sum, of_groups, 1);
        b.reshape(sums, &[1, groups])
    }

    /// Where sums of products of a chunk begin.
    fn begin(b: &mut Builder, zero: i32, sums: Value) -> Value {
        let by = b.int(-i64::from(zero), b.ty(sums));
        b.mul(sums, by)
    }

    /// Sums of a token's x of a chunk's groups, `f32 [1, groups]`, of those of its codes.
    fn sums_of_x(&self, b: &mut Builder, [token, chunk]: [Value; 2], sums: Value) -> Value {
        let scale = b.load(self.bytes().scales, &[token, chunk], &[1, 1], None);
        let sums = b.convert(sums, Elem::F32);
        b.mul(sums, scale)
    }

    /// Sums the activations' codes.
    fn prepare(&self, b: &mut Builder, beside: &[Option<Beside>]) {
        let wanted: Vec<&Beside> = beside.iter().flatten().filter(|s| s.zero.is_some() || s.sums.is_some()).collect();
        if wanted.is_empty() {
            return;
        }
        let bounds = [0, self.chunks(), 1].map(|n| b.index(n.into()));
        let token_at: Vec<Value> = (0..self.t.tokens).map(|i| b.index(i.into())).collect();
        b.for_loop(bounds, &[], |b, chunk, _| {
            for (&token, &at) in self.tokens.iter().zip(&token_at) {
                let fours = self.fours(b, token, chunk);
                for s in &wanted {
                    let groups = CHUNK / s.group;
                    let sums = PanelDot::of_groups(b, fours, groups);
                    let col = times(b, chunk, groups);
                    if let Some((zero, Some(view))) = s.zero {
                        let begin = PanelDot::begin(b, zero, sums);
                        b.store(view, &[at, col], begin, None);
                    }
                    if let Some(Some(view)) = s.sums {
                        let sums = self.sums_of_x(b, [token, chunk], sums);
                        b.store(view, &[at, col], sums, None);
                    }
                }
            }
            vec![]
        });
    }

    /// A number for each group of a chunk: of memory, or as it was made with one token.
    fn of_group(
        &self,
        b: &mut Builder,
        view: Option<View>,
        made: Option<Value>,
        [t, col]: [Value; 2],
        g: u32,
    ) -> Value {
        let v = match (view, made) {
            (Some(view), _) => b.load(view, &[t, col], &[1, 1], None),
            (None, Some(made)) => b.slice(made, 1, g, 1),
            (None, None) => unreachable!("what is not in memory was made"),
        };
        self.spread(b, v)
    }

    /// Sums of a tile for each token, `[1, rows]`.
    fn blocks(&self, b: &mut Builder, m: &Records, beside: &Beside, [panel, row]: [Value; 2]) -> Vec<Value> {
        let x = self.bytes();
        let (rows, tokens) = (self.t.rows, self.tokens);
        let first = times(b, panel, m.blocks);
        let inits = vec![b.float(0.0, &[1, rows]); tokens.len()];
        let bounds = [0, self.chunks(), 1].map(|n| b.index(n.into()));
        let groups = CHUNK / beside.group;
        b.for_loop(bounds, &inits, |b, chunk, sums| {
            let mut sums = sums.to_vec();
            let [block, within] = m.block(b, chunk);
            let place = Place { record: b.add(first, block), chunk: within, row, rows };
            let first_group = times(b, chunk, groups);
            let mut seen = Vec::new();
            let alone = (tokens.len() == 1 && (beside.zero.is_some() || beside.sums.is_some())).then(|| {
                let fours = self.fours(b, tokens[0], chunk);
                PanelDot::of_groups(b, fours, groups)
            });
            let begins_alone = alone.zip(beside.zero).map(|(sums, (zero, _))| PanelDot::begin(b, zero, sums));
            let sums_alone = alone.zip(beside.sums).map(|(sums, _)| self.sums_of_x(b, [tokens[0], chunk], sums));
            for group in 0..groups {
                let col = crate::emit::plus(b, first_group, group);
                // For each token the sums of its parts, of which the last begins with what zero's code makes too much.
                let mut dots: Vec<Vec<Value>> = (0..tokens.len())
                    .map(|t| {
                        let mut dots = vec![b.int(0, Type::new(Elem::I32, &[1, rows])); x.parts.len()];
                        if let (Some((_, view)), Some(last)) = (beside.zero, dots.last_mut()) {
                            let t = b.index(t as i64);
                            *last = self.of_group(b, view, begins_alone, [t, col], group);
                        }
                        dots
                    })
                    .collect();
                for four in group * FOURS / groups..(group + 1) * FOURS / groups {
                    let codes = m.code(b, place, four, &mut seen);
                    for (dots, &token) in dots.iter_mut().zip(tokens) {
                        for (dot, part) in dots.iter_mut().zip(x.parts) {
                            let at = b.index(i64::from(part + 4 * four));
                            let four = b.load(x.codes, &[token, chunk, at], &[1, 1, 4], None);
                            let four = b.reshape(four, &[1, 4]);
                            let all = b.broadcast(four, Type::new(Elem::I8, &[rows, 4]).shape);
                            let all = b.reshape(all, &[1, 4 * rows]);
                            *dot = b.dot4(codes, all, *dot);
                        }
                    }
                }
                let scale = m.scale(b, &m.packed.scales, place, group);
                let minus = m.packed.minima.map(|minima| {
                    let minimum = m.scale(b, &minima, place, group);
                    negative(b, minimum)
                });
                for (t, (sum, dots)) in sums.iter_mut().zip(&dots).enumerate() {
                    let x_scale = b.load(x.scales, &[tokens[t], chunk], &[1, 1], None);
                    let x_scale = self.spread(b, x_scale);
                    let scale = b.mul(scale, x_scale);
                    let mut dot = dots[0];
                    for &part in &dots[1..] {
                        let above = high(b, dot);
                        dot = b.add(above, part);
                    }
                    let dot = b.convert(dot, Elem::F32);
                    *sum = b.fma(dot, scale, *sum);
                    if let Some((minus, view)) = minus.zip(beside.sums) {
                        let t = b.index(t as i64);
                        let x_sum = self.of_group(b, view, sums_alone, [t, col], group);
                        *sum = b.fma(minus, x_sum, *sum);
                    }
                }
            }
            sums
        })
    }

    /// As [`blocks`](PanelDot::blocks), with floats.
    fn floats(&self, b: &mut Builder, view: View, [panel, row]: [Value; 2]) -> Vec<Value> {
        let Input::F32(x) = self.a.x else { unreachable!("floats are multiplied by floats") };
        let rows = self.t.rows;
        let inits = vec![b.float(0.0, &[1, rows]); self.tokens.len()];
        let bounds = [0, self.l.k / STEP, 1].map(|n| b.index(n.into()));
        b.for_loop(bounds, &inits, |b, step, sums| {
            let mut sums = sums.to_vec();
            for i in 0..STEP {
                let i = b.index(i.into());
                let w = b.load(view, &[panel, step, i, row], &[1, 1, 1, rows], None);
                let w = b.reshape(w, &[1, rows]);
                let w = b.convert(w, Elem::F32);
                for (sum, &token) in sums.iter_mut().zip(self.tokens) {
                    let x = b.load(x, &[token, step, i], &[1, 1, 1], None);
                    let x = self.spread(b, x);
                    *sum = b.fma(w, x, *sum);
                }
            }
            sums
        })
    }
}
