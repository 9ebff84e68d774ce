//! Random blocks, for tests and for trying kernels.

use super::{Format, Scales};
use half::f16;

impl Format {
    /// A block of random codes, its scales such that elements lie within about `bound`. `next` gives random bits.
    pub fn random_block(&self, bound: f32, mut next: impl FnMut() -> u64) -> Vec<u8> {
        let mut block: Vec<u8> = (0..self.block_bytes).map(|_| next() as u8).collect();
        let mut set = |scales: Scales, to: f32| {
            let at = match scales {
                Scales::One { at, .. } | Scales::Scaled { at, .. } => at as usize,
            };
            block[at..at + 2].copy_from_slice(&f16::from_f32(to).to_le_bytes());
        };
        // Integer factors of a scale reach 63 or 127.
        let factor = |s: Scales| match s {
            Scales::One { .. } => 1.0,
            Scales::Scaled { signed: true, .. } => 127.0,
            Scales::Scaled { .. } => 63.0,
        };
        let half = self.max_code as f32 / 2.0;
        set((self.scales)(), bound / half / factor((self.scales)()));
        if let Some(mins) = self.mins {
            let sign = if matches!(mins(), Scales::One { negate: true, .. }) { -1.0 } else { 1.0 };
            set(mins(), sign * bound / factor(mins()));
        }
        block
    }
}
