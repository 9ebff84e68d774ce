//! Comparisons. Those that write EXEC too have the same rows.

use super::{Add, get, has_mask, put, row, ty};

/// Bits of a number's class: signalling NaN, quiet NaN, -inf, -normal, -subnormal, -0, +0, and so on to +inf.
#[inline(always)]
fn class(bits: u64, exponent: u32, mantissa: u32) -> u32 {
    let negative = bits >> (exponent + mantissa) & 1 != 0;
    let e = bits >> mantissa & ((1 << exponent) - 1);
    let m = bits & ((1 << mantissa) - 1);
    let top = (1 << exponent) - 1;
    let kind = match (e, m) {
        (e, m) if e == top && m != 0 => return 1 << (m >> (mantissa - 1) & 1),
        (e, _) if e == top => 0,
        (0, 0) => 3,
        (0, _) => 2,
        _ => 1,
    };
    1 << if negative { 2 + kind } else { 9 - kind }
}

/// Rows of all tests of two ordered values.
macro_rules! ordered {
    ($add:ident, $suffix:literal, $t:ident) => {
        $add(concat!("v_cmp_f_", $suffix), row!(M($t _a, $t _b) false));
        $add(concat!("v_cmp_lt_", $suffix), row!(M($t a, $t b) a < b));
        $add(concat!("v_cmp_eq_", $suffix), row!(M($t a, $t b) a == b));
        $add(concat!("v_cmp_le_", $suffix), row!(M($t a, $t b) a <= b));
        $add(concat!("v_cmp_gt_", $suffix), row!(M($t a, $t b) a > b));
        $add(concat!("v_cmp_ge_", $suffix), row!(M($t a, $t b) a >= b));
        $add(concat!("v_cmp_t_", $suffix), row!(M($t _a, $t _b) true));
    };
}

macro_rules! whole {
    ($add:ident, $suffix:literal, $t:ident) => {
        ordered!($add, $suffix, $t);
        $add(concat!("v_cmp_ne_", $suffix), row!(M($t a, $t b) a != b));
    };
}

macro_rules! fractions {
    ($add:ident, $suffix:literal, $t:ident) => {
        ordered!($add, $suffix, $t);
        $add(concat!("v_cmp_lg_", $suffix), row!(M($t a, $t b) a < b || a > b));
        $add(concat!("v_cmp_o_", $suffix), row!(M($t a, $t b) !a.is_nan() && !b.is_nan()));
        $add(concat!("v_cmp_u_", $suffix), row!(M($t a, $t b) a.is_nan() || b.is_nan()));
        $add(concat!("v_cmp_nge_", $suffix), row!(M($t a, $t b) !(a >= b)));
        $add(concat!("v_cmp_nlg_", $suffix), row!(M($t a, $t b) !(a < b || a > b)));
        $add(concat!("v_cmp_ngt_", $suffix), row!(M($t a, $t b) !(a > b)));
        $add(concat!("v_cmp_nle_", $suffix), row!(M($t a, $t b) !(a <= b)));
        $add(concat!("v_cmp_neq_", $suffix), row!(M($t a, $t b) a != b));
        $add(concat!("v_cmp_nlt_", $suffix), row!(M($t a, $t b) !(a < b)));
        $add(concat!("v_cmp_tru_", $suffix), row!(M($t _a, $t _b) true));
    };
}

// NaN makes a test and its contrary false: they are written as what they are.
#[allow(clippy::double_comparisons, clippy::neg_cmp_op_on_partial_ord)]
pub fn rows(add: Add<'_>) {
    whole!(add, "i32", I);
    whole!(add, "u32", W);
    whole!(add, "i16", I16);
    whole!(add, "u16", U16);
    whole!(add, "i64", Q);
    whole!(add, "u64", D);
    {
        // Subnormals are compared as what the mode makes of them.
        let add: Add<'_> = &mut |name: &str, row: super::Row| add(name, row.arithmetic());
        fractions!(add, "f32", F);
        fractions!(add, "f64", FD);
        fractions!(add, "f16", H);
    }
    add("v_cmp_class_f32", row!(M(F a, W b) class(a.to_bits().into(), 8, 23) & b != 0));
    add("v_cmp_class_f64", row!(M(FD a, W b) class(a.to_bits(), 11, 52) & b != 0));
    // The bits, which are kept as they are for NaNs.
    add("v_cmp_class_f16", row!(M(H a, U16 b) class(super::super::number::to_half(a).into(), 5, 10) & b != 0));
}
