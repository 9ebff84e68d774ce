//! Random encodings: the fixed bits of each format, and random ones for the rest.

use crate::random::Random;

/// Encodings drawn for a chip.
pub const CASES: usize = 120_000;

/// Bytes from one encoding to the next: three words, and as many that are no operation, so that a random word after a
/// short encoding does not reach the next.
pub const SLOT: usize = 24;

/// A format: its name, the fixed high bits and how many, how many times as often as others it is drawn, and the first
/// bit and word of a source that may name another encoding after it.
type Format = (u32, u32, u32, Option<u32>);

/// Scalar and vector formats of 32 bits, which all generations have.
const COMMON: &[Format] = &[
    (0b10, 2, 2, None),
    (0b1011, 4, 1, None),
    (0b1_0111_1101, 9, 2, None),
    (0b1_0111_1110, 9, 1, None),
    (0b1_0111_1111, 9, 1, None),
    (0b0, 1, 4, Some(0)),
    (0b011_1111, 7, 4, Some(0)),
    (0b011_1110, 7, 3, Some(0)),
    (0b11_0110, 6, 2, None),
];

const GFX9: &[Format] = &[
    (0b11_0000, 6, 2, None),
    (0b11_0100, 6, 8, Some(1)),
    (0b1_1010_0111, 9, 3, Some(1)),
    (0b11_0111, 6, 3, None),
    (0b11_1000, 6, 2, None),
];

const GFX11: &[Format] = &[
    (0b11_1101, 6, 1, None),
    (0b11_0101, 6, 10, Some(1)),
    (0b1100_1100, 8, 2, Some(1)),
    (0b11_0010, 6, 4, None),
    (0b11_0111, 6, 3, None),
    (0b11_1000, 6, 2, None),
];

const GFX12: &[Format] = &[
    (0b11_1101, 6, 1, None),
    (0b11_0101, 6, 10, Some(1)),
    (0b1100_1100, 8, 2, Some(1)),
    (0b11_0010, 6, 4, None),
    (0b11_1011, 6, 4, None),
    (0b11_0001, 6, 3, None),
];

/// Draws encodings of a chip.
pub struct Draw {
    random: Random,
    formats: Vec<Format>,
}

impl Draw {
    pub fn new(chip: &str) -> Draw {
        let own = match &chip[..5] {
            "gfx12" => GFX12,
            "gfx11" => GFX11,
            _ => GFX9,
        };
        let all = COMMON.iter().chain(own);
        let formats = all.flat_map(|f| std::iter::repeat_n(*f, f.2 as usize)).collect();
        Draw { random: Random::new(0x5eed), formats }
    }

    fn word(&mut self) -> u32 {
        (self.random.bits() >> 16) as u32
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.bits() as usize % n
    }

    /// Some bytes of a word, and zeros: what a form does not use must often be zero.
    fn sparse(&mut self) -> u32 {
        let (word, which) = (self.word(), self.word());
        (0..4).filter(|b| which >> b & 1 != 0).fold(0, |all, b| all | word & 0xff << (8 * b))
    }

    /// Adds an encoding.
    pub fn encoding(&mut self, code: &mut Vec<u8>) {
        let at = self.below(self.formats.len());
        let (fixed, bits, _, source) = self.formats[at];
        let first = if self.below(3) == 0 { self.sparse() } else { self.word() };
        let mut words = [fixed << (32 - bits) | first & u32::MAX >> bits, self.sparse(), self.sparse()];
        if self.below(3) == 0 {
            words[1] = self.word();
        }
        if self.below(3) == 0 {
            words[2] = self.word();
        }
        if let Some(word) = source {
            // DPP of 16 and of 8 lanes, SDWA or the other DPP of 8, a literal; or a register or constant.
            let special = [0xfa, 0xe9, 0xea, 0xf9, 0xff];
            if let Some(&field) = special.get(self.below(10)) {
                words[word as usize] = words[word as usize] & !0x1ff | field;
            }
        }
        const S_NOP: u32 = 0xbf80_0000;
        for word in words.into_iter().chain([S_NOP; 3]) {
            code.extend(word.to_le_bytes());
        }
    }
}
