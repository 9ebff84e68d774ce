//! Each operation against values worked out by hand, and float operations against the host's.

use crate::Case;
use hrx_ir::tile::interp::Options;
use hrx_ir::tile::{BinaryOp, CmpOp, Elem, ReduceOp, Type, UnaryOp};
use proptest::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// Equality in which NaN equals NaN and zeros differ by sign.
fn assert_same(got: &[f64], want: &[f64], what: &str) {
    let same = |a: &f64, b: &f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
    assert!(got.len() == want.len() && got.iter().zip(want).all(|(a, b)| same(a, b)), "{what}: {got:?}, not {want:?}");
}

fn unary(op: UnaryOp, elem: Elem, x: &[f64], want: &[f64]) {
    for options in [Options::default(), Options::exact()] {
        let mut c = Case::default();
        let a = c.input(elem, &[x.len() as u32], x);
        let v = c.b.unary(op, a);
        assert_same(&c.run(v, options).unwrap(), want, op.name());
    }
}

fn binary(op: BinaryOp, elem: Elem, x: &[f64], y: &[f64], want: &[f64]) {
    for options in [Options::default(), Options::exact()] {
        let mut c = Case::default();
        let a = c.input(elem, &[x.len() as u32], x);
        let b = c.input(elem, &[y.len() as u32], y);
        let v = c.b.binary(op, a, b);
        assert_same(&c.run(v, options).unwrap(), want, op.name());
    }
}

#[test]
fn unary_floats() {
    use Elem::F32;
    unary(UnaryOp::Neg, F32, &[1.5, -0.0, INF], &[-1.5, 0.0, -INF]);
    unary(UnaryOp::Abs, F32, &[-1.5, -0.0, -INF], &[1.5, 0.0, INF]);
    unary(UnaryOp::Neg, Elem::F16, &[1.5, -2.0], &[-1.5, 2.0]);
    unary(UnaryOp::Abs, Elem::BF16, &[-1.5, 2.0], &[1.5, 2.0]);
    unary(UnaryOp::Exp, F32, &[0.0, 1.0, -105.0, 90.0, -INF], &[1.0, f64::from(1f32.exp()), 0.0, INF, 0.0]);
    unary(UnaryOp::Sqrt, F32, &[9.0, 2.0, -1.0], &[3.0, f64::from(2f32.sqrt()), NAN]);
    unary(UnaryOp::Rsqrt, F32, &[4.0, 0.0, INF], &[0.5, INF, 0.0]);
    unary(UnaryOp::Tanh, F32, &[0.0, 20.0, -20.0], &[0.0, 1.0, -1.0]);
    unary(UnaryOp::Floor, F32, &[1.5, -1.5, -0.25], &[1.0, -2.0, -1.0]);
    unary(UnaryOp::Round, F32, &[0.5, 1.5, 2.5, -0.5, -1.75], &[0.0, 2.0, 2.0, -0.0, -2.0]);
}

#[test]
fn unary_integers_wrap() {
    unary(UnaryOp::Neg, Elem::I8, &[-128.0, 5.0], &[-128.0, -5.0]);
    unary(UnaryOp::Neg, Elem::U16, &[1.0, 0.0], &[65535.0, 0.0]);
    unary(UnaryOp::Abs, Elem::I32, &[-2147483648.0, -3.0], &[-2147483648.0, 3.0]);
    unary(UnaryOp::Not, Elem::U8, &[0x0F as f64], &[0xF0 as f64]);
    unary(UnaryOp::Not, Elem::I32, &[0.0], &[-1.0]);
}

#[test]
fn rsqrt_rounds_twice_on_the_device_only() {
    for x in 1..200u32 {
        let x = x as f32 * 0.37;
        let build = || {
            let mut c = Case::default();
            let a = c.floats(&[x.into()]);
            let v = c.b.unary(UnaryOp::Rsqrt, a);
            (c, v)
        };
        let (c, v) = build();
        assert_eq!(c.exact(v), [f64::from(1.0 / x.sqrt())]);
        let (c, v) = build();
        assert_eq!(c.oracle(v), [f64::from((1.0 / f64::from(x).sqrt()) as f32)]);
    }
}

#[test]
fn binary_floats() {
    use Elem::F32;
    binary(BinaryOp::Add, F32, &[1.0, INF], &[2.0, -INF], &[3.0, NAN]);
    binary(BinaryOp::Sub, F32, &[1.0], &[2.5], &[-1.5]);
    binary(BinaryOp::Mul, F32, &[3.0, -0.0], &[0.5, 1.0], &[1.5, -0.0]);
    binary(BinaryOp::Div, F32, &[1.0, 1.0, 0.0], &[4.0, 0.0, 0.0], &[0.25, INF, NAN]);
    binary(BinaryOp::Min, F32, &[1.0, NAN, 2.0, 0.0, NAN], &[2.0, 3.0, NAN, -0.0, NAN], &[1.0, 3.0, 2.0, -0.0, NAN]);
    binary(BinaryOp::Max, F32, &[1.0, NAN, 2.0, -0.0, NAN], &[2.0, 3.0, NAN, 0.0, NAN], &[2.0, 3.0, 2.0, 0.0, NAN]);
}

#[test]
fn binary_integers() {
    use Elem::{I8, I16, I32, U8, U32};
    let top = 4294967295.0;
    binary(BinaryOp::Add, I32, &[2147483647.0], &[1.0], &[-2147483648.0]);
    binary(BinaryOp::Sub, U8, &[3.0], &[5.0], &[254.0]);
    binary(BinaryOp::Mul, U32, &[top, 65536.0], &[top, 65536.0], &[1.0, 0.0]);
    binary(BinaryOp::Mul, I16, &[300.0], &[300.0], &[24464.0]);
    binary(BinaryOp::Div, I32, &[7.0, -7.0, -2147483648.0], &[2.0, 2.0, -1.0], &[3.0, -3.0, -2147483648.0]);
    binary(BinaryOp::Div, U32, &[top], &[2.0], &[2147483647.0]);
    binary(BinaryOp::Rem, I32, &[7.0, -7.0, -2147483648.0], &[4.0, 4.0, -1.0], &[3.0, -3.0, 0.0]);
    binary(BinaryOp::Min, U8, &[200.0], &[100.0], &[100.0]);
    binary(BinaryOp::Max, I8, &[-1.0], &[1.0], &[1.0]);
    binary(BinaryOp::And, I8, &[-1.0], &[0x5A as f64], &[0x5A as f64]);
    binary(BinaryOp::Or, U8, &[0x50 as f64], &[0x0A as f64], &[0x5A as f64]);
    binary(BinaryOp::Xor, U32, &[top], &[1.0], &[top - 1.0]);
    binary(BinaryOp::Shl, U8, &[0x81 as f64, 1.0], &[1.0, 7.0], &[2.0, 128.0]);
    binary(BinaryOp::Shr, I8, &[-128.0], &[7.0], &[-1.0]);
    binary(BinaryOp::Shr, U8, &[128.0], &[7.0], &[1.0]);
}

#[test]
fn comparisons_and_truth_values() {
    let table: [(CmpOp, [f64; 4]); 6] = [
        (CmpOp::Eq, [0.0, 1.0, 0.0, 0.0]),
        (CmpOp::Ne, [1.0, 0.0, 1.0, 1.0]),
        (CmpOp::Lt, [1.0, 0.0, 0.0, 0.0]),
        (CmpOp::Le, [1.0, 1.0, 0.0, 0.0]),
        (CmpOp::Gt, [0.0, 0.0, 1.0, 0.0]),
        (CmpOp::Ge, [0.0, 1.0, 1.0, 0.0]),
    ];
    for (op, want) in table {
        let mut c = Case::default();
        let (a, b) = (c.floats(&[1.0, 2.0, 3.0, NAN]), c.floats(&[2.0, 2.0, 2.0, 2.0]));
        let v = c.b.cmp(op, a, b);
        assert_eq!(c.oracle(v), want, "{}", op.name());
    }
    let mut c = Case::default();
    let (a, b) = (c.input(Elem::U32, &[2], &[4294967295.0, 0.0]), c.input(Elem::U32, &[2], &[1.0, 1.0]));
    let above = c.b.cmp(CmpOp::Gt, a, b);
    let not = c.b.unary(UnaryOp::Not, above);
    let both = c.b.binary(BinaryOp::Or, above, not);
    let odd = c.b.binary(BinaryOp::Xor, both, above);
    assert_eq!(c.oracle(odd), [0.0, 1.0]);
}

#[test]
fn select_fma_constants_and_iota() {
    let mut c = Case::default();
    let (a, two) = (c.b.iota(4), c.b.index(2));
    let low = c.b.cmp(CmpOp::Lt, a, two);
    let x = c.b.float(0.1, &[4]);
    let y = c.floats(&[1.0, 2.0, 3.0, 4.0]);
    let v = c.b.select(low, x, y);
    assert_eq!(c.oracle(v), [f64::from(0.1f32), f64::from(0.1f32), 3.0, 4.0]);

    let mut c = Case::default();
    let v = c.b.int(-1, Type::new(Elem::U16, &[2]));
    assert_eq!(c.oracle(v), [65535.0, 65535.0]);

    // (1 + 2^-12)^2 - 1 - 2^-11 is 2^-24: lost if the product is rounded by itself.
    let build = || {
        let mut c = Case::default();
        let a = c.floats(&[1.0 + 2f64.powi(-12)]);
        let b = c.floats(&[-1.0 - 2f64.powi(-11)]);
        (c, a, b)
    };
    let (mut c, a, b) = build();
    let v = c.b.fma(a, a, b);
    assert_eq!(c.exact(v), [2f64.powi(-24)]);
    let (mut c, a, b) = build();
    let p = c.b.mul(a, a);
    let v = c.b.add(p, b);
    assert_eq!(c.exact(v), [0.0]);
    let (mut c, a, b) = build();
    let p = c.b.mul(a, a);
    let v = c.b.add(p, b);
    assert_eq!(c.oracle(v), [2f64.powi(-24)]);
}

#[test]
fn conversions() {
    let convert = |from: Elem, x: &[f64], to: Elem| {
        let mut c = Case::default();
        let a = c.input(from, &[x.len() as u32], x);
        let v = c.b.convert(a, to);
        c.oracle(v)
    };
    use Elem::*;
    assert_eq!(convert(F32, &[1.9, -1.9, 300.0, -300.0, NAN], I8), [1.0, -1.0, 127.0, -128.0, 0.0]);
    assert_eq!(convert(F32, &[-1.0, 5e9], U32), [0.0, 4294967295.0]);
    assert_eq!(convert(I32, &[300.0, -1.0], U8), [44.0, 255.0]);
    assert_eq!(convert(I8, &[-1.0], U32), [4294967295.0]);
    assert_eq!(convert(I32, &[16777217.0], F32), [16777216.0]);
    assert_eq!(convert(F32, &[2049.0, 1e6], F16), [2048.0, INF]);
    assert_eq!(convert(F32, &[257.0, 259.0], BF16), [256.0, 260.0]);
    assert_eq!(convert(F16, &[0.333251953125], F32), [0.333251953125]);
    assert_eq!(convert(BF16, &[3.0], F16), [3.0]);

    // The oracle rounds where the kernel says so.
    let mut c = Case::default();
    let (a, b) = (c.floats(&[1e8]), c.floats(&[1.0]));
    let sum = c.b.add(a, b);
    let half = c.b.convert(sum, BF16);
    let wide = c.b.convert(half, F32);
    let v = c.b.sub(wide, a);
    // 1e8 is 190.7 units of 2^19, the last place of a bf16 there.
    let bf16_of_1e8 = 191.0 * 524288.0;
    assert_eq!(c.oracle(v), [f64::from((bf16_of_1e8 - 1e8) as f32)]);
}

#[test]
fn bitcasts() {
    let mut c = Case::default();
    let a = c.floats(&[1.0, -0.0]);
    let v = c.b.bitcast(a, Elem::I32);
    assert_eq!(c.oracle(v), [f64::from(0x3f80_0000), f64::from(i32::MIN)]);
    let mut c = Case::default();
    let a = c.input(Elem::U16, &[2], &[f64::from(0x3c00), f64::from(0xc000)]);
    let v = c.b.bitcast(a, Elem::F16);
    assert_eq!(c.oracle(v), [1.0, -2.0]);
    let mut c = Case::default();
    let a = c.input(Elem::I8, &[1], &[-1.0]);
    let v = c.b.bitcast(a, Elem::U8);
    assert_eq!(c.oracle(v), [255.0]);
}

#[test]
fn moving_elements() {
    let six: Vec<f64> = (1..=6).map(f64::from).collect();
    let build = |dims: &[u32]| {
        let mut c = Case::default();
        let a = c.input(Elem::I32, dims, &six);
        (c, a)
    };
    let (mut c, a) = build(&[2, 3]);
    let b = c.b.int(9, Type::new(Elem::I32, &[2, 1]));
    let v = c.b.concat(a, b, 1);
    assert_eq!(c.oracle(v), [1.0, 2.0, 3.0, 9.0, 4.0, 5.0, 6.0, 9.0]);
    let (mut c, a) = build(&[2, 3]);
    let b = c.b.int(9, Type::new(Elem::I32, &[1, 3]));
    let v = c.b.concat(b, a, 0);
    assert_eq!(c.oracle(v), [9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let (mut c, a) = build(&[2, 3]);
    let v = c.b.slice(a, 1, 1, 2);
    assert_eq!(c.oracle(v), [2.0, 3.0, 5.0, 6.0]);
    let (mut c, a) = build(&[3, 2]);
    let v = c.b.slice(a, 0, 1, 1);
    assert_eq!(c.oracle(v), [3.0, 4.0]);
    let (mut c, a) = build(&[2, 3]);
    let v = c.b.repeat(a, 2);
    assert_eq!(c.oracle(v), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0, 6.0, 6.0]);
    let (mut c, a) = build(&[2, 3]);
    let v = c.b.transpose(a);
    assert_eq!(c.oracle(v), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let (mut c, a) = build(&[2, 1, 3]);
    let v = c.b.transpose(a);
    assert_eq!(c.oracle(v), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let (mut c, a) = build(&[3, 1, 2]);
    let v = c.b.broadcast(a, hrx_ir::tile::Shape::new(&[3, 2, 2]));
    assert_eq!(c.oracle(v), [1.0, 2.0, 1.0, 2.0, 3.0, 4.0, 3.0, 4.0, 5.0, 6.0, 5.0, 6.0]);
    let (mut c, a) = build(&[6, 1]);
    let v = c.b.broadcast(a, hrx_ir::tile::Shape::new(&[6, 2]));
    assert_eq!(c.oracle(v), [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 5.0, 5.0, 6.0, 6.0]);
    let (mut c, a) = build(&[2, 3]);
    let (flat, one) = (c.b.reshape(a, &[3, 2]), c.b.index(1));
    let v = c.b.add(flat, one);
    assert_eq!(c.oracle(v), [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
}

#[test]
fn reductions_combine_halves() {
    // Three elements are padded to four: the third goes into the first, then the second into that.
    let sum = |x: &[f64]| {
        let mut c = Case::default();
        let a = c.floats(x);
        let v = c.b.reduce(ReduceOp::Sum, a, 0);
        c.exact(v)[0]
    };
    let f = |x: f64| x as f32;
    for x in [vec![1e8, 3.0, -1e8], vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], vec![7.0]] {
        let y: Vec<f32> = x.iter().map(|&x| f(x)).collect();
        let want = match y[..] {
            [a] => a,
            [a, b, c] => (a + c) + b,
            [a, b, c, d, e, f, g] => ((a + e) + (c + g)) + ((b + f) + d),
            _ => unreachable!("three lengths"),
        };
        assert_eq!(sum(&x), f64::from(want));
    }
    assert_eq!(sum(&[1e8, 3.0, -1e8]), 3.0, "left to right it would be 0");
    assert_eq!(sum(&[-0.0, -0.0, -0.0]).to_bits(), (-0.0f64).to_bits(), "the neutral element is neutral");

    let mut c = Case::default();
    let a = c.input(Elem::I32, &[2, 3], &[1.0, 2.0, 3.0, 40.0, 50.0, 60.0]);
    let v = c.b.reduce(ReduceOp::Sum, a, 0);
    assert_eq!(c.oracle(v), [41.0, 52.0, 63.0]);
    let mut c = Case::default();
    let a = c.ints(&[i32::MAX, 1]);
    let v = c.b.reduce(ReduceOp::Sum, a, 0);
    assert_eq!(c.oracle(v), [f64::from(i32::MIN)]);
    let mut c = Case::default();
    let a = c.input(Elem::F32, &[2, 2, 2], &[1.0, NAN, -3.0, 4.0, 5.0, 6.0, NAN, NAN]);
    let v = c.b.reduce(ReduceOp::Max, a, 1);
    assert_same(&c.oracle(v), &[1.0, 4.0, 5.0, 6.0], "max");
    let mut c = Case::default();
    let a = c.ints(&[3, -7, 5]);
    let v = c.b.reduce(ReduceOp::Min, a, 0);
    assert_eq!(c.oracle(v), [-7.0]);
}

#[test]
fn dots() {
    let mut c = Case::default();
    let a = c.input(Elem::F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = c.input(Elem::F32, &[3, 2], &[1.0, 10.0, 2.0, 20.0, 3.0, 30.0]);
    let d = c.input(Elem::F32, &[2, 2], &[0.5, 0.0, 0.0, 0.25]);
    let v = c.b.dot(a, b, d);
    assert_eq!(c.oracle(v), [14.5, 140.0, 32.0, 320.25]);
    // Rising k from the accumulator on: ((1e8 + 3) - 1e8) is 0 in f32, as 1e8 + 3 rounds to 1e8.
    let build = || {
        let mut c = Case::default();
        let a = c.input(Elem::F32, &[1, 2], &[3.0, -1e8]);
        let b = c.input(Elem::F32, &[2, 1], &[1.0, 1.0]);
        let d = c.input(Elem::F32, &[1, 1], &[1e8]);
        let v = c.b.dot(a, b, d);
        (c, v)
    };
    let (c, v) = build();
    assert_eq!(c.exact(v), [0.0]);
    let (c, v) = build();
    assert_eq!(c.oracle(v), [3.0]);

    let mut c = Case::default();
    let a = c.input(Elem::U8, &[8], &[127.0, 127.0, 127.0, 127.0, 1.0, 2.0, 3.0, 4.0]);
    let b = c.input(Elem::I8, &[8], &[-127.0, -127.0, -127.0, -127.0, 1.0, -1.0, 1.0, -1.0]);
    let d = c.ints(&[5, 10]);
    let v = c.b.dot4(a, b, d);
    assert_eq!(c.oracle(v), [5.0 - 4.0 * 127.0 * 127.0, 8.0]);
}

#[test]
fn products_for_matrix_units() {
    // a and b differ in their number of rows, and all elements of the result from one another.
    let (m, n, k) = (16u32, 32u32, 64u32);
    let element = |i: u32, j: u32, by: u32| f64::from((i * by + j * 3) % 251) - 125.0;
    let tile =
        |rows: u32, by: u32| -> Vec<f64> { (0..rows).flat_map(|i| (0..k).map(move |j| element(i, j, by))).collect() };
    let (a, b) = (tile(m, 7), tile(n, 11));
    let sums: Vec<f64> = (0..m * n).map(|i| f64::from(i32::MAX - i as i32)).collect();
    let product = |i: u32, j: u32| (0..k).map(|l| element(i, l, 7) * element(j, l, 11)).sum::<f64>();
    let mut c = Case::default();
    let args = [c.input(Elem::I8, &[m, k], &a), c.input(Elem::I8, &[n, k], &b), c.input(Elem::I32, &[m, n], &sums)];
    let v = c.b.mma(args[0], args[1], args[2]);
    let wrapped = |at: u32| f64::from((sums[at as usize] as i64 + product(at / n, at % n) as i64) as i32);
    assert_eq!(c.exact(v), (0..m * n).map(wrapped).collect::<Vec<_>>());
    for elem in [Elem::F16, Elem::BF16] {
        for options in [Options::default(), Options::exact()] {
            let mut c = Case::default();
            let args = [c.input(elem, &[m, k], &a), c.input(elem, &[n, k], &b), c.b.float(0.5, &[m, n])];
            let v = c.b.mma(args[0], args[1], args[2]);
            let want: Vec<f64> = (0..m * n).map(|at| 0.5 + product(at / n, at % n)).collect();
            assert_eq!(c.run(v, options).unwrap(), want);
        }
    }
    // Rising k from the accumulator on, as for dots: 1e8 + 3 is 1e8 in f32.
    for (options, want) in [(Options::default(), 3.0), (Options::exact(), 0.0)] {
        let mut c = Case::default();
        let row = |first: f64, second: f64| [vec![first, second], vec![0.0; 14]].concat().repeat(16);
        let a = c.input(Elem::F16, &[16, 16], &row(3.0, -1e4));
        let b = c.input(Elem::F16, &[16, 16], &row(1.0, 1e4));
        let d = c.b.float(1e8, &[16, 16]);
        let v = c.b.mma(a, b, d);
        assert_eq!(c.run(v, options).unwrap(), [want; 256]);
    }
}

/// Any bit pattern, and often ones of moderate size.
fn any_f32() -> impl Strategy<Value = f32> {
    prop_oneof![any::<u32>().prop_map(f32::from_bits), -1e3f32..1e3, -1e-38f32..1e-38]
}

proptest! {
    #[test]
    fn exact_arithmetic_is_the_hosts(x in proptest::array::uniform3(any_f32())) {
        let [a, b, d] = x;
        let table = [
            (BinaryOp::Add, a + b), (BinaryOp::Sub, a - b), (BinaryOp::Mul, a * b), (BinaryOp::Div, a / b),
        ];
        let wide = |x: f32| [f64::from(x)];
        for (op, want) in table {
            let mut c = Case::default();
            let (va, vb) = (c.floats(&wide(a)), c.floats(&wide(b)));
            let v = c.b.binary(op, va, vb);
            assert_same(&c.exact(v), &wide(want), op.name());
        }
        let mut c = Case::default();
        let (va, vb, vd) = (c.floats(&wide(a)), c.floats(&wide(b)), c.floats(&wide(d)));
        let v = c.b.fma(va, vb, vd);
        assert_same(&c.exact(v), &wide(a.mul_add(b, d)), "fma");
        let mut c = Case::default();
        let va = c.floats(&wide(a));
        let v = c.b.unary(UnaryOp::Sqrt, va);
        assert_same(&c.exact(v), &wide(a.sqrt()), "sqrt");
    }
}
