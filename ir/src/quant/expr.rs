//! The little language that says where the bits of a block lie.

use super::tables::Table;
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
    /// `len` fields of the bits from byte `at` on, a byte's lowest bit first: field i has `width` bits, at most 8, from
    /// `bit + i * step` on. All fields are in one 32-bit integer from `at` on, or each is in an integer of its own: the
    /// step is then 8, 16 or 32.
    Fields {
        /// First byte.
        at: u32,
        /// The first field's lowest bit.
        bit: u32,
        /// Bits from a field to the next one.
        step: u32,
        /// Bits of a field.
        width: u32,
        /// How many.
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
    /// Two runs of one length, the bits that differ.
    Xor(Box<Bytes>, Box<Bytes>),
    /// One run behind another.
    Concat(Box<Bytes>, Box<Bytes>),
    /// Each byte several times.
    Repeat(Box<Bytes>, u32),
    /// The bits of each byte, lowest first: 8 elements a byte, each 0 or 1.
    Spread(Box<Bytes>),
    /// Numbers of 7 bits, bit 7 added so that an even number of bits is set.
    Even(Box<Bytes>),
    /// A digit of numbers in base 3: each byte is a fraction of 256 whose digit of this number (from 0, the highest) is
    /// taken: the byte times 3 to that power, modulo 256, times 3 / 256.
    Trit(Box<Bytes>, u8),
    /// Entries of a table, one for each index.
    Lookup {
        /// The index, or its low 8 bits.
        low: Box<Bytes>,
        /// What is above them, if anything.
        high: Option<Box<Bytes>>,
        /// The table.
        table: &'static Table,
    },
    /// Positive numbers (1 to 127), negated where the other run is 1 and not where it is 0.
    Negate(Box<Bytes>, Box<Bytes>),
}

impl Bytes {
    /// The first of a block's bytes that is read, if it is one that is taken as such.
    pub fn first_byte(&self) -> Option<u32> {
        match self {
            Bytes::Raw { at, .. } | Bytes::Fields { at, .. } => Some(*at),
            Bytes::Shr(a, _) | Bytes::Shl(a, _) | Bytes::And(a, _) | Bytes::Trit(a, _) | Bytes::Repeat(a, _) => {
                a.first_byte()
            }
            Bytes::Or(a, _) | Bytes::Xor(a, _) | Bytes::Concat(a, _) | Bytes::Negate(a, _) => a.first_byte(),
            Bytes::Lookup { low, .. } => low.first_byte(),
            Bytes::Spread(_) | Bytes::Even(_) => None,
        }
    }

    /// `len` bytes from `at` on.
    pub fn raw(at: u32, len: u32) -> Bytes {
        Bytes::Raw { at, len }
    }

    /// The bits of `len` bytes from `at` on.
    pub fn bits(at: u32, len: u32) -> Bytes {
        Bytes::raw(at, len).spread()
    }

    /// `len` neighbouring fields of `width` bits of the 32-bit integer at `at`, from a bit on.
    pub fn fields(at: u32, bit: u32, width: u32, len: u32) -> Bytes {
        Bytes::Fields { at, bit, step: width, width, len }
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

    /// The bits that differ from another run of the same length.
    pub fn xor(self, other: Bytes) -> Bytes {
        Bytes::Xor(Box::new(self), Box::new(other))
    }

    /// Followed by another run.
    pub fn then(self, other: Bytes) -> Bytes {
        Bytes::Concat(Box::new(self), Box::new(other))
    }

    /// Each byte `times` times.
    pub fn repeated(self, times: u32) -> Bytes {
        Bytes::Repeat(Box::new(self), times)
    }

    /// The bits of each byte.
    pub fn spread(self) -> Bytes {
        Bytes::Spread(Box::new(self))
    }

    /// With a bit that makes the number of set bits even.
    pub fn even(self) -> Bytes {
        Bytes::Even(Box::new(self))
    }

    /// A digit in base 3.
    pub fn trit(self, n: u8) -> Bytes {
        Bytes::Trit(Box::new(self), n)
    }

    /// Entries of a table.
    pub fn of(self, table: &'static Table) -> Bytes {
        Bytes::Lookup { low: Box::new(self), high: None, table }
    }

    /// Entries of a table of more than 256, with the indices' higher bits.
    pub fn with_high_of(self, high: Bytes, table: &'static Table) -> Bytes {
        Bytes::Lookup { low: Box::new(self), high: Some(Box::new(high)), table }
    }

    /// Negated where another run is 1.
    pub fn negated_where(self, signs: Bytes) -> Bytes {
        Bytes::Negate(Box::new(self), Box::new(signs))
    }

    /// The number of bytes the run has.
    pub fn len(&self) -> u32 {
        match self {
            Bytes::Raw { len, .. } | Bytes::Fields { len, .. } => *len,
            Bytes::Shr(a, _)
            | Bytes::Shl(a, _)
            | Bytes::And(a, _)
            | Bytes::Or(a, _)
            | Bytes::Xor(a, _)
            | Bytes::Even(a)
            | Bytes::Trit(a, _)
            | Bytes::Negate(a, _) => a.len(),
            Bytes::Concat(a, b) => a.len() + b.len(),
            Bytes::Repeat(a, times) => a.len() * times,
            Bytes::Spread(a) => 8 * a.len(),
            Bytes::Lookup { low, table, .. } => low.len() * table.width,
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
        let zip = |a: &Bytes, b: &Bytes, f: &dyn Fn(u8, u8) -> u8| {
            a.eval(block).into_iter().zip(b.eval(block)).map(|(x, y)| f(x, y)).collect()
        };
        match self {
            Bytes::Raw { at, len } => part(*at, *len).to_vec(),
            Bytes::Fields { at, bit, step, width, len } => {
                let field = |i: u32| {
                    let from = bit + i * step;
                    let bytes = part(at + from / 8, (from % 8 + width).div_ceil(8));
                    let int = bytes.iter().rev().fold(0u32, |n, &b| n << 8 | u32::from(b));
                    (int >> (from % 8) & ((1 << width) - 1)) as u8
                };
                (0..*len).map(field).collect()
            }
            Bytes::Shr(a, n) => map(a, &|b| b >> n),
            Bytes::Shl(a, n) => map(a, &|b| b << n),
            Bytes::And(a, m) => map(a, &|b| b & m),
            Bytes::Or(a, b) => zip(a, b, &|x, y| x | y),
            Bytes::Xor(a, b) => zip(a, b, &|x, y| x ^ y),
            Bytes::Concat(a, b) => [a.eval(block), b.eval(block)].concat(),
            Bytes::Repeat(a, times) => {
                a.eval(block).into_iter().flat_map(|b| std::iter::repeat_n(b, *times as usize)).collect()
            }
            Bytes::Spread(a) => a.eval(block).into_iter().flat_map(|b| (0..8).map(move |i| b >> i & 1)).collect(),
            Bytes::Even(a) => map(a, &|b| b | (b.count_ones() as u8 & 1) << 7),
            Bytes::Trit(a, n) => {
                let power = 3u8.wrapping_pow(u32::from(*n));
                map(a, &|b| ((u16::from(b.wrapping_mul(power)) * 3) >> 8) as u8)
            }
            Bytes::Lookup { low, high, table } => {
                let high = high.as_ref().map_or_else(|| vec![0; low.len() as usize], |h| h.eval(block));
                let index = low.eval(block).into_iter().zip(high).map(|(l, h)| usize::from(h) << 8 | usize::from(l));
                index.flat_map(|i| table.entry(i)).copied().collect()
            }
            Bytes::Negate(a, signs) => zip(a, signs, &|x, s| if s == 1 { x.wrapping_neg() } else { x }),
        }
    }
}

/// A number that scales a whole block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Number {
    /// The binary16 at a byte.
    F16(u32),
    /// The binary32 at a byte.
    F32(u32),
    /// A binary16 whose nibbles, lowest first, are the highest ones of the four 16-bit integers from a byte on.
    Nibbles(u32),
    /// E8M0 (OCP Microscaling Formats, 5.4.1), halved for codes that are twice what they stand for: the byte e is
    /// 2^(e - 128).
    E8m0(u32),
}

impl Number {
    /// The number in a block.
    pub fn eval(self, block: &[u8]) -> f32 {
        let bytes = |at: u32| &block[at as usize..];
        let u16_at = |at: u32| u16::from_le_bytes([bytes(at)[0], bytes(at)[1]]);
        match self {
            Number::F16(at) => f16::from_bits(u16_at(at)).to_f32(),
            Number::F32(at) => f32::from_bits(u32::from(u16_at(at + 2)) << 16 | u32::from(u16_at(at))),
            Number::Nibbles(at) => {
                let bits = (0..4).map(|i| u16_at(at + 2 * i) >> 12 << (4 * i)).sum();
                f16::from_bits(bits).to_f32()
            }
            Number::E8m0(at) => {
                let e = u32::from(bytes(at)[0]);
                f32::from_bits(if e < 2 { E8M0_SUBNORMAL << e } else { (e - 1) << 23 })
            }
        }
    }
}

/// The bits of 2^-128: half of the number that the byte 0 of E8M0 stands for.
pub const E8M0_SUBNORMAL: u32 = 0x0020_0000;

/// The E4M3 byte that stands for no number; formats take it as zero. The sign bit means nothing, and with it that byte is
/// the number that its exponent and mantissa make.
pub const E4M3_NAN: u8 = 0x7F;

/// What the binary16 whose bits are those of an E4M3 number, moved up by 7, is multiplied by to be half that number.
pub const E4M3_FACTOR: f32 = 128.0;

/// The scales (or minima) of a block's groups, in f32.
#[derive(Clone, PartialEq, Debug)]
pub enum Scales {
    /// One number for all groups.
    One {
        /// The number.
        d: Number,
        /// Whether its negative is meant: a minimum that the format adds instead of taking off.
        negate: bool,
    },
    /// A number for the block times a factor for each group: an integer `times` and `plus` a constant, exact in f32.
    Scaled {
        /// The block's number.
        d: Number,
        /// The integers, one a group.
        by: Bytes,
        /// Whether they are signed.
        signed: bool,
        /// What the integer is multiplied by.
        times: f32,
        /// What is added then.
        plus: f32,
    },
    /// An unsigned E4M3 number for each group (OCP 8-bit Floating Point Specification), halved for codes that are twice
    /// what they stand for.
    E4m3 {
        /// The numbers' bytes, one a group.
        by: Bytes,
    },
}

impl Scales {
    /// The binary16 at a byte.
    pub fn half(at: u32) -> Scales {
        Scales::One { d: Number::F16(at), negate: false }
    }

    /// A binary16 times an unsigned integer for each group.
    pub fn scaled(at: u32, by: Bytes) -> Scales {
        Scales::Scaled { d: Number::F16(at), by, signed: false, times: 1.0, plus: 0.0 }
    }

    /// With `plus` added to the integers.
    pub fn biased(at: u32, by: Bytes, plus: f32) -> Scales {
        Scales::Scaled { d: Number::F16(at), by, signed: false, times: 1.0, plus }
    }

    /// A number times `unit` times an odd integer, of which the block holds half, rounded down.
    pub fn odd(d: Number, by: Bytes, unit: f32) -> Scales {
        Scales::Scaled { d, by, signed: false, times: 2.0 * unit, plus: unit }
    }

    /// The values for one block of this many groups.
    pub fn eval(&self, block: &[u8], groups: u32) -> Vec<f32> {
        match self {
            Scales::One { d, negate } => {
                let d = d.eval(block);
                vec![if *negate { -d } else { d }; groups as usize]
            }
            Scales::Scaled { d, by, signed, times, plus } => {
                let int = |b: u8| if *signed { f32::from(b as i8) } else { f32::from(b) };
                let d = d.eval(block);
                by.eval(block).into_iter().map(|b| d * (int(b) * times + plus)).collect()
            }
            Scales::E4m3 { by } => by.eval(block).into_iter().map(half_e4m3).collect(),
        }
    }
}

/// Half of an unsigned E4M3 number.
fn half_e4m3(byte: u8) -> f32 {
    if byte == E4M3_NAN { 0.0 } else { f16::from_bits(u16::from(byte & 0x7F) << 7).to_f32() * E4M3_FACTOR }
}
