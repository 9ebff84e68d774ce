//! Conversions. Rust's from fractions to whole numbers saturate and make zero of NaN, as the hardware's do.

use super::{Add, get, has_mask, plain, put, row, ty};
use crate::exec::number::{bf16, double_to_half, from_f8, half, to_bf16, to_f8, to_half, to_half_toward_zero};

/// A fraction in [-1, 1] as a whole number up to `most`.
fn normalised(x: f32, least: f32, most: f32) -> i32 {
    let x = if x.is_nan() { 0.0 } else { x.clamp(least, 1.0) };
    (x * most).round_ties_even() as i32
}

fn pair(low: u32, high: u32) -> u32 {
    low & 0xffff | high << 16
}

/// binary64 to binary32 by way of the host, which rounds to nearest.
fn narrow(x: f64) -> f32 {
    x as f32
}

/// A byte of a word replaced.
fn with_byte(word: u32, at: u32, byte: u32) -> u32 {
    let shift = 8 * (at & 3);
    word & !(0xff << shift) | (byte & 0xff) << shift
}

pub fn rows(add: Add<'_>) {
    add("v_cvt_f32_i32", plain!(F(I a) a as f32));
    add("v_cvt_f32_u32", plain!(F(W a) a as f32));
    add("v_cvt_i32_f32", row!(I(F a) a as i32));
    add("v_cvt_u32_f32", row!(W(F a) a as u32));
    add("v_cvt_f32_ubyte0", plain!(F(W a) (a & 0xff) as f32));
    add("v_cvt_f32_ubyte1", plain!(F(W a) (a >> 8 & 0xff) as f32));
    add("v_cvt_f32_ubyte2", plain!(F(W a) (a >> 16 & 0xff) as f32));
    add("v_cvt_f32_ubyte3", plain!(F(W a) (a >> 24) as f32));
    add("v_cvt_f16_f32", row!(H(F a) a).clears().arithmetic());
    add("v_cvt_f32_f16", plain!(F(H a) a).arithmetic());
    add("v_cvt_f32_bf16", plain!(F(B a) a));
    add("v_cvt_f64_f32", row!(FD(F a) f64::from(a)).arithmetic());
    add("v_cvt_f32_f64", row!(F(FD a) narrow(a)).arithmetic());
    add("v_cvt_f64_i32", row!(FD(I a) f64::from(a)));
    add("v_cvt_f64_u32", row!(FD(W a) f64::from(a)));
    add("v_cvt_i32_f64", row!(I(FD a) a as i32));
    add("v_cvt_u32_f64", row!(W(FD a) a as u32));
    add("v_cvt_f16_u16", row!(H(U16 a) a as f32).clears());
    add("v_cvt_f16_i16", row!(H(I16 a) f32::from(a)).clears());
    add("v_cvt_u16_f16", row!(U16(H a) u32::from(a as u16)).clears());
    add("v_cvt_i16_f16", row!(I16(H a) a as i16).clears());
    add("v_cvt_i32_i16", plain!(I(I16 a) i32::from(a)));
    add("v_cvt_u32_u16", plain!(W(U16 a) a));
    for name in ["v_cvt_rpi_i32_f32", "v_cvt_nearest_i32_f32"] {
        add(name, row!(I(F a) (f64::from(a) + 0.5).floor() as i32));
    }
    for name in ["v_cvt_flr_i32_f32", "v_cvt_floor_i32_f32"] {
        add(name, row!(I(F a) a.floor() as i32).arithmetic());
    }
    add("v_cvt_off_f32_i4", plain!(F(W a) ((a << 28) as i32 >> 28) as f32 / 16.0));
    for name in ["v_cvt_pkrtz_f16_f32", "v_cvt_pk_rtz_f16_f32"] {
        add(name, row!(W(F a, F b) pair(to_half_toward_zero(a), to_half_toward_zero(b))).arithmetic());
    }
    add("v_cvt_pk_f16_f32", row!(W(F a, F b) pair(to_half(a), to_half(b))).arithmetic());
    add("v_cvt_pk_bf16_f32", row!(W(F a, F b) pair(to_bf16(a), to_bf16(b))));
    add("v_cvt_pk_u16_u32", row!(W(W a, W b) pair(a.min(0xffff), b.min(0xffff))));
    add(
        "v_cvt_pk_i16_i32",
        row!(W(I a, I b) {
            let clamp = |x: i32| x.clamp(i16::MIN.into(), i16::MAX.into()) as u32;
            pair(clamp(a), clamp(b))
        }),
    );
    add("v_cvt_pk_u16_f32", row!(W(F a, F b) pair(u32::from(a as u16), u32::from(b as u16))));
    add("v_cvt_pk_i16_f32", row!(W(F a, F b) pair(a as i16 as u32, b as i16 as u32)));
    macro_rules! pairs {
        ($t:ident, $suffix:literal) => {
            add(
                concat!("v_cvt_pknorm_i16_", $suffix),
                row!(W($t a, $t b) pair(normalised(a, -1.0, 32767.0) as u32, normalised(b, -1.0, 32767.0) as u32)),
            );
            add(
                concat!("v_cvt_pknorm_u16_", $suffix),
                row!(W($t a, $t b) pair(normalised(a, 0.0, 65535.0) as u32, normalised(b, 0.0, 65535.0) as u32)),
            );
        };
    }
    pairs!(F, "f32");
    pairs!(H, "f16");
    add("v_cvt_norm_i16_f16", row!(I16(H a) normalised(a, -1.0, 32767.0)).clears());
    add("v_cvt_norm_u16_f16", row!(U16(H a) normalised(a, 0.0, 65535.0) as u32).clears());
    add("v_cvt_pk_u8_f32", row!(W(F a, W b, W c) with_byte(c, b, u32::from(a.round_ties_even() as u8))));
    // 8-bit floats.
    add("v_cvt_f32_fp8", row!([env] F(W a) from_f8(a & 0xff, 4, env.fnuz)));
    add("v_cvt_f32_bf8", row!([env] F(W a) from_f8(a & 0xff, 5, env.fnuz)));
    add("v_cvt_pk_f32_fp8", row!([env] PF(U16 a) [a & 0xff, a >> 8].map(|b| from_f8(b, 4, env.fnuz))));
    add("v_cvt_pk_f32_bf8", row!([env] PF(U16 a) [a & 0xff, a >> 8].map(|b| from_f8(b, 5, env.fnuz))));
    add(
        "v_cvt_pk_fp8_f32",
        row!([env] U16(F a, F b) to_f8(a, 4, env.fnuz, env.saturates) | to_f8(b, 4, env.fnuz, env.saturates) << 8),
    );
    add(
        "v_cvt_pk_bf8_f32",
        row!([env] U16(F a, F b) to_f8(a, 5, env.fnuz, env.saturates) | to_f8(b, 5, env.fnuz, env.saturates) << 8),
    );
    // A conversion that is no instruction of its own but used by tables of others.
    debug_assert_eq!(double_to_half(1.0), 0x3c00);
    debug_assert!(half(0x3c00) == 1.0 && bf16(0x3f80) == 1.0);
}
