//! Matrix products against sums over rows and columns. Where lanes hold what is written here by AMD's articles on WMMA and
//! MFMA, with divisions and remainders of the lane's number: the emulator works with permutations of bits.
//!
//! Factors are small whole numbers, so that all sums are exact and no order matters.

use super::support::{Bench, Shape, assemble};
use half::{bf16, f16};

/// Types of elements.
#[derive(Clone, Copy, PartialEq, Debug)]
enum El {
    F64,
    F32,
    F16,
    Bf16,
    /// 8-bit floats: bits of the exponent, and its bias.
    F8(u32, i32),
    I8,
    U8,
    I4,
    U4,
    I32,
}

impl El {
    fn bits(self) -> u32 {
        match self {
            El::F64 => 64,
            El::F32 | El::I32 => 32,
            El::F16 | El::Bf16 => 16,
            El::F8(..) | El::I8 | El::U8 => 8,
            El::I4 | El::U4 => 4,
        }
    }

    /// A whole number that the type has, near what is asked for.
    fn fit(self, x: i64) -> i64 {
        match self {
            El::I8 => i64::from(x as i8),
            El::U8 => x & 0xff,
            El::I4 => (x & 15) - if x & 8 != 0 { 16 } else { 0 },
            El::U4 => x & 15,
            El::F8(..) => x % 8,
            El::F16 => x % 11,
            El::I32 => x % 1_000_000,
            _ => x % 32,
        }
    }

    fn encode(self, x: i64) -> u64 {
        match self {
            El::F64 => (x as f64).to_bits(),
            El::F32 => (x as f32).to_bits().into(),
            El::F16 => f16::from_f64(x as f64).to_bits().into(),
            El::Bf16 => bf16::from_f64(x as f64).to_bits().into(),
            El::F8(exponent, bias) => {
                let mantissa = 7 - exponent;
                if x == 0 {
                    return 0;
                }
                let top = x.unsigned_abs().ilog2();
                let rest = (x.unsigned_abs() << mantissa >> top) & ((1 << mantissa) - 1);
                u64::from(x < 0) << 7 | ((i64::from(top) + i64::from(bias)) as u64) << mantissa | rest
            }
            El::I8 | El::U8 => x as u64 & 0xff,
            El::I4 | El::U4 => x as u64 & 15,
            El::I32 => x as u64 & 0xffff_ffff,
        }
    }

    fn decode(self, bits: u64) -> i64 {
        match self {
            El::F64 => f64::from_bits(bits) as i64,
            El::F32 => f32::from_bits(bits as u32) as i64,
            El::F16 => f16::from_bits(bits as u16).to_f64() as i64,
            El::Bf16 => bf16::from_bits(bits as u16).to_f64() as i64,
            El::I32 => i64::from(bits as u32 as i32),
            _ => unreachable!("no type of results"),
        }
    }
}

/// For a lane and the number of its element: row and column, of all blocks one after the other.
type Where = fn(usize, usize) -> (usize, usize);

/// An instruction with where its elements are. `{a}` and so on in its text are registers.
struct Case {
    text: &'static str,
    /// Rows, columns, products in a sum; blocks of them.
    dims: [usize; 4],
    types: [El; 3],
    /// Row and k, or column and k, with the block's number times rows or columns added to the first.
    factor: Where,
    /// Row and column, the block's number times rows added to the first.
    result: Where,
    /// Which half of registers a result of 16 bits is in, where each has one of its own.
    half: Option<u32>,
    /// What factors and the sum are multiplied by before.
    signs: [i64; 3],
    /// Whether the sum is the constant 1.
    constant: bool,
    /// The blocks that each block takes A and B of.
    sources: [fn(usize) -> usize; 2],
}

const fn same(block: usize) -> usize {
    block
}

impl Case {
    const fn new(text: &'static str, dims: [usize; 4], types: [El; 3], factor: Where, result: Where) -> Case {
        Case { text, dims, types, factor, result, half: None, signs: [1; 3], constant: false, sources: [same; 2] }
    }
}

/// Numbers of a matrix.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as i64 - (1 << 30)
    }

    fn matrix(&mut self, len: usize, ty: El) -> Vec<i64> {
        (0..len).map(|_| ty.fit(self.next())).collect()
    }
}

/// Puts an element of a lane into registers of all lanes.
fn pack(words: &mut [u32], lanes: usize, lane: usize, element: usize, ty: El, half: Option<u32>, bits: u64) {
    let at = match half {
        Some(half) => 32 * element + 16 * half as usize,
        None => element * ty.bits() as usize,
    };
    for (word, part) in [(at / 32, bits as u32), (at / 32 + 1, (bits >> 32) as u32)] {
        let count = if ty.bits() == 64 { 2 } else { 1 };
        if word < at / 32 + count {
            words[word * lanes + lane] |= part << (at % 32);
        }
    }
}

fn check(chip: &'static str, case: &Case) {
    run(chip, case, if chip.starts_with("gfx9") { 64 } else { 32 });
}

/// In waves of so many lanes.
fn run(chip: &'static str, case: &Case, lanes: usize) {
    let [m, n, k, blocks] = case.dims;
    let [ta, tb, tc] = case.types;
    let mut numbers = Numbers(case.text.len() as u64 * 7 + 1);
    let a = numbers.matrix(blocks * m * k, ta);
    let b = numbers.matrix(blocks * n * k, tb);
    let c = numbers.matrix(blocks * m * n, tc);
    // Elements of a lane: all of a matrix are in some lane, those of gfx11's factors in two.
    let twice = if chip.starts_with("gfx11") { lanes / 16 } else { 1 };
    let factor_elements = [blocks * m * k * twice / lanes, blocks * n * k * twice / lanes];
    let results = blocks * m * n / lanes;
    let regs = |elements: usize, ty: El, alone: bool| {
        if alone { elements } else { (elements * ty.bits() as usize).div_ceil(32) }
    };
    let alone = case.half.is_some();
    let counts = [regs(factor_elements[0], ta, false), regs(factor_elements[1], tb, false), regs(results, tc, alone)];
    let mut words: Vec<Vec<u32>> = counts.iter().map(|&count| vec![0; count * lanes]).collect();
    for lane in 0..lanes {
        for e in 0..factor_elements[0] {
            let (row, at) = (case.factor)(lane, e);
            pack(&mut words[0], lanes, lane, e, ta, None, ta.encode(a[row * k + at]));
        }
        for e in 0..factor_elements[1] {
            let (column, at) = (case.factor)(lane, e);
            pack(&mut words[1], lanes, lane, e, tb, None, tb.encode(b[column * k + at]));
        }
        for e in 0..results {
            let (row, column) = (case.result)(lane, e);
            pack(&mut words[2], lanes, lane, e, tc, case.half, tc.encode(c[row * n + column]));
        }
    }
    let firsts = [10, 20, 40];
    let range = |which: usize| {
        let (first, count) = (firsts[which], counts[which]);
        if count == 1 { format!("v{first}") } else { format!("v[{first}:{}]", first + count - 1) }
    };
    let text = kernel(chip, case, lanes, counts, firsts, &range);
    let mut bench = Bench::new(chip);
    bench.words(&words.concat());
    let out = bench.words(&vec![0; counts[2] * lanes]);
    let wide = lanes == 64 && chip.starts_with("gfx1");
    let directives = if wide { ".amdhsa_wavefront_size32 0" } else { "" };
    let run = bench.launch(&assemble(Shape { kernarg: 16, directives, ..Shape::of(chip) }, &text), 1, lanes as u32);
    let run = run.unwrap_or_else(|e| panic!("{chip}: {}: {e}", case.text));
    assert!(run.reports.is_empty(), "{:#?}", run.reports);
    let got = bench.read(out, counts[2] * lanes);
    for lane in 0..lanes {
        for e in 0..results {
            let (row, column) = (case.result)(lane, e);
            let [of_a, of_b] = case.sources.map(|source| source(row / m));
            let (row_a, column_b) = (of_a * m + row % m, of_b * n + column);
            let product = |at: usize| case.signs[0] * a[row_a * k + at] * case.signs[1] * b[column_b * k + at];
            let sum: i64 = (0..k).map(product).sum();
            let start = if case.constant { 1 } else { c[row * n + column] };
            let want = sum + case.signs[2] * start;
            let at = match case.half {
                Some(half) => 32 * e + 16 * half as usize,
                None => e * tc.bits() as usize,
            };
            let low = u64::from(got[at / 32 * lanes + lane]) >> (at % 32);
            let high = if tc == El::F64 { u64::from(got[(at / 32 + 1) * lanes + lane]) << 32 } else { 0 };
            assert_eq!(tc.decode(low | high), want, "{chip}: {}: lane {lane}, element {e}", case.text);
        }
    }
}

/// Loads all registers, multiplies, and stores the result.
fn kernel(
    chip: &str,
    case: &Case,
    lanes: usize,
    counts: [usize; 3],
    firsts: [usize; 3],
    range: &dyn Fn(usize) -> String,
) -> String {
    let old = chip.starts_with("gfx9");
    let names = if old {
        ["s_load_dwordx4", "global_load_dword", "global_store_dword", "v_add_u32"]
    } else {
        ["s_load_b128", "global_load_b32", "global_store_b32", "v_add_nc_u32"]
    };
    let (scalars, loads) = if chip.starts_with("gfx12") {
        ("s_wait_kmcnt 0", "s_wait_loadcnt 0")
    } else {
        ("s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)")
    };
    let next = format!("{} v1, {:#x}, v1\n", names[3], 4 * lanes);
    let lane = if old { "v_and_b32 v0, 0x3ff, v0\n" } else { "" };
    let mut text = format!("{} s[4:7], s[0:1], 0x0\n{scalars}\n{lane}v_lshlrev_b32 v1, 2, v0\n", names[0]);
    for (first, count) in firsts.into_iter().zip(counts) {
        for register in first..first + count {
            text += &format!("{} v{register}, v1, s[4:5]\n{next}", names[1]);
        }
    }
    let constant = if case.types[2] == El::I32 { "1" } else { "1.0" };
    let c = if case.constant { constant.to_string() } else { range(2) };
    let line =
        case.text.replace("{a}", &range(0)).replace("{b}", &range(1)).replace("{d}", &range(2)).replace("{c}", &c);
    text += &format!("{loads}\n{line}\nv_lshlrev_b32 v1, 2, v0\n");
    for register in firsts[2]..firsts[2] + counts[2] {
        text += &format!("{} v1, v{register}, s[6:7]\n{next}", names[2]);
    }
    text
}

const fn wmma(text: &'static str, k: usize, types: [El; 3], factor: Where, result: Where) -> Case {
    Case::new(text, [16, 16, k, 1], types, factor, result)
}

#[test]
fn wmma_of_gfx11() {
    use El::*;
    let factor: Where = |lane, e| (lane % 16, e);
    let result: Where = |lane, e| (2 * e + lane / 16, lane % 16);
    let case = |text, types| wmma(text, 16, types, factor, result);
    for case in [
        case("v_wmma_f32_16x16x16_f16 {d}, {a}, {b}, {c}", [F16, F16, F32]),
        case("v_wmma_f32_16x16x16_bf16 {d}, {a}, {b}, {c}", [Bf16, Bf16, F32]),
        Case { half: Some(0), ..case("v_wmma_f16_16x16x16_f16 {d}, {a}, {b}, {c}", [F16, F16, F16]) },
        Case { half: Some(1), ..case("v_wmma_f16_16x16x16_f16 {d}, {a}, {b}, {c} op_sel:[0,0,1]", [F16, F16, F16]) },
        case("v_wmma_i32_16x16x16_iu8 {d}, {a}, {b}, {c}", [U8, U8, I32]),
        case("v_wmma_i32_16x16x16_iu8 {d}, {a}, {b}, {c} neg_lo:[1,0,0]", [I8, U8, I32]),
        case("v_wmma_i32_16x16x16_iu8 {d}, {a}, {b}, {c} neg_lo:[1,1,0]", [I8, I8, I32]),
        case("v_wmma_i32_16x16x16_iu4 {d}, {a}, {b}, {c} neg_lo:[0,1,0]", [U4, I4, I32]),
        case("v_wmma_i32_16x16x16_iu4 {d}, {a}, {b}, {c} neg_lo:[1,1,0]", [I4, I4, I32]),
        Case { constant: true, ..case("v_wmma_f32_16x16x16_f16 {d}, {a}, {b}, {c}", [F16, F16, F32]) },
        Case { constant: true, ..case("v_wmma_i32_16x16x16_iu8 {d}, {a}, {b}, {c}", [U8, U8, I32]) },
        Case {
            signs: [-1, 1, -1],
            ..case("v_wmma_f32_16x16x16_f16 {d}, {a}, {b}, {c} neg_lo:[1,0,1] neg_hi:[1,0,0]", [F16, F16, F32])
        },
    ] {
        check("gfx1100", &case);
        check("gfx1151", &case);
        // Of 64 lanes, sixteen hold a row of the result, and factors are there four times.
        run("gfx1100", &Case { result: |lane, e| (4 * e + lane / 16, lane % 16), ..case }, 64);
    }
}

#[test]
fn wmma_of_gfx12() {
    use El::*;
    let eight: Where = |lane, e| (lane % 16, lane / 16 * 8 + e);
    let sixteen: Where = |lane, e| (lane % 16, lane / 16 * 16 + e);
    let result: Where = |lane, e| (lane / 16 * 8 + e, lane % 16);
    let case = |text, types| wmma(text, 16, types, eight, result);
    let (fp8, bf8) = (F8(4, 7), F8(5, 15));
    for case in [
        case("v_wmma_f32_16x16x16_f16 {d}, {a}, {b}, {c}", [F16, F16, F32]),
        case("v_wmma_f32_16x16x16_bf16 {d}, {a}, {b}, {c}", [Bf16, Bf16, F32]),
        case("v_wmma_f16_16x16x16_f16 {d}, {a}, {b}, {c}", [F16, F16, F16]),
        case("v_wmma_i32_16x16x16_iu8 {d}, {a}, {b}, {c} neg_lo:[1,0,0]", [I8, U8, I32]),
        case("v_wmma_i32_16x16x16_iu4 {d}, {a}, {b}, {c} neg_lo:[1,1,0]", [I4, I4, I32]),
        wmma("v_wmma_i32_16x16x32_iu4 {d}, {a}, {b}, {c}", 32, [U4, U4, I32], sixteen, result),
        case("v_wmma_f32_16x16x16_fp8_fp8 {d}, {a}, {b}, {c}", [fp8, fp8, F32]),
        case("v_wmma_f32_16x16x16_fp8_bf8 {d}, {a}, {b}, {c}", [fp8, bf8, F32]),
        case("v_wmma_f32_16x16x16_bf8_fp8 {d}, {a}, {b}, {c}", [bf8, fp8, F32]),
        case("v_wmma_f32_16x16x16_bf8_bf8 {d}, {a}, {b}, {c}", [bf8, bf8, F32]),
        Case {
            signs: [1, -1, 1],
            ..case("v_wmma_f32_16x16x16_bf16 {d}, {a}, {b}, {c} neg_lo:[0,1,0] neg_hi:[0,1,0]", [Bf16, Bf16, F32])
        },
    ] {
        check("gfx1201", &case);
    }
}

#[test]
fn mfma_of_several_blocks() {
    use El::*;
    // Blocks of a lane's factors and of its results.
    let four: Where = |l, e| (l % 4 + l / 4 * 4, e);
    let sixteen: Where = |l, e| (l % 16 + l / 16 * 16, e);
    let large: Where = |l, e| (l % 32 + l / 32 * 32, e);
    let result4: Where = |l, e| (l / 4 * 4 + e, l % 4);
    let result16: Where = |l, e| (e / 4 * 16 + l / 16 * 4 + e % 4, l % 16);
    let result32: Where = |l, e| (e / 16 * 32 + e % 16 / 4 * 8 + l / 32 * 4 + e % 4, l % 32);
    let of4 = |text, k, types| Case::new(text, [4, 4, k, 16], types, four, result4);
    let of16 = |text, k, types| Case::new(text, [16, 16, k, 4], types, sixteen, result16);
    let of32 = |text, k, types| Case::new(text, [32, 32, k, 2], types, large, result32);
    for case in [
        of4("v_mfma_f32_4x4x4_16b_f16 {d}, {a}, {b}, {c}", 4, [F16, F16, F32]),
        of4("v_mfma_f32_4x4x4_16b_bf16 {d}, {a}, {b}, {c}", 4, [Bf16, Bf16, F32]),
        of4("v_mfma_f32_4x4x1_16b_f32 {d}, {a}, {b}, {c}", 1, [F32, F32, F32]),
        of4("v_mfma_i32_4x4x4_16b_i8 {d}, {a}, {b}, {c}", 4, [I8, I8, I32]),
        of16("v_mfma_f32_16x16x4_4b_f16 {d}, {a}, {b}, {c}", 4, [F16, F16, F32]),
        of16("v_mfma_f32_16x16x1_4b_f32 {d}, {a}, {b}, {c}", 1, [F32, F32, F32]),
        of16("v_mfma_i32_16x16x4_4b_i8 {d}, {a}, {b}, {c}", 4, [I8, I8, I32]),
        of32("v_mfma_f32_32x32x4_2b_bf16 {d}, {a}, {b}, {c}", 4, [Bf16, Bf16, F32]),
        of32("v_mfma_f32_32x32x1_2b_f32 {d}, {a}, {b}, {c}", 1, [F32, F32, F32]),
        of32("v_mfma_i32_32x32x4_2b_i8 {d}, {a}, {b}, {c}", 4, [I8, I8, I32]),
        // Four blocks in a group take its second one; lanes of B are 16 further.
        Case {
            sources: [|block| block & !3 | 1, same],
            ..of4("v_mfma_f32_4x4x4_16b_f16 {d}, {a}, {b}, {c} cbsz:2 abid:1", 4, [F16, F16, F32])
        },
        Case {
            sources: [same, |block| (block + 4) % 16],
            ..of4("v_mfma_f32_4x4x4_16b_f16 {d}, {a}, {b}, {c} blgp:3", 4, [F16, F16, F32])
        },
        Case {
            sources: [same, |_| 2],
            ..of16("v_mfma_f32_16x16x4_4b_f16 {d}, {a}, {b}, {c} blgp:6", 4, [F16, F16, F32])
        },
    ] {
        check("gfx942", &case);
    }
}

#[test]
fn mfma_of_wide_numbers() {
    use El::*;
    let wide = Case::new(
        "v_mfma_f64_16x16x4_f64 {d}, {a}, {b}, {c}",
        [16, 16, 4, 1],
        [F64, F64, F64],
        |l, _| (l % 16, l / 16),
        |l, e| (4 * e + l / 16, l % 16),
    );
    check("gfx942", &wide);
    check("gfx942", &Case { signs: [1, -1, 1], text: "v_mfma_f64_16x16x4_f64 {d}, {a}, {b}, {c} neg:[0,1,0]", ..wide });
    let small = Case::new(
        "v_mfma_f64_4x4x4_4b_f64 {d}, {a}, {b}, {c}",
        [4, 4, 4, 4],
        [F64, F64, F64],
        |l, _| (l / 4 % 4 * 4 + l % 4, l / 16),
        |l, _| (l / 4 % 4 * 4 + l / 16, l % 4),
    );
    check("gfx942", &small);
    let short = Case::new(
        "v_mfma_f32_16x16x8_xf32 {d}, {a}, {b}, {c}",
        [16, 16, 8, 1],
        [F32, F32, F32],
        |l, e| (l % 16, l / 16 * 2 + e),
        |l, e| (l / 16 * 4 + e, l % 16),
    );
    check("gfx942", &short);
}

/// Sparse products: of four elements of A, the two that an index chooses are there.
#[test]
fn smfmac_of_gfx942() {
    for (text, held, bits, part) in [
        ("v_smfmac_f32_16x16x32_f16 v[40:43], v[10:11], v[20:23], v30", 4, 16, 0),
        ("v_smfmac_f32_16x16x32_f16 v[40:43], v[10:11], v[20:23], v30 abid:3", 4, 16, 3),
        ("v_smfmac_i32_16x16x64_i8 v[40:43], v[10:11], v[20:23], v30 abid:1", 8, 8, 1),
    ] {
        let groups = 4;
        let k = 2 * held * groups;
        let ty = if bits == 16 { El::F16 } else { El::I8 };
        let acc = if bits == 16 { El::F32 } else { El::I32 };
        let mut numbers = Numbers(text.len() as u64);
        let mut a = vec![0; 16 * k];
        let b = numbers.matrix(16 * k, ty);
        let c = numbers.matrix(256, acc);
        let lanes = 64;
        let mut words = [vec![0; 2 * lanes], vec![0; 4 * lanes], vec![0; lanes], vec![0; 4 * lanes]];
        for lane in 0..lanes {
            let (row, group) = (lane % 16, lane / 16);
            for e in 0..held {
                // Pairs of different places among four, the lower one first.
                let pair = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]][(row + e / 2 + group) % 6];
                let which = pair[e % 2];
                let value = ty.fit(numbers.next());
                a[row * k + group * 2 * held + e / 2 * 4 + which] = value;
                pack(&mut words[0], lanes, lane, e, ty, None, ty.encode(value));
                words[2][lane] |= (which as u32) << (2 * (part * held + e));
            }
            for e in 0..2 * held {
                pack(&mut words[1], lanes, lane, e, ty, None, ty.encode(b[row * k + group * 2 * held + e]));
            }
            for e in 0..4 {
                pack(&mut words[3], lanes, lane, e, acc, None, acc.encode(c[(group * 4 + e) * 16 + row]));
            }
        }
        let mut code = String::from(
            "s_load_dwordx4 s[4:7], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_and_b32 v0, 0x3ff, v0\nv_lshlrev_b32 v1, 2, v0\n",
        );
        for register in [10, 11, 20, 21, 22, 23, 30, 40, 41, 42, 43] {
            code += &format!("global_load_dword v{register}, v1, s[4:5]\nv_add_u32 v1, 0x100, v1\n");
        }
        code += &format!("s_waitcnt vmcnt(0)\n{text}\nv_lshlrev_b32 v1, 2, v0\n");
        for register in 40..44 {
            code += &format!("global_store_dword v1, v{register}, s[6:7]\nv_add_u32 v1, 0x100, v1\n");
        }
        let mut bench = Bench::new("gfx942");
        bench.words(&words.concat());
        let out = bench.words(&vec![0; 4 * lanes]);
        let run = bench.launch(&assemble(Shape { kernarg: 16, ..Shape::of("gfx942") }, &code), 1, 64).expect("runs");
        assert!(run.reports.is_empty(), "{:#?}", run.reports);
        let got = bench.read(out, 4 * lanes);
        for lane in 0..lanes {
            for e in 0..4 {
                let (row, column) = (lane / 16 * 4 + e, lane % 16);
                let sum: i64 = (0..k).map(|at| a[row * k + at] * b[column * k + at]).sum();
                assert_eq!(acc.decode(got[e * lanes + lane].into()), c[row * 16 + column] + sum, "{text}: {lane}, {e}");
            }
        }
    }
}

#[test]
fn mfma_of_gfx942() {
    use El::*;
    let result16: Where = |lane, e| (lane / 16 * 4 + e, lane % 16);
    let result32: Where = |lane, e| (e / 4 * 8 + lane / 32 * 4 + e % 4, lane % 32);
    let small = |text, k, types, factor| Case::new(text, [16, 16, k, 1], types, factor, result16);
    let large = |text, k, types, factor| Case::new(text, [32, 32, k, 1], types, factor, result32);
    // gfx942's own encodings of 8-bit floats have biases one larger.
    let (fp8, bf8) = (F8(4, 8), F8(5, 16));
    for case in [
        small("v_mfma_f32_16x16x16_f16 {d}, {a}, {b}, {c}", 16, [F16, F16, F32], |l, e| (l % 16, l / 16 * 4 + e)),
        large("v_mfma_f32_32x32x8_f16 {d}, {a}, {b}, {c}", 8, [F16, F16, F32], |l, e| (l % 32, l / 32 * 4 + e)),
        small("v_mfma_f32_16x16x16_bf16 {d}, {a}, {b}, {c}", 16, [Bf16, Bf16, F32], |l, e| (l % 16, l / 16 * 4 + e)),
        large("v_mfma_f32_32x32x8_bf16 {d}, {a}, {b}, {c}", 8, [Bf16, Bf16, F32], |l, e| (l % 32, l / 32 * 4 + e)),
        small("v_mfma_f32_16x16x4_f32 {d}, {a}, {b}, {c}", 4, [F32, F32, F32], |l, _| (l % 16, l / 16)),
        large("v_mfma_f32_32x32x2_f32 {d}, {a}, {b}, {c}", 2, [F32, F32, F32], |l, _| (l % 32, l / 32)),
        small("v_mfma_i32_16x16x32_i8 {d}, {a}, {b}, {c}", 32, [I8, I8, I32], |l, e| (l % 16, l / 16 * 8 + e)),
        large("v_mfma_i32_32x32x16_i8 {d}, {a}, {b}, {c}", 16, [I8, I8, I32], |l, e| (l % 32, l / 32 * 8 + e)),
        small("v_mfma_f32_16x16x32_fp8_bf8 {d}, {a}, {b}, {c}", 32, [fp8, bf8, F32], |l, e| (l % 16, l / 16 * 8 + e)),
        large("v_mfma_f32_32x32x16_bf8_fp8 {d}, {a}, {b}, {c}", 16, [bf8, fp8, F32], |l, e| (l % 32, l / 32 * 8 + e)),
        Case {
            constant: true,
            ..small("v_mfma_f32_16x16x16_f16 {d}, {a}, {b}, {c}", 16, [F16, F16, F32], |l, e| (l % 16, l / 16 * 4 + e))
        },
    ] {
        check("gfx942", &case);
    }
}
