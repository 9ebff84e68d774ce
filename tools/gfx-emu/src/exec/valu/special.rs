//! Reciprocals, roots, exponentials, sines, and the steps of a division: results of binary64 rounded once, where hardware
//! promises an error of one unit in the last place.

use super::{Add, get, has_mask, put, row, ty};

/// Zero for a subnormal number, with its sign: these operations do not take or give any.
#[inline(always)]
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { f32::from_bits(x.to_bits() & 0x8000_0000) } else { x }
}

#[inline(always)]
fn through_f64(x: f32, f: impl FnOnce(f64) -> f64) -> f32 {
    flushed(f(f64::from(flushed(x))) as f32)
}

/// x times 2^n.
pub fn scale(x: f32, n: i32) -> f32 {
    // Each step of a double is exact, and the last rounding is the only one.
    let n = n.clamp(-400, 400);
    (f64::from(x) * f64::powi(2.0, n)) as f32
}

/// x times 2^n.
pub fn scale_wide(x: f64, n: i32) -> f64 {
    let n = n.clamp(-2200, 2200);
    if n > 1000 {
        return scale_wide(x * f64::powi(2.0, 1000), n - 1000);
    }
    if n < -1000 {
        // 2^-1000 of a number that is not small is exact; once it is small, the rest is one step.
        let step = x * f64::powi(2.0, -900);
        if step.abs() >= f64::powi(2.0, -100) || n + 900 < -1000 {
            return scale_wide(step, n + 900);
        }
        return step * f64::powi(2.0, n + 900);
    }
    x * f64::powi(2.0, n)
}

fn exponent(x: f32) -> i32 {
    (x.to_bits() >> 23 & 0xff) as i32
}

fn exponent_wide(x: f64) -> i32 {
    (x.to_bits() >> 52 & 0x7ff) as i32
}

/// Whether a quotient is subnormal as binary32.
fn is_small(x: f64) -> bool {
    x != 0.0 && x.abs() < f64::from(f32::MIN_POSITIVE)
}

/// v_div_scale_f32: brings `which` (numerator or denominator) to where a division works without overflow.
///
/// The manuals scale the denominator up where both its reciprocal and the quotient are subnormal. It overflows then, and
/// every such quotient would be NaN; down is what gives the quotient that the instructions behind expect.
fn div_scale(which: f32, denominator: f32, numerator: f32) -> (f32, bool) {
    let (d, n) = (f64::from(denominator), f64::from(numerator));
    let is = |x: f32| which.to_bits() == x.to_bits();
    if numerator == 0.0 || denominator == 0.0 {
        (f32::NAN, false)
    } else if exponent(numerator) - exponent(denominator) >= 96 {
        (if is(denominator) { scale(which, 64) } else { which }, true)
    } else if denominator.is_subnormal() {
        (scale(which, 64), false)
    } else if is_small(1.0 / d) && is_small(n / d) {
        (if is(denominator) { scale(which, -64) } else { which }, true)
    } else if is_small(1.0 / d) {
        (scale(which, -64), false)
    } else if is_small(n / d) {
        (if is(numerator) { scale(which, 64) } else { which }, true)
    } else if exponent(numerator) <= 23 {
        (scale(which, 64), false)
    } else {
        (which, false)
    }
}

fn div_scale_wide(which: f64, denominator: f64, numerator: f64) -> (f64, bool) {
    let is = |x: f64| which.to_bits() == x.to_bits();
    let is_small = |x: f64| x.is_subnormal() || x == 0.0;
    if numerator == 0.0 || denominator == 0.0 {
        (f64::NAN, false)
    } else if exponent_wide(numerator) - exponent_wide(denominator) >= 768 {
        (if is(denominator) { scale_wide(which, 128) } else { which }, true)
    } else if denominator.is_subnormal() {
        (scale_wide(which, 128), false)
    } else if is_small(1.0 / denominator) && is_small(numerator / denominator) {
        (if is(denominator) { scale_wide(which, -128) } else { which }, true)
    } else if is_small(1.0 / denominator) {
        (scale_wide(which, -128), false)
    } else if is_small(numerator / denominator) {
        (if is(numerator) { scale_wide(which, 128) } else { which }, true)
    } else if exponent_wide(numerator) <= 53 {
        (scale_wide(which, 128), false)
    } else {
        (which, false)
    }
}

/// v_div_fixup: the special cases of a division, else the quotient with the right sign.
macro_rules! div_fixup {
    ($name:ident, $t:ty, $exponent:expr, $least:expr) => {
        fn $name(quotient: $t, denominator: $t, numerator: $t) -> $t {
            let negative = denominator.is_sign_negative() != numerator.is_sign_negative();
            let signed = |x: $t| if negative { -x } else { x };
            if numerator.is_nan() || denominator.is_nan() {
                if numerator.is_nan() { numerator } else { denominator }
            } else if (denominator == 0.0 && numerator == 0.0) || (denominator.is_infinite() && numerator.is_infinite())
            {
                -<$t>::NAN
            } else if denominator == 0.0 || numerator.is_infinite() {
                signed(<$t>::INFINITY)
            } else if denominator.is_infinite() || numerator == 0.0 {
                signed(0.0)
            } else if $exponent(numerator) - $exponent(denominator) < $least {
                signed(0.0)
            } else {
                signed(quotient.abs())
            }
        }
    };
}

div_fixup!(div_fixup, f32, exponent, -150);
div_fixup!(div_fixup_wide, f64, exponent_wide, -1075);
div_fixup!(div_fixup_half, f32, (|_: f32| 0), -1);

fn div_fmas(a: f32, b: f32, c: f32, scaled: bool) -> f32 {
    if scaled { scale(a.mul_add(b, c), if exponent(c) > 127 { 64 } else { -64 }) } else { a.mul_add(b, c) }
}

fn div_fmas_wide(a: f64, b: f64, c: f64, scaled: bool) -> f64 {
    let sum = a.mul_add(b, c);
    if scaled { scale_wide(sum, if exponent_wide(c) > 1023 { 128 } else { -128 }) } else { sum }
}

/// The sine or cosine of a number of turns.
fn turns(x: f64, f: impl FnOnce(f64) -> f64) -> f64 {
    if x.is_finite() { f((x - x.floor()) * std::f64::consts::TAU) } else { f64::NAN }
}

/// Fraction in [0.5, 1) and exponent.
fn split(x: f64) -> (f64, i32) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let normal = if x.is_subnormal() { x * f64::powi(2.0, 64) } else { x };
    let power = exponent_wide(normal) - 1022 - if x.is_subnormal() { 64 } else { 0 };
    (f64::from_bits(normal.to_bits() & !(0x7ff << 52) | 1022 << 52), power)
}

/// Two sines and cosines are right where a table has them: multiples of a quarter turn.
fn exact_turns(x: f64, sine: bool) -> f64 {
    let quarter = (x - x.floor()) * 4.0 + if sine { 0.0 } else { 1.0 };
    if [0.0, 2.0, 4.0].contains(&quarter) {
        0.0
    } else if [1.0, 5.0].contains(&quarter) {
        1.0
    } else if quarter == 3.0 {
        -1.0
    } else if sine {
        turns(x, f64::sin)
    } else {
        turns(x, f64::cos)
    }
}

pub fn rows(add: Add<'_>) {
    for name in ["v_rcp_f32", "v_rcp_iflag_f32"] {
        add(name, row!(F(F a) through_f64(a, |x| 1.0 / x)));
    }
    add("v_rsq_f32", row!(F(F a) through_f64(a, |x| 1.0 / x.sqrt())));
    add("v_sqrt_f32", row!(F(F a) through_f64(a, f64::sqrt)));
    add("v_exp_f32", row!(F(F a) through_f64(a, f64::exp2)));
    add("v_log_f32", row!(F(F a) through_f64(a, f64::log2)));
    add("v_sin_f32", row!(F(F a) through_f64(a, |x| exact_turns(x, true))));
    add("v_cos_f32", row!(F(F a) through_f64(a, |x| exact_turns(x, false))));
    add("v_exp_legacy_f32", row!(F(F a) through_f64(a, f64::exp2)));
    add("v_log_legacy_f32", row!(F(F a) through_f64(a, f64::log2)));
    add("v_rcp_f64", row!(FD(FD a) 1.0 / a).arithmetic());
    add("v_rsq_f64", row!(FD(FD a) 1.0 / a.sqrt()).arithmetic());
    add("v_sqrt_f64", row!(FD(FD a) a.sqrt()).arithmetic());
    add("v_rcp_f16", row!(H(H a) 1.0 / a).clears().arithmetic());
    add("v_rsq_f16", row!(H(H a) (1.0 / f64::from(a).sqrt()) as f32).clears().arithmetic());
    add("v_sqrt_f16", row!(H(H a) a.sqrt()).clears().arithmetic());
    add("v_exp_f16", row!(H(H a) f64::from(a).exp2() as f32).clears().arithmetic());
    add("v_log_f16", row!(H(H a) f64::from(a).log2() as f32).clears().arithmetic());
    add("v_sin_f16", row!(H(H a) exact_turns(f64::from(a), true) as f32).clears().arithmetic());
    add("v_cos_f16", row!(H(H a) exact_turns(f64::from(a), false) as f32).clears().arithmetic());
    add("v_div_scale_f32", row!(FM(F a, F b, F c) div_scale(a, b, c)));
    add("v_div_scale_f64", row!(FDM(FD a, FD b, FD c) div_scale_wide(a, b, c)));
    add("v_div_fmas_f32", row!([env, i] F(F a, F b, F c) div_fmas(a, b, c, env.mask >> i & 1 != 0)).vcc_in());
    add("v_div_fmas_f64", row!([env, i] FD(FD a, FD b, FD c) div_fmas_wide(a, b, c, env.mask >> i & 1 != 0)).vcc_in());
    add("v_div_fixup_f32", row!(F(F a, F b, F c) div_fixup(a, b, c)));
    add("v_div_fixup_f64", row!(FD(FD a, FD b, FD c) div_fixup_wide(a, b, c)));
    add("v_div_fixup_f16", row!(H(H a, H b, H c) div_fixup_half(a, b, c)));
    add("v_frexp_mant_f32", row!(F(F a) split(f64::from(a)).0 as f32));
    add("v_frexp_exp_i32_f32", row!(I(F a) split(f64::from(a)).1));
    add("v_frexp_mant_f64", row!(FD(FD a) split(a).0));
    add("v_frexp_exp_i32_f64", row!(I(FD a) split(a).1));
    add("v_frexp_mant_f16", row!(H(H a) split(f64::from(a)).0 as f32).clears());
    add("v_frexp_exp_i16_f16", row!(I16(H a) split(f64::from(a)).1).clears());
    // A reduction's fraction of pi: not a table of digits of 2/pi, which is left out (v_trig_preop_f64).
}
