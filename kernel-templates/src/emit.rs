//! Small pieces of code that several families emit.

use crate::facts::{Activation, Limit};
use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, Type, UnaryOp, Value};

/// The function of an activation.
pub(crate) fn activation(b: &mut Builder, act: Activation, x: Value) -> Value {
    let dims = b.ty(x).shape;
    let one = b.float(1.0, dims.dims());
    match act {
        Activation::Silu => {
            let d = one_plus_exp_of_minus(b, x);
            b.div(x, d)
        }
        Activation::GeluQuick => {
            let steep = scaled(b, 1.702, x);
            let d = one_plus_exp_of_minus(b, steep);
            b.div(x, d)
        }
        Activation::Sigmoid => {
            let d = one_plus_exp_of_minus(b, x);
            b.div(one, d)
        }
        Activation::Softplus => softplus(b, x),
        Activation::ReluSquared => {
            let zero = b.float(0.0, dims.dims());
            let above = b.max(x, zero);
            b.mul(above, above)
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

fn one_plus_exp_of_minus(b: &mut Builder, x: Value) -> Value {
    let one = b.float(1.0, b.ty(x).shape.dims());
    let minus = b.unary(UnaryOp::Neg, x);
    let e = b.unary(UnaryOp::Exp, minus);
    b.add(e, one)
}

/// ln(1 + exp(x)) = max(x, 0) + ln(1 + e) for e = exp(-|x|), and ln(1 + e) = 2 artanh(s) for s = e / (2 + e), at most a
/// third, whose odd powers over their exponents are summed.
fn softplus(b: &mut Builder, x: Value) -> Value {
    let dims = b.ty(x).shape;
    let constant = |b: &mut Builder, c: f64| b.float(c, dims.dims());
    let (zero, two) = (constant(b, 0.0), constant(b, 2.0));
    let size = b.unary(UnaryOp::Abs, x);
    let minus = b.unary(UnaryOp::Neg, size);
    let e = b.unary(UnaryOp::Exp, minus);
    let below = b.add(e, two);
    let s = b.div(e, below);
    let square = b.mul(s, s);
    let mut sum = constant(b, 1.0 / 15.0);
    for power in [13, 11, 9, 7, 5, 3, 1] {
        let c = constant(b, 1.0 / f64::from(power));
        sum = b.fma(sum, square, c);
    }
    let s = b.mul(s, two);
    let above = b.max(x, zero);
    b.fma(s, sum, above)
}

/// A gated product with its bounds.
pub(crate) fn gated(b: &mut Builder, act: Activation, limit: Limit, gate: Value, up: Value) -> Value {
    let dims = b.ty(gate).shape;
    let bounded = |b: &mut Builder, x: Value, l: f64| {
        let l = b.float(l, dims.dims());
        b.min(x, l)
    };
    let clamped = |b: &mut Builder, l: f64| {
        let up = bounded(b, up, l);
        let least = b.float(-l, dims.dims());
        b.max(up, least)
    };
    match limit {
        Limit::Off => {
            let gate = activation(b, act, gate);
            b.mul(gate, up)
        }
        Limit::Gate(l) | Limit::GatePlusOne(l) => {
            let gate = bounded(b, gate, l.f64());
            let gate = activation(b, act, gate);
            let mut up = clamped(b, l.f64());
            if let Limit::GatePlusOne(_) = limit {
                let one = b.float(1.0, dims.dims());
                up = b.add(up, one);
            }
            b.mul(gate, up)
        }
        Limit::Activated(l) => {
            let gate = activation(b, act, gate);
            let gate = bounded(b, gate, l.f64());
            let up = clamped(b, l.f64());
            b.mul(gate, up)
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

/// The `n` places from `first` on, and the same clamped to the last of `count`.
pub(crate) fn places(b: &mut Builder, first: Value, n: u32, count: Value) -> (Value, Value) {
    let (iota, one) = (b.iota(n), b.index(1));
    let place = b.add(iota, first);
    let last = b.sub(count, one);
    (place, b.min(place, last))
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
