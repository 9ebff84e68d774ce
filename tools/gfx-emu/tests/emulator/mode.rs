//! What the mode register changes, from the kernel descriptor and by instructions.

use super::support::{Bench, Shape, assemble};

/// Runs instructions on constants in lanes of one wave; the result, in v10 and v11.
fn results(chip: &'static str, directives: &'static str, instructions: &str) -> [u32; 2] {
    let (store, wait) = match chip {
        c if c.starts_with("gfx9") => ("global_store_dwordx2", "s_waitcnt lgkmcnt(0)"),
        c if c.starts_with("gfx12") => ("global_store_b64", "s_wait_kmcnt 0"),
        _ => ("global_store_b64", "s_waitcnt lgkmcnt(0)"),
    };
    let load = if chip.starts_with("gfx9") { "s_load_dwordx2" } else { "s_load_b64" };
    let text = format!(
        "{load} s[4:5], s[0:1], 0x0\n{wait}\nv_mov_b32 v1, 0\nv_mov_b32 v10, 0\nv_mov_b32 v11, 0\n{}\n{store} v1, v[10:11], s[4:5]\n",
        instructions.replace("; ", "\n")
    );
    let mut bench = Bench::new(chip);
    let out = bench.room(8);
    let hsaco = assemble(Shape { kernarg: 8, directives, ..Shape::of(chip) }, &text);
    let run = bench.launch(&hsaco, 1, 1).unwrap_or_else(|e| panic!("{chip}: {instructions}: {e}"));
    assert!(run.reports.is_empty(), "{:#?}", run.reports);
    bench.read(out, 2).try_into().expect("two words")
}

/// Operands' subnormals, results' subnormals: whether each is kept in the four modes.
const MODES: [(u32, bool, bool); 4] = [(0, false, false), (1, true, false), (2, false, true), (3, true, true)];

#[test]
fn subnormals_of_binary32() {
    for (mode, operands, results_kept) in MODES {
        for (set, directives) in [
            (format!("s_denorm_mode {}", mode | 12), ""),
            (format!("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), {mode}"), ".amdhsa_float_denorm_mode_32 3"),
            (
                "s_nop 0".to_owned(),
                [
                    ".amdhsa_float_denorm_mode_32 0",
                    ".amdhsa_float_denorm_mode_32 1",
                    ".amdhsa_float_denorm_mode_32 2",
                    ".amdhsa_float_denorm_mode_32 3",
                ][mode as usize],
            ),
        ] {
            let run = |line: &str| {
                results(
                    "gfx1100",
                    directives,
                    &format!("v_mov_b32 v2, 0x80000123; v_mov_b32 v3, 0x00900000; {set}; {line}"),
                )[0]
            };
            // A subnormal times a large number is a number.
            let want = (f32::from_bits(0x8000_0123) * f32::powi(2.0, 64)).to_bits();
            assert_eq!(run("v_mul_f32 v10, 0x5f800000, v2"), if operands { want } else { 1 << 31 }, "{mode} {set}");
            // A small number halved twice is a subnormal.
            let want = (f32::from_bits(0x0090_0000) * 0.25).to_bits();
            assert_eq!(run("v_mul_f32 v10, 0.25, v3"), if results_kept { want } else { 0 }, "{mode} {set}");
            // Comparisons read operands, moves do not calculate.
            assert_eq!(run("v_cmp_lt_f32 vcc_lo, v2, 0; v_cndmask_b32 v10, 0, 1, vcc_lo"), u32::from(operands));
            assert_eq!(run("v_mov_b32 v10, v2"), 0x8000_0123);
        }
    }
}

#[test]
fn subnormals_of_binary16_and_binary64() {
    for (mode, operands, results_kept) in MODES {
        let set = format!("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), {mode}");
        let half = |line: &str| results("gfx1100", "", &format!("v_mov_b32 v2, 0x04018003; {set}; {line}"))[0];
        // -3 * 2^-24 times 1024, and 2^-14 + 2^-24 halved: to even.
        assert_eq!(half("v_mul_f16 v10.l, 0x6400, v2.l"), if operands { 0x8a00 } else { 0x8000 }, "{mode}");
        assert_eq!(half("v_mul_f16 v10.l, 0.5, v2.h"), if results_kept { 0x200 } else { 0 }, "{mode}");
        let both = half("v_pk_mul_f16 v10, 0.5, v2 op_sel_hi:[0,1]");
        let want =
            (if operands && results_kept { 0x8002 } else { 0x8000 }) | if results_kept { 0x200 << 16 } else { 0 };
        assert_eq!(both, want, "{mode}");
        // As operands of mixed arithmetic, and of conversions.
        let want = if operands { (-3.0 * f32::powi(2.0, -24)).to_bits() } else { 1 << 31 };
        assert_eq!(half("v_fma_mix_f32 v10, v2, 1.0, 0 op_sel_hi:[1,0,0]") & !(1 << 31), want & !(1 << 31), "{mode}");
        assert_eq!(half("v_cvt_f32_f16 v10, v2.l"), want, "{mode}");
        // Of binary64: a subnormal doubled many times, and the smallest normal number halved.
        let wide = |line: &str| {
            let [low, high] = results(
                "gfx942",
                "",
                &format!("v_mov_b32 v2, 5; v_mov_b32 v3, 0; v_mov_b32 v4, 0; v_mov_b32 v5, 0x100000; {set}; {line}"),
            );
            f64::from_bits(u64::from(low) | u64::from(high) << 32)
        };
        let (tiny, least) = (f64::from_bits(5), f64::MIN_POSITIVE);
        assert_eq!(wide("v_mul_f64 v[10:11], 4.0, v[2:3]"), if operands && results_kept { 4.0 * tiny } else { 0.0 });
        assert_eq!(wide("v_add_f64 v[10:11], v[2:3], v[4:5]"), if operands { least + tiny } else { least });
        assert_eq!(wide("v_mul_f64 v[10:11], 0.5, v[4:5]"), if results_kept { least * 0.5 } else { 0.0 });
    }
}

#[test]
fn too_large_halves() {
    let saturating = ".amdhsa_fp16_overflow 1";
    for (directives, large) in [("", 0x7c00), (saturating, 0x7bff)] {
        let run = |line: &str| results("gfx1100", directives, line)[0];
        assert_eq!(run("v_mov_b32 v2, 0x7800; v_add_f16 v10.l, v2.l, v2.l"), large);
        assert_eq!(run("v_mov_b32 v2, 0x477ff000; v_cvt_f16_f32 v10.l, v2"), large);
        assert_eq!(run("v_mov_b32 v2, 0x7bfffbff; v_pk_mul_f16 v10, v2, v2"), large | large << 16);
        // What is infinite before stays so, and a division by zero is no overflow.
        assert_eq!(run("v_mov_b32 v2, 0x7c00; v_add_f16 v10.l, v2.l, v2.l"), 0x7c00);
        assert_eq!(run("v_mov_b32 v2, 0; v_rcp_f16 v10.l, v2.l"), 0x7c00);
    }
    // Of 8-bit floats: gfx942 has no infinities.
    for (directives, large) in [("", 0x8080), (saturating, 0xff7f)] {
        let run = |line: &str| results("gfx942", directives, line)[0];
        assert_eq!(run("v_mov_b32 v2, 0x43f80000; v_cvt_pk_fp8_f32 v10, v2, -v2"), large);
        assert_eq!(run("v_mov_b32 v2, 0x43700000; v_cvt_pk_fp8_f32 v10, v2, 0"), 0x7f, "240 is the largest");
    }
}

#[test]
fn signalling_nans_and_clamps() {
    let quiet = ".amdhsa_ieee_mode 0\n.amdhsa_dx10_clamp 0";
    let run = |directives, line: &str| results("gfx1100", directives, &format!("v_mov_b32 v2, 0x7f800001; {line}"))[0];
    assert_eq!(run("", "v_min_f32 v10, v2, 1.0"), 0x7fc0_0001);
    assert_eq!(run("", "v_max_f32 v10, 1.0, v2"), 0x7fc0_0001);
    assert_eq!(run(quiet, "v_min_f32 v10, v2, 1.0"), 0x3f80_0000);
    assert_eq!(run(quiet, "v_med3_f32 v10, v2, 1.0, 2.0"), 0x3f80_0000);
    // A NaN that does not signal gives way to a number.
    assert_eq!(run("", "v_mov_b32 v2, 0x7fc00001; v_max_f32 v10, v2, 1.0"), 0x3f80_0000);
    // A clamp of NaN.
    assert_eq!(run("", "v_add_f32 v10, v2, v2 clamp"), 0);
    assert!(f32::from_bits(run(quiet, "v_add_f32 v10, v2, v2 clamp")).is_nan());
    assert_eq!(run(quiet, "v_add_f32 v10, 4.0, 4.0 clamp"), 0x3f80_0000);
}
