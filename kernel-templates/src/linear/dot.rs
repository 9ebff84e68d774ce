//! Dot products of some rows of a weight matrix with some rows of activations.
//!
//! Every (row, token) has an accumulator of [`LANES`] f32 lanes, to which the steps along K are added in rising order;
//! the lanes are summed at the end. How many rows and tokens go together, and how far the loop is unrolled, changes
//! nothing about the sum of one of them.

use crate::emit::{below, plus, times};
use crate::facts::WeightType;
use crate::slot::{Interface, Slot};
use hrx_ir::quant::{CHUNK, Format};
use hrx_ir::tile::{Access, BlockPart, Builder, Elem, ReduceOp, Type, UnaryOp, Value, View};

/// Lanes of an accumulator: the sums of 4 neighbours that a chunk of 32 elements has.
pub(super) const LANES: u32 = CHUNK / 4;

/// Activations, rank 2: parameters or local memory.
#[derive(Clone, Copy)]
pub(super) enum Input {
    F32(View),
    Q8 {
        codes: View,
        scales: View,
    },
    /// Only matrices packed for panels read it.
    Q15 {
        codes: View,
        scales: View,
    },
}

/// The rows of a matrix that are summed together: an index as loads take it, and how many.
#[derive(Clone, Copy)]
pub(super) struct Lanes {
    pub index: Value,
    pub count: u32,
}

/// A weight matrix.
#[derive(Clone, Copy)]
pub(super) enum Matrix {
    Quant(View, &'static Format),
    Float(View),
}

impl Matrix {
    /// Declares the parameter for a matrix `[n, k]`.
    pub fn declare(i: &mut Interface, at: u8, ty: WeightType, n: u32, k: u32) -> Matrix {
        let slot = Slot::Weight(at);
        match ty {
            WeightType::Quant(f) => Matrix::Quant(i.quant(slot, f, &[n.into(), (k / f.block).into()]), f),
            WeightType::Float(e) => Matrix::Float(i.view(slot, e, &[n.into(), k.into()], Access::In)),
        }
    }

    /// For each token the dot products of its row of `x` with the rows, `f32 [rows, 1]`.
    pub fn dot(&self, b: &mut Builder, rows: Lanes, x: Input, tokens: &[Value], k: u32, unroll: u32) -> Vec<Value> {
        let zero = b.float(0.0, &[rows.count, LANES]);
        let inits = vec![zero; tokens.len()];
        let sums = match (*self, x) {
            (Matrix::Quant(view, format), Input::Q8 { codes, scales }) => {
                let step = QuantDot { view, format, rows, codes, scales, tokens };
                let unroll = if format.chunks() == 1 { unroll } else { 1 };
                unrolled(b, k / format.block, unroll, inits, |b, block, acc| step.block(b, block, acc))
            }
            (Matrix::Quant(view, format), Input::F32(x)) => {
                let step = CodeDot { view, format, rows, x, tokens };
                let unroll = if format.chunks() == 1 { unroll } else { 1 };
                unrolled(b, k / format.block, unroll, inits, |b, block, acc| step.block(b, block, acc))
            }
            (Matrix::Float(view), Input::F32(x)) => {
                let step = FloatDot { view, rows, x, tokens };
                let whole = unrolled(b, k / LANES, unroll, inits, |b, at, acc| {
                    let col = times(b, at, LANES);
                    step.columns(b, col, None, acc)
                });
                if k.is_multiple_of(LANES) {
                    whole
                } else {
                    let col = b.index(i64::from(k - k % LANES));
                    let mask = below(b, col, LANES, k);
                    step.columns(b, col, Some(mask), whole)
                }
            }
            (Matrix::Float(_), Input::Q8 { .. }) => unreachable!("facts with float weights and Q8 input are refused"),
            (_, Input::Q15 { .. }) => unreachable!("facts with Q15 input of matrices that are not packed are refused"),
        };
        sums.into_iter().map(|s| b.reduce(ReduceOp::Sum, s, 1)).collect()
    }
}

/// Runs `step` for 0..count in order, `by` of them an iteration of a loop.
fn unrolled(
    b: &mut Builder,
    count: u32,
    by: u32,
    inits: Vec<Value>,
    step: impl Fn(&mut Builder, Value, Vec<Value>) -> Vec<Value>,
) -> Vec<Value> {
    let whole = count / by * by;
    let mut carried = inits;
    if whole > 0 {
        let bounds = [b.index(0), b.index(i64::from(whole)), b.index(i64::from(by))];
        carried = b.for_loop(bounds, &carried, |b, at, acc| {
            (0..by).fold(acc.to_vec(), |acc, u| {
                let at = plus(b, at, u);
                step(b, at, acc)
            })
        });
    }
    (whole..count).fold(carried, |acc, at| {
        let at = b.index(i64::from(at));
        step(b, at, acc)
    })
}

/// Of a block of each row: the scales of its groups, and the negative of their offsets where the format has any.
fn scales(b: &mut Builder, view: View, f: &Format, rows: Lanes, block: Value) -> (Value, Option<Value>) {
    let index = [rows.index, block];
    let scales = b.load_block(view, index, BlockPart::Scales, rows.count);
    let offsets = f.has_offset().then(|| {
        let offsets = b.load_block(view, index, BlockPart::Offsets, rows.count);
        b.unary(UnaryOp::Neg, offsets)
    });
    (scales, offsets)
}

/// Quantised weights with Q8 activations.
struct QuantDot<'a> {
    view: View,
    format: &'static Format,
    rows: Lanes,
    codes: View,
    scales: View,
    tokens: &'a [Value],
}

impl QuantDot<'_> {
    /// Adds one block: for each group scale * Σ code * x - offset * Σ x, lane by lane.
    fn block(&self, b: &mut Builder, block: Value, mut acc: Vec<Value>) -> Vec<Value> {
        let f = self.format;
        let index = [self.rows.index, block];
        let (scales, offsets) = scales(b, self.view, f, self.rows, block);
        let ones = b.int(1, Type::new(Elem::U8, &[1, CHUNK]));
        let first = times(b, block, f.chunks());
        for c in 0..f.chunks() {
            let codes = b.load_block(self.view, index, BlockPart::Codes(c), self.rows.count);
            let scale = self.to_lanes(b, scales, c);
            let offset = offsets.map(|o| self.to_lanes(b, o, c));
            let chunk = plus(b, first, c);
            let col = times(b, chunk, CHUNK);
            for (acc, &token) in acc.iter_mut().zip(self.tokens) {
                let x = b.load(self.codes, &[token, col], &[1, CHUNK], None);
                let x_scale = b.load(self.scales, &[token, chunk], &[1, 1], None);
                let x_scale = b.broadcast(x_scale, Type::new(Elem::F32, &[1, LANES]).shape);
                let sum = dot4(b, codes, x, self.rows.count);
                let scale = b.mul(scale, x_scale);
                *acc = b.fma(sum, scale, *acc);
                if let Some(offset) = offset {
                    let sum = dot4(b, ones, x, 1);
                    let sum = b.mul(sum, x_scale);
                    *acc = b.fma(offset, sum, *acc);
                }
            }
        }
        acc
    }

    /// What the groups of a chunk have, for each lane of its accumulator: `[rows, LANES]`.
    fn to_lanes(&self, b: &mut Builder, groups: Value, chunk: u32) -> Value {
        let n = CHUNK / self.format.group;
        let part = b.slice(groups, 1, chunk * n, n);
        if n == 1 {
            return b.broadcast(part, Type::new(Elem::F32, &[self.rows.count, LANES]).shape);
        }
        b.repeat(part, LANES / n)
    }
}

/// Quantised weights with `f32` activations.
struct CodeDot<'a> {
    view: View,
    format: &'static Format,
    rows: Lanes,
    x: View,
    tokens: &'a [Value],
}

impl CodeDot<'_> {
    /// Adds one block: for each group scale * Σ code * x - offset * Σ x, lane by lane. Scaling sums instead of codes
    /// saves a product and a difference an element.
    fn block(&self, b: &mut Builder, block: Value, mut acc: Vec<Value>) -> Vec<Value> {
        let f = self.format;
        let index = [self.rows.index, block];
        let (scales, offsets) = scales(b, self.view, f, self.rows, block);
        let first = times(b, block, f.block);
        for c in 0..f.chunks() {
            let codes = b.load_block(self.view, index, BlockPart::Codes(c), self.rows.count);
            let codes = b.convert(codes, Elem::F32);
            for group in 0..CHUNK / f.group {
                let at = c * (CHUNK / f.group) + group;
                let scale = b.slice(scales, 1, at, 1);
                let offset = offsets.map(|o| b.slice(o, 1, at, 1));
                let places: Vec<u32> = (group * f.group..(group + 1) * f.group).step_by(LANES as usize).collect();
                let weights: Vec<Value> = places.iter().map(|&p| b.slice(codes, 1, p, LANES)).collect();
                for (acc, &token) in acc.iter_mut().zip(self.tokens) {
                    let (mut products, mut sum) = (None, None);
                    for (&w, &p) in weights.iter().zip(&places) {
                        let col = plus(b, first, c * CHUNK + p);
                        let x = b.load(self.x, &[token, col], &[1, LANES], None);
                        products = Some(match products {
                            Some(so_far) => b.fma(w, x, so_far),
                            None => b.mul(w, x),
                        });
                        sum = Some(match sum {
                            Some(so_far) => b.add(so_far, x),
                            None => x,
                        });
                    }
                    if let Some(products) = products {
                        *acc = b.fma(products, scale, *acc);
                    }
                    if let (Some(offset), Some(sum)) = (offset, sum) {
                        *acc = b.fma(offset, sum, *acc);
                    }
                }
            }
        }
        acc
    }
}

/// Sums of 4 neighbouring products, as f32: at most 4 * 128 * 127, so exact.
fn dot4(b: &mut Builder, codes: Value, x: Value, rows: u32) -> Value {
    let zero = b.int(0, Type::new(Elem::I32, &[rows, LANES]));
    let sum = b.dot4(codes, x, zero);
    b.convert(sum, Elem::F32)
}

struct FloatDot<'a> {
    view: View,
    rows: Lanes,
    x: View,
    tokens: &'a [Value],
}

impl FloatDot<'_> {
    /// Adds the products of [`LANES`] columns.
    fn columns(&self, b: &mut Builder, col: Value, mask: Option<Value>, mut acc: Vec<Value>) -> Vec<Value> {
        let w = b.load(self.view, &[self.rows.index, col], &[self.rows.count, LANES], mask);
        let w = b.convert(w, Elem::F32);
        for (acc, &token) in acc.iter_mut().zip(self.tokens) {
            let x = b.load(self.x, &[token, col], &[1, LANES], mask);
            *acc = b.fma(w, x, *acc);
        }
        acc
    }
}
