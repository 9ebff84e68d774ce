//! What scores become for vectors: powers of two of differences that are not positive. Scores are counted in powers of
//! two, so that of e to the x only that is left: log2 e is a part of what they are scaled by.

use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, Type, UnaryOp, Value};

/// 2^f - 1 as f P(f) for |f| ≤ 1/2, highest power first: a minimax polynomial, by Remez' algorithm, with an error of 3e-9.
const POWER: [f64; 6] = [
    1.559467748084e-4,
    1.3406643903285424e-3,
    9.617692975128714e-3,
    5.5503105510015055e-2,
    2.4022652782874318e-1,
    6.931472149680364e-1,
];

/// Powers below this exponent are zero: beside the largest score's weight, 1, they are nothing.
const LEAST: f64 = -125.0;

/// 1.5 times 2^23: the last bits of its sum with an integer are that integer's.
const SHIFT: f64 = 12_582_912.0;

/// 2 to the x, for x ≤ 0 that are numbers: 1 at 0.
pub(super) fn power(b: &mut Builder, x: Value) -> Value {
    let shape = b.ty(x).shape;
    let constant = |b: &mut Builder, c: f64| b.float(c, shape.dims());
    let whole = b.unary(UnaryOp::Round, x);
    let rest = b.sub(x, whole);
    let mut p = constant(b, POWER[0]);
    for &c in &POWER[1..] {
        let c = constant(b, c);
        p = b.fma(p, rest, c);
    }
    let (one, shift) = (constant(b, 1.0), constant(b, SHIFT));
    let p = b.fma(p, rest, one);
    // The exponent's bits are the integer's, added to those of the fraction's power.
    let moved = b.add(whole, shift);
    let moved = b.bitcast(moved, Elem::I32);
    let places = b.int(23, Type::new(Elem::I32, shape.dims()));
    let exponent = b.binary(BinaryOp::Shl, moved, places);
    let bits = b.bitcast(p, Elem::I32);
    let bits = b.add(bits, exponent);
    let power = b.bitcast(bits, Elem::F32);
    let (least, zero) = (constant(b, LEAST), constant(b, 0.0));
    let low = b.cmp(CmpOp::Lt, x, least);
    b.select(low, zero, power)
}

/// The larger of two scores, without a rule for what is no number: one instruction of a processor.
pub(super) fn larger(b: &mut Builder, x: Value, y: Value) -> Value {
    let above = b.cmp(CmpOp::Gt, x, y);
    b.select(above, x, y)
}

/// The largest of scores `[1, n]`, n a power of two.
pub(super) fn largest(b: &mut Builder, mut scores: Value) -> Value {
    let mut n = b.ty(scores).shape.last();
    while n > 1 {
        n /= 2;
        let (low, high) = (b.slice(scores, 1, 0, n), b.slice(scores, 1, n, n));
        scores = larger(b, low, high);
    }
    scores
}
