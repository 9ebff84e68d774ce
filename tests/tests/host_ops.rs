//! Every elementwise operation, reduction and product, compiled, against the interpreter on the values where they are
//! known to go wrong: signed zeros, NaN, infinities, subnormals, ties, the ends of integers.

use hrx_compiler::passes::lower_host;
use hrx_ir::tile::interp::{FaultKind, Options};
use hrx_ir::tile::parse_kernel;
use hrx_ir::tile::{Access, BinaryOp, Builder, CmpOp, Elem, Kernel, Op, ReduceOp, UnaryOp, Value, View, result_type};
use hrx_tests::host::{Checker, Flush, HostKernel, Input, Lowering, check, decode, encode, interpret, targets};

/// Widths of tiles: a scalar, an odd vector, one register, several.
const WIDTHS: [u32; 4] = [1, 7, 8, 32];

/// Bytes of interesting values of a type.
fn specials(elem: Elem) -> Vec<u8> {
    let floats = [
        0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        3.5,
        0.49999997,
        8388607.5,
        1e-40,
        1e-45,
        1.1754944e-38,
        3.4028235e38,
        126.5,
        127.5,
        128.5,
        254.5,
        255.5,
        32767.5,
        65503.9,
        65519.99,
        65520.0,
        2147483520.0,
        2147483648.0,
        4294967040.0,
        4294967296.0,
        5.9604645e-8,
        2.9802322e-8,
        6.1e-5,
        1.0009766,
        1.00048828125,
        0.99951171875,
        1e-20,
        1e20,
        f64::INFINITY,
        f64::NAN,
    ];
    if elem.is_float() {
        return encode(elem, &floats.iter().flat_map(|&x: &f64| [x, -x]).collect::<Vec<_>>());
    }
    let bits = 8 * elem.bytes();
    let mut ints: Vec<i64> =
        vec![0, 1, 2, 3, 7, 10, 100, -1, -2, -3, -7, -100, 16777217, 33554433, 33685505, -33685505];
    ints.extend((0..bits).flat_map(|b| [(1i64 << b) - 1, 1 << b, (1 << b) + 1, -(1i64 << b)]));
    ints.extend([1077936129i64, 1082130433, 0x7FFF_FF80, 0x0101_8001]);
    let bytes = elem.bytes() as usize;
    ints.iter().flat_map(|n| n.to_le_bytes().into_iter().take(bytes)).collect()
}

/// As many elements as `n`, from the list again and again.
fn cycle(elem: Elem, bytes: &[u8], n: usize) -> Vec<u8> {
    let size = elem.bytes() as usize;
    bytes.chunks(size).cycle().take(n).flatten().copied().collect()
}

/// All pairs of the list's elements, and so many more that `width` divides their number.
fn pairs(elem: Elem, width: u32) -> [Vec<u8>; 2] {
    let bytes = specials(elem);
    let list: Vec<&[u8]> = bytes.chunks(elem.bytes() as usize).collect();
    let n = (list.len() * list.len()).next_multiple_of(width as usize);
    let first: Vec<u8> = list.iter().flat_map(|a| std::iter::repeat_n(*a, list.len())).flatten().copied().collect();
    [cycle(elem, &first, n), cycle(elem, &bytes, n)]
}

/// A kernel that applies `f` to tiles of some inputs, one program a tile; none where a rule forbids it.
fn elementwise(
    inputs: &[Elem],
    out: Elem,
    width: u32,
    n: usize,
    f: impl Fn(&mut Builder, &[Value]) -> Option<Value>,
) -> Option<Kernel> {
    let mut b = Builder::new("op");
    let extent = n as u32;
    let views: Vec<View> = inputs.iter().map(|&e| b.view_param(e, &[extent.into()], Access::In)).collect();
    let to = b.view_param(out, &[extent.into()], Access::Out);
    b.grid(0, hrx_ir::tile::GridExpr::constant(extent / width));
    let (pid, by) = (b.program_id(0), b.index(i64::from(width)));
    let at = b.mul(pid, by);
    let dims: &[u32] = if width == 1 { &[1] } else { &[width] };
    let tiles: Vec<Value> = views.iter().map(|&v| b.load(v, &[at], dims, None)).collect();
    let value = f(&mut b, &tiles)?;
    b.store(to, &[at], value, None);
    Some(b.finish())
}

/// The kernel as every way of compiling it makes it, for every target.
fn compiled(kernel: &Kernel) -> Vec<HostKernel<'_>> {
    let ways = |t| Lowering::ALL.iter().map(move |&way| HostKernel::lowered(kernel, &t, way).expect("compiles"));
    targets().into_iter().flat_map(ways).collect()
}

fn allowed(b: &Builder, op: &Op) -> bool {
    result_type(b.kernel(), op).is_ok()
}

fn agree(what: &str, kernel: &Kernel, inputs: Vec<Vec<u8>>, out_bytes: usize) {
    let mut inputs: Vec<Input> = inputs.into_iter().map(Input::Bytes).collect();
    inputs.push(Input::Room(out_bytes));
    fine(what, check(kernel, &inputs));
}

fn fine<T>(what: &str, result: Result<T, String>) -> T {
    result.unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// The types that memory holds.
const STORED: [Elem; 9] =
    [Elem::I8, Elem::U8, Elem::I16, Elem::U16, Elem::I32, Elem::U32, Elem::F16, Elem::BF16, Elem::F32];

#[test]
fn unary_operations() {
    for elem in STORED {
        for &op in UnaryOp::ALL.iter().filter(|o| !matches!(o, UnaryOp::Exp | UnaryOp::Tanh)) {
            for width in WIDTHS {
                let bytes = specials(elem);
                let n = (bytes.len() / elem.bytes() as usize).next_multiple_of(width as usize);
                let kernel = elementwise(&[elem], elem, width, n, |b, v| {
                    allowed(b, &Op::Unary { op, arg: v[0] }).then(|| b.unary(op, v[0]))
                });
                let Some(kernel) = kernel else { continue };
                let what = format!("{} of {width} {elem}", op.name());
                agree(&what, &kernel, vec![cycle(elem, &bytes, n)], n * elem.bytes() as usize);
            }
        }
    }
}

#[test]
fn binary_operations() {
    for elem in STORED {
        for &op in BinaryOp::ALL {
            for width in WIDTHS {
                let [first, mut second] = pairs(elem, width);
                let size = elem.bytes() as usize;
                let n = first.len() / size;
                // What is not defined has its own test.
                match op {
                    BinaryOp::Shl | BinaryOp::Shr => second.chunks_mut(size).for_each(|c| {
                        let amount = c[0] % (8 * size as u8);
                        c.fill(0);
                        c[0] = amount;
                    }),
                    BinaryOp::Div | BinaryOp::Rem if !elem.is_float() => {
                        second.chunks_mut(size).filter(|c| c.iter().all(|&b| b == 0)).for_each(|c| c[0] = 5)
                    }
                    _ => {}
                }
                let kernel = elementwise(&[elem, elem], elem, width, n, |b, v| {
                    allowed(b, &Op::Binary { op, args: [v[0], v[1]] }).then(|| b.binary(op, v[0], v[1]))
                });
                let Some(kernel) = kernel else { continue };
                agree(&format!("{} of {width} {elem}", op.name()), &kernel, vec![first, second], n * size);
            }
        }
    }
}

#[test]
fn comparisons_and_choices() {
    for elem in STORED {
        for &op in CmpOp::ALL {
            for width in WIDTHS {
                let [first, second] = pairs(elem, width);
                let n = first.len() / elem.bytes() as usize;
                let kernel = elementwise(&[elem, elem], elem, width, n, |b, v| {
                    allowed(b, &Op::Cmp { op, args: [v[0], v[1]] }).then(|| {
                        let c = b.cmp(op, v[0], v[1]);
                        b.select(c, v[0], v[1])
                    })
                });
                let Some(kernel) = kernel else { continue };
                let bytes = first.len();
                agree(&format!("{} of {width} {elem}", op.name()), &kernel, vec![first, second], bytes);
            }
        }
    }
}

#[test]
fn fused_multiply_add_rounds_once() {
    for width in WIDTHS {
        let [a, b] = pairs(Elem::F32, width);
        let n = a.len() / 4;
        let c = cycle(Elem::F32, &specials(Elem::F32)[12..], n);
        let kernel = elementwise(&[Elem::F32; 3], Elem::F32, width, n, |b, v| Some(b.fma(v[0], v[1], v[2])));
        agree("fma", &kernel.expect("f32"), vec![a, b, c], 4 * n);
    }
}

#[test]
fn conversions_and_bitcasts() {
    for from in STORED {
        for to in STORED {
            for width in WIDTHS {
                let bytes = specials(from);
                let n = (bytes.len() / from.bytes() as usize).next_multiple_of(width as usize);
                let input = cycle(from, &bytes, n);
                let out_bytes = n * to.bytes() as usize;
                let kernel = elementwise(&[from], to, width, n, |b, v| Some(b.convert(v[0], to))).expect("any types");
                agree(&format!("convert {width} {from} to {to}"), &kernel, vec![input.clone()], out_bytes);
                // The payload of a NaN that was computed is not defined; that of a loaded one passes, but the
                // interpreter keeps floats as f64, where a signalling one turns quiet.
                let kernel = elementwise(&[from], to, width, n, |b, v| {
                    allowed(b, &Op::Bitcast { arg: v[0], to }).then(|| b.bitcast(v[0], to))
                });
                if let Some(kernel) = kernel {
                    agree(&format!("bitcast {width} {from} to {to}"), &kernel, vec![input], out_bytes);
                }
            }
        }
    }
}

/// What the interpreter calls a fault of the kernel has a result in compiled code, and ends no process: the quotient by
/// zero is 0 and the remainder the dividend; shifts take the amount modulo the width.
#[test]
fn faults_of_integer_arithmetic_have_a_result() {
    for elem in [Elem::I8, Elem::U8, Elem::I16, Elem::U16, Elem::I32, Elem::U32] {
        for op in [BinaryOp::Div, BinaryOp::Rem, BinaryOp::Shl, BinaryOp::Shr] {
            for width in WIDTHS {
                let [first, second] = pairs(elem, width);
                let size = elem.bytes() as usize;
                let n = first.len() / size;
                let kernel = elementwise(&[elem, elem], elem, width, n, |b, v| Some(b.binary(op, v[0], v[1])));
                let kernel = kernel.expect("integers");
                let inputs = [Input::Bytes(first.clone()), Input::Bytes(second.clone()), Input::Room(n * size)];
                let fault = interpret(&kernel, &inputs, &Options::exact()).expect_err("a fault");
                assert!(
                    matches!(fault.kind, FaultKind::DivisionByZero { .. } | FaultKind::ShiftAmount { .. }),
                    "{fault}"
                );
                let wide = |bytes: &[u8]| -> Vec<i64> { decode(elem, bytes).into_iter().map(|x| x as i64).collect() };
                let (a, b) = (wide(&first), wide(&second));
                let bits = 8 * size as i64;
                let define = |(&a, &b): (&i64, &i64)| match op {
                    BinaryOp::Div => a.checked_div(b).unwrap_or(0),
                    BinaryOp::Rem => a.checked_rem(b).unwrap_or(a),
                    BinaryOp::Shl => a << b.rem_euclid(bits),
                    _ => a >> b.rem_euclid(bits),
                };
                let want: Vec<u8> =
                    a.iter().zip(&b).flat_map(|p| define(p).to_le_bytes().into_iter().take(size)).collect();
                for run in compiled(&kernel) {
                    let out = run.run(&inputs, Flush::End).unwrap();
                    let got = out[2].as_deref().expect("a buffer");
                    let differs = got.chunks(size).zip(want.chunks(size)).position(|(g, w)| g != w);
                    let pair = differs.map(|i| (a[i], b[i]));
                    assert_eq!(pair, None, "{} of {width} {elem}", op.name());
                }
            }
        }
    }
}

#[test]
fn reductions_of_every_length() {
    for elem in [Elem::F32, Elem::I32] {
        let list = specials(elem);
        for &op in ReduceOp::ALL {
            for n in (1..=17).chain([31, 32, 33, 64]) {
                for axis in 0..2 {
                    let dims = if axis == 1 { [5, n] } else { [n, 5] };
                    let size = 5 * n as usize;
                    let mut b = Builder::new("reduce");
                    let x = b.view_param(elem, &[dims[0].into(), dims[1].into()], Access::In);
                    let y = b.view_param(elem, &[5.into()], Access::Out);
                    let zero = b.index(0);
                    let tile = b.load(x, &[zero, zero], &dims, None);
                    let r = b.reduce(op, tile, axis);
                    let r = b.reshape(r, &[5]);
                    b.store(y, &[zero], r, None);
                    let kernel = b.finish();
                    let what = format!("{op:?} of {n} {elem}, axis {axis}");
                    let checker = fine(&what, Checker::new(&kernel));
                    // Different parts of the list, so that zeros of both signs and NaNs meet in every place.
                    for shift in [0, 1, 3, 8, 20, 61] {
                        let shifted = [&list[4 * shift..], &list[..4 * shift]].concat();
                        let inputs = [Input::Bytes(cycle(elem, &shifted, size)), Input::Room(20)];
                        fine(&what, checker.check(&inputs));
                    }
                }
            }
        }
    }
}

#[test]
fn products_of_bytes() {
    let bytes: Vec<u8> = (0..2048u32).map(|i| (i.wrapping_mul(2654435761) >> 11) as u8).collect();
    for a_elem in [Elem::I8, Elem::U8] {
        for n in [4u32, 8, 12, 16, 20, 32, 36, 48, 64, 128] {
            let mut b = Builder::new("dot4");
            let x = b.view_param(a_elem, &[3.into(), n.into()], Access::In);
            let y = b.view_param(Elem::I8, &[3.into(), n.into()], Access::In);
            let z = b.view_param(Elem::I32, &[3.into(), (n / 4).into()], Access::InOut);
            let zero = b.index(0);
            let at = [zero, zero];
            let (a, c) = (b.load(x, &at, &[3, n], None), b.load(y, &at, &[3, n], None));
            let sum = b.load(z, &at, &[3, n / 4], None);
            let sum = b.dot4(a, c, sum);
            b.store(z, &at, sum, None);
            let kernel = b.finish();
            let what = format!("dot4 of {n} {a_elem}");
            let checker = fine(&what, Checker::new(&kernel));
            let size = 3 * n as usize;
            // The largest sums that fit, then any.
            let extremes = (vec![127u8; size], vec![0x81u8; size]);
            let any_a = bytes[..size].to_vec();
            let any_b: Vec<u8> = bytes[512..512 + size].iter().map(|&v| if v == 0x80 { 0x81 } else { v }).collect();
            let least = (vec![if a_elem == Elem::I8 { 0x80 } else { 255 }; size], vec![0x81u8; size]);
            for (a, c) in [extremes, least, (any_a, any_b)] {
                let sums = cycle(Elem::I32, &specials(Elem::I32), size / 4);
                let inputs = [Input::Bytes(a), Input::Bytes(c), Input::Bytes(sums)];
                fine(&what, checker.check(&inputs));
            }
        }
    }
}

#[test]
fn matrix_products_add_in_order() {
    let list = cycle(Elem::F32, &specials(Elem::F32)[..200], 400);
    for [m, k, n] in [[1, 1, 1], [3, 5, 7], [4, 8, 8], [2, 16, 33]] {
        let mut b = Builder::new("dot");
        let mut view = |r: u32, c: u32, access| b.view_param(Elem::F32, &[r.into(), c.into()], access);
        let (x, y, z) = (view(m, k, Access::In), view(k, n, Access::In), view(m, n, Access::InOut));
        let zero = b.index(0);
        let at = [zero, zero];
        let tiles = [(x, m, k), (y, k, n), (z, m, n)].map(|(v, r, c)| b.load(v, &at, &[r, c], None));
        let sum = b.dot(tiles[0], tiles[1], tiles[2]);
        b.store(z, &at, sum, None);
        let kernel = b.finish();
        let part = |from: usize, n: u32| Input::Bytes(cycle(Elem::F32, &list[4 * from..], n as usize));
        check(&kernel, &[part(0, m * k), part(9, k * n), part(3, m * n)]).unwrap_or_else(|e| panic!("dot: {e}"));
    }
}

/// Distance in units in the last place of the correct result, which is at least the least subnormal.
fn ulps(got: f32, exact: f64) -> f64 {
    let correct = exact as f32;
    if got == correct || (got.is_nan() && correct.is_nan()) {
        return 0.0;
    }
    let above = f32::from_bits(correct.abs().to_bits() + 1);
    (f64::from(got) - exact).abs() / (f64::from(above) - f64::from(correct.abs())).abs()
}

#[test]
fn exponentials_are_as_close_as_documented() {
    type Exact = fn(f64) -> f64;
    let cases: [(UnaryOp, Exact, f64, f64); 2] =
        [(UnaryOp::Exp, f64::exp, 104.0, 2.0), (UnaryOp::Tanh, f64::tanh, 12.0, 4.0)];
    for (op, exact, range, most) in cases {
        let mut inputs: Vec<f64> =
            (-60_000..60_000).map(|i| f64::from((f64::from(i) / 60_000.0 * range) as f32)).collect();
        inputs.extend((0..20_000).map(|i| f64::from(f32::from_bits(0x3400_0000 + i * 2203))));
        inputs.extend(decode(Elem::F32, &specials(Elem::F32)));
        let n = inputs.len() / 8 * 8;
        let bytes = encode(Elem::F32, &inputs[inputs.len() - n..]);
        let kernel = elementwise(&[Elem::F32], Elem::F32, 8, n, |b, v| Some(b.unary(op, v[0]))).expect("f32");
        for run in compiled(&kernel) {
            let out = run.run(&[Input::Bytes(bytes.clone()), Input::Room(4 * n)], Flush::End).unwrap();
            let got = decode(Elem::F32, out[1].as_deref().expect("a buffer"));
            let mut worst = (0.0, 0.0);
            for (&x, &y) in inputs[inputs.len() - n..].iter().zip(&got) {
                let error = ulps(y as f32, exact(x));
                if error > worst.0 || error.is_nan() {
                    worst = (error, x);
                }
            }
            println!("{}: within {:.2} ulp, at {:e}", op.name(), worst.0, worst.1);
            assert!(worst.0 <= most, "{} of {:e} is {} ulp off", op.name(), worst.1, worst.0);
        }
    }
}

/// FNV-1a (32 bit) of the results' bits, NaNs made equal.
fn fingerprint(results: &[u8]) -> u32 {
    let bits = results.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
    let quiet = bits.map(|b| if f32::from_bits(b).is_nan() { f32::NAN.to_bits() } else { b });
    let hash = |h: u32, byte: u8| (h ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    quiet.flat_map(u32::to_le_bytes).fold(0x811c_9dc5, hash)
}

/// Other bits would change what models say: whoever wants that raises the version of code generation, too.
#[test]
fn exponentials_keep_their_bits() {
    // Numbers of any exponent, then the range where results are neither 0 nor 1 nor infinite.
    let any = (0..1u32 << 17).map(|i| i.wrapping_mul(0x9E37_79B1));
    let range = (-100_000..100_000).map(|i| (i as f32 * 1.05e-3).to_bits());
    let bytes: Vec<u8> = any.chain(range).flat_map(u32::to_le_bytes).collect();
    let n = bytes.len() / 4;
    for (op, want) in [(UnaryOp::Exp, 0x3a38_85b7), (UnaryOp::Tanh, 0x54bf_64b1)] {
        let kernel = elementwise(&[Elem::F32], Elem::F32, 8, n, |b, v| Some(b.unary(op, v[0]))).expect("f32");
        for target in targets() {
            let run = HostKernel::new(&kernel, &target).unwrap();
            let out = run.run(&[Input::Bytes(bytes.clone()), Input::Room(4 * n)], Flush::End).unwrap();
            let got = fingerprint(out[1].as_deref().expect("a buffer"));
            assert_eq!(got, want, "{}: {got:#010x}", op.name());
        }
    }
}

/// What the pass makes of `exp` and `tanh` is arithmetic that every target does alike.
#[test]
fn expanded_exponentials_agree_to_the_bit() {
    for op in [UnaryOp::Exp, UnaryOp::Tanh] {
        for width in WIDTHS {
            let mut bytes = specials(Elem::F32);
            bytes.extend((-2000..2000).flat_map(|i| (i as f32 * 0.0531).to_le_bytes()));
            let n = (bytes.len() / 4).next_multiple_of(width as usize);
            let kernel = elementwise(&[Elem::F32], Elem::F32, width, n, |b, v| Some(b.unary(op, v[0]))).expect("f32");
            // From its text, as the arena still has what was replaced.
            let lowered = parse_kernel(&lower_host(kernel).to_string()).expect("parses");
            assert!(!hrx_tests::host::is_approximate(&lowered));
            agree(&format!("{} of {width}", op.name()), &lowered, vec![cycle(Elem::F32, &bytes, n)], 4 * n);
        }
    }
}
