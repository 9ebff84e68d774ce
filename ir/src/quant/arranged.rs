//! Blocks in another order of their bytes, for chips that read memory in aligned words.
//!
//! A block of 210 bytes begins at any even address, so what a lane wants of it is read two bytes at a time, or put
//! together of words that it lies across. Where a copy of the weights is made anyway, that can be one whose blocks begin
//! at multiples of 16, with what a lane needs in one place: the same numbers, so the same results. An arranged format is
//! a [`Format`] like all others, described by a row of the same kind; files don't have it.

use super::expr::{Bytes, Number, Scales};
use super::{CHUNK, Format};

/// A format and how its blocks are made of stored ones.
pub struct Arranged {
    /// The format that files have.
    pub stored: &'static str,
    /// The same in another order.
    pub format: Format,
    /// Makes a block of a stored one; both are of their formats' size.
    block: fn(&[u8], &mut [u8]),
}

/// Added to GGML's number of the stored format, for one that no file has.
const OWN: u32 = 1 << 16;

/// Where the parts of an arranged block of Q6_K lie: low and high bits of codes, scales, and the factor of the scales.
const HIGH: u32 = 128;
const SCALES: u32 = 192;
const FACTOR: u32 = 208;

/// The sixth and fifth bit of the codes of 16 elements each of two neighbouring chunks: 8 bytes.
fn pair_high(pair: u32, half: u32, chunk: u32) -> Bytes {
    let part = |i: u8| Bytes::raw(HIGH + 16 * pair + 8 * half, 8).field(4 * (chunk % 2) as u8 + 2 * i, 2);
    part(0).then(part(1))
}

/// Chunks in pairs, as in Q4_K. The scales of a pair lie together, those of the same halves side by side.
const Q6_K: Format = Format {
    name: "q6_k_arranged",
    ggml_id: OWN + 14,
    block: 256,
    block_bytes: 224,
    group: 16,
    signed: false,
    zero: 32,
    max_code: 63,
    codes: |c| {
        let pair = c / 2;
        let low = Bytes::raw(CHUNK * pair, CHUNK).field(4 * (c % 2) as u8, 4);
        low.or(pair_high(pair, 0, c).then(pair_high(pair, 1, c)).shifted_left(4))
    },
    scales: || {
        let of_group = |g: u32| {
            let (pair, chunk, half) = (g / 4, g / 2 % 2, g % 2);
            Bytes::fields(SCALES + 4 * pair, 16 * half + 8 * chunk, 8, 1)
        };
        let by = (1..16).fold(of_group(0), |all, g| all.then(of_group(g)));
        Scales::Scaled { d: Number::F16(FACTOR), by, signed: true, times: 1.0, plus: 0.0 }
    },
    mins: None,
};

fn arrange_q6_k(from: &[u8], to: &mut [u8]) {
    let (low, rest) = from.split_at(128);
    let (high, rest) = rest.split_at(64);
    let (scales, factor) = rest.split_at(16);
    // Halves of 128 elements have four chunks: 0 and 2 in the nibbles of 32 bytes, 1 and 3 in those of the next.
    for (half, to) in to[..128].chunks_exact_mut(64).enumerate() {
        let (even, odd) = low[64 * half..][..64].split_at(32);
        let (first, second) = to.split_at_mut(32);
        for (i, (&e, &o)) in even.iter().zip(odd).enumerate() {
            first[i] = e & 15 | o << 4;
            second[i] = e >> 4 | o & 0xF0;
        }
    }
    for (place, to) in to[HIGH as usize..SCALES as usize].chunks_exact_mut(8).enumerate() {
        let (pair, sixteen) = (place / 2, place % 2);
        let from = &high[32 * (pair / 2) + 16 * sixteen..][..16];
        let two = |byte: u8| byte >> (4 * (pair % 2)) & 15;
        for (i, to) in to.iter_mut().enumerate() {
            let [a, b] = [two(from[i]), two(from[i + 8])];
            *to = a & 3 | (b & 3) << 2 | (a & 12) << 2 | (b & 12) << 4;
        }
    }
    for (g, &scale) in scales.iter().enumerate() {
        let (pair, chunk, half) = (g / 4, g / 2 % 2, g % 2);
        to[SCALES as usize + 4 * pair + 2 * half + chunk] = scale;
    }
    to[FACTOR as usize..][..2].copy_from_slice(factor);
}

/// All that there are.
pub static ARRANGED: &[Arranged] = &[Arranged { stored: "q6_k", format: Q6_K, block: arrange_q6_k }];

impl Format {
    /// The format's blocks in an order for aligned words, where they are not so already.
    pub fn arranged(&self) -> Option<&'static Arranged> {
        ARRANGED.iter().find(|a| a.stored == self.name)
    }
}

impl Arranged {
    /// Bytes of so many bytes of stored blocks.
    pub fn bytes(&self, stored: u64) -> u64 {
        stored / u64::from(self.stored_bytes()) * u64::from(self.format.block_bytes)
    }

    fn stored_bytes(&self) -> u32 {
        Format::from_name(self.stored).map_or(self.format.block_bytes, |f| f.block_bytes)
    }

    /// The bytes of the whole stored blocks in about so many.
    pub fn whole_blocks(&self, bytes: usize) -> usize {
        let block = self.stored_bytes() as usize;
        (bytes / block).max(1) * block
    }

    /// Arranges whole blocks.
    pub fn blocks(&self, stored: &[u8]) -> Vec<u8> {
        let (from, to) = (self.stored_bytes() as usize, self.format.block_bytes as usize);
        let mut out = vec![0; stored.len() / from * to];
        stored.chunks_exact(from).zip(out.chunks_exact_mut(to)).for_each(|(from, to)| (self.block)(from, to));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is in a block, elements are the same to the bit, as are the numbers they are made of.
    #[test]
    fn arranged_blocks_have_the_elements_of_stored_ones() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 24
        };
        for a in ARRANGED {
            let stored = Format::from_name(a.stored).expect("a format");
            assert!(std::ptr::eq(stored.arranged().expect("arranged"), a));
            assert!(a.format.arranged().is_none() && Format::from_ggml_id(a.format.ggml_id).is_none());
            assert_eq!(Format::from_name(a.format.name), Some(&a.format));
            assert_eq!((stored.block, stored.group, stored.zero), (a.format.block, a.format.group, a.format.zero));
            let mut blocks: Vec<u8> = (0..5).flat_map(|_| stored.random_block(1.0, &mut random)).collect();
            blocks.extend((0..stored.block_bytes).map(|i| if i < 208 { 0xFF } else { 0x3C }));
            let arranged = a.blocks(&blocks);
            assert_eq!(arranged.len() as u64, a.bytes(blocks.len() as u64));
            let values = |f: &Format, bytes: &[u8]| {
                let mut out = vec![0f32; 6 * f.block as usize];
                f.dequantize_row(bytes, &mut out);
                out.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
            };
            assert_eq!(values(&a.format, &arranged), values(stored, &blocks), "{}", a.format.name);
        }
    }

    #[test]
    fn arranged_blocks_are_of_whole_lines_of_16_bytes() {
        for a in ARRANGED {
            assert!(a.format.block_bytes.is_multiple_of(16), "{}", a.format.name);
            // No more than a fifteenth longer.
            assert!(15 * a.format.block_bytes <= 16 * a.stored_bytes(), "{}", a.format.name);
        }
    }
}
