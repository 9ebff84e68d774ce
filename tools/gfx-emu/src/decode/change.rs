//! What instructions do to a source's bits, where it is the same few steps for all bits of a register: a part is taken, bits are
//! cleared and others are turned over.

use super::inst::{Ty, VSrc};

/// Steps from a register to an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    shift: u8,
    and: u32,
    xor: u32,
}

const SIGN: u32 = 1 << 31;
const HALF_SIGN: u32 = 1 << 15;

impl Change {
    /// None.
    pub const NONE: Change = Change { shift: 0, and: u32::MAX, xor: 0 };

    /// The operand.
    #[inline(always)]
    pub fn of(self, bits: u32) -> u32 {
        bits >> (self.shift & 31) & self.and ^ self.xor
    }

    /// Of one register of a source; none if there is more to it.
    pub fn new(src: &VSrc, word: usize) -> Option<Change> {
        if src.plain {
            return Some(Change::NONE);
        }
        if src.select.is_some() || src.sext {
            return None;
        }
        let signed = |shift: u8, mask: u32, sign: u32| Change {
            shift,
            and: if src.abs { mask & !sign } else { mask },
            xor: if src.neg { sign } else { 0 },
        };
        let when = |negated: bool, sign: u32| if negated { sign } else { 0 };
        match src.ty {
            Ty::P | Ty::PH | Ty::PB if src.high == [false, true] => {
                let xor = when(src.neg_half[0], HALF_SIGN) | when(src.neg_half[1], SIGN);
                Some(Change { xor, ..Change::NONE })
            }
            Ty::PW | Ty::PF if src.high == [false, true] => {
                Some(Change { xor: when(src.neg_half[word], SIGN), ..Change::NONE })
            }
            Ty::P | Ty::PH | Ty::PB | Ty::PW | Ty::PF => None,
            Ty::MX if src.neg_half[1] => None,
            Ty::H | Ty::B | Ty::U16 | Ty::I16 => {
                let shift = if src.high[0] { 16 } else { 0 };
                let is_fraction = matches!(src.ty, Ty::H | Ty::B);
                Some(signed(shift, 0xffff, if is_fraction { HALF_SIGN } else { 0 }))
            }
            Ty::FD if word == 0 => Some(Change::NONE),
            Ty::I | Ty::D | Ty::Q if !src.abs => Some(Change::NONE),
            _ => Some(signed(0, u32::MAX, SIGN)),
        }
    }
}
