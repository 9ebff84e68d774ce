//! The random numbers of sampling: a function of the seed and of how many were drawn before.
//!
//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014; the constants are those
//! of Vigna's public-domain version). Integer arithmetic only, so every platform draws the same numbers.

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The generator: draw number `n` is the mixed value of `seed + (n + 1) * STEP`.
#[derive(Debug, Clone)]
pub struct Random {
    seed: u64,
    drawn: u64,
}

impl Random {
    /// The sequence that belongs to `seed`, from its start.
    pub fn new(seed: u64) -> Random {
        Random { seed, drawn: 0 }
    }

    fn next(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        let mut z = self.seed.wrapping_add(self.drawn.wrapping_mul(STEP));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..1`, a multiple of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_the_published_generator() {
        // First outputs of splitmix64.c for the seed 1234567.
        let mut random = Random::new(1_234_567);
        let drawn: Vec<_> = (0..3).map(|_| random.next()).collect();
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.unit())));
    }
}
