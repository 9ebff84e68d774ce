//! A token's row as [numbers of 15 bits](crate::fixed) in local memory.
//!
//! A program rounds its row once, each chunk of 32 elements by its largest. What lanes read of it is then half as long as
//! in `f32`, and lies side by side.

use super::Args;
use super::dot::Input;
use crate::emit::{below, shifted_right, times};
use crate::fixed::{self, HIGH};
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::{BinaryOp, Builder, Elem, ReduceOp, Type, UnaryOp, Value, View};

/// Elements that a wave stages at once, and those of a lane that lie together: as wide as loads go without lanes getting
/// in each other's way much.
const OF_WAVE: u32 = 512;
const OWN: u32 = 8;

/// Pieces of a row that are loaded before the first of them is made numbers.
const TOGETHER: u32 = 4;

/// A row in local memory.
pub(super) struct Fixed {
    /// Bytes `i8 [1, len]`.
    high: View,
    low: View,
    /// For each run of elements the unit of its numbers, and the sum of its elements, `f32 [1, len / run]`.
    units: View,
    sums: View,
    run: u32,
}

/// A part of a [`Fixed`] row.
pub(super) struct Part {
    /// Bytes `i8 [1, n]`.
    pub high: Value,
    pub low: Value,
    /// Of each run, `f32 [1, runs]`.
    pub unit: Value,
    pub sum: Value,
}

/// How a row is staged.
pub(super) struct Staging {
    /// The row of x.
    pub row: Value,
    /// Its elements.
    pub k: u32,
    /// Elements that are read together later: a power of two from [`CHUNK`] on.
    pub step: u32,
    /// Elements of a run: divides [`CHUNK`].
    pub run: u32,
    /// Waves of the program.
    pub waves: u32,
}

impl Staging {
    /// Stages the row; behind its end are zeros up to a whole step. With a norm its weights are multiplied in, and the
    /// row's squares in parts come back, `[1, n]`.
    pub fn stage(&self, b: &mut Builder, a: &Args) -> (Fixed, Option<Value>) {
        let Input::F32(x) = a.x else { unreachable!("rows of numbers are made of f32") };
        let piece = (self.waves * OF_WAVE).min(self.k.next_power_of_two()).max(CHUNK);
        let len = self.k.next_multiple_of(piece.max(self.step));
        let fixed = Fixed {
            high: b.local(Elem::I8, &[1, len]),
            low: b.local(Elem::I8, &[1, len]),
            units: b.local(Elem::F32, &[1, len / self.run]),
            sums: b.local(Elem::F32, &[1, len / self.run]),
            run: self.run,
        };
        let zero = b.index(0);
        let load = |b: &mut Builder, col: Value| {
            let inside = (len != self.k).then(|| below(b, col, piece, self.k));
            let v = b.load(x, &[self.row, col], &[1, piece], inside);
            let w = a.norm_weight.map(|weight| b.load(weight, &[zero, col], &[1, piece], inside));
            (v, w)
        };
        let store = |b: &mut Builder, col: Value, (v, w): (Value, Option<Value>), squares: &[Value]| {
            let squares = squares.iter().map(|&s| b.fma(v, v, s)).collect();
            let v = w.map_or(v, |w| b.mul(v, w));
            fixed.store(b, col, v);
            squares
        };
        let mut squares: Vec<Value> = a.norm_weight.iter().map(|_| b.float(0.0, &[1, piece])).collect();
        let count = len / piece;
        if count <= TOGETHER {
            let cols: Vec<Value> = (0..count).map(|i| b.index(i64::from(i * piece))).collect();
            let loaded: Vec<_> = cols.iter().map(|&col| load(b, col)).collect();
            for (col, v) in cols.into_iter().zip(loaded) {
                squares = store(b, col, v, &squares);
            }
        } else {
            let bounds = [zero, b.index(i64::from(len)), b.index(i64::from(piece))];
            squares = b.for_loop(bounds, &squares, |b, col, squares| {
                let loaded = load(b, col);
                store(b, col, loaded, squares)
            });
        }
        let squares = squares.first().copied();
        (fixed, squares)
    }
}

impl Fixed {
    /// Stores elements `f32 [1, n]`, whole chunks.
    fn store(&self, b: &mut Builder, col: Value, v: Value) {
        let n = b.ty(v).shape.last();
        let (pieces, chunks) = (n / OWN, n / CHUNK);
        let v = b.reshape(v, &[pieces, OWN]);
        let magnitude = b.unary(UnaryOp::Abs, v);
        let mut most = b.slice(magnitude, 1, 0, 1);
        for i in 1..OWN {
            let next = b.slice(magnitude, 1, i, 1);
            most = b.max(most, next);
        }
        let most = b.reshape(most, &[chunks, CHUNK / OWN]);
        let most = b.reduce(ReduceOp::Max, most, 1);
        let [inverse, unit] = fixed::scales(b, most);
        let spread = |b: &mut Builder, of_chunks: Value, over: u32| {
            let line = b.reshape(of_chunks, &[1, chunks]);
            b.repeat(line, CHUNK / over)
        };
        let inverse = spread(b, inverse, OWN);
        let inverse = b.reshape(inverse, &[pieces, 1]);
        let bytes = fixed::parts(b, v, inverse);
        let by = b.int(i64::from(HIGH), Type::new(Elem::I32, &[1, 1]));
        let zero = b.index(0);
        let ones = b.int(1, Type::new(Elem::U8, &[pieces, OWN]));
        let mut sums = b.int(0, Type::new(Elem::I32, &[pieces, 1]));
        for (view, bytes) in [self.high, self.low].into_iter().zip(bytes) {
            sums = b.binary(BinaryOp::Shl, sums, by);
            for at in (0..OWN).step_by(4) {
                let [ones, bytes] = [ones, bytes].map(|v| b.slice(v, 1, at, 4));
                sums = b.dot4(ones, bytes, sums);
            }
            let line = b.reshape(bytes, &[1, n]);
            b.store(view, &[zero, col], line, None);
        }
        let sums = b.reshape(sums, &[n / self.run, self.run / OWN]);
        let sums = b.reduce(ReduceOp::Sum, sums, 1);
        let sums = b.reshape(sums, &[1, n / self.run]);
        let sums = b.convert(sums, Elem::F32);
        let unit = spread(b, unit, self.run);
        let sums = b.mul(sums, unit);
        let run = shifted_right(b, col, self.run.trailing_zeros());
        b.store(self.units, &[zero, run], unit, None);
        b.store(self.sums, &[zero, run], sums, None);
    }

    /// `step` elements from a chunk on.
    pub fn part(&self, b: &mut Builder, chunk: Value, step: u32) -> Part {
        let zero = b.index(0);
        let (col, run) = (times(b, chunk, CHUNK), times(b, chunk, CHUNK / self.run));
        let [high, low] = [self.high, self.low].map(|view| b.load(view, &[zero, col], &[1, step], None));
        let [unit, sum] = [self.units, self.sums].map(|view| b.load(view, &[zero, run], &[1, step / self.run], None));
        Part { high, low, unit, sum }
    }
}
