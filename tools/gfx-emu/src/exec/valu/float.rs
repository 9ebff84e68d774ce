//! binary32: sums, products, minima.

use super::{Add, get, has_mask, plain, put, row, ty};

/// Whether a NaN is a signalling one.
#[inline(always)]
fn is_signalling(x: f32) -> bool {
    x.is_nan() && x.to_bits() & 0x40_0000 == 0
}

/// A result, but a quiet NaN if one of two operands is a signalling one and the mode asks for IEEE's rule of 2008.
#[inline(always)]
fn checked(ieee: bool, a: f32, b: f32, result: f32) -> f32 {
    let quiet = |x: f32| f32::from_bits(x.to_bits() | 0x40_0000);
    if ieee && is_signalling(a) {
        quiet(a)
    } else if ieee && is_signalling(b) {
        quiet(b)
    } else {
        result
    }
}

/// The larger; a number if one is none; +0 of two zeros. With IEEE's rule, a signalling NaN makes a quiet one.
#[inline(always)]
pub fn max(ieee: bool, a: f32, b: f32) -> f32 {
    let zero = f32::from_bits(a.to_bits() & b.to_bits());
    let larger = if a > b { a } else { b };
    let larger = if a == b { zero } else { larger };
    let larger = if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        larger
    };
    checked(ieee, a, b, larger)
}

/// The smaller; a number if one is none; -0 of two zeros. With IEEE's rule, a signalling NaN makes a quiet one.
#[inline(always)]
pub fn min(ieee: bool, a: f32, b: f32) -> f32 {
    let zero = f32::from_bits(a.to_bits() | b.to_bits());
    let smaller = if a < b { a } else { b };
    let smaller = if a == b { zero } else { smaller };
    let smaller = if a.is_nan() {
        b
    } else if b.is_nan() {
        a
    } else {
        smaller
    };
    checked(ieee, a, b, smaller)
}

/// The larger, or a NaN.
#[inline(always)]
pub fn maximum(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { a + b } else { max(false, a, b) }
}

/// The smaller, or a NaN.
#[inline(always)]
pub fn minimum(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() { a + b } else { min(false, a, b) }
}

/// The one in the middle.
#[inline(always)]
pub fn med3(ieee: bool, a: f32, b: f32, c: f32) -> f32 {
    if a.is_nan() || b.is_nan() || c.is_nan() {
        return min(ieee, min(ieee, a, b), c);
    }
    max(false, min(false, a, b), min(false, max(false, a, b), c))
}

/// A product in which zero times anything is zero.
#[inline(always)]
pub fn legacy(a: f32, b: f32) -> f32 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

pub fn rows(add: Add<'_>) {
    add("v_add_f32", plain!(F(F a, F b) a + b).arithmetic());
    add("v_sub_f32", plain!(F(F a, F b) a - b).arithmetic());
    add("v_subrev_f32", plain!(F(F a, F b) b - a).arithmetic());
    add("v_mul_f32", plain!(F(F a, F b) a * b).arithmetic());
    add("v_mul_legacy_f32", row!(F(F a, F b) legacy(a, b)).arithmetic());
    add("v_fma_f32", plain!(F(F a, F b, F c) a.mul_add(b, c)).arithmetic());
    add("v_fmac_f32", plain!(F(F a, F b, F c) a.mul_add(b, c)).arithmetic().accumulates());
    add("v_fmaak_f32", plain!(F(F a, F b, F c) a.mul_add(b, c)).arithmetic());
    add("v_fmamk_f32", plain!(F(F a, F b, F c) a.mul_add(b, c)).arithmetic());
    add("v_mad_f32", plain!(F(F a, F b, F c) a * b + c).arithmetic());
    add("v_mac_f32", plain!(F(F a, F b, F c) a * b + c).arithmetic().accumulates());
    add("v_madak_f32", plain!(F(F a, F b, F c) a * b + c).arithmetic());
    add("v_madmk_f32", plain!(F(F a, F b, F c) a * b + c).arithmetic());
    add("v_mad_legacy_f32", row!(F(F a, F b, F c) legacy(a, b) + c).arithmetic());
    let legacy_fma = row!(F(F a, F b, F c) if a == 0.0 || b == 0.0 { c } else { a.mul_add(b, c) }).arithmetic();
    add("v_fma_legacy_f32", legacy_fma);
    add("v_fmac_legacy_f32", legacy_fma.accumulates());
    add("v_max_f32", row!([env] F(F a, F b) max(env.ieee, a, b)).arithmetic());
    add("v_min_f32", row!([env] F(F a, F b) min(env.ieee, a, b)).arithmetic());
    add("v_max_legacy_f32", row!(F(F a, F b) if a >= b { a } else { b }).arithmetic());
    add("v_min_legacy_f32", row!(F(F a, F b) if a < b { a } else { b }).arithmetic());
    add("v_maximum_f32", row!(F(F a, F b) maximum(a, b)).arithmetic());
    add("v_minimum_f32", row!(F(F a, F b) minimum(a, b)).arithmetic());
    add("v_max3_f32", row!([env] F(F a, F b, F c) max(env.ieee, max(env.ieee, a, b), c)).arithmetic());
    add("v_min3_f32", row!([env] F(F a, F b, F c) min(env.ieee, min(env.ieee, a, b), c)).arithmetic());
    add("v_maximum3_f32", row!(F(F a, F b, F c) maximum(maximum(a, b), c)).arithmetic());
    add("v_minimum3_f32", row!(F(F a, F b, F c) minimum(minimum(a, b), c)).arithmetic());
    add("v_med3_f32", row!([env] F(F a, F b, F c) med3(env.ieee, a, b, c)).arithmetic());
    add("v_maxmin_f32", row!([env] F(F a, F b, F c) min(env.ieee, max(env.ieee, a, b), c)).arithmetic());
    add("v_minmax_f32", row!([env] F(F a, F b, F c) max(env.ieee, min(env.ieee, a, b), c)).arithmetic());
    add("v_maximumminimum_f32", row!(F(F a, F b, F c) minimum(maximum(a, b), c)).arithmetic());
    add("v_minimummaximum_f32", row!(F(F a, F b, F c) maximum(minimum(a, b), c)).arithmetic());
    add("v_floor_f32", plain!(F(F a) a.floor()).arithmetic());
    add("v_ceil_f32", plain!(F(F a) a.ceil()).arithmetic());
    add("v_trunc_f32", plain!(F(F a) a.trunc()).arithmetic());
    add("v_rndne_f32", plain!(F(F a) a.round_ties_even()).arithmetic());
    // The largest number below one is as far as a fraction goes.
    let below_one = f32::from_bits(0x3f7f_ffff);
    debug_assert!(below_one < 1.0);
    add(
        "v_fract_f32",
        row!(F(F a) {
            let part = a - a.floor();
            if part < f32::from_bits(0x3f7f_ffff) || part.is_nan() { part } else { f32::from_bits(0x3f7f_ffff) }
        })
        .arithmetic(),
    );
    add("v_ldexp_f32", row!(F(F a, I b) super::special::scale(a, b)).arithmetic());
    add("v_fma_mix_f32", plain!(F(MX a, MX b, MX c) a.mul_add(b, c)).arithmetic());
    add("v_mad_mix_f32", plain!(F(MX a, MX b, MX c) a * b + c).arithmetic());
    for name in ["v_fma_mixlo_f16", "v_fma_mixhi_f16"] {
        // One rounding of the exact result to binary32, and one to binary16.
        add(name, row!(H(MX a, MX b, MX c) a.mul_add(b, c)).arithmetic());
    }
    for name in ["v_mad_mixlo_f16", "v_mad_mixhi_f16"] {
        add(name, row!(H(MX a, MX b, MX c) a * b + c).arithmetic());
    }
}
