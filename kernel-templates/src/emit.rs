//! Small pieces of code that several families emit.

use crate::facts::Activation;
use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, Type, UnaryOp, Value};

/// The function of an activation.
pub(crate) fn activation(b: &mut Builder, act: Activation, x: Value) -> Value {
    let dims = b.ty(x).shape;
    let one = b.float(1.0, dims.dims());
    match act {
        Activation::Silu => {
            let minus = b.unary(UnaryOp::Neg, x);
            let e = b.unary(UnaryOp::Exp, minus);
            let d = b.add(e, one);
            b.div(x, d)
        }
        Activation::GeluTanh => {
            let c = b.float((2.0 / std::f64::consts::PI).sqrt(), dims.dims());
            let cubic = b.float(0.044715, dims.dims());
            let half = b.float(0.5, dims.dims());
            let xx = b.mul(x, x);
            let inner = b.fma(cubic, xx, one);
            let cx = b.mul(c, x);
            let arg = b.mul(cx, inner);
            let t = b.unary(UnaryOp::Tanh, arg);
            let t1 = b.add(t, one);
            let hx = b.mul(half, x);
            b.mul(hx, t1)
        }
    }
}

/// cap * tanh(x / cap).
pub(crate) fn softcap(b: &mut Builder, cap: f64, x: Value) -> Value {
    let dims = b.ty(x).shape;
    let (c, inv) = (b.float(cap, dims.dims()), b.float(1.0 / cap, dims.dims()));
    let scaled = b.mul(x, inv);
    let t = b.unary(UnaryOp::Tanh, scaled);
    b.mul(t, c)
}

/// x times a constant; nothing where it is 1.
pub(crate) fn scaled(b: &mut Builder, by: f64, x: Value) -> Value {
    if by == 1.0 {
        return x;
    }
    let dims = b.ty(x).shape;
    let c = b.float(by, dims.dims());
    b.mul(x, c)
}

/// The scalar at place `at` of a rank-1 view of `i32`.
pub(crate) fn load_index(b: &mut Builder, view: hrx_ir::tile::View, at: Value) -> Value {
    let one = b.load(view, &[at], &[1], None);
    b.reshape(one, &[])
}

/// `min(index + i, extent - 1)`: a place to load from whether or not the i-th one exists.
pub(crate) fn clamped(b: &mut Builder, index: Value, i: u32, extent: Value) -> Value {
    let (i, one) = (b.index(i64::from(i)), b.index(1));
    let (at, last) = (b.add(index, i), b.sub(extent, one));
    b.min(at, last)
}

/// index + n, without an instruction where n is 0.
pub(crate) fn plus(b: &mut Builder, index: Value, n: u32) -> Value {
    if n == 0 {
        return index;
    }
    let n = b.index(i64::from(n));
    b.add(index, n)
}

/// index * n, without an instruction where n is 1.
pub(crate) fn times(b: &mut Builder, index: Value, n: u32) -> Value {
    if n == 1 {
        return index;
    }
    let n = b.index(i64::from(n));
    b.mul(index, n)
}

/// index / 2^n of an index that is not negative.
pub(crate) fn shifted_right(b: &mut Builder, index: Value, n: u32) -> Value {
    let n = b.index(i64::from(n));
    b.binary(BinaryOp::Shr, index, n)
}

/// Which of the places `first .. first + n` are below `end`, as a mask `[1, n]`. Where all three are multiples of a small
/// power of two, as many neighbours have one answer, so that they can be accessed together.
pub(crate) fn below(b: &mut Builder, first: Value, n: u32, end: u32) -> Value {
    let step = if n > hrx_ir::quant::CHUNK { 1 << (n | end | 4).trailing_zeros() } else { 1 };
    let (iota, step_value) = (b.iota(n / step), b.int(i64::from(step), Type::new(Elem::I32, &[n / step])));
    let at = if step == 1 { iota } else { b.mul(iota, step_value) };
    let at = b.add(at, first);
    let end = b.int(i64::from(end), Type::new(Elem::I32, &[n / step]));
    let m = b.cmp(CmpOp::Lt, at, end);
    let m = b.repeat(m, step);
    b.reshape(m, &[1, n])
}
