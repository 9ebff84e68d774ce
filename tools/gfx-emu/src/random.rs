//! Pseudo-random numbers, the same on every machine.

/// A generator (SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream; different seeds, different numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Between -1 and 1.
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(n)) >> 32) as u32
    }
}
