//! Vector operations on special and random values, against formulas in plain Rust.

// Formulas are written as the ISA has them.
#![allow(clippy::neg_cmp_op_on_partial_ord, clippy::needless_range_loop)]

use super::support::{Bench, Shape, assemble};
use half::{bf16, f16};

/// Values at the edges of types, and others.
fn values(seed: u64) -> Vec<u64> {
    const SPECIAL: [u64; 24] = [
        0,
        1,
        2,
        0xffff_ffff_ffff_ffff,
        0x8000_0000_8000_0000,
        0x7fff_ffff_7fff_ffff,
        0x3f80_0000_3f80_0000,
        0xbf80_0000_bf80_0000,
        0x7f80_0000_7f80_0000,
        0xff80_0000_ff80_0000,
        0x7fc0_0000_7fc0_0000,
        0x0000_0001_0000_0001,
        0x3ff0_0000_0000_0000,
        0xc000_0000_0000_0000,
        0x7ff0_0000_0000_0000,
        0x7ff8_0000_0000_0000,
        0x3c00_3c00_3c00_3c00,
        0xfc00_7c00_fc00_7c00,
        0x0001_8001_0001_8001,
        0x7fff_8000_ffff_0001,
        0x0080_0000_0080_0000,
        0x4b00_0001_4b00_0001,
        0x0000_0040_0000_0021,
        0xcf00_0000_4f00_0000,
    ];
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    (0..64)
        .map(|_| {
            let pick = next();
            match pick % 3 {
                0 => SPECIAL[(next() % 24) as usize],
                1 => {
                    // Numbers of ordinary size in both halves.
                    let x = (next() as i32 % 20_000) as f32 / 64.0;
                    u64::from(x.to_bits()) | next() << 32
                }
                _ => next(),
            }
        })
        .collect()
}

/// What a result is compared by.
#[derive(Clone, Copy, PartialEq, Debug)]
enum As {
    W,
    D,
    F,
    FD,
    H,
    PH,
    /// Two of binary32 in two registers.
    PF,
    /// binary32, this many units in the last place off.
    Near(u32),
}

type Formula = fn(u64, u64, u64) -> u64;

fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

fn d(x: u64) -> f64 {
    f64::from_bits(x)
}

fn h(x: u64) -> f64 {
    f16::from_bits(x as u16).to_f64()
}

fn of_f(x: f32) -> u64 {
    x.to_bits().into()
}

fn of_h(x: f64) -> u64 {
    f16::from_f64(x).to_bits().into()
}

fn each_h(a: u64, b: u64, op: impl Fn(f64, f64) -> f64) -> u64 {
    of_h(op(h(a), h(b))) | of_h(op(h(a >> 16), h(b >> 16))) << 16
}

fn w(x: u64) -> u32 {
    x as u32
}

fn i(x: u64) -> i32 {
    x as i32
}

fn is_nan(kind: As, bits: u64) -> bool {
    match kind {
        As::F | As::Near(_) => f(bits).is_nan(),
        As::FD => d(bits).is_nan(),
        As::H => h(bits).is_nan(),
        _ => false,
    }
}

fn agree(kind: As, got: u64, want: u64) -> bool {
    let mask = match kind {
        As::D | As::FD | As::PF => u64::MAX,
        As::H => 0xffff,
        _ => 0xffff_ffff,
    };
    let (got, want) = (got & mask, want & mask);
    if got == want || (is_nan(kind, got) && is_nan(kind, want)) {
        return true;
    }
    match kind {
        As::Near(units) => (got as i64 - want as i64).unsigned_abs() <= units.into(),
        As::PF => [0, 32].iter().all(|s| agree(As::F, got >> s, want >> s)),
        As::PH => [0, 16].iter().all(|s| agree(As::H, got >> s, want >> s)),
        _ => false,
    }
}

/// Runs instructions on values of three operands in v[2:3], v[4:5], v[6:7] with results in v[10:11]; what disagrees.
fn check(chip: &'static str, cases: &[(&str, As, Formula)]) {
    let old = chip.starts_with("gfx9");
    let lanes = if old { 64 } else { 32 };
    let load = if old { "global_load_dwordx2" } else { "global_load_b64" };
    let store = if old { "global_store_dwordx2" } else { "global_store_b64" };
    let (kmcnt, loads, hold) = if chip.starts_with("gfx12") {
        ("s_wait_kmcnt 0", "s_wait_loadcnt 0", "s_wait_storecnt 0")
    } else {
        ("s_waitcnt lgkmcnt(0)", "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(0)")
    };
    let mut text = format!("s_load_{} s[4:11], s[0:1], 0x0\n", if old { "dwordx8" } else { "b256" });
    text += &format!("{kmcnt}\nv_lshlrev_b32 v1, 3, v0\n");
    for (register, base) in [(2, 4), (4, 6), (6, 8)] {
        text += &format!("{load} v[{register}:{}], v1, s[{base}:{}]\n", register + 1, base + 1);
    }
    text += &format!("{loads}\n");
    let vcc = if old { "vcc" } else { "vcc_lo" };
    for (instruction, ..) in cases {
        text += "v_mov_b32 v10, 0\nv_mov_b32 v11, 0\n";
        // What follows a semicolon is on a line of its own.
        text += &instruction.replace("VCC", vcc).replace("; ", "\n");
        text += &format!(
            "\n{store} v1, v[10:11], s[10:11]\n{hold}\nv_add_{} v1, 0x{:x}, v1\n",
            if old { "u32" } else { "nc_u32" },
            8 * lanes
        );
    }
    let hsaco = assemble(Shape { kernarg: 32, ..Shape::of(chip) }, &text);
    let mut failures = Vec::new();
    for seed in 0..6 {
        let mut bench = Bench::new(chip);
        let operands = [1, 2, 3].map(|n| values(seed * 10 + n));
        for operand in &operands {
            let words: Vec<u32> = operand.iter().flat_map(|&x| [x as u32, (x >> 32) as u32]).collect();
            bench.words(&words);
        }
        let out = bench.words(&vec![0; cases.len() * lanes * 2]);
        let run = bench.launch(&hsaco, 1, lanes as u32).expect("runs");
        assert!(run.reports.is_empty(), "{:#?}", run.reports);
        let results = bench.read(out, cases.len() * lanes * 2);
        for (case, &(name, kind, formula)) in cases.iter().enumerate() {
            for lane in 0..lanes {
                let at = 2 * (case * lanes + lane);
                let got = u64::from(results[at]) | u64::from(results[at + 1]) << 32;
                let [a, b, c] = [0, 1, 2].map(|n| operands[n][lane]);
                let want = formula(a, b, c);
                if !agree(kind, got, want) && failures.len() < 20 {
                    failures.push(format!("{chip}: {name}: {a:x}, {b:x}, {c:x}: got {got:x}, not {want:x}"));
                }
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn whole_numbers() {
    let cases: &[(&str, As, Formula)] = &[
        ("v_add_nc_u32 v10, v2, v4", As::W, |a, b, _| w(a).wrapping_add(w(b)).into()),
        ("v_subrev_nc_u32 v10, v2, v4", As::W, |a, b, _| w(b).wrapping_sub(w(a)).into()),
        ("v_add_nc_i32 v10, v2, v4 clamp", As::W, |a, b, _| i(a).saturating_add(i(b)) as u32 as u64),
        ("v_mul_lo_u32 v10, v2, v4", As::W, |a, b, _| w(a).wrapping_mul(w(b)).into()),
        ("v_mul_hi_u32 v10, v2, v4", As::W, |a, b, _| {
            (((a & 0xffff_ffff) as u128 * (b & 0xffff_ffff) as u128) >> 32) as u64
        }),
        ("v_mul_hi_i32 v10, v2, v4", As::W, |a, b, _| ((i(a) as i64 * i(b) as i64) >> 32) as u64),
        ("v_mad_u32_u24 v10, v2, v4, v6", As::W, |a, b, c| {
            w((a & 0xffffff) * (b & 0xffffff)).wrapping_add(w(c)).into()
        }),
        ("v_mad_u64_u32 v[10:11], null, v2, v4, v[6:7]", As::D, |a, b, c| (w(a) as u64 * w(b) as u64).wrapping_add(c)),
        ("v_lshlrev_b64 v[10:11], v2, v[4:5]", As::D, |a, b, _| b << (a & 63)),
        ("v_ashrrev_i64 v[10:11], v2, v[4:5]", As::D, |a, b, _| (b as i64 >> (a & 63)) as u64),
        ("v_ashrrev_i32 v10, v2, v4", As::W, |a, b, _| (i(b) >> (a & 31)) as u64),
        ("v_bfe_u32 v10, v2, 5, 7", As::W, |a, _, _| a >> 5 & 0x7f),
        ("v_bfe_i32 v10, v2, v4, v6", As::W, |a, b, c| {
            let (at, bits) = (b & 31, c & 31);
            let part = (i(a) >> at) as i64 & ((1 << bits) - 1);
            if bits > 0 && part >> (bits - 1) & 1 == 1 { (part - (1 << bits)) as u64 } else { part as u64 }
        }),
        ("v_bfi_b32 v10, v2, v4, v6", As::W, |a, b, c| (a & b) | (!a & c)),
        ("v_perm_b32 v10, v2, v4, v6", As::W, |a, b, c| {
            let bytes: Vec<u8> = [b as u32, a as u32].iter().flat_map(|x| x.to_le_bytes()).collect();
            let pick = |s: u8| match s {
                0..=7 => bytes[s as usize],
                8..=11 => {
                    if bytes[2 * (s as usize - 8) + 1] > 127 {
                        255
                    } else {
                        0
                    }
                }
                12 => 0,
                _ => 255,
            };
            u32::from_le_bytes((c as u32).to_le_bytes().map(pick)).into()
        }),
        ("v_alignbit_b32 v10, v2, v4, 9", As::W, |a, b, _| ((a << 32 | b & 0xffff_ffff) >> 9) & 0xffff_ffff),
        ("v_bfrev_b32 v10, v2", As::W, |a, _, _| w(a).reverse_bits().into()),
        ("v_clz_i32_u32 v10, v2", As::W, |a, _, _| if w(a) == 0 { 0xffff_ffff } else { w(a).leading_zeros().into() }),
        ("v_ctz_i32_b32 v10, v2", As::W, |a, _, _| if w(a) == 0 { 0xffff_ffff } else { w(a).trailing_zeros().into() }),
        ("v_bcnt_u32_b32 v10, v2, v4", As::W, |a, b, _| w(a).count_ones().wrapping_add(w(b)).into()),
        ("v_med3_i32 v10, v2, v4, v6", As::W, |a, b, c| {
            let mut all = [i(a), i(b), i(c)];
            all.sort_unstable();
            all[1] as u32 as u64
        }),
        ("v_sad_u8 v10, v2, v4, v6", As::W, |a, b, c| {
            let bytes = |x: u64| w(x).to_le_bytes();
            let sum: u32 = bytes(a).iter().zip(bytes(b)).map(|(x, y)| u32::from(x.abs_diff(y))).sum();
            sum.wrapping_add(w(c)).into()
        }),
        ("v_lshl_add_u32 v10, v2, 3, v6", As::W, |a, _, c| (w(a) << 3).wrapping_add(w(c)).into()),
        ("v_xad_u32 v10, v2, v4, v6", As::W, |a, b, c| w(a ^ b).wrapping_add(w(c)).into()),
        ("v_add_co_u32 v10, VCC, v2, v4; v_add_co_ci_u32 v11, VCC, v3, v5, VCC", As::D, |a, b, _| a.wrapping_add(b)),
        ("v_sub_co_u32 v10, VCC, v2, v4; v_sub_co_ci_u32 v11, VCC, v3, v5, VCC", As::D, |a, b, _| a.wrapping_sub(b)),
        ("v_cmp_lt_i32 VCC, v2, v4; v_cndmask_b32 v10, v6, v2, VCC", As::W, |a, b, c| if i(a) < i(b) { a } else { c }),
        ("v_cmp_ge_u64 VCC, v[2:3], v[4:5]; v_cndmask_b32 v10, 0, 1, VCC", As::W, |a, b, _| u64::from(a >= b)),
        ("v_dot4_i32_iu8 v10, v2, v4, v6 neg_lo:[1,0,0]", As::W, |a, b, c| {
            let (x, y) = (w(a).to_le_bytes(), w(b).to_le_bytes());
            (0..4).fold(i(c), |sum, k| sum.wrapping_add(i32::from(x[k] as i8) * i32::from(y[k]))) as u64
        }),
        ("v_dot8_u32_u4 v10, v2, v4, v6", As::W, |a, b, c| {
            (0..8).fold(w(c), |sum, k| sum.wrapping_add((w(a) >> (4 * k) & 15) * (w(b) >> (4 * k) & 15))).into()
        }),
    ];
    check("gfx1100", cases);
}

#[test]
fn fractions() {
    let cases: &[(&str, As, Formula)] = &[
        ("v_add_f32 v10, v2, v4", As::F, |a, b, _| of_f(f(a) + f(b))),
        ("v_sub_f32 v10, -v2, |v4|", As::F, |a, b, _| of_f(-f(a) - f(b).abs())),
        ("v_mul_f32 v10, v2, v4", As::F, |a, b, _| of_f(f(a) * f(b))),
        ("v_fma_f32 v10, v2, v4, -v6", As::F, |a, b, c| of_f(f(a).mul_add(f(b), -f(c)))),
        ("v_add_f32 v10, v2, v4 clamp", As::F, |a, b, _| {
            let x = f(a) + f(b);
            of_f(if x.is_nan() || x <= 0.0 { 0.0 } else { x.min(1.0) })
        }),
        ("v_mul_f32 v10, v2, v4 mul:2", As::F, |a, b, _| of_f(f(a) * f(b) * 2.0)),
        ("v_min_f32 v10, v2, v4", As::F, |a, b, _| {
            let (x, y) = (f(a), f(b));
            of_f(if x == 0.0 && y == 0.0 { if x.is_sign_negative() { x } else { y } } else { x.min(y) })
        }),
        ("v_rndne_f32 v10, v2", As::F, |a, _, _| of_f(f(a).round_ties_even())),
        ("v_floor_f32 v10, v2", As::F, |a, _, _| of_f(f(a).floor())),
        ("v_cvt_i32_f32 v10, v2", As::W, |a, _, _| (f(a) as i32) as u32 as u64),
        ("v_cvt_u32_f32 v10, v2", As::W, |a, _, _| (f(a) as u32).into()),
        ("v_cvt_f32_i32 v10, v2", As::F, |a, _, _| of_f(i(a) as f32)),
        ("v_cvt_f32_ubyte2 v10, v2", As::F, |a, _, _| of_f((a >> 16 & 255) as f32)),
        ("v_cvt_f16_f32 v10.l, v2", As::H, |a, _, _| f16::from_f32(f(a)).to_bits().into()),
        ("v_cvt_f32_f16 v10, v2.h", As::F, |a, _, _| of_f(f16::from_bits((a >> 16) as u16).to_f32())),
        ("v_ldexp_f32 v10, v2, 5", As::F, |a, _, _| of_f((f(a) as f64 * 32.0) as f32)),
        ("v_rcp_f32 v10, v2", As::Near(1), |a, _, _| {
            let x = if f(a).is_subnormal() { f(a) * 0.0 } else { f(a) };
            let y = 1.0 / x;
            of_f(if y.is_subnormal() { y * 0.0 } else { y })
        }),
        ("v_cmp_nlt_f32 VCC, v2, v4; v_cndmask_b32 v10, 0, 1, VCC", As::W, |a, b, _| u64::from(!(f(a) < f(b)))),
        ("v_cmp_class_f32 VCC, v2, 0x204; v_cndmask_b32 v10, 0, 1, VCC", As::W, |a, _, _| {
            u64::from(f(a).is_infinite())
        }),
        ("v_add_f64 v[10:11], v[2:3], v[4:5]", As::FD, |a, b, _| (d(a) + d(b)).to_bits()),
        ("v_fma_f64 v[10:11], v[2:3], v[4:5], v[6:7]", As::FD, |a, b, c| d(a).mul_add(d(b), d(c)).to_bits()),
        ("v_cvt_f64_f32 v[10:11], v2", As::FD, |a, _, _| f64::from(f(a)).to_bits()),
        ("v_cvt_f32_f64 v10, v[2:3]", As::F, |a, _, _| of_f(d(a) as f32)),
        ("v_add_f16 v10.l, v2.l, v4.h", As::H, |a, b, _| of_h(h(a) + h(b >> 16))),
        ("v_mul_f16 v10.l, v2.h, v4.l", As::H, |a, b, _| of_h(h(a >> 16) * h(b))),
        ("v_pk_add_f16 v10, v2, v4", As::PH, |a, b, _| each_h(a, b, |x, y| x + y)),
        ("v_pk_mul_f16 v10, v2, v4 op_sel:[1,0] op_sel_hi:[0,1]", As::PH, |a, b, _| {
            each_h(a.rotate_left(48) & 0xffff | a << 16, b, |x, y| x * y)
        }),
        ("v_pk_add_u16 v10, v2, v4", As::W, |a, b, _| ((a + b) & 0xffff) | (((a >> 16) + (b >> 16)) & 0xffff) << 16),
        ("v_fma_mix_f32 v10, v2, v4, v6 op_sel:[1,0,0] op_sel_hi:[1,0,0]", As::F, |a, b, c| {
            of_f((h(a >> 16) as f32).mul_add(f(b), f(c)))
        }),
        ("v_fma_mix_f32 v10, -v2, |v4|, v6 op_sel:[0,1,1] op_sel_hi:[0,1,1]", As::F, |a, b, c| {
            of_f((-f(a)).mul_add((h(b >> 16) as f32).abs(), h(c >> 16) as f32))
        }),
        ("v_fma_mixhi_f16 v10, v2, v4, v6 op_sel_hi:[0,0,0]", As::PH, |a, b, c| {
            u64::from(f16::from_f32(f(a).mul_add(f(b), f(c))).to_bits()) << 16
        }),
        ("v_fma_mixlo_f16 v10, v2, v4, -v6 op_sel:[0,0,1] op_sel_hi:[1,0,1]", As::PH, |a, b, c| {
            f16::from_f32((h(a) as f32).mul_add(f(b), -h(c >> 16) as f32)).to_bits().into()
        }),
        ("v_fma_mixhi_f16 v10, v2, v4, v6 op_sel_hi:[1,1,1] clamp", As::PH, |a, b, c| {
            let x = f16::from_f32((h(a) as f32).mul_add(h(b) as f32, h(c) as f32)).to_f64();
            of_h(if x > 0.0 { x.min(1.0) } else { 0.0 }) << 16
        }),
        ("v_dot2_f32_bf16 v10, v2, v4, v6", As::F, |a, b, c| {
            let x = |n: u64| bf16::from_bits(n as u16).to_f32();
            of_f(x(a >> 16).mul_add(x(b >> 16), x(a).mul_add(x(b), f(c))))
        }),
    ];
    check("gfx1100", cases);
}

#[test]
fn older_encodings() {
    let cases: &[(&str, As, Formula)] = &[
        ("v_add_u32 v10, v2, v4", As::W, |a, b, _| w(a).wrapping_add(w(b)).into()),
        ("v_add_co_u32 v10, VCC, v2, v4; v_addc_co_u32 v11, VCC, v3, v5, VCC", As::D, |a, b, _| a.wrapping_add(b)),
        ("v_and_b32_sdwa v10, v2, v4 dst_sel:DWORD src0_sel:WORD_1 src1_sel:BYTE_2", As::W, |a, b, _| {
            (a >> 16 & 0xffff) & (b >> 16 & 0xff)
        }),
        ("v_add_u32_sdwa v10, sext(v2), v4 dst_sel:DWORD src0_sel:BYTE_1 src1_sel:WORD_0", As::W, |a, b, _| {
            ((a >> 8) as i8 as u32).wrapping_add((b & 0xffff) as u32).into()
        }),
        (
            "v_mul_u32_u24_sdwa v10, v2, v4 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:BYTE_3",
            As::W,
            |a, b, _| ((a & 0xff) * (b >> 24 & 0xff)) << 16,
        ),
        ("v_add_f16 v10, v2, v4", As::W, |a, b, _| of_h(h(a) + h(b))),
        ("v_pk_mul_f32 v[10:11], v[2:3], v[4:5] op_sel:[1,0] op_sel_hi:[0,1]", As::PF, |a, b, _| {
            of_f(f(a >> 32) * f(b)) | of_f(f(a) * f(b >> 32)) << 32
        }),
        ("v_pk_add_f32 v[10:11], v[2:3], v[4:5] neg_lo:[0,1] neg_hi:[1,0]", As::PF, |a, b, _| {
            of_f(f(a) - f(b)) | of_f(f(b >> 32) - f(a >> 32)) << 32
        }),
        ("v_pk_fma_f32 v[10:11], v[2:3], v[4:5], v[6:7]", As::PF, |a, b, c| {
            let at = |s: u32| of_f(f(a >> s).mul_add(f(b >> s), f(c >> s)));
            at(0) | at(32) << 32
        }),
        ("v_lshl_add_u64 v[10:11], v[2:3], 3, v[6:7]", As::D, |a, _, c| (a << 3).wrapping_add(c)),
        ("v_mad_i64_i32 v[10:11], s[20:21], v2, v4, v[6:7]", As::D, |a, b, c| {
            (i(a) as i64 * i(b) as i64).wrapping_add(c as i64) as u64
        }),
        ("v_mov_b64 v[10:11], v[2:3]", As::D, |a, _, _| a),
        ("v_accvgpr_write_b32 a3, v2; s_nop 2; v_accvgpr_read_b32 v10, a3", As::W, |a, _, _| a),
    ];
    check("gfx942", cases);
}

#[test]
fn numbers_are_those_of_the_generation() {
    let cases: &[(&str, As, Formula)] = &[
        ("v_max_num_f32 v10, v2, v4", As::F, |a, b, _| {
            let (x, y) = (f(a), f(b));
            of_f(if x == 0.0 && y == 0.0 { if x.is_sign_positive() { x } else { y } } else { x.max(y) })
        }),
        ("v_maximum_f32 v10, v2, v4", As::F, |a, b, _| {
            let (x, y) = (f(a), f(b));
            let zero = x == 0.0 && y == 0.0;
            of_f(if x.is_nan() || y.is_nan() {
                f32::NAN
            } else if zero {
                if x.is_sign_positive() { x } else { y }
            } else {
                x.max(y)
            })
        }),
        ("v_mad_co_u64_u32 v[10:11], null, v2, v4, v[6:7]", As::D, |a, b, c| {
            (w(a) as u64 * w(b) as u64).wrapping_add(c)
        }),
        ("v_lshlrev_b64_e64 v[10:11], v2, v[4:5]", As::D, |a, b, _| b << (a & 63)),
        ("v_add_f16 v10.l, 1.0, v4.l", As::H, |_, b, _| of_h(1.0 + h(b))),
        ("v_add_f32 v10, 1.0, v4", As::F, |_, b, _| of_f(1.0 + f(b))),
        ("v_add_f64 v[10:11], 1.0, v[4:5]", As::FD, |_, b, _| (1.0 + d(b)).to_bits()),
        ("v_add_nc_u32 v10, 1.0, v4", As::W, |_, b, _| w(b).wrapping_add(1.0_f32.to_bits()).into()),
        ("v_mul_f32 v10, 0.15915494, v4", As::F, |_, b, _| of_f(0.159_154_94 * f(b))),
        ("v_add_nc_u32 v10, -7, v4", As::W, |_, b, _| w(b).wrapping_sub(7).into()),
    ];
    check("gfx1201", cases);
}
