//! exp and tanh, written out so that every target computes the same bits.
//!
//! Both are the polynomials of the Cephes library's single-precision functions (S. Moshier, expf.c and tanhf.c).

use super::rewrite::{Cursor, rewrite};
use hrx_ir::tile::{BinaryOp, CmpOp, Elem, Kernel, Op, UnaryOp, Value};

/// exp(r) = 1 + r + r² P(r) for |r| ≤ ln 2 / 2; highest power first.
const EXP: [f64; 6] =
    [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1];

/// tanh(x) = x + x³ P(x²) for |x| < 0.625; highest power first.
const TANH: [f64; 5] = [-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1];

/// The sign bit of an `f32`.
const SIGN: i64 = -1 << 31;

/// Expands every `exp` and `tanh` into arithmetic.
pub fn expand_math(k: &mut Kernel) {
    rewrite(k, |at, inst| match at.k.insts[inst].op {
        Op::Unary { op: UnaryOp::Exp, arg } => Some(exp(at, arg)),
        Op::Unary { op: UnaryOp::Tanh, arg } => Some(tanh(at, arg)),
        _ => None,
    });
}

fn horner(at: &mut Cursor, x: Value, coefficients: &[f64]) -> Value {
    let mut p = at.float(coefficients[0], x);
    for &c in &coefficients[1..] {
        let c = at.float(c, x);
        p = at.fma(p, x, c);
    }
    p
}

/// e to the x: x = n ln 2 + r, exp(x) = 2^n exp(r). ln 2 is taken off in two parts so that r is exact enough, and
/// 2^n is applied in two halves so that results below 2^-126 come out as subnormals.
fn exp(at: &mut Cursor, x: Value) -> Value {
    // Keeps n within what two exponents can hold; a NaN passes both comparisons unchanged.
    let most = at.float(89.0, x);
    let high = at.cmp(CmpOp::Gt, x, most);
    let y = at.select(high, most, x);
    let least = at.float(-104.0, x);
    let low = at.cmp(CmpOp::Lt, y, least);
    let y = at.select(low, least, y);
    let log2_e = at.float(std::f64::consts::LOG2_E, x);
    let scaled = at.binary(BinaryOp::Mul, y, log2_e);
    let n = at.unary(UnaryOp::Round, scaled);
    let (most, rest) = (at.float(-0.693359375, x), at.float(2.12194440e-4, x));
    let r = at.fma(n, most, y);
    let r = at.fma(n, rest, r);
    let p = horner(at, r, &EXP);
    let square = at.binary(BinaryOp::Mul, r, r);
    let e = at.fma(p, square, r);
    let one = at.float(1.0, x);
    let e = at.binary(BinaryOp::Add, e, one);
    // Conversion saturates, so that a NaN has a defined n; the product with r is NaN then.
    let n = at.convert(n, Elem::I32);
    let half = at.binary_int(BinaryOp::Shr, n, 1);
    let rest = at.binary(BinaryOp::Sub, n, half);
    let (half, rest) = (power_of_two(at, half), power_of_two(at, rest));
    let e = at.binary(BinaryOp::Mul, e, half);
    at.binary(BinaryOp::Mul, e, rest)
}

/// 2^n for integers -126 ≤ n ≤ 127, by the exponent's bits.
fn power_of_two(at: &mut Cursor, n: Value) -> Value {
    let biased = at.binary_int(BinaryOp::Add, n, 127);
    let bits = at.binary_int(BinaryOp::Shl, biased, 23);
    at.bitcast(bits, Elem::F32)
}

/// Hyperbolic tangent: the polynomial near zero, 1 - 2 / (exp(2|x|) + 1) with x's sign elsewhere.
fn tanh(at: &mut Cursor, x: Value) -> Value {
    let square = at.binary(BinaryOp::Mul, x, x);
    let p = horner(at, square, &TANH);
    let cube = at.binary(BinaryOp::Mul, square, x);
    let near = at.fma(p, cube, x);
    let size = at.unary(UnaryOp::Abs, x);
    let twice = at.binary(BinaryOp::Add, size, size);
    let e = exp(at, twice);
    let (one, two) = (at.float(1.0, x), at.float(2.0, x));
    let below = at.binary(BinaryOp::Add, e, one);
    let quotient = at.binary(BinaryOp::Div, two, below);
    let far = at.binary(BinaryOp::Sub, one, quotient);
    let far = with_sign(at, far, x);
    let limit = at.float(0.625, x);
    let is_near = at.cmp(CmpOp::Lt, size, limit);
    at.select(is_near, near, far)
}

/// `x` with the sign of another number.
fn with_sign(at: &mut Cursor, x: Value, of: Value) -> Value {
    let (x, of) = (at.bitcast(x, Elem::I32), at.bitcast(of, Elem::I32));
    let size = at.binary_int(BinaryOp::And, x, !SIGN);
    let sign = at.binary_int(BinaryOp::And, of, SIGN);
    let bits = at.binary(BinaryOp::Or, size, sign);
    at.bitcast(bits, Elem::F32)
}
