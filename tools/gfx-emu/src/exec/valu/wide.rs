//! 64 bits: binary64 and whole numbers.

use super::{Add, get, has_mask, plain, put, row, ty};

#[inline(always)]
fn max(ieee: bool, a: f64, b: f64) -> f64 {
    let quiet = 1 << 51;
    for x in [a, b] {
        if ieee && x.is_nan() && x.to_bits() & quiet == 0 {
            return f64::from_bits(x.to_bits() | quiet);
        }
    }
    let zero = f64::from_bits(a.to_bits() & b.to_bits());
    if a.is_nan() {
        b
    } else if b.is_nan() || a > b {
        a
    } else if a == b {
        zero
    } else {
        b
    }
}

#[inline(always)]
fn min(ieee: bool, a: f64, b: f64) -> f64 {
    -max(ieee, -a, -b)
}

#[inline(always)]
fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { a + b } else { max(false, a, b) }
}

#[inline(always)]
fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { a + b } else { min(false, a, b) }
}

pub fn rows(add: Add<'_>) {
    add("v_add_f64", plain!(FD(FD a, FD b) a + b).arithmetic());
    add("v_mul_f64", plain!(FD(FD a, FD b) a * b).arithmetic());
    add("v_fma_f64", plain!(FD(FD a, FD b, FD c) a.mul_add(b, c)).arithmetic());
    add("v_fmac_f64", plain!(FD(FD a, FD b, FD c) a.mul_add(b, c)).accumulates().arithmetic());
    add("v_max_f64", row!([env] FD(FD a, FD b) max(env.ieee, a, b)).arithmetic());
    add("v_min_f64", row!([env] FD(FD a, FD b) min(env.ieee, a, b)).arithmetic());
    add("v_maximum_f64", row!(FD(FD a, FD b) maximum(a, b)).arithmetic());
    add("v_minimum_f64", row!(FD(FD a, FD b) minimum(a, b)).arithmetic());
    add("v_floor_f64", row!(FD(FD a) a.floor()).arithmetic());
    add("v_ceil_f64", row!(FD(FD a) a.ceil()).arithmetic());
    add("v_trunc_f64", row!(FD(FD a) a.trunc()).arithmetic());
    add("v_rndne_f64", row!(FD(FD a) a.round_ties_even()).arithmetic());
    add(
        "v_fract_f64",
        row!(FD(FD a) {
            let part = a - a.floor();
            let below_one = f64::from_bits(0x3fef_ffff_ffff_ffff);
            if part < below_one || part.is_nan() { part } else { below_one }
        }),
    );
    add("v_ldexp_f64", row!(FD(FD a, I b) super::special::scale_wide(a, b)).arithmetic());
    add("v_mov_b64", plain!(D(D a) a));
    add("v_add_u64", plain!(D(D a, D b) a.wrapping_add(b)));
    add("v_sub_u64", plain!(D(D a, D b) a.wrapping_sub(b)));
    add("v_lshlrev_b64", plain!(D(W a, D b) b << (a & 63)));
    add("v_lshrrev_b64", plain!(D(W a, D b) b >> (a & 63)));
    add("v_ashrrev_i64", row!(Q(W a, Q b) b >> (a & 63)));
    add("v_lshl_add_u64", plain!(D(D a, W b, D c) (a << (b & 7)).wrapping_add(c)));
    add("v_mad_u64_u32", row!(DM(W a, W b, D c) (u64::from(a) * u64::from(b)).overflowing_add(c)));
    add(
        "v_mad_i64_i32",
        row!(DM(I a, I b, Q c) {
            let (product, c) = (i64::from(a) * i64::from(b), c);
            let exact = i128::from(product) + i128::from(c);
            (product.wrapping_add(c) as u64, exact != i128::from(exact as i64))
        }),
    );
    add("v_mad_nc_u64_u32", plain!(D(W a, W b, D c) (u64::from(a) * u64::from(b)).wrapping_add(c)));
    add("v_mad_nc_i64_i32", row!(Q(I a, I b, Q c) (i64::from(a) * i64::from(b)).wrapping_add(c)));
}
