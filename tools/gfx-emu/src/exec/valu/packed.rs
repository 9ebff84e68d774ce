//! Two values of 16 bits in a register, or of 32 bits in two.

use super::float::{max, maximum, min, minimum};
use super::{Add, get, has_mask, plain, put, row, ty};
use crate::exec::number::{fma_half, half, to_half};

#[inline(always)]
fn halves(a: u32, b: u32, f: impl Fn(f32, f32) -> f32) -> u32 {
    to_half(f(half(a), half(b))) | to_half(f(half(a >> 16), half(b >> 16))) << 16
}

#[inline(always)]
fn words(a: u32, b: u32, f: impl Fn(u32, u32) -> u32) -> u32 {
    f(a & 0xffff, b & 0xffff) & 0xffff | f(a >> 16, b >> 16) << 16
}

#[inline(always)]
fn signed(a: u32, b: u32, f: impl Fn(i16, i16) -> i16) -> u32 {
    words(a, b, |x, y| f(x as i16, y as i16) as u16 as u32)
}

pub fn rows(add: Add<'_>) {
    add("v_pk_add_f16", plain!(PH(PH a, PH b) halves(a, b, |x, y| x + y)).arithmetic());
    add("v_pk_mul_f16", plain!(PH(PH a, PH b) halves(a, b, |x, y| x * y)).arithmetic());
    add("v_pk_max_f16", row!([env] PH(PH a, PH b) halves(a, b, |x, y| max(env.ieee, x, y))).arithmetic());
    add("v_pk_min_f16", row!([env] PH(PH a, PH b) halves(a, b, |x, y| min(env.ieee, x, y))).arithmetic());
    add("v_pk_maximum_f16", row!(PH(PH a, PH b) halves(a, b, maximum)).arithmetic());
    add("v_pk_minimum_f16", row!(PH(PH a, PH b) halves(a, b, minimum)).arithmetic());
    let fma = row!(PH(PH a, PH b, PH c) {
        let at = |shift: u32| fma_half(half(a >> shift), half(b >> shift), half(c >> shift));
        at(0) | at(16) << 16
    })
    .arithmetic();
    add("v_pk_fma_f16", fma);
    add("v_pk_fmac_f16", fma.accumulates());
    add(
        "v_pk_add_u16",
        plain!([env] P(P a, P b) words(a, b, |x, y| if env.clamp { (x + y).min(0xffff) } else { x + y })),
    );
    add(
        "v_pk_sub_u16",
        plain!([env] P(P a, P b) words(a, b, |x, y| if env.clamp { x.saturating_sub(y) } else { x.wrapping_sub(y) })),
    );
    add(
        "v_pk_add_i16",
        row!([env] P(P a, P b) signed(a, b, |x, y| if env.clamp { x.saturating_add(y) } else { x.wrapping_add(y) })),
    );
    add(
        "v_pk_sub_i16",
        row!([env] P(P a, P b) signed(a, b, |x, y| if env.clamp { x.saturating_sub(y) } else { x.wrapping_sub(y) })),
    );
    add("v_pk_mul_lo_u16", plain!(P(P a, P b) words(a, b, |x, y| x * y)));
    add("v_pk_mad_u16", plain!(P(P a, P b, P c) words(words(a, b, |x, y| x * y), c, |x, y| x + y)));
    add("v_pk_mad_i16", plain!(P(P a, P b, P c) words(words(a, b, |x, y| x * y), c, |x, y| x + y)));
    add("v_pk_lshlrev_b16", plain!(P(P a, P b) words(a, b, |x, y| y << (x & 15))));
    add("v_pk_lshrrev_b16", plain!(P(P a, P b) words(a, b, |x, y| y >> (x & 15))));
    add("v_pk_ashrrev_i16", row!(P(P a, P b) signed(a, b, |x, y| y >> (x & 15))));
    add("v_pk_min_u16", plain!(P(P a, P b) words(a, b, |x, y| x.min(y))));
    add("v_pk_max_u16", plain!(P(P a, P b) words(a, b, |x, y| x.max(y))));
    add("v_pk_min_i16", row!(P(P a, P b) signed(a, b, |x, y| x.min(y))));
    add("v_pk_max_i16", row!(P(P a, P b) signed(a, b, |x, y| x.max(y))));
    add("v_pk_add_f32", plain!(PF(PF a, PF b) [a[0] + b[0], a[1] + b[1]]).arithmetic());
    add("v_pk_mul_f32", plain!(PF(PF a, PF b) [a[0] * b[0], a[1] * b[1]]).arithmetic());
    add("v_pk_fma_f32", plain!(PF(PF a, PF b, PF c) [a[0].mul_add(b[0], c[0]), a[1].mul_add(b[1], c[1])]).arithmetic());
    add("v_pk_mov_b32", plain!(PW(PW a, PW b) [a[0], b[1]]));
}
