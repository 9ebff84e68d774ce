//! Elements as bits in memory, and rounding to element types.

use super::super::types::Elem;
use half::{bf16, f16};

/// Rounds to odd in binary32: a later rounding to 22 bits or fewer then gives what one rounding of `x` would have.
fn round_to_odd(x: f64) -> f32 {
    let near = x as f32;
    if x.is_nan() || f64::from(near) == x {
        return near;
    }
    let towards_zero = if f64::from(near).abs() > x.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(towards_zero | 1)
}

/// The bits of a float as `elem`, rounded to nearest even.
pub(super) fn float_bits(elem: Elem, x: f64) -> u32 {
    match elem {
        Elem::F16 => u32::from(f16::from_f32(round_to_odd(x)).to_bits()),
        Elem::BF16 => u32::from(bf16::from_f32(round_to_odd(x)).to_bits()),
        _ => (x as f32).to_bits(),
    }
}

/// The float that the bits are as `elem`.
pub(super) fn float_from_bits(elem: Elem, bits: u32) -> f64 {
    match elem {
        Elem::F16 => f16::from_bits(bits as u16).to_f64(),
        Elem::BF16 => bf16::from_bits(bits as u16).to_f64(),
        _ => f64::from(f32::from_bits(bits)),
    }
}

/// A float rounded to `elem`.
pub(super) fn round_float(elem: Elem, x: f64) -> f64 {
    if elem == Elem::F32 { f64::from(x as f32) } else { float_from_bits(elem, float_bits(elem, x)) }
}

/// An integer brought into the range of `elem` by dropping its upper bits.
pub(super) fn wrap(elem: Elem, n: i64) -> i64 {
    match elem {
        Elem::B1 => n & 1,
        Elem::I8 => i64::from(n as i8),
        Elem::U8 => i64::from(n as u8),
        Elem::I16 => i64::from(n as i16),
        Elem::U16 => i64::from(n as u16),
        Elem::I32 => i64::from(n as i32),
        _ => i64::from(n as u32),
    }
}

/// A float truncated towards zero into the range of an integer type, NaN to 0.
pub(super) fn truncate(elem: Elem, x: f64) -> i64 {
    match elem {
        Elem::I8 => i64::from(x as i8),
        Elem::U8 => i64::from(x as u8),
        Elem::I16 => i64::from(x as i16),
        Elem::U16 => i64::from(x as u16),
        Elem::I32 => i64::from(x as i32),
        _ => i64::from(x as u32),
    }
}

/// The bits of an integer of type `elem`.
pub(super) fn int_bits(elem: Elem, n: i64) -> u32 {
    n as u32 & (u32::MAX >> (32 - 8 * elem.bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_once() {
        // 1 + 2^-11 is the tie between 1 and the next binary16; a little above it must go up although binary32 cannot
        // hold the difference.
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!(float_bits(Elem::F16, tie), 0x3c00);
        assert_eq!(float_bits(Elem::F16, tie + 2f64.powi(-40)), 0x3c01);
        assert_eq!(float_bits(Elem::F16, -(tie + 2f64.powi(-40))), 0xbc01);
        let tie = 1.0 + 2f64.powi(-8);
        assert_eq!(float_bits(Elem::BF16, tie), 0x3f80);
        assert_eq!(float_bits(Elem::BF16, tie + 2f64.powi(-40)), 0x3f81);
    }

    #[test]
    fn extremes_of_halves() {
        assert_eq!(float_bits(Elem::F16, 65520.0), 0x7c00, "half way to the next power overflows");
        assert_eq!(float_bits(Elem::F16, 65519.999999999), 0x7bff);
        assert_eq!(float_bits(Elem::F16, 1e300), 0x7c00);
        assert_eq!(float_bits(Elem::BF16, -1e300), 0xff80);
        assert_eq!(float_bits(Elem::F16, 2f64.powi(-25)), 0, "half the least one ties to even");
        assert_eq!(float_bits(Elem::F16, 2f64.powi(-25) * (1.0 + 1e-12)), 1);
        assert_eq!(float_bits(Elem::F16, -1e-300), 0x8000);
        assert!(round_float(Elem::BF16, f64::NAN).is_nan());
    }

    #[test]
    fn integers_wrap_and_truncate() {
        assert_eq!(wrap(Elem::I8, 128), -128);
        assert_eq!(wrap(Elem::U16, -1), 65535);
        assert_eq!(truncate(Elem::U8, -3.5), 0);
        assert_eq!(truncate(Elem::I8, 1e9), 127);
        assert_eq!(truncate(Elem::I32, f64::NAN), 0);
        assert_eq!(int_bits(Elem::I8, -1), 0xff);
        assert_eq!(int_bits(Elem::I32, -1), u32::MAX);
    }
}
