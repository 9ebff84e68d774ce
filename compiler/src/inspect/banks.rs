//! Conflicts of LDS banks.
//!
//! Each bank gives or takes one word of 4 bytes a cycle; lanes that read the same word share it. Which lanes are served
//! together is documented for some accesses:
//!
//! * words: 32 lanes at a time (AMD APP SDK OpenCL Optimization Guide, "Local Memory (LDS) Optimizations");
//! * 16 bytes on chips of 32 banks and waves of 64: eight lanes at a time, of writes in order, of reads four and four from
//!   two halves of 32 lanes (<https://rocm.docs.amd.com/projects/composable_kernel>, "Understanding AMD GPU LDS and Bank
//!   Conflicts"; <https://rocm.blogs.amd.com/software-tools-optimization/lds-bank-conflict/README.html>).
//!
//! Of all others the busiest bank says how long they take at least.

use super::asm::Inst;
use super::class::Class;
use super::flow::Flow;
use super::follow::{Access, Followed, Lanes, Space};
use super::lines::{lanes_of, stride};
use super::mix::region_of;
use super::report::LdsAccess;
use std::collections::BTreeSet;

/// Bytes of a bank's word.
const WORD: u32 = 4;

/// Lanes that are served together, where that is documented.
fn phases(access: &Access, banks: u32, wave: u32) -> Option<Vec<Vec<usize>>> {
    let addresses = access.addresses.as_ref().map_or(0, Vec::len);
    let lanes = wave as usize;
    match (access.bytes, access.class) {
        _ if addresses != 1 => None,
        (..=4, Class::LdsRead | Class::LdsWrite) => {
            Some((0..lanes).step_by(32).map(|first| (first..first + 32).collect()).collect())
        }
        (16, Class::LdsWrite) if banks == 32 && wave == 64 => {
            Some((0..lanes).step_by(8).map(|first| (first..first + 8).collect()).collect())
        }
        (16, Class::LdsRead) if banks == 32 && wave == 64 => {
            let pairs = [(0, 20), (4, 16), (8, 28), (12, 24)];
            let four = |first: usize| first..first + 4;
            let groups = [0, 32].into_iter().flat_map(|half| pairs.map(|(a, b)| (half + a, half + b)));
            Some(groups.map(|(a, b)| four(a).chain(four(b)).collect()).collect())
        }
        _ => None,
    }
}

/// Accesses of LDS by lanes whose addresses are known relative to each other.
pub fn banks(insts: &[Inst], flow: &Flow, followed: &Followed, banks: u32, wave: u32) -> Vec<LdsAccess> {
    let known = followed.accesses.iter().filter(|a| a.space == Space::Lds && a.lanes != 0);
    known.filter_map(|access| of_access(insts, flow, access, banks, wave)).collect()
}

fn of_access(insts: &[Inst], flow: &Flow, access: &Access, banks: u32, wave: u32) -> Option<LdsAccess> {
    let addresses = access.addresses.as_deref()?;
    // Unknown parts that all lanes share turn the banks by as much, and change nothing.
    // Where lane 0 is in its word is known, or taken as the word's start.
    let mut start = addresses.first()?.of_lane(0);
    start.lanes = Lanes::All(start.lanes.at(0) / WORD * WORD);
    let words = |lane: usize| -> Option<BTreeSet<u32>> {
        let mut words = BTreeSet::new();
        for address in addresses {
            let from = address.of_lane(lane).sub(&start).as_number()?;
            words.extend((0..access.bytes).map(|byte| from.wrapping_add(byte) / WORD));
        }
        Some(words)
    };
    let of_lanes = |lanes: &[usize]| -> Option<BTreeSet<u32>> {
        let all = lanes.iter().filter(|&&lane| access.lanes >> lane & 1 != 0).map(|&lane| words(lane));
        all.collect::<Option<Vec<_>>>().map(|sets| sets.into_iter().flatten().collect())
    };
    let busiest = |words: &BTreeSet<u32>| {
        let mut load = vec![0_u32; banks as usize];
        words.iter().for_each(|w| load[(w % banks) as usize] += 1);
        load.into_iter().max().unwrap_or(0)
    };
    let documented = phases(access, banks, wave);
    let at_least = documented.is_none();
    let phases = documented.unwrap_or_else(|| vec![(0..wave as usize).collect()]);
    let mut sum = LdsAccess {
        offset: insts[access.at].offset,
        region: region_of(flow, access.at),
        class: access.class,
        bytes: access.bytes * addresses.len() as u32,
        stride: addresses.first().filter(|_| addresses.len() == 1).and_then(|a| stride(a, access.lanes)),
        cycles: 0,
        at_least,
        best_cycles: 0,
    };
    debug_assert!(lanes_of(access.lanes).all(|lane| lane < wave as usize));
    for lanes in &phases {
        let words = of_lanes(lanes)?;
        sum.cycles += busiest(&words);
        sum.best_cycles += (words.len() as u32).div_ceil(banks);
    }
    Some(sum)
}
