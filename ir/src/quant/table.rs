//! The formats. Adding one is adding a row here.

use super::expr::{Bytes, Scales};
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
    scales: || Scales::One { at: 0, negate: false },
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
    Scales::Scaled { at: 0, by: k_scales(4, 0), signed: false }
}

fn k_min() -> Scales {
    Scales::Scaled { at: 2, by: k_scales(8, 1), signed: false }
}

/// All formats that kernels can read.
pub static FORMATS: &[Format] = &[
    Format { name: "q4_0", ggml_id: 2, block_bytes: 18, zero: 8, codes: |_| split_nibbles(2), ..BASE },
    Format {
        name: "q4_1",
        ggml_id: 3,
        block_bytes: 20,
        codes: |_| split_nibbles(4),
        mins: Some(|| Scales::One { at: 2, negate: true }),
        ..BASE
    },
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
        mins: Some(|| Scales::One { at: 2, negate: true }),
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
        scales: || Scales::Scaled { at: 208, by: Bytes::raw(192, 16), signed: true },
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
        for f in FORMATS {
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
