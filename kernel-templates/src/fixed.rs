//! Numbers of 15 bits: whole multiples of a 16256th of a block's largest, in two bytes, `128 * high + low`.
//!
//! They are multiplied by codes four at a time and without rounding, as bytes are. What rounding leaves of a row is some
//! 5e-9 of its square, far below that of a KV cache in `f16`. (A low part of eight bits would have -128, which products of
//! bytes don't take.)

use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, Type, Value};

/// What the high byte counts, as a power of two.
pub(crate) const HIGH: u32 = 7;

/// The largest magnitude, 127 * 128.
const LARGEST: f64 = 16256.0;

/// The least magnitude whose inverse times [`LARGEST`] is a number with room to spare; what is smaller is zero.
const LEAST: f64 = 1e-30;

/// 1.5 * 2^23: the floats around it are the whole numbers.
const WHOLE: f64 = 12_582_912.0;

/// Of the largest magnitudes of blocks, `f32` of any shape: what elements are multiplied by, and the unit of the numbers.
pub(crate) fn scales(b: &mut Builder, most: Value) -> [Value; 2] {
    let dims = b.ty(most).shape;
    let [largest, zero, least, part] = [LARGEST, 0.0, LEAST, 1.0 / LARGEST].map(|n| b.float(n, dims.dims()));
    let inverse = b.div(largest, most);
    let some = b.cmp(CmpOp::Gt, most, least);
    let inverse = b.select(some, inverse, zero);
    [inverse, b.mul(most, part)]
}

/// The high and the low bytes `i8 [r, n]` of `x f32 [r, n]`, of which each row is multiplied by its `inverse f32 [r, 1]`.
pub(crate) fn parts(b: &mut Builder, x: Value, inverse: Value) -> [Value; 2] {
    let ty = b.ty(x);
    let whole = b.float(WHOLE, ty.shape.dims());
    // The lowest bits of the sum are the whole number.
    let sum = b.fma(x, inverse, whole);
    let number = b.bitcast(sum, Elem::I32);
    let [half, by] = [1 << (HIGH - 1), HIGH].map(|n| b.int(i64::from(n), Type::new(Elem::I32, &[1, 1])));
    let upper = b.add(number, half);
    let upper = b.binary(BinaryOp::Shr, upper, by);
    let high = b.binary(BinaryOp::Shl, upper, by);
    let lower = b.sub(number, high);
    [upper, lower].map(|of| b.convert(of, Elem::I8))
}
