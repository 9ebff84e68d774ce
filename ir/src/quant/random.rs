//! Random blocks, for tests and for trying kernels.

use super::{Bytes, Format, Number, Scales};
use half::f16;

impl Number {
    /// Writes a number into a block: the nearest one, or a power of two not above it.
    fn write(self, block: &mut [u8], x: f32) {
        match self {
            Number::F16(at) => block[at as usize..][..2].copy_from_slice(&f16::from_f32(x).to_le_bytes()),
            Number::F32(at) => block[at as usize..][..4].copy_from_slice(&x.to_le_bytes()),
            Number::Nibbles(at) => {
                let bits = f16::from_f32(x).to_bits();
                for (i, two) in block[at as usize..][..8].chunks_exact_mut(2).enumerate() {
                    two[1] = two[1] & 0x0F | ((bits >> (4 * i) & 15) << 4) as u8;
                }
            }
            // The exponent of half of it: its own one's bias is 127, that of the halved number 128.
            Number::E8m0(at) => block[at as usize] = (x.abs().log2().floor() + 128.0).clamp(0.0, 254.0) as u8,
        }
    }
}

impl Format {
    /// A block of random codes, its scales such that elements lie within about `bound`. `next` gives random bits.
    pub fn random_block(&self, bound: f32, mut next: impl FnMut() -> u64) -> Vec<u8> {
        let mut block: Vec<u8> = (0..self.block_bytes).map(|_| next() as u8).collect();
        let half = self.max_code as f32 / 2.0;
        write_scales(&mut block, &(self.scales)(), bound / half);
        if let Some(mins) = self.mins {
            write_scales(&mut block, &mins(), bound);
        }
        block
    }
}

/// Makes a block's scales random ones of at most about `most`.
fn write_scales(block: &mut [u8], s: &Scales, most: f32) {
    match s {
        Scales::One { d, negate } => d.write(block, if *negate { -most } else { most }),
        Scales::Scaled { d, by, signed, times, plus } => {
            // The largest integer that the field can be, whatever its bits are now.
            let ones = vec![0xFF; block.len()];
            let largest = if *signed { 127.0 } else { by.eval(&ones).into_iter().map(f32::from).fold(0.0, f32::max) };
            let factor = (largest * times + plus).abs().max(plus.abs());
            d.write(block, most / factor);
        }
        Scales::E4m3 { by: Bytes::Raw { at, len } } => {
            let wanted = |b: &u8| Scales::E4m3 { by: Bytes::raw(0, 1) }.eval(&[*b], 1)[0] <= most;
            let codes: Vec<u8> = (1..super::E4M3_NAN).filter(wanted).collect();
            for b in &mut block[*at as usize..][..*len as usize] {
                *b = codes.get(usize::from(*b) % codes.len().max(1)).copied().unwrap_or(0);
            }
        }
        Scales::E4m3 { .. } => {}
    }
}
