//! Dot products in a lane. What is summed in binary32 is summed in order, from the low end up.

use super::{Add, Env, get, has_mask, plain, put, row, ty};
use crate::exec::number::{bf16, from_f8, half, to_bf16, to_half};

/// The value of so many bits, signed or not.
#[inline(always)]
fn part(word: u32, at: u32, bits: u32, signed: bool) -> i64 {
    let raw = word >> (at * bits) & (((1_u64 << bits) - 1) as u32);
    let shift = 32 - bits;
    if signed { i64::from((raw << shift) as i32 >> shift) } else { i64::from(raw) }
}

/// Sum of products of so many bits each; clamped to what 32 bits hold if that is asked.
#[inline(always)]
fn whole(env: &Env, a: u32, b: u32, c: u32, bits: u32, signs: [bool; 2], result_signed: bool) -> u32 {
    let sum: i64 = (0..32 / bits).map(|i| part(a, i, bits, signs[0]) * part(b, i, bits, signs[1])).sum();
    let all = sum + if result_signed { i64::from(c as i32) } else { i64::from(c) };
    if !env.clamp {
        all as u32
    } else if result_signed {
        all.clamp(i32::MIN.into(), i32::MAX.into()) as u32
    } else {
        all.clamp(0, u32::MAX.into()) as u32
    }
}

/// Two products of halves, each exact, added in order.
#[inline(always)]
fn halves(a: u32, b: u32, c: f32) -> f32 {
    let sum = half(a).mul_add(half(b), c);
    half(a >> 16).mul_add(half(b >> 16), sum)
}

#[inline(always)]
fn brains(a: u32, b: u32, c: f32) -> f32 {
    let sum = bf16(a & 0xffff).mul_add(bf16(b & 0xffff), c);
    bf16(a >> 16).mul_add(bf16(b >> 16), sum)
}

#[inline(always)]
fn small(env: &Env, a: u32, b: u32, c: f32, exponents: [u32; 2]) -> f32 {
    (0..4).fold(c, |sum, i| {
        let (x, y) = (a >> (8 * i) & 0xff, b >> (8 * i) & 0xff);
        from_f8(x, exponents[0], env.fnuz).mul_add(from_f8(y, exponents[1], env.fnuz), sum)
    })
}

pub fn rows(add: Add<'_>) {
    let i8s = plain!([env] W(W a, W b, W c) whole(env, a, b, c, 8, [true; 2], true));
    add("v_dot4_i32_i8", i8s);
    add("v_dot4c_i32_i8", i8s.accumulates());
    add("v_dot4_u32_u8", plain!([env] W(W a, W b, W c) whole(env, a, b, c, 8, [false; 2], false)));
    add("v_dot4_i32_iu8", plain!([env] W(W a, W b, W c) whole(env, a, b, c, 8, [env.signed[0], env.signed[1]], true)));
    let i4s = plain!([env] W(W a, W b, W c) whole(env, a, b, c, 4, [true; 2], true));
    add("v_dot8_i32_i4", i4s);
    add("v_dot8c_i32_i4", i4s.accumulates());
    add("v_dot8_u32_u4", plain!([env] W(W a, W b, W c) whole(env, a, b, c, 4, [false; 2], false)));
    add("v_dot8_i32_iu4", plain!([env] W(W a, W b, W c) whole(env, a, b, c, 4, [env.signed[0], env.signed[1]], true)));
    add("v_dot2_i32_i16", plain!([env] W(P a, P b, W c) whole(env, a, b, c, 16, [true; 2], true)));
    add("v_dot2c_i32_i16", plain!([env] W(P a, P b, W c) whole(env, a, b, c, 16, [true; 2], true)).accumulates());
    add("v_dot2_u32_u16", plain!([env] W(P a, P b, W c) whole(env, a, b, c, 16, [false; 2], false)));
    let f16s = plain!(F(PH a, PH b, F c) halves(a, b, c));
    add("v_dot2_f32_f16", f16s);
    add("v_dot2c_f32_f16", f16s.accumulates());
    add("v_dot2acc_f32_f16", f16s.accumulates());
    let bf16s = plain!(F(PB a, PB b, F c) brains(a, b, c));
    add("v_dot2_f32_bf16", bf16s);
    add("v_dot2c_f32_bf16", bf16s.accumulates());
    add("v_dot2acc_f32_bf16", bf16s.accumulates());
    add(
        "v_dot2_f16_f16",
        row!(H(PH a, PH b, H c) {
            let sum = half(to_half(half(a).mul_add(half(b), c)));
            half(a >> 16).mul_add(half(b >> 16), sum)
        }),
    );
    add(
        "v_dot2_bf16_bf16",
        row!(B(PB a, PB b, B c) {
            let first = bf16(to_bf16(bf16(a & 0xffff).mul_add(bf16(b & 0xffff), c)));
            bf16(a >> 16).mul_add(bf16(b >> 16), first)
        }),
    );
    add("v_dot4_f32_fp8_fp8", row!([env] F(W a, W b, F c) small(env, a, b, c, [4, 4])));
    add("v_dot4_f32_fp8_bf8", row!([env] F(W a, W b, F c) small(env, a, b, c, [4, 5])));
    add("v_dot4_f32_bf8_fp8", row!([env] F(W a, W b, F c) small(env, a, b, c, [5, 4])));
    add("v_dot4_f32_bf8_bf8", row!([env] F(W a, W b, F c) small(env, a, b, c, [5, 5])));
}
