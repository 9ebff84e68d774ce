//! Banks of LDS, and of registers that a pair of operations reads.

use crate::decode::{Reg, Valu};
use hrx_compiler::hsaco::Generation;

/// Banks of LDS, each 4 bytes wide.
const BANKS: usize = 32;

/// Lanes that an access of so many words takes at once: so many that a word of each bank could be had.
pub const fn turn(words: usize) -> usize {
    if words < 2 { BANKS } else { BANKS / words }
}

/// Cycles beyond the first that lanes take in one turn, by the first of their words each: those that are in the same bank
/// come one after the other, but lanes that access the same word share it.
#[inline]
pub fn conflicts(first: &[u32], words: u32) -> u64 {
    let (least, most) = first.iter().fold((u32::MAX, 0), |(least, most), &w| (least.min(w), most.max(w)));
    if first.is_empty() || most - least + words <= BANKS as u32 {
        return 0;
    }
    // What is aligned to its size takes banks together.
    let together = words.is_power_of_two() && first.iter().all(|w| w.is_multiple_of(words));
    if together {
        most_distinct(first.iter().map(|w| w / words), BANKS / words as usize)
    } else {
        most_distinct(first.iter().flat_map(|&w| w..w + words), BANKS)
    }
}

/// The most distinct units of one bank, beyond the first. There are no more units than words of all banks.
fn most_distinct(units: impl Iterator<Item = u32>, banks: usize) -> u64 {
    let mut first = [u32::MAX; BANKS];
    let mut counts = [0_u8; BANKS];
    let (mut others, mut count) = ([0; BANKS], 0);
    for unit in units {
        let bank = unit as usize % banks;
        if counts[bank] == 0 {
            (first[bank], counts[bank]) = (unit, 1);
        } else if first[bank] != unit && !others[..count].contains(&unit) {
            others[count] = unit;
            count += 1;
            counts[bank] += 1;
        }
    }
    u64::from(counts.iter().max().copied().unwrap_or(0).saturating_sub(1))
}

/// What of a pair the encoding does not allow: results of one parity, or sources of the same bank (number modulo 4) that
/// are not the same register. The third source of both comes from banks of two.
pub fn pair(x: &Valu, y: &Valu, generation: Generation) -> Option<String> {
    let number = |reg: Reg| if let Reg::V(n) = reg { Some(n) } else { None };
    if let (Some(a), Some(b)) = (number(x.dst), number(y.dst))
        && a % 2 == b % 2
    {
        return Some(format!("results v{a} and v{b} are both of one parity"));
    }
    // gfx12 reads the sources of two moves by different ways.
    let moves = generation >= Generation::Gfx12 && x.src.len() == 1 && y.src.len() == 1;
    for at in 0..if moves { 0 } else { 2 } {
        let source = |v: &Valu| v.src.get(at).and_then(|s| number(s.reg));
        if let (Some(a), Some(b)) = (source(x), source(y))
            && a != b
            && a % 4 == b % 4
        {
            return Some(format!("sources v{a} and v{b} are of one bank"));
        }
    }
    None
}
