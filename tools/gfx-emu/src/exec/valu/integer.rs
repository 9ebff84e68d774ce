//! Whole numbers of 32 and 16 bits, and bits.

use super::{Add, get, has_mask, plain, put, row, ty};

fn low(n: u32) -> u32 {
    n & 31
}

/// The bits of v_perm_b32's result: bytes of the two sources, signs, zeros and ones.
#[inline(always)]
fn perm(high: u32, low: u32, selector: u32) -> u32 {
    let all = u64::from(high) << 32 | u64::from(low);
    let mut out = 0;
    for byte in 0..4 {
        let which = selector >> (8 * byte) & 0xff;
        let value = match which {
            0..=7 => (all >> (8 * which)) as u32 & 0xff,
            8..=11 => 0xff * ((all >> (16 * (which - 8) + 15)) as u32 & 1),
            12 => 0,
            _ => 0xff,
        };
        out |= value << (8 * byte);
    }
    out
}

#[inline(always)]
fn signed24(x: u32) -> i32 {
    (x << 8) as i32 >> 8
}

#[inline(always)]
fn sad(a: u32, b: u32, c: u32, bits: u32) -> u32 {
    let mask = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
    (0..32 / bits).fold(c, |sum, i| sum.wrapping_add((a >> (i * bits) & mask).abs_diff(b >> (i * bits) & mask)))
}

#[inline(always)]
fn clamped(env: &super::Env, sum: u32, overflow: bool, limit: u32) -> u32 {
    if env.clamp && overflow { limit } else { sum }
}

/// Carries in: sum or difference, and the carry out.
#[inline(always)]
fn add_carry(a: u32, b: u32, carry: u32) -> (u32, bool) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry);
    (sum as u32, sum >> 32 != 0)
}

#[inline(always)]
fn sub_borrow(a: u32, b: u32, borrow: u32) -> (u32, bool) {
    let difference = u64::from(a).wrapping_sub(u64::from(b)).wrapping_sub(u64::from(borrow));
    (difference as u32, difference >> 63 != 0)
}

pub fn rows(add: Add<'_>) {
    add("v_mov_b32", plain!(W(W a) a));
    add("v_accvgpr_read_b32", plain!(W(W a) a));
    add("v_accvgpr_write_b32", plain!(W(W a) a));
    add("v_accvgpr_mov_b32", plain!(W(W a) a));
    add("v_not_b32", plain!(W(W a) !a));
    add("v_bfrev_b32", row!(W(W a) a.reverse_bits()));
    add("v_ffbl_b32", row!(W(W a) if a == 0 { u32::MAX } else { a.trailing_zeros() }));
    add("v_ffbh_u32", row!(W(W a) if a == 0 { u32::MAX } else { a.leading_zeros() }));
    add(
        "v_ffbh_i32",
        row!(W(W a) {
            let same = (a ^ (a as i32 >> 31) as u32).leading_zeros();
            if same == 32 { u32::MAX } else { same }
        }),
    );
    add("v_bcnt_u32_b32", row!(W(W a, W b) a.count_ones().wrapping_add(b)));
    add("v_cndmask_b32", row!([env, i] W(W a, W b) if env.mask >> i & 1 != 0 { b } else { a }).mask_in());
    add("v_cndmask_b16", row!([env, i] U16(U16 a, U16 b) if env.mask >> i & 1 != 0 { b } else { a }).mask_in());
    add("v_and_b32", plain!(W(W a, W b) a & b));
    add("v_or_b32", plain!(W(W a, W b) a | b));
    add("v_xor_b32", plain!(W(W a, W b) a ^ b));
    add("v_xnor_b32", plain!(W(W a, W b) !(a ^ b)));
    add("v_and_or_b32", plain!(W(W a, W b, W c) a & b | c));
    add("v_or3_b32", plain!(W(W a, W b, W c) a | b | c));
    add("v_xor3_b32", plain!(W(W a, W b, W c) a ^ b ^ c));
    add("v_xad_u32", plain!(W(W a, W b, W c) (a ^ b).wrapping_add(c)));
    add("v_add3_u32", plain!(W(W a, W b, W c) a.wrapping_add(b).wrapping_add(c)));
    add("v_lshl_add_u32", plain!(W(W a, W b, W c) (a << low(b)).wrapping_add(c)));
    add("v_add_lshl_u32", plain!(W(W a, W b, W c) a.wrapping_add(b) << low(c)));
    add("v_lshl_or_b32", plain!(W(W a, W b, W c) a << low(b) | c));
    add("v_lshlrev_b32", plain!(W(W a, W b) b << low(a)));
    add("v_lshrrev_b32", plain!(W(W a, W b) b >> low(a)));
    add("v_ashrrev_i32", plain!(I(W a, I b) b >> low(a)));
    add("v_bfe_u32", plain!(W(W a, W b, W c) (a >> low(b)) & !(u32::MAX << low(c))));
    add(
        "v_bfe_i32",
        row!(I(I a, W b, W c) {
            let bits = low(c);
            let part = a >> low(b);
            if bits == 0 { 0 } else { part << (32 - bits) >> (32 - bits) }
        }),
    );
    add("v_bfi_b32", plain!(W(W a, W b, W c) a & b | !a & c));
    add("v_bfm_b32", plain!(W(W a, W b) ((1_u32 << low(a)) - 1) << low(b)));
    add("v_alignbit_b32", plain!(W(W a, W b, U16 c) ((u64::from(a) << 32 | u64::from(b)) >> low(c)) as u32));
    add("v_alignbyte_b32", plain!(W(W a, W b, U16 c) ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32));
    add("v_perm_b32", plain!(W(W a, W b, W c) perm(a, b, c)));
    add("v_add_u32", plain!([env] W(W a, W b) clamped(env, a.wrapping_add(b), a.checked_add(b).is_none(), u32::MAX)));
    add("v_sub_u32", plain!([env] W(W a, W b) clamped(env, a.wrapping_sub(b), a < b, 0)));
    add("v_subrev_u32", plain!([env] W(W a, W b) clamped(env, b.wrapping_sub(a), b < a, 0)));
    add("v_add_i32", plain!([env] I(I a, I b) if env.clamp { a.saturating_add(b) } else { a.wrapping_add(b) }));
    add("v_sub_i32", plain!([env] I(I a, I b) if env.clamp { a.saturating_sub(b) } else { a.wrapping_sub(b) }));
    add("v_add_co_u32", row!(WM(W a, W b) add_carry(a, b, 0)));
    add("v_sub_co_u32", row!(WM(W a, W b) sub_borrow(a, b, 0)));
    add("v_subrev_co_u32", row!(WM(W a, W b) sub_borrow(b, a, 0)));
    add("v_add_co_ci_u32", row!([env, i] WM(W a, W b) add_carry(a, b, env.mask >> i & 1)).mask_in());
    add("v_sub_co_ci_u32", row!([env, i] WM(W a, W b) sub_borrow(a, b, env.mask >> i & 1)).mask_in());
    add("v_subrev_co_ci_u32", row!([env, i] WM(W a, W b) sub_borrow(b, a, env.mask >> i & 1)).mask_in());
    add("v_mul_lo_u32", plain!(W(W a, W b) a.wrapping_mul(b)));
    add("v_mul_lo_i32", plain!(W(W a, W b) a.wrapping_mul(b)));
    add("v_mul_hi_u32", plain!(W(W a, W b) ((u64::from(a) * u64::from(b)) >> 32) as u32));
    add("v_mul_hi_i32", plain!(W(I a, I b) ((i64::from(a) * i64::from(b)) >> 32) as u32));
    add("v_mul_u32_u24", plain!(W(W a, W b) (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff)));
    add("v_mul_i32_i24", plain!(I(W a, W b) signed24(a).wrapping_mul(signed24(b))));
    add("v_mul_hi_u32_u24", plain!(W(W a, W b) ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 32) as u32));
    add("v_mul_hi_i32_i24", plain!(W(W a, W b) ((i64::from(signed24(a)) * i64::from(signed24(b))) >> 32) as u32));
    add("v_mad_u32_u24", plain!(W(W a, W b, W c) (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c)));
    add("v_mad_i32_i24", plain!(I(W a, W b, I c) signed24(a).wrapping_mul(signed24(b)).wrapping_add(c)));
    add("v_mad_u32_u16", plain!(W(U16 a, U16 b, W c) (a * b).wrapping_add(c)));
    add("v_mad_i32_i16", plain!(I(I16 a, I16 b, I c) (i32::from(a) * i32::from(b)).wrapping_add(c)));
    add("v_min_u32", plain!(W(W a, W b) a.min(b)));
    add("v_max_u32", plain!(W(W a, W b) a.max(b)));
    add("v_min_i32", plain!(I(I a, I b) a.min(b)));
    add("v_max_i32", plain!(I(I a, I b) a.max(b)));
    add("v_min3_u32", plain!(W(W a, W b, W c) a.min(b).min(c)));
    add("v_max3_u32", plain!(W(W a, W b, W c) a.max(b).max(c)));
    add("v_med3_u32", plain!(W(W a, W b, W c) a.min(b).max(a.max(b).min(c))));
    add("v_min3_i32", plain!(I(I a, I b, I c) a.min(b).min(c)));
    add("v_max3_i32", plain!(I(I a, I b, I c) a.max(b).max(c)));
    add("v_med3_i32", plain!(I(I a, I b, I c) a.min(b).max(a.max(b).min(c))));
    add("v_maxmin_u32", plain!(W(W a, W b, W c) a.max(b).min(c)));
    add("v_minmax_u32", plain!(W(W a, W b, W c) a.min(b).max(c)));
    add("v_maxmin_i32", plain!(I(I a, I b, I c) a.max(b).min(c)));
    add("v_minmax_i32", plain!(I(I a, I b, I c) a.min(b).max(c)));
    add("v_sad_u8", row!(W(W a, W b, W c) sad(a, b, c, 8)));
    add("v_sad_u16", row!(W(W a, W b, W c) sad(a, b, c, 16)));
    add("v_sad_u32", row!(W(W a, W b, W c) sad(a, b, c, 32)));
    // Bytes of which the second operand has zero do not count.
    add(
        "v_msad_u8",
        row!(W(W a, W b, W c) (0..4).fold(c, |sum, i| {
            let (x, y) = (a >> (8 * i) & 0xff, b >> (8 * i) & 0xff);
            if y == 0 { sum } else { sum.wrapping_add(x.abs_diff(y)) }
        })),
    );
    // Means of bytes, rounded up where the third operand's byte is odd.
    add(
        "v_lerp_u8",
        row!(W(W a, W b, W c) (0..4).fold(0, |all, i| {
            let byte = |x: u32| x >> (8 * i) & 0xff;
            all | ((byte(a) + byte(b) + (byte(c) & 1)) / 2) << (8 * i)
        })),
    );
    add("v_sad_hi_u8", row!(W(W a, W b, W c) (sad(a, b, 0, 8) << 16).wrapping_add(c)));
    add(
        "v_mbcnt_lo_u32_b32",
        row!([env, i] W(W a, W b) {
            let lane = env.first + i as u32;
            let below = if lane >= 32 { u32::MAX } else { (1 << lane) - 1 };
            (a & below).count_ones().wrapping_add(b)
        }),
    );
    add(
        "v_mbcnt_hi_u32_b32",
        row!([env, i] W(W a, W b) {
            let lane = env.first + i as u32;
            let below = if lane >= 32 { (1 << (lane - 32)) - 1 } else { 0 };
            (a & below).count_ones().wrapping_add(b)
        }),
    );
    // 16 bits.
    let saturated = |x: i32| x.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    debug_assert_eq!(saturated(40_000), i16::MAX);
    add("v_add_u16", row!([env] U16(U16 a, U16 b) if env.clamp { (a + b).min(0xffff) } else { a + b }).clears());
    add(
        "v_sub_u16",
        row!([env] U16(U16 a, U16 b) if env.clamp { a.saturating_sub(b) } else { a.wrapping_sub(b) }).clears(),
    );
    add(
        "v_subrev_u16",
        row!([env] U16(U16 a, U16 b) if env.clamp { b.saturating_sub(a) } else { b.wrapping_sub(a) }).clears(),
    );
    add(
        "v_add_i16",
        row!([env] I16(I16 a, I16 b) if env.clamp { a.saturating_add(b) } else { a.wrapping_add(b) }).clears(),
    );
    add(
        "v_sub_i16",
        row!([env] I16(I16 a, I16 b) if env.clamp { a.saturating_sub(b) } else { a.wrapping_sub(b) }).clears(),
    );
    add("v_mul_lo_u16", row!(U16(U16 a, U16 b) a.wrapping_mul(b)).clears());
    add("v_mad_u16", row!(U16(U16 a, U16 b, U16 c) a.wrapping_mul(b).wrapping_add(c)));
    add("v_mad_i16", row!(I16(I16 a, I16 b, I16 c) a.wrapping_mul(b).wrapping_add(c)));
    add("v_lshlrev_b16", row!(U16(U16 a, U16 b) b << (a & 15)).clears());
    add("v_lshrrev_b16", row!(U16(U16 a, U16 b) b >> (a & 15)).clears());
    add("v_ashrrev_i16", row!(I16(U16 a, I16 b) b >> (a & 15)).clears());
    add("v_min_u16", row!(U16(U16 a, U16 b) a.min(b)).clears());
    add("v_max_u16", row!(U16(U16 a, U16 b) a.max(b)).clears());
    add("v_min_i16", row!(I16(I16 a, I16 b) a.min(b)).clears());
    add("v_max_i16", row!(I16(I16 a, I16 b) a.max(b)).clears());
    add("v_min3_u16", row!(U16(U16 a, U16 b, U16 c) a.min(b).min(c)));
    add("v_max3_u16", row!(U16(U16 a, U16 b, U16 c) a.max(b).max(c)));
    add("v_med3_u16", row!(U16(U16 a, U16 b, U16 c) a.min(b).max(a.max(b).min(c))));
    add("v_min3_i16", row!(I16(I16 a, I16 b, I16 c) a.min(b).min(c)));
    add("v_max3_i16", row!(I16(I16 a, I16 b, I16 c) a.max(b).max(c)));
    add("v_med3_i16", row!(I16(I16 a, I16 b, I16 c) a.min(b).max(a.max(b).min(c))));
    add("v_mov_b16", row!(U16(U16 a) a));
    add("v_not_b16", row!(U16(U16 a) !a));
    add("v_and_b16", row!(U16(U16 a, U16 b) a & b));
    add("v_or_b16", row!(U16(U16 a, U16 b) a | b));
    add("v_xor_b16", row!(U16(U16 a, U16 b) a ^ b));
    add("v_pack_b32_f16", plain!(W(U16 a, U16 b) a | b << 16));
    add(
        "v_sat_pk_u8_i16",
        row!(U16(W a) {
            let byte = |x: u32| (x as i16).clamp(0, 255) as u32;
            byte(a) | byte(a >> 16) << 8
        }),
    );
}
