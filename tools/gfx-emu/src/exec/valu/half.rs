//! binary16.

use super::float::{max, maximum, med3, min, minimum};
use super::{Add, get, has_mask, put, row, ty};
use crate::exec::number::{fma_half, half, to_half};

pub fn rows(add: Add<'_>) {
    // Sums and products of binary16 in binary32 round to what one rounding gives.
    add("v_add_f16", row!(H(H a, H b) a + b).clears().arithmetic());
    add("v_sub_f16", row!(H(H a, H b) a - b).clears().arithmetic());
    add("v_subrev_f16", row!(H(H a, H b) b - a).clears().arithmetic());
    add("v_mul_f16", row!(H(H a, H b) a * b).clears().arithmetic());
    let fma = row!(U16(H a, H b, H c) fma_half(a, b, c));
    let fma = super::Row { dst: crate::decode::Ty::H, ..fma }.arithmetic();
    add("v_fma_f16", fma);
    add("v_fmac_f16", fma.accumulates());
    add("v_fmaak_f16", fma);
    add("v_fmamk_f16", fma);
    add("v_mad_f16", row!(H(H a, H b, H c) half(to_half(a * b)) + c).arithmetic());
    add("v_mac_f16", row!(H(H a, H b, H c) half(to_half(a * b)) + c).accumulates().arithmetic());
    add("v_max_f16", row!([env] H(H a, H b) max(env.ieee, a, b)).clears().arithmetic());
    add("v_min_f16", row!([env] H(H a, H b) min(env.ieee, a, b)).clears().arithmetic());
    add("v_maximum_f16", row!(H(H a, H b) maximum(a, b)).arithmetic());
    add("v_minimum_f16", row!(H(H a, H b) minimum(a, b)).arithmetic());
    add("v_max3_f16", row!([env] H(H a, H b, H c) max(env.ieee, max(env.ieee, a, b), c)).arithmetic());
    add("v_min3_f16", row!([env] H(H a, H b, H c) min(env.ieee, min(env.ieee, a, b), c)).arithmetic());
    add("v_maximum3_f16", row!(H(H a, H b, H c) maximum(maximum(a, b), c)).arithmetic());
    add("v_minimum3_f16", row!(H(H a, H b, H c) minimum(minimum(a, b), c)).arithmetic());
    add("v_med3_f16", row!([env] H(H a, H b, H c) med3(env.ieee, a, b, c)).arithmetic());
    add("v_maxmin_f16", row!([env] H(H a, H b, H c) min(env.ieee, max(env.ieee, a, b), c)).arithmetic());
    add("v_minmax_f16", row!([env] H(H a, H b, H c) max(env.ieee, min(env.ieee, a, b), c)).arithmetic());
    add("v_maximumminimum_f16", row!(H(H a, H b, H c) minimum(maximum(a, b), c)).arithmetic());
    add("v_minimummaximum_f16", row!(H(H a, H b, H c) maximum(minimum(a, b), c)).arithmetic());
    add("v_floor_f16", row!(H(H a) a.floor()).clears().arithmetic());
    add("v_ceil_f16", row!(H(H a) a.ceil()).clears().arithmetic());
    add("v_trunc_f16", row!(H(H a) a.trunc()).clears().arithmetic());
    add("v_rndne_f16", row!(H(H a) a.round_ties_even()).clears().arithmetic());
    add(
        "v_fract_f16",
        row!(H(H a) {
            let part = a - a.floor();
            let below_one = half(0x3bff);
            if part < below_one || part.is_nan() { part } else { below_one }
        })
        .clears()
        .arithmetic(),
    );
    add("v_ldexp_f16", row!(H(H a, I16 b) super::special::scale(a, b.into())).clears().arithmetic());
}
