//! Sets of registers.

use super::inst::{ACCUMULATORS, ScalarSet};

const WORDS: usize = 2 * ACCUMULATORS as usize / 64;

/// Registers of both files and scalar ones, a bit each.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Named {
    vectors: [u64; WORDS],
    scalars: ScalarSet,
}

fn has(words: &[u64], register: u16) -> bool {
    words.get(register as usize / 64).is_some_and(|word| word >> (register % 64) & 1 != 0)
}

fn add(words: &mut [u64], first: u16, count: u16) {
    for register in first..first + count {
        if let Some(word) = words.get_mut(register as usize / 64) {
            *word |= 1 << (register % 64);
        }
    }
}

fn keep(words: &mut [u64], f: impl Fn(usize) -> bool) {
    for (at, word) in words.iter_mut().enumerate() {
        let mut rest = *word;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            rest &= rest - 1;
            if !f(64 * at + bit as usize) {
                *word &= !(1 << bit);
            }
        }
    }
}

impl Named {
    /// Whether a register of the vector file is one of them; rows that are none are not.
    #[inline(always)]
    pub fn has_vector(&self, register: u16) -> bool {
        has(&self.vectors, register)
    }

    /// The same of a scalar register.
    #[inline(always)]
    pub fn has_scalar(&self, register: u16) -> bool {
        has(&self.scalars, register)
    }

    /// Adds registers of the vector file.
    pub fn add_vectors(&mut self, first: u16, count: u16) {
        add(&mut self.vectors, first, count);
    }

    /// Adds scalar registers.
    pub fn add_scalars(&mut self, first: u16, count: u16) {
        add(&mut self.scalars, first, count);
    }

    /// Leaves those vector registers for which a test holds.
    pub fn keep_vectors(&mut self, f: impl Fn(usize) -> bool) {
        keep(&mut self.vectors, f);
    }

    /// The same of scalar registers.
    pub fn keep_scalars(&mut self, f: impl Fn(usize) -> bool) {
        keep(&mut self.scalars, f);
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.vectors.iter().chain(&self.scalars).fold(0, |all, word| all | word) == 0
    }

    /// Whether any register is in both.
    #[inline(always)]
    pub fn meets(&self, other: &Named) -> bool {
        let vectors = self.vectors.iter().zip(&other.vectors).fold(0, |all, (a, b)| all | a & b);
        self.scalars.iter().zip(&other.scalars).fold(vectors, |all, (a, b)| all | a & b) != 0
    }
}
