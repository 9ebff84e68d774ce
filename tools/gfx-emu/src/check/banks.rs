//! Banks of LDS, and of registers that a pair of operations reads.

use crate::decode::{Reg, Valu};
use hrx_compiler::hsaco::Generation;

/// Banks of LDS, each 4 bytes wide.
const BANKS: usize = 32;

/// Cycles beyond the first that words take which are in the same bank. Lanes that access the same word share it.
pub fn conflicts(words: impl Iterator<Item = u32>) -> u64 {
    let mut first = [u32::MAX; BANKS];
    let mut counts = [0_u8; BANKS];
    let mut others: Vec<u32> = Vec::new();
    for word in words {
        let bank = word as usize % BANKS;
        if counts[bank] == 0 {
            (first[bank], counts[bank]) = (word, 1);
        } else if first[bank] != word && !others.contains(&word) {
            others.push(word);
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
