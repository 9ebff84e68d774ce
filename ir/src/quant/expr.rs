//! The little language that says where the bits of a block lie.

use half::f16;

/// A run of bytes made from a block, one an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bytes {
    /// `len` bytes of the block from byte `at` on.
    Raw {
        /// First byte.
        at: u32,
        /// How many.
        len: u32,
    },
    /// The bits of `len` bytes from `at` on, lowest first: 8 elements a byte, each 0 or 1.
    Bits {
        /// First byte.
        at: u32,
        /// How many bytes.
        len: u32,
    },
    /// Each byte shifted right.
    Shr(Box<Bytes>, u8),
    /// Each byte shifted left; what leaves the byte is lost.
    Shl(Box<Bytes>, u8),
    /// Each byte masked.
    And(Box<Bytes>, u8),
    /// Two runs of one length combined.
    Or(Box<Bytes>, Box<Bytes>),
    /// One run behind another.
    Concat(Box<Bytes>, Box<Bytes>),
}

impl Bytes {
    /// `len` bytes from `at` on.
    pub fn raw(at: u32, len: u32) -> Bytes {
        Bytes::Raw { at, len }
    }

    /// The bits of `len` bytes from `at` on.
    pub fn bits(at: u32, len: u32) -> Bytes {
        Bytes::Bits { at, len }
    }

    /// Each byte shifted right by `n`.
    pub fn shifted_right(self, n: u8) -> Bytes {
        if n == 0 { self } else { Bytes::Shr(Box::new(self), n) }
    }

    /// Each byte shifted left by `n`.
    pub fn shifted_left(self, n: u8) -> Bytes {
        if n == 0 { self } else { Bytes::Shl(Box::new(self), n) }
    }

    /// Each byte masked with `m`.
    pub fn and(self, m: u8) -> Bytes {
        Bytes::And(Box::new(self), m)
    }

    /// `width` bits of each byte from bit `shift` on.
    pub fn field(self, shift: u8, width: u8) -> Bytes {
        let shifted = self.shifted_right(shift);
        if shift + width == 8 { shifted } else { shifted.and((1u8 << width) - 1) }
    }

    /// Combined with another run of the same length.
    pub fn or(self, other: Bytes) -> Bytes {
        Bytes::Or(Box::new(self), Box::new(other))
    }

    /// Followed by another run.
    pub fn then(self, other: Bytes) -> Bytes {
        Bytes::Concat(Box::new(self), Box::new(other))
    }

    /// The number of bytes the run has.
    pub fn len(&self) -> u32 {
        match self {
            Bytes::Raw { len, .. } => *len,
            Bytes::Bits { len, .. } => 8 * len,
            Bytes::Shr(a, _) | Bytes::Shl(a, _) | Bytes::And(a, _) | Bytes::Or(a, _) => a.len(),
            Bytes::Concat(a, b) => a.len() + b.len(),
        }
    }

    /// Whether the run has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The run for one block.
    pub fn eval(&self, block: &[u8]) -> Vec<u8> {
        let part = |at: u32, len: u32| &block[at as usize..(at + len) as usize];
        let map = |a: &Bytes, f: &dyn Fn(u8) -> u8| a.eval(block).into_iter().map(f).collect();
        match self {
            Bytes::Raw { at, len } => part(*at, *len).to_vec(),
            Bytes::Bits { at, len } => part(*at, *len).iter().flat_map(|b| (0..8).map(move |i| b >> i & 1)).collect(),
            Bytes::Shr(a, n) => map(a, &|b| b >> n),
            Bytes::Shl(a, n) => map(a, &|b| b << n),
            Bytes::And(a, m) => map(a, &|b| b & m),
            Bytes::Or(a, b) => a.eval(block).into_iter().zip(b.eval(block)).map(|(x, y)| x | y).collect(),
            Bytes::Concat(a, b) => [a.eval(block), b.eval(block)].concat(),
        }
    }
}

/// The scales (or minima) of a block's groups, in f32.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scales {
    /// One binary16 for the whole block.
    One {
        /// Its first byte.
        at: u32,
        /// Whether its negative is meant: a minimum that the format adds instead of taking off.
        negate: bool,
    },
    /// A binary16 for the block times an integer for each group.
    Scaled {
        /// First byte of the binary16.
        at: u32,
        /// The integers, one a group.
        by: Bytes,
        /// Whether they are signed.
        signed: bool,
    },
}

impl Scales {
    /// The values for one block, one a group.
    pub fn eval(&self, block: &[u8]) -> Vec<f32> {
        let half = |at: u32| f16::from_le_bytes([block[at as usize], block[at as usize + 1]]).to_f32();
        match self {
            Scales::One { at, negate } => vec![if *negate { -half(*at) } else { half(*at) }],
            Scales::Scaled { at, by, signed } => {
                let int = |b: u8| {
                    if *signed { f32::from(b as i8) } else { f32::from(b) }
                };
                by.eval(block).into_iter().map(|b| half(*at) * int(b)).collect()
            }
        }
    }
}
