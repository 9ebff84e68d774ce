//! Numbers of 16 and 8 bits, and arithmetic whose rounding Rust's types do not have.

/// binary16 to binary32. Written so that loops over lanes become vector code.
#[inline(always)]
pub fn half(h: u32) -> f32 {
    let sign = (h & 0x8000) << 16;
    let rest = (h & 0x7fff) << 13;
    // The exponent moves by a product; infinities and NaNs get theirs afterwards.
    let scaled = (f32::from_bits(rest) * f32::from_bits(0x7780_0000)).to_bits();
    let special = if rest >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    f32::from_bits(scaled | special | sign)
}

/// binary32 to binary16, to nearest, ties to even.
#[inline(always)]
pub fn to_half(x: f32) -> u32 {
    let bits = x.to_bits();
    let sign = bits >> 16 & 0x8000;
    let abs = bits & 0x7fff_ffff;
    // Normal results: the bits that go are rounded, a carry moves the exponent.
    let normal = (abs.wrapping_sub(0x3800_0000).wrapping_add(0xfff + (abs >> 13 & 1))) >> 13;
    // Subnormal ones: an addition that leaves no room for what is below 2^-24.
    let small = (f32::from_bits(abs) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let finite = if abs < 0x3880_0000 { small } else { normal };
    let finite = if abs >= 0x477f_f000 { 0x7c00 } else { finite };
    let all = if abs > 0x7f80_0000 { 0x7e00 | (abs >> 13 & 0x1ff) } else { finite };
    sign | all
}

/// binary32 to binary16, towards zero.
#[inline(always)]
pub fn to_half_toward_zero(x: f32) -> u32 {
    let near = to_half(x);
    let back = half(near);
    let away = back.abs() > x.abs();
    if away && x.is_finite() { near - 1 } else { near }
}

/// bfloat16 to binary32.
#[inline(always)]
pub fn bf16(b: u32) -> f32 {
    f32::from_bits(b << 16)
}

/// binary32 to bfloat16, to nearest, ties to even.
#[inline(always)]
pub fn to_bf16(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if bits & 0x7fff_ffff > 0x7f80_0000 { bits >> 16 | 0x40 } else { rounded }
}

/// A sum in binary64 whose last bit says whether anything was rounded off, so that rounding it again to less is right.
#[inline(always)]
fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let part = sum - a;
    let error = (a - (sum - part)) + (b - part);
    if error == 0.0 || !sum.is_finite() || sum.to_bits() & 1 == 1 {
        return sum;
    }
    let up = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if up { sum.to_bits() + 1 } else { sum.to_bits() - 1 })
}

/// binary64 to binary16, to nearest, ties to even.
pub fn double_to_half(x: f64) -> u32 {
    let near = x as f32;
    let back = f64::from(near);
    if back == x || !near.is_finite() || near.to_bits() & 1 == 1 || x.is_nan() {
        return to_half(near);
    }
    // Odd, so that the next rounding knows of the first.
    let bits = near.to_bits();
    let up = (x > back) == (x > 0.0);
    to_half(f32::from_bits(if up { bits + 1 } else { bits.saturating_sub(1) }))
}

/// Multiplication and addition of binary16 rounded once.
pub fn fma_half(a: f32, b: f32, c: f32) -> u32 {
    double_to_half(odd_sum(f64::from(a) * f64::from(b), f64::from(c)))
}

/// An 8-bit float to binary32: bits of the exponent, and whether the encoding is FNUZ (no infinities, no negative zero,
/// a bias larger by one) or that of the Open Compute Project.
pub fn from_f8(byte: u32, exponent_bits: u32, fnuz: bool) -> f32 {
    let mantissa_bits = 7 - exponent_bits;
    let negative = byte & 0x80 != 0;
    let exponent = byte >> mantissa_bits & ((1 << exponent_bits) - 1);
    let mantissa = byte & ((1 << mantissa_bits) - 1);
    let top = (1 << exponent_bits) - 1;
    if fnuz && byte & 0xff == 0x80 {
        return f32::NAN;
    }
    if !fnuz && exponent == top {
        if exponent_bits == 5 {
            let special = if mantissa == 0 { f32::INFINITY } else { f32::NAN };
            return if negative { -special } else { special };
        }
        if mantissa == (1 << mantissa_bits) - 1 {
            return f32::NAN;
        }
    }
    let bias = (1 << (exponent_bits - 1)) - 1 + i32::from(fnuz);
    let (significand, power) = match exponent {
        0 => (mantissa, 1 - bias),
        e => (mantissa | 1 << mantissa_bits, e as i32 - bias),
    };
    let value = significand as f32 * f32::powi(2.0, power - mantissa_bits as i32);
    if negative { -value } else { value }
}

/// binary32 to an 8-bit float, to nearest, ties to even; what is too large saturates, or becomes an infinity or, in a form
/// that has none, NaN.
pub fn to_f8(x: f32, exponent_bits: u32, fnuz: bool, saturates: bool) -> u32 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let finite_top = |code: u32| from_f8(code, exponent_bits, fnuz).is_finite();
    let nan = if fnuz { 0x80 } else { 0x7f };
    if x.is_nan() {
        return nan;
    }
    let top = (0..0x80).rev().find(|&code| finite_top(code)).unwrap_or(0);
    // The nearest of the ordered positive codes.
    let (mut low, mut high) = (0, top);
    let magnitude = x.abs();
    while low < high {
        let middle = (low + high).div_ceil(2);
        if from_f8(middle, exponent_bits, fnuz) <= magnitude { low = middle } else { high = middle - 1 }
    }
    // Halfway to what would be the next: the last step again.
    let largest = from_f8(top, exponent_bits, fnuz);
    let step = largest - from_f8(top - 1, exponent_bits, fnuz);
    let code = if low == top && !saturates && magnitude >= largest + step / 2.0 {
        match (fnuz, exponent_bits) {
            (true, _) => return 0x80,
            (false, 5) => 0x7c,
            _ => 0x7f,
        }
    } else if low == top {
        top
    } else {
        let (below, above) = (from_f8(low, exponent_bits, fnuz), from_f8(low + 1, exponent_bits, fnuz));
        let (down, up) = (f64::from(magnitude) - f64::from(below), f64::from(above) - f64::from(magnitude));
        if up < down || (up == down && low & 1 == 1) { low + 1 } else { low }
    };
    if fnuz && code == 0 { 0 } else { sign | code }
}
