//! Scalar operations on binary32 and binary16, of gfx11.5 and later.

use super::{Add, SRow, row, scc, with_dst};
use crate::exec::number::{half, to_half};
use crate::exec::valu_float::{max, maximum, min, minimum};

const fn float(row: SRow) -> SRow {
    SRow { float: true, ..row }
}

fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

fn bits(x: f32) -> u64 {
    x.to_bits().into()
}

// NaN makes a test and its contrary false: they are written as what they are.
#[allow(clippy::double_comparisons, clippy::neg_cmp_op_on_partial_ord)]
pub fn rows(add: Add<'_>) {
    add("s_add_f32", float(row(1, &[1, 1], |a, b, _, _| bits(f(a) + f(b)))));
    add("s_sub_f32", float(row(1, &[1, 1], |a, b, _, _| bits(f(a) - f(b)))));
    add("s_mul_f32", float(row(1, &[1, 1], |a, b, _, _| bits(f(a) * f(b)))));
    add("s_min_f32", float(row(1, &[1, 1], |a, b, _, _| bits(min(false, f(a), f(b))))));
    add("s_max_f32", float(row(1, &[1, 1], |a, b, _, _| bits(max(false, f(a), f(b))))));
    add("s_minimum_f32", float(row(1, &[1, 1], |a, b, _, _| bits(minimum(f(a), f(b))))));
    add("s_maximum_f32", float(row(1, &[1, 1], |a, b, _, _| bits(maximum(f(a), f(b))))));
    add("s_fmac_f32", float(with_dst(row(1, &[1, 1], |a, b, d, _| bits(f(a).mul_add(f(b), f(d)))))));
    add("s_fmaak_f32", float(row(1, &[1, 1, 1], |a, b, d, _| bits(f(a).mul_add(f(b), f(d))))));
    add("s_fmamk_f32", float(row(1, &[1, 1, 1], |a, b, d, _| bits(f(a).mul_add(f(b), f(d))))));
    add("s_ceil_f32", float(row(1, &[1], |a, _, _, _| bits(f(a).ceil()))));
    add("s_floor_f32", float(row(1, &[1], |a, _, _, _| bits(f(a).floor()))));
    add("s_trunc_f32", float(row(1, &[1], |a, _, _, _| bits(f(a).trunc()))));
    add("s_rndne_f32", float(row(1, &[1], |a, _, _, _| bits(f(a).round_ties_even()))));
    add("s_cvt_f32_i32", row(1, &[1], |a, _, _, _| bits(a as i32 as f32)));
    add("s_cvt_f32_u32", row(1, &[1], |a, _, _, _| bits(a as u32 as f32)));
    add("s_cvt_i32_f32", float(row(1, &[1], |a, _, _, _| f(a) as i32 as u32 as u64)));
    add("s_cvt_u32_f32", float(row(1, &[1], |a, _, _, _| u64::from(f(a) as u32))));
    add("s_cvt_f16_f32", float(row(1, &[1], |a, _, _, _| to_half(f(a)).into())));
    add("s_cvt_f32_f16", row(1, &[1], |a, _, _, _| bits(half(a as u32))));
    add("s_cvt_hi_f32_f16", row(1, &[1], |a, _, _, _| bits(half(a as u32 >> 16))));
    add(
        "s_cvt_pk_rtz_f16_f32",
        float(row(1, &[1, 1], |a, b, _, _| {
            let to = crate::exec::number::to_half_toward_zero;
            (to(f(a)) | to(f(b)) << 16).into()
        })),
    );
    add("s_add_f16", row(1, &[1, 1], |a, b, _, _| to_half(half(a as u32) + half(b as u32)).into()));
    add("s_sub_f16", row(1, &[1, 1], |a, b, _, _| to_half(half(a as u32) - half(b as u32)).into()));
    add("s_mul_f16", row(1, &[1, 1], |a, b, _, _| to_half(half(a as u32) * half(b as u32)).into()));
    add("s_min_f16", row(1, &[1, 1], |a, b, _, _| to_half(min(false, half(a as u32), half(b as u32))).into()));
    add("s_max_f16", row(1, &[1, 1], |a, b, _, _| to_half(max(false, half(a as u32), half(b as u32))).into()));
    macro_rules! halves {
        ($($name:literal: |$a:ident| $e:expr;)*) => {
            $(add($name, row(1, &[1], |a, _, _, _| {
                let $a = half(a as u32);
                to_half($e).into()
            }));)*
        };
    }
    halves! {
        "s_ceil_f16": |a| a.ceil();
        "s_floor_f16": |a| a.floor();
        "s_trunc_f16": |a| a.trunc();
        "s_rndne_f16": |a| a.round_ties_even();
    }
    add("s_minimum_f16", row(1, &[1, 1], |a, b, _, _| to_half(minimum(half(a as u32), half(b as u32))).into()));
    add("s_maximum_f16", row(1, &[1, 1], |a, b, _, _| to_half(maximum(half(a as u32), half(b as u32))).into()));
    add(
        "s_fmac_f16",
        with_dst(row(1, &[1, 1], |a, b, d, _| {
            crate::exec::number::fma_half(half(a as u32), half(b as u32), half(d as u32)).into()
        })),
    );
    macro_rules! compared {
        ($($name:literal: |$a:ident, $b:ident| $e:expr;)*) => {
            $(add(concat!("s_cmp_", $name, "_f32"), float(scc(row(0, &[1, 1], |a, b, _, c| {
                let ($a, $b) = (f(a), f(b));
                *c = $e;
                0
            }))));
            add(concat!("s_cmp_", $name, "_f16"), scc(row(0, &[1, 1], |a, b, _, c| {
                let ($a, $b) = (half(a as u32), half(b as u32));
                *c = $e;
                0
            })));)*
        };
    }
    compared! {
        "lt": |a, b| a < b;
        "eq": |a, b| a == b;
        "le": |a, b| a <= b;
        "gt": |a, b| a > b;
        "lg": |a, b| a < b || a > b;
        "ge": |a, b| a >= b;
        "o": |a, b| !a.is_nan() && !b.is_nan();
        "u": |a, b| a.is_nan() || b.is_nan();
        "nge": |a, b| !(a >= b);
        "nlg": |a, b| !(a < b || a > b);
        "ngt": |a, b| !(a > b);
        "nle": |a, b| !(a <= b);
        "neq": |a, b| a != b;
        "nlt": |a, b| !(a < b);
    }
}
