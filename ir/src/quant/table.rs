//! The formats. Adding one is adding a row here.

use super::expr::{Bytes, Number, Scales};
use super::tables::{E2M1, IQ1S, IQ2S, IQ2XS, IQ2XXS, IQ3S, IQ3XXS, IQ4NL};
use super::{CHUNK, Format};

/// What most formats share; rows say what differs.
const BASE: Format = Format {
    name: "",
    ggml_id: u32::MAX,
    block: 32,
    block_bytes: 0,
    group: 32,
    signed: false,
    zero: 0,
    max_code: 15,
    codes: |_| Bytes::raw(0, CHUNK),
    scales: || Scales::half(0),
    mins: None,
};

/// 16 bytes from `at` on: low nibbles are the first 16 elements, high nibbles the last 16.
fn split_nibbles(at: u32) -> Bytes {
    Bytes::raw(at, 16).field(0, 4).then(Bytes::raw(at, 16).field(4, 4))
}

/// The nibbles of a 256-element K-block: pairs of chunks share 32 bytes, the even one in the low nibbles.
fn k_nibbles(at: u32, chunk: u32) -> Bytes {
    Bytes::raw(at + CHUNK * (chunk / 2), CHUNK).field(4 * (chunk % 2) as u8, 4)
}

/// The 6-bit scales of Q4_K and Q5_K: 12 bytes from byte 4 on. The first four lie in the low six bits of bytes 0-3, the
/// others have four bits in bytes 8-11 and two in the top of bytes 0-3. Minima likewise in bytes 4-7 and high nibbles.
fn k_scales(low: u32, nibble: u8) -> Bytes {
    let first = Bytes::raw(low, 4).and(63);
    let second = Bytes::raw(12, 4).field(4 * nibble, 4).or(Bytes::raw(low, 4).shifted_right(6).shifted_left(4));
    first.then(second)
}

fn k_scale() -> Scales {
    Scales::scaled(0, k_scales(4, 0))
}

fn k_min() -> Scales {
    Scales::scaled(2, k_scales(8, 1))
}

/// The minimum of Q4_1 and Q5_1, which is added.
fn added() -> Scales {
    Scales::One { d: Number::F16(2), negate: true }
}

/// Two bits of each of 32 bytes: four chunks share them, from `at` on, the first one in the lowest bits.
fn k_pairs(at: u32, chunk: u32) -> Bytes {
    Bytes::raw(at + CHUNK * (chunk / 4), CHUNK).field(2 * (chunk % 4) as u8, 2)
}

/// Fields of a 32-bit integer, the same ones of each integer from `at` on.
fn each_word(at: u32, words: u32, bit: u32, width: u32, len: u32) -> Bytes {
    (1..words).fold(Bytes::fields(at, bit, width, len), |b, i| b.then(Bytes::fields(at + 4 * i, bit, width, len)))
}

/// The 7-bit sign numbers of a chunk of IQ2_XXS and IQ3_XXS as a sign an element.
fn signs(at: u32) -> Bytes {
    Bytes::fields(at, 0, 7, 4).even().spread()
}

/// The four 16-bit integers of a chunk of IQ2_XS: 9 bits of index, 7 of signs.
fn iq2_xs_codes(chunk: u32) -> Bytes {
    let field = |bit, width| Bytes::Fields { at: 2 + 8 * chunk, bit, step: 16, width, len: 4 };
    field(0, 8).with_high_of(field(8, 1), &IQ2XS).negated_where(field(9, 7).even().spread())
}

/// The 16-bit integer of a chunk of IQ1_S, as a field of a word that lies in the block.
fn iq1_s_high(chunk: u32, bit: u32, width: u32, len: u32) -> Bytes {
    Bytes::Fields { at: 34 + 4 * (chunk / 2), bit: 16 * (chunk % 2) + bit, step: 3, width, len }
}

/// The same field of each chunk's integer of IQ1_S.
fn iq1_s_scales() -> Bytes {
    (1..8).fold(iq1_s_high(0, 12, 3, 1), |b, c| b.then(iq1_s_high(c, 12, 3, 1)))
}

/// A field of each of the four nibbles that a chunk of IQ1_M has.
fn iq1_m_high(chunk: u32, bit: u32, width: u32) -> Bytes {
    Bytes::Fields { at: 32 + 4 * (chunk / 2), bit: 16 * (chunk % 2) + bit, step: 4, width, len: 4 }
}

/// The 3-bit scales of IQ1_M: four in each of four 16-bit integers.
fn iq1_m_scales() -> Bytes {
    let four = |at, bit| Bytes::fields(at, bit, 3, 4);
    four(48, 0).then(four(48, 16)).then(four(52, 0)).then(four(52, 16))
}

/// The codes of TQ1_0: 32 bytes of five digits, 16 of five, 4 of four; first digits first.
fn tq1_codes(chunk: u32) -> Bytes {
    let sixteen = |n: u8| Bytes::raw(32, 16).trit(n);
    let four = |n: u8| Bytes::raw(48, 4).trit(n);
    match chunk {
        0..5 => Bytes::raw(0, CHUNK).trit(chunk as u8),
        5 => sixteen(0).then(sixteen(1)),
        6 => sixteen(2).then(sixteen(3)),
        _ => sixteen(4).then(four(0).then(four(1)).then(four(2).then(four(3)))),
    }
}

/// All formats that kernels can read.
pub static FORMATS: &[Format] = &[
    Format { name: "q4_0", ggml_id: 2, block_bytes: 18, zero: 8, codes: |_| split_nibbles(2), ..BASE },
    Format { name: "q4_1", ggml_id: 3, block_bytes: 20, codes: |_| split_nibbles(4), mins: Some(added), ..BASE },
    Format {
        name: "q5_0",
        ggml_id: 6,
        block_bytes: 22,
        zero: 16,
        max_code: 31,
        codes: |_| split_nibbles(6).or(Bytes::bits(2, 4).shifted_left(4)),
        ..BASE
    },
    Format {
        name: "q5_1",
        ggml_id: 7,
        block_bytes: 24,
        max_code: 31,
        codes: |_| split_nibbles(8).or(Bytes::bits(4, 4).shifted_left(4)),
        mins: Some(added),
        ..BASE
    },
    Format {
        name: "q8_0",
        ggml_id: 8,
        block_bytes: 34,
        signed: true,
        max_code: 128,
        codes: |_| Bytes::raw(2, CHUNK),
        ..BASE
    },
    Format {
        name: "q2_k",
        ggml_id: 10,
        block: 256,
        block_bytes: 84,
        group: 16,
        max_code: 3,
        codes: |c| k_pairs(16, c),
        scales: || Scales::scaled(80, Bytes::raw(0, 16).and(15)),
        mins: Some(|| Scales::scaled(82, Bytes::raw(0, 16).shifted_right(4))),
        ..BASE
    },
    Format {
        name: "q3_k",
        ggml_id: 11,
        block: 256,
        block_bytes: 110,
        group: 16,
        zero: 4,
        max_code: 7,
        codes: |c| k_pairs(32, c).or(Bytes::raw(0, CHUNK).field(c as u8, 1).shifted_left(2)),
        scales: || {
            let low = Bytes::raw(96, 8).and(15).then(Bytes::raw(96, 8).shifted_right(4));
            let pair = |n: u8| Bytes::raw(104, 4).field(2 * n, 2).shifted_left(4);
            Scales::biased(108, low.or(pair(0).then(pair(1)).then(pair(2).then(pair(3)))), -32.0)
        },
        ..BASE
    },
    Format {
        name: "q4_k",
        ggml_id: 12,
        block: 256,
        block_bytes: 144,
        codes: |c| k_nibbles(16, c),
        scales: k_scale,
        mins: Some(k_min),
        ..BASE
    },
    Format {
        name: "q5_k",
        ggml_id: 13,
        block: 256,
        block_bytes: 176,
        max_code: 31,
        codes: |c| k_nibbles(48, c).or(Bytes::raw(16, CHUNK).field(c as u8, 1).shifted_left(4)),
        scales: k_scale,
        mins: Some(k_min),
        ..BASE
    },
    Format {
        name: "q6_k",
        ggml_id: 14,
        block: 256,
        block_bytes: 210,
        group: 16,
        zero: 32,
        max_code: 63,
        codes: |c| {
            let (half, j) = (c / 4, c % 4);
            let low = Bytes::raw(64 * half + CHUNK * (j % 2), CHUNK).field(4 * (j / 2) as u8, 4);
            low.or(Bytes::raw(128 + CHUNK * half, CHUNK).field(2 * j as u8, 2).shifted_left(4))
        },
        scales: || Scales::Scaled { d: Number::F16(208), by: Bytes::raw(192, 16), signed: true, times: 1.0, plus: 0.0 },
        ..BASE
    },
    Format {
        name: "q8_k",
        ggml_id: 15,
        block: 256,
        block_bytes: 292,
        signed: true,
        max_code: 128,
        codes: |c| Bytes::raw(4 + CHUNK * c, CHUNK),
        scales: || Scales::One { d: Number::F32(0), negate: false },
        ..BASE
    },
    Format {
        name: "iq2_xxs",
        ggml_id: 16,
        block: 256,
        block_bytes: 66,
        signed: true,
        max_code: 43,
        codes: |c| Bytes::raw(2 + 8 * c, 4).of(&IQ2XXS).negated_where(signs(6 + 8 * c)),
        scales: || {
            let of = |c: u32| Bytes::fields(6 + 8 * c, 28, 4, 1);
            Scales::odd(Number::F16(0), (1..8).fold(of(0), |b, c| b.then(of(c))), 0.125)
        },
        ..BASE
    },
    Format {
        name: "iq2_xs",
        ggml_id: 17,
        block: 256,
        block_bytes: 74,
        group: 16,
        signed: true,
        max_code: 43,
        codes: iq2_xs_codes,
        scales: || Scales::odd(Number::F16(0), each_word(66, 2, 0, 4, 8), 0.125),
        ..BASE
    },
    Format {
        name: "iq3_xxs",
        ggml_id: 18,
        block: 256,
        block_bytes: 98,
        signed: true,
        max_code: 62,
        codes: |c| Bytes::raw(2 + 8 * c, 8).of(&IQ3XXS).negated_where(signs(66 + 4 * c)),
        scales: || Scales::odd(Number::F16(0), each_word(66, 8, 28, 4, 1), 0.25),
        ..BASE
    },
    Format {
        name: "iq1_s",
        ggml_id: 19,
        block: 256,
        block_bytes: 50,
        zero: 9,
        max_code: 18,
        codes: |c| {
            let grid = Bytes::raw(2 + 4 * c, 4).with_high_of(iq1_s_high(c, 0, 3, 4), &IQ1S);
            grid.xor(iq1_s_high(c, 15, 1, 1).repeated(CHUNK).shifted_left(1))
        },
        scales: || Scales::odd(Number::F16(0), iq1_s_scales(), 0.125),
        ..BASE
    },
    Format {
        name: "iq4_nl",
        ggml_id: 20,
        block_bytes: 18,
        signed: true,
        max_code: 127,
        codes: |_| split_nibbles(2).of(&IQ4NL),
        ..BASE
    },
    Format {
        name: "iq3_s",
        ggml_id: 21,
        block: 256,
        block_bytes: 110,
        signed: true,
        max_code: 15,
        codes: |c| {
            let grid = Bytes::raw(2 + 8 * c, 8).with_high_of(Bytes::bits(66 + c, 1), &IQ3S);
            grid.negated_where(Bytes::bits(74 + 4 * c, 4))
        },
        scales: || Scales::odd(Number::F16(0), Bytes::fields(106, 0, 4, 8), 1.0),
        ..BASE
    },
    Format {
        name: "iq2_s",
        ggml_id: 22,
        block: 256,
        block_bytes: 82,
        group: 16,
        signed: true,
        max_code: 43,
        codes: |c| {
            let high = Bytes::Fields { at: 66 + c, bit: 0, step: 2, width: 2, len: 4 };
            Bytes::raw(2 + 4 * c, 4).with_high_of(high, &IQ2S).negated_where(Bytes::bits(34 + 4 * c, 4))
        },
        scales: || Scales::odd(Number::F16(0), each_word(74, 2, 0, 4, 8), 0.125),
        ..BASE
    },
    Format {
        name: "iq4_xs",
        ggml_id: 23,
        block: 256,
        block_bytes: 136,
        signed: true,
        max_code: 127,
        codes: |c| split_nibbles(8 + 16 * c).of(&IQ4NL),
        scales: || {
            let high = Bytes::Fields { at: 2, bit: 0, step: 2, width: 2, len: 8 };
            Scales::biased(0, Bytes::fields(4, 0, 4, 8).or(high.shifted_left(4)), -32.0)
        },
        ..BASE
    },
    Format {
        name: "iq1_m",
        ggml_id: 29,
        block: 256,
        block_bytes: 56,
        group: 16,
        zero: 9,
        max_code: 18,
        codes: |c| {
            let grid = Bytes::raw(4 * c, 4).with_high_of(iq1_m_high(c, 0, 3), &IQ1S);
            grid.xor(iq1_m_high(c, 3, 1).repeated(8).shifted_left(1))
        },
        scales: || Scales::odd(Number::Nibbles(48), iq1_m_scales(), 0.125),
        ..BASE
    },
    Format {
        name: "tq1_0",
        ggml_id: 34,
        block: 256,
        block_bytes: 54,
        zero: 1,
        max_code: 2,
        codes: tq1_codes,
        scales: || Scales::half(52),
        ..BASE
    },
    Format {
        name: "tq2_0",
        ggml_id: 35,
        block: 256,
        block_bytes: 66,
        zero: 1,
        max_code: 3,
        codes: |c| k_pairs(0, c),
        scales: || Scales::half(64),
        ..BASE
    },
    Format {
        name: "mxfp4",
        ggml_id: 39,
        block_bytes: 17,
        signed: true,
        max_code: 12,
        codes: |_| split_nibbles(1).of(&E2M1),
        scales: || Scales::One { d: Number::E8m0(0), negate: false },
        ..BASE
    },
    Format {
        name: "nvfp4",
        ggml_id: 40,
        block: 64,
        block_bytes: 36,
        group: 16,
        signed: true,
        max_code: 12,
        codes: |c| {
            let of_group = |at| Bytes::raw(at, 8).field(0, 4).then(Bytes::raw(at, 8).field(4, 4));
            of_group(4 + 16 * c).then(of_group(12 + 16 * c)).of(&E2M1)
        },
        scales: || Scales::E4m3 { by: Bytes::raw(0, 4) },
        ..BASE
    },
    Format {
        name: "q1_0",
        ggml_id: 41,
        block: 128,
        block_bytes: 18,
        zero: 1,
        max_code: 2,
        codes: |c| Bytes::bits(2 + 4 * c, 4).shifted_left(1),
        ..BASE
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_stays_inside_its_block() {
        for f in FORMATS {
            let block = vec![0xA5; f.block_bytes as usize];
            for c in 0..f.chunks() {
                let codes = f.code_values(&block, c);
                assert_eq!(codes.len(), CHUNK as usize, "{}", f.name);
                assert!(codes.iter().all(|c| c.unsigned_abs() <= f.max_code), "{}", f.name);
            }
            assert_eq!(f.scale_values(&block).len(), f.groups() as usize, "{}", f.name);
            assert_eq!(f.min_values(&block).len(), f.groups() as usize, "{}", f.name);
        }
    }

    #[test]
    fn every_code_bit_comes_from_the_block_once() {
        // Each bit of the block's code area moves at most one bit of one code, and each bit of a code is moved by some.
        // Not of those whose codes are no bits of the block.
        let computed = |f: &&Format| format!("{:?}", (f.codes)(0)).contains("Lookup") || f.name == "tq1_0";
        for f in FORMATS.iter().filter(|f| !computed(f)) {
            let zero = vec![0u8; f.block_bytes as usize];
            let all = |b: &[u8]| (0..f.chunks()).flat_map(|c| (f.codes)(c).eval(b)).collect::<Vec<u8>>();
            let base = all(&zero);
            let mut seen = vec![0u8; base.len()];
            for bit in 0..f.block_bytes * 8 {
                let mut b = zero.clone();
                b[bit as usize / 8] ^= 1 << (bit % 8);
                for (i, (x, y)) in base.iter().zip(all(&b)).enumerate() {
                    assert_eq!(seen[i] & (x ^ y), 0, "{}: a code bit of element {i} has two sources", f.name);
                    seen[i] |= x ^ y;
                }
            }
            let width = if f.signed { 0xFF } else { f.max_code as u8 };
            assert!(seen.iter().all(|&s| s == width), "{}", f.name);
        }
    }
}
