//! Vector operations in the form that most have, packed so that running them needs few decisions.
//!
//! All operands are rows of a wave's register file: after vector registers and accumulators, it has rows for scalar
//! operands, written before the operation, and rows for the code's constants, written once.

use super::inst::{ACCUMULATORS, Body, Reg, VSrc};
use super::{Code, Inst};
use crate::exec::valu::OPERANDS;

/// The first row after registers and accumulators.
pub const SPREAD: u16 = 2 * ACCUMULATORS;
/// The first row of constants. The first one is zero, which words that an operation does not have read.
pub const CONSTANTS: u16 = SPREAD + 2 * OPERANDS as u16;

/// A vector operation whose operands are taken as they are, and whose result goes to whole registers.
#[derive(Clone, Debug)]
pub struct Simple {
    /// The row of each word of the sources, two a source.
    pub rows: [u16; OPERANDS],
    pub dst: u16,
    /// Registers of the result.
    pub words: u8,
    /// Whether sources are of one word each.
    pub narrow: bool,
    /// Whether it needs a mask, or another rule of what is unknown.
    pub needs_mask: bool,
    /// A scalar register and the row that it is brought to, and more of them.
    pub scalar: Option<(u16, u16)>,
    pub scalars: Box<[(u16, u16)]>,
    /// Constants and their places among the operands.
    constants: Box<[(u8, u32)]>,
}

/// Parts of the names of operations that depend on the mode or on lanes' numbers.
const DEPENDENT: &[&str] = &["max", "min", "med3", "mbcnt", "_fp8_", "_bf8_"];

/// Whether an operation asks for more than what is fixed, as what the mode says or which lanes they are.
pub fn needs_env(name: &str) -> bool {
    DEPENDENT.iter().any(|part| name.contains(part))
}

impl Simple {
    /// Packs sources that are plain; none if there are too many.
    pub fn new(dst: u16, words: u8, src: &[VSrc], needs_mask: bool) -> Option<Simple> {
        let (mut scalars, mut constants) = (Vec::new(), Vec::new());
        let mut rows = [CONSTANTS; OPERANDS];
        for (at, src) in src.iter().enumerate() {
            for word in 0..usize::from(src.words) {
                let place = 2 * at + word;
                let row = rows.get_mut(place)?;
                match src.reg {
                    Reg::V(first) => *row = first + word as u16,
                    Reg::S(first) => {
                        *row = SPREAD + place as u16;
                        scalars.push((first + word as u16, *row));
                    }
                    Reg::K => constants.push((place as u8, src.bits[word])),
                }
            }
        }
        let scalar = scalars.pop();
        let narrow = src.iter().all(|s| s.words < 2);
        Some(Simple {
            rows,
            dst,
            words,
            narrow,
            needs_mask,
            scalar,
            scalars: scalars.into(),
            constants: constants.into(),
        })
    }

    /// Gives constants rows; whether there are enough.
    fn place(&mut self, all: &mut Vec<u32>) -> bool {
        self.constants.iter().all(|&(place, bits)| {
            let row = constant(all, bits);
            self.rows[place as usize] = row.unwrap_or(CONSTANTS);
            row.is_some()
        })
    }

    /// Rows of the second of a pair of operations are not those of the first.
    fn second(&mut self) {
        for (_, row) in self.scalar.iter_mut().chain(&mut self.scalars) {
            *row += OPERANDS as u16;
        }
        for row in &mut self.rows {
            if (SPREAD..SPREAD + OPERANDS as u16).contains(row) {
                *row += OPERANDS as u16;
            }
        }
    }
}

/// Most constants of a code object that have rows; operations with others run as if they were no simple ones.
const MOST: usize = 4096;

/// The row of a constant, which is a new one if need be; none if there are too many.
pub fn constant(all: &mut Vec<u32>, bits: u32) -> Option<u16> {
    let known = all.iter().position(|&b| b == bits);
    if known.is_none() && all.len() < MOST {
        all.push(bits);
        return Some(CONSTANTS + all.len() as u16 - 1);
    }
    known.map(|at| CONSTANTS + at as u16)
}

/// Gives constants of all instructions their rows.
pub fn place(insts: &mut [Inst]) -> Vec<u32> {
    let mut all = vec![0];
    for inst in insts {
        let ops = match &mut inst.body {
            Body::Valu(v) => std::slice::from_mut(&mut **v),
            Body::Pair(pair) => &mut pair.ops[..],
            _ => continue,
        };
        for (at, v) in ops.iter_mut().enumerate() {
            let Some(simple) = &mut v.simple else { continue };
            if at == 1 {
                simple.second();
            }
            if !simple.place(&mut all) {
                v.simple = None;
            }
        }
    }
    all
}

impl Code {
    /// Rows of a wave's register file.
    pub fn rows(&self) -> usize {
        CONSTANTS as usize + self.constants.len()
    }
}
