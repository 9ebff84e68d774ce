//! Arithmetic on whole tiles.

use super::super::op::{BinaryOp, CmpOp, ReduceOp, UnaryOp};
use super::super::types::{Elem, Shape};
use super::Precision;
use super::bits::{float_bits, float_from_bits, int_bits, round_float, truncate, wrap};
use super::fault::FaultKind;
use super::shape::around;
use std::rc::Rc;

/// The elements of a tile, row-major. Floats are exact in f64 whatever their type; a `b1` is 0 or 1.
#[derive(Clone, Debug)]
pub(super) enum Tile {
    Float(Rc<Vec<f64>>),
    Int(Rc<Vec<i64>>),
}

impl Tile {
    pub(super) fn floats(data: Vec<f64>) -> Tile {
        Tile::Float(Rc::new(data))
    }

    pub(super) fn ints(data: Vec<i64>) -> Tile {
        Tile::Int(Rc::new(data))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Tile::Float(d) => d.len(),
            Tile::Int(d) => d.len(),
        }
    }
}

impl Precision {
    /// A result of `f32` arithmetic as this precision keeps it. The operands being binary32 numbers, rounding the
    /// binary64 sum, product, quotient or square root once more gives the correctly rounded binary32 one: 53 bits are
    /// more than twice 24 and two.
    fn keep(self, x: f64) -> f64 {
        match self {
            Precision::F64 => x,
            Precision::Exact => f64::from(x as f32),
        }
    }

    fn fma(self, a: f64, b: f64, c: f64) -> f64 {
        match self {
            Precision::F64 => a.mul_add(b, c),
            Precision::Exact => f64::from((a as f32).mul_add(b as f32, c as f32)),
        }
    }
}

/// The smaller one, a number before a NaN, -0 before +0.
fn min(a: f64, b: f64) -> f64 {
    if a < b || b.is_nan() || (a == b && a.is_sign_negative()) { a } else { b }
}

/// The larger one, a number before a NaN, +0 before -0.
fn max(a: f64, b: f64) -> f64 {
    if a > b || b.is_nan() || (a == b && a.is_sign_positive()) { a } else { b }
}

fn no(op: &str) -> FaultKind {
    FaultKind::malformed(format!("{op} on operands it does not take"))
}

pub(super) fn unary(op: UnaryOp, elem: Elem, arg: &Tile, precision: Precision) -> Result<Tile, FaultKind> {
    match arg {
        Tile::Float(d) => {
            let f: fn(f64) -> f64 = match op {
                UnaryOp::Neg => |x| -x,
                UnaryOp::Abs => f64::abs,
                UnaryOp::Exp => f64::exp,
                UnaryOp::Sqrt => f64::sqrt,
                UnaryOp::Tanh => f64::tanh,
                UnaryOp::Floor => f64::floor,
                UnaryOp::Round => f64::round_ties_even,
                UnaryOp::Rsqrt => {
                    let each = |&x: &f64| precision.keep(1.0 / precision.keep(x.sqrt()));
                    return Ok(Tile::floats(d.iter().map(each).collect()));
                }
                UnaryOp::Not => return Err(no("not")),
            };
            Ok(Tile::floats(d.iter().map(|&x| precision.keep(f(x))).collect()))
        }
        Tile::Int(d) => {
            let f: fn(i64) -> i64 = match op {
                UnaryOp::Neg => |x| -x,
                UnaryOp::Abs => i64::abs,
                UnaryOp::Not => |x| !x,
                _ => return Err(no(op.name())),
            };
            Ok(Tile::ints(d.iter().map(|&x| wrap(elem, f(x))).collect()))
        }
    }
}

pub(super) fn binary(op: BinaryOp, elem: Elem, args: [&Tile; 2], precision: Precision) -> Result<Tile, FaultKind> {
    match args {
        [Tile::Float(a), Tile::Float(b)] => {
            let f: fn(f64, f64) -> f64 = match op {
                BinaryOp::Add => |a, b| a + b,
                BinaryOp::Sub => |a, b| a - b,
                BinaryOp::Mul => |a, b| a * b,
                BinaryOp::Div => |a, b| a / b,
                BinaryOp::Min => min,
                BinaryOp::Max => max,
                _ => return Err(no(op.name())),
            };
            Ok(Tile::floats(a.iter().zip(b.iter()).map(|(&a, &b)| precision.keep(f(a, b))).collect()))
        }
        [Tile::Int(a), Tile::Int(b)] => int_binary(op, elem, a, b),
        _ => Err(no(op.name())),
    }
}

fn int_binary(op: BinaryOp, elem: Elem, a: &[i64], b: &[i64]) -> Result<Tile, FaultKind> {
    let width = 8 * elem.bytes();
    match op {
        BinaryOp::Div | BinaryOp::Rem => {
            if let Some(element) = b.iter().position(|&b| b == 0) {
                return Err(FaultKind::DivisionByZero { element });
            }
        }
        BinaryOp::Shl | BinaryOp::Shr => {
            if let Some(element) = b.iter().position(|&b| !(0..i64::from(width)).contains(&b)) {
                return Err(FaultKind::ShiftAmount { element, amount: b[element], width });
            }
        }
        _ => {}
    }
    let f: fn(i64, i64) -> i64 = match op {
        BinaryOp::Add => |a, b| a + b,
        BinaryOp::Sub => |a, b| a - b,
        // Two u32 may give more than an i64 holds; the low half is right all the same.
        BinaryOp::Mul => i64::wrapping_mul,
        BinaryOp::Div => |a, b| a / b,
        BinaryOp::Rem => |a, b| a % b,
        BinaryOp::Min => i64::min,
        BinaryOp::Max => i64::max,
        BinaryOp::And => |a, b| a & b,
        BinaryOp::Or => |a, b| a | b,
        BinaryOp::Xor => |a, b| a ^ b,
        BinaryOp::Shl => |a, b| a << b,
        BinaryOp::Shr => |a, b| a >> b,
    };
    Ok(Tile::ints(a.iter().zip(b).map(|(&a, &b)| wrap(elem, f(a, b))).collect()))
}

pub(super) fn cmp(op: CmpOp, args: [&Tile; 2]) -> Result<Tile, FaultKind> {
    fn each<T: PartialOrd + Copy>(op: CmpOp, a: &[T], b: &[T]) -> Tile {
        let f: fn(T, T) -> bool = match op {
            CmpOp::Eq => |a, b| a == b,
            CmpOp::Ne => |a, b| a != b,
            CmpOp::Lt => |a, b| a < b,
            CmpOp::Le => |a, b| a <= b,
            CmpOp::Gt => |a, b| a > b,
            CmpOp::Ge => |a, b| a >= b,
        };
        Tile::ints(a.iter().zip(b).map(|(&a, &b)| i64::from(f(a, b))).collect())
    }
    match args {
        [Tile::Float(a), Tile::Float(b)] => Ok(each(op, a, b)),
        [Tile::Int(a), Tile::Int(b)] => Ok(each(op, a, b)),
        _ => Err(no(op.name())),
    }
}

pub(super) fn select(args: [&Tile; 3]) -> Result<Tile, FaultKind> {
    fn each<T: Copy>(c: &[i64], a: &[T], b: &[T]) -> Vec<T> {
        c.iter().zip(a.iter().zip(b)).map(|(&c, (&a, &b))| if c != 0 { a } else { b }).collect()
    }
    match args {
        [Tile::Int(c), Tile::Float(a), Tile::Float(b)] => Ok(Tile::floats(each(c, a, b))),
        [Tile::Int(c), Tile::Int(a), Tile::Int(b)] => Ok(Tile::ints(each(c, a, b))),
        _ => Err(no("select")),
    }
}

pub(super) fn fma(args: [&Tile; 3], precision: Precision) -> Result<Tile, FaultKind> {
    let [Tile::Float(a), Tile::Float(b), Tile::Float(c)] = args else { return Err(no("fma")) };
    let each = a.iter().zip(b.iter()).zip(c.iter());
    Ok(Tile::floats(each.map(|((&a, &b), &c)| precision.fma(a, b, c)).collect()))
}

pub(super) fn convert(arg: &Tile, to: Elem) -> Tile {
    match (arg, to.is_float()) {
        (Tile::Float(d), true) => Tile::floats(d.iter().map(|&x| round_float(to, x)).collect()),
        (Tile::Float(d), false) => Tile::ints(d.iter().map(|&x| truncate(to, x)).collect()),
        (Tile::Int(d), true) => Tile::floats(d.iter().map(|&n| round_float(to, n as f64)).collect()),
        (Tile::Int(d), false) => Tile::ints(d.iter().map(|&n| wrap(to, n)).collect()),
    }
}

pub(super) fn bitcast(arg: &Tile, from: Elem, to: Elem) -> Tile {
    let bits: Vec<u32> = match arg {
        Tile::Float(d) => d.iter().map(|&x| float_bits(from, x)).collect(),
        Tile::Int(d) => d.iter().map(|&n| int_bits(from, n)).collect(),
    };
    from_bits(&bits, to)
}

/// The tile of type `elem` with these bits.
pub(super) fn from_bits(bits: &[u32], elem: Elem) -> Tile {
    match elem.is_float() {
        true => Tile::floats(bits.iter().map(|&b| float_from_bits(elem, b)).collect()),
        false => Tile::ints(bits.iter().map(|&b| wrap(elem, i64::from(b))).collect()),
    }
}

/// Combines the halves of an axis until one place is left: with places for the next power of two, the upper half into the
/// lower one. Places that the axis does not have are neutral, so they are left out.
pub(super) fn reduce(op: ReduceOp, elem: Elem, arg: &Tile, shape: &Shape, axis: usize, precision: Precision) -> Tile {
    fn halve<T: Copy>(data: &[T], [outer, n, inner]: [usize; 3], f: impl Fn(T, T) -> T) -> Vec<T> {
        let mut out = Vec::with_capacity(outer * inner);
        for row in data.chunks_exact((n * inner).max(1)) {
            let mut work = row.to_vec();
            let (mut live, mut half) = (n, n.next_power_of_two() / 2);
            while half > 0 {
                let (lower, upper) = work.split_at_mut(half * inner);
                for (l, u) in lower.iter_mut().zip(&upper[..(live - half) * inner]) {
                    *l = f(*l, *u);
                }
                live = half;
                half /= 2;
            }
            out.extend_from_slice(&work[..inner]);
        }
        out
    }
    let extents = around(shape, axis);
    match (arg, op) {
        (Tile::Float(d), ReduceOp::Sum) => Tile::floats(halve(d, extents, |a, b| precision.keep(a + b))),
        (Tile::Float(d), ReduceOp::Max) => Tile::floats(halve(d, extents, max)),
        (Tile::Float(d), ReduceOp::Min) => Tile::floats(halve(d, extents, min)),
        (Tile::Int(d), ReduceOp::Sum) => Tile::ints(halve(d, extents, |a, b| wrap(elem, a + b))),
        (Tile::Int(d), ReduceOp::Max) => Tile::ints(halve(d, extents, i64::max)),
        (Tile::Int(d), ReduceOp::Min) => Tile::ints(halve(d, extents, i64::min)),
    }
}

/// `c + a b` for `a [_, K]` and `b [K, N]`, `k` rising.
pub(super) fn dot(args: [&Tile; 3], [k, n]: [usize; 2], precision: Precision) -> Result<Tile, FaultKind> {
    let [Tile::Float(a), Tile::Float(b), Tile::Float(c)] = args else { return Err(no("dot")) };
    let mut out = c.to_vec();
    for (a, out) in a.chunks_exact(k).zip(out.chunks_exact_mut(n)) {
        for (&a, b) in a.iter().zip(b.chunks_exact(n)) {
            for (out, &b) in out.iter_mut().zip(b) {
                *out = precision.fma(a, b, *out);
            }
        }
    }
    Ok(Tile::floats(out))
}

/// `c + a bᵀ` for `a [M, K]` and `b [N, K]`, `k` rising.
pub(super) fn mma(args: [&Tile; 3], k: usize, precision: Precision) -> Result<Tile, FaultKind> {
    /// Calls `sum` with each row of `a` and of `b` and the element of `c` that they go to.
    fn each<T: Copy>(a: &[T], b: &[T], c: &[T], k: usize, sum: impl Fn(&[T], &[T], T) -> T) -> Vec<T> {
        let pairs = a.chunks_exact(k).flat_map(|a| b.chunks_exact(k).map(move |b| (a, b)));
        pairs.zip(c).map(|((a, b), &c)| sum(a, b, c)).collect()
    }
    match args {
        [Tile::Float(a), Tile::Float(b), Tile::Float(c)] => Ok(Tile::floats(each(a, b, c, k, |a, b, c| {
            a.iter().zip(b).fold(c, |sum, (&a, &b)| precision.fma(a, b, sum))
        }))),
        // Products of bytes: an i64 holds their sum.
        [Tile::Int(a), Tile::Int(b), Tile::Int(c)] => Ok(Tile::ints(each(a, b, c, k, |a, b, c| {
            wrap(Elem::I32, a.iter().zip(b).fold(c, |sum, (a, b)| sum + a * b))
        }))),
        _ => Err(no("mma")),
    }
}

pub(super) fn dot4(args: [&Tile; 3]) -> Result<Tile, FaultKind> {
    let [Tile::Int(a), Tile::Int(b), Tile::Int(c)] = args else { return Err(no("dot4")) };
    if let Some(element) = b.iter().position(|&b| b == -128) {
        return Err(FaultKind::Dot4Range { element });
    }
    let fours = a.chunks_exact(4).zip(b.chunks_exact(4)).zip(c.iter());
    let sum =
        |((a, b), c): ((&[i64], &[i64]), &i64)| wrap(Elem::I32, c + a.iter().zip(b).map(|(a, b)| a * b).sum::<i64>());
    Ok(Tile::ints(fours.map(sum).collect()))
}
