//! Banks of LDS, and of registers that a pair of operations reads.

use crate::decode::{Reg, Valu};
use hrx_compiler::hsaco::Generation;

/// Banks of LDS, each 4 bytes wide.
const BANKS: usize = 32;

/// The words of an access relative to each other, and the cycles that lanes take from each other: which banks they are does
/// not matter to that.
#[derive(Clone, Debug)]
pub struct Pattern {
    exec: u64,
    words: u32,
    relative: [u32; 64],
    conflicts: u64,
}

/// Patterns of instructions' last accesses, by their numbers.
#[derive(Debug, Default)]
pub struct Patterns(Vec<Option<Box<Pattern>>>);

impl Patterns {
    /// For so many instructions.
    pub fn new(count: usize) -> Patterns {
        Patterns(vec![None; count])
    }

    /// Cycles that lanes take from each other, by the first of their words each; lanes that are not active are not looked at,
    /// but should have the words of others.
    #[inline(always)]
    pub fn conflicts(&mut self, pc: usize, exec: u64, first: &[u32; 64], words: u32) -> u64 {
        let mut relative = [0; 64];
        for (to, word) in relative.iter_mut().zip(first) {
            *to = word.wrapping_sub(first[0]);
        }
        match &self.0[pc] {
            Some(last) if last.exec == exec && last.words == words && last.relative == relative => last.conflicts,
            _ => {
                let conflicts = all(exec, first, words);
                self.0[pc] = Some(Box::new(Pattern { exec, words, relative, conflicts }));
                conflicts
            }
        }
    }
}

/// Conflicts of all turns.
#[cold]
fn all(exec: u64, first: &[u32; 64], words: u32) -> u64 {
    let turn = turn(words as usize);
    let (mut now, mut count, mut sum) = ([0; BANKS], 0, 0);
    for lane in crate::run::each(exec) {
        now[count] = first[lane as usize];
        count += 1;
        if count == turn {
            sum += conflicts(&now[..count], words);
            count = 0;
        }
    }
    sum + conflicts(&now[..count], words)
}

/// Lanes that an access of so many words takes at once: so many that a word of each bank could be had.
const fn turn(words: usize) -> usize {
    if words < 2 { BANKS } else { BANKS / words }
}

/// Cycles beyond the first that lanes take in one turn, by the first of their words each: those that are in the same bank
/// come one after the other, but lanes that access the same word share it.
fn conflicts(first: &[u32], words: u32) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeSet;

    /// Against sets of words, bank by bank.
    #[test]
    fn conflicts_are_distinct_words_of_a_bank() {
        let mut random = Random::new(3);
        let mut patterns = Patterns::new(1);
        for round in 0..2000_u32 {
            let words = 1 + round % 4;
            let bits = random.bits();
            let (stride, base, mask) = ((bits & 63) as u32, (bits >> 8 & 255) as u32, (bits >> 16 & 31) as u32);
            let first: [u32; 64] = std::array::from_fn(|lane| base + (lane as u32 & mask) * stride);
            let exec = random.bits() | 1;
            let active: Vec<u32> = crate::run::each(exec).map(|lane| first[lane as usize]).collect();
            let turns = active.chunks(32 / words as usize);
            let expected: u64 = turns
                .map(|turn| {
                    let all: BTreeSet<u32> = turn.iter().flat_map(|&w| w..w + words).collect();
                    let most = (0..32).map(|bank| all.iter().filter(|&w| w % 32 == bank).count()).max();
                    most.unwrap_or(0).saturating_sub(1) as u64
                })
                .sum();
            for _ in 0..2 {
                assert_eq!(patterns.conflicts(0, exec, &first, words), expected, "{words} words, {stride} apart");
            }
        }
    }
}
