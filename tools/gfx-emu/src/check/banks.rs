//! Banks of LDS, and of registers that a pair of operations reads.

use crate::decode::{Reg, Valu};
use hrx_compiler::hsaco::Generation;

/// Cycles beyond the least that lanes take whose words are in the same bank, with so many banks of 4 bytes. Lanes that
/// access the same word share it.
pub fn conflicts(words: &mut Vec<u32>, banks: u32) -> u64 {
    words.sort_unstable();
    words.dedup();
    let mut counts = [0_u32; 64];
    for word in words.iter() {
        counts[(word % banks.min(64)) as usize] += 1;
    }
    let least = (words.len() as u32).div_ceil(banks);
    u64::from(counts.iter().max().copied().unwrap_or(0).saturating_sub(least.max(1)))
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
