//! What the mode register changes: subnormal operands and results, clamps, results too large for binary16.
//!
//! The bits are those of a kernel descriptor's FLOAT_MODE, which LLVM documents (AMDGPUUsage). Of a pair of bits for subnormals, the low one keeps those of
//! operands and the high one those of results; bits 4 and 5 are for binary32, 6 and 7 for binary16 and binary64.

use super::number::{half, to_half};
use super::valu::{Lane, OPERANDS};
use crate::decode::{Ty, VSrc, Valu};

/// Subnormals of all types are kept.
pub const SUBNORMALS: u32 = 0xf0;
/// A clamp makes zero of NaN.
pub const DX10_CLAMP: u32 = 1 << 8;
/// Minima and maxima make a quiet NaN of a signalling one. Not there from gfx12 on.
pub const IEEE: u32 = 1 << 9;
/// Too large results of binary16 become the largest number, and those of 8-bit floats too.
pub const FP16_OVFL: u32 = 1 << 23;

/// The sign of binary32.
const SIGN: u32 = 0x8000_0000;

/// The lower bit of a type's pair in the mode; none if it has no subnormals that the mode knows of.
const fn pair(ty: Ty) -> Option<u32> {
    match ty {
        Ty::F | Ty::PF | Ty::MX => Some(4),
        Ty::H | Ty::PH | Ty::FD => Some(6),
        _ => None,
    }
}

/// Bits of the mode that an operation must have as they mostly are to be done on registers as they are: `mode ^
/// SUBNORMALS` has none of them.
pub fn matters(v: &Valu) -> u32 {
    let both = |ty: Ty| pair(ty).map_or(0, |at| 3 << at);
    let mixed = if v.src.iter().any(|s| s.ty == Ty::MX) { SUBNORMALS } else { 0 };
    let subnormals = v.src.iter().fold(both(v.dst_ty) | mixed, |all, s| all | both(s.ty));
    let subnormals = if v.arithmetic { subnormals } else { 0 };
    subnormals | if v.overflows { FP16_OVFL } else { 0 }
}

/// Half of a subnormal number becomes a zero with its sign.
#[inline(always)]
fn flushed_half(bits: u32) -> u32 {
    if bits & 0x7c00 == 0 { bits & 0x8000 } else { bits & 0xffff }
}

/// Zeros for subnormals of a type in a value's registers.
fn flush(ty: Ty, low: &mut Lane, high: &mut Lane) {
    let narrow = |lanes: &mut Lane| {
        for bits in lanes {
            *bits = if *bits & 0x7f80_0000 == 0 { *bits & SIGN } else { *bits };
        }
    };
    match ty {
        Ty::F | Ty::MX => narrow(low),
        Ty::PF => {
            narrow(low);
            narrow(high);
        }
        Ty::H => low.iter_mut().for_each(|bits| *bits = flushed_half(*bits)),
        Ty::PH => low.iter_mut().for_each(|bits| *bits = flushed_half(*bits) | flushed_half(*bits >> 16) << 16),
        Ty::FD => {
            for (low, high) in low.iter_mut().zip(high) {
                if *high & 0x7ff0_0000 == 0 {
                    (*low, *high) = (0, *high & SIGN);
                }
            }
        }
        _ => {}
    }
}

/// Whether the mode makes zeros of an operand's subnormals.
pub fn flushes(mode: u32, src: &VSrc) -> bool {
    let is_half = src.ty == Ty::MX && src.neg_half[1];
    pair(src.ty).is_some_and(|at| mode >> if is_half { 6 } else { at } & 1 == 0)
}

/// Zeros for an operand's subnormals, after what the instruction does to its bits.
pub fn flush_operand(src: &VSrc, low: &mut Lane, high: &mut Lane) {
    if src.ty == Ty::MX && src.neg_half[1] {
        // It is binary32 by now, where it is no subnormal number.
        for bits in low.iter_mut() {
            let small = f32::from_bits(*bits).abs() < f32::from_bits(0x3880_0000);
            *bits = if small { *bits & SIGN } else { *bits };
        }
        return;
    }
    flush(src.ty, low, high);
}

/// Between 0 and 1; what NaN becomes depends on the mode.
#[inline(always)]
fn clamped(x: f32, mode: u32) -> f32 {
    if x > 0.0 {
        x.min(1.0)
    } else if x.is_nan() && mode & DX10_CLAMP == 0 {
        x
    } else {
        0.0
    }
}

/// Output modifiers and subnormal results.
#[inline(always)]
pub fn finish(mode: u32, v: &Valu, out: &mut [Lane; 2]) {
    let flushes = v.arithmetic && pair(v.dst_ty).is_some_and(|at| mode >> at & 2 == 0);
    if v.omod != 0 || v.clamp {
        modify(mode, v, out);
    }
    if flushes {
        let [low, high] = out;
        flush(v.dst_ty, low, high);
    }
}

fn modify(mode: u32, v: &Valu, out: &mut [Lane; 2]) {
    let factor = f32::powi(2.0, v.omod.into());
    let change = |x: f32| {
        let x = if v.omod != 0 { x * factor } else { x };
        if v.clamp { clamped(x, mode) } else { x }
    };
    match v.dst_ty {
        Ty::F => out[0].iter_mut().for_each(|x| *x = change(f32::from_bits(*x)).to_bits()),
        Ty::PF => out.iter_mut().flatten().for_each(|x| *x = change(f32::from_bits(*x)).to_bits()),
        Ty::H => out[0].iter_mut().for_each(|x| *x = to_half(change(half(*x)))),
        Ty::PH => {
            out[0].iter_mut().for_each(|x| *x = to_half(change(half(*x))) | to_half(change(half(*x >> 16))) << 16);
        }
        Ty::FD => {
            let [low, high] = out;
            for (l, h) in low.iter_mut().zip(high) {
                let x = f64::from_bits(u64::from(*l) | u64::from(*h) << 32) * f64::from(factor);
                let x = if !v.clamp || (x.is_nan() && mode & DX10_CLAMP == 0) {
                    x
                } else if x > 0.0 {
                    x.min(1.0)
                } else {
                    0.0
                };
                (*l, *h) = (x.to_bits() as u32, (x.to_bits() >> 32) as u32);
            }
        }
        _ => {}
    }
}

/// The largest number for infinite results of binary16 that no infinite operand made.
pub fn saturate(v: &Valu, operands: &[&Lane; OPERANDS], out: &mut Lane) {
    let infinite = |half: u32| half & 0x7fff == 0x7c00;
    for lane in 0..32 {
        for shift in [0, 16] {
            let is_operand = |(at, src): (usize, &VSrc)| {
                let bits = operands[2 * at][lane];
                match src.ty {
                    Ty::H => infinite(bits),
                    Ty::PH => infinite(bits >> shift),
                    Ty::F | Ty::MX => bits & !SIGN == 0x7f80_0000,
                    _ => false,
                }
            };
            if (shift == 0 || v.dst_ty == Ty::PH)
                && infinite(out[lane] >> shift)
                && !v.src.iter().enumerate().any(is_operand)
            {
                out[lane] -= 1 << shift;
            }
        }
    }
}
