//! Waits for memory: which counters, what they count, and how far back the last operation is that has to be done.
//!
//! Counters are described in LLVM's "User Guide for AMDGPU Backend" (section "Memory Model") and in AMD's ISA documents.

use super::asm::{Inst, Op, Operand};
use super::class::{Class, class};
use super::flow::Flow;
use super::mix::region_of;
use super::report::{Wait, WaitCounter};
use crate::hsaco::Generation;

/// A counter by LLVM's name.
struct Counter {
    name: &'static str,
    counts: &'static str,
    /// Whether operations count it down in the order of their issue.
    in_order: bool,
}

const fn counter(name: &'static str, counts: &'static str, in_order: bool) -> Counter {
    Counter { name, counts, in_order }
}

/// All counters. `vmcnt` and `lgkmcnt` are those of gfx11 and older, `loadcnt` to `kmcnt` of gfx12.
const COUNTERS: &[Counter] = &[
    counter("vmcnt", "vector memory", true),
    counter("vscnt", "vector stores", true),
    counter("lgkmcnt", "LDS and scalar loads", false),
    counter("expcnt", "exports", true),
    counter("loadcnt", "vector loads", true),
    counter("storecnt", "vector stores", true),
    counter("samplecnt", "image samples", true),
    counter("bvhcnt", "ray intersections", true),
    counter("dscnt", "LDS", true),
    counter("kmcnt", "scalar loads", false),
];

/// Which counters an instruction has counted up until it is done.
fn counted(inst: &Inst, generation: Generation) -> Vec<&'static str> {
    let name = inst.name();
    let kind = class(name);
    let flat = name.starts_with("flat_");
    let returns = || {
        inst.ops[0].has("glc") || inst.ops[0].has("sc0") || inst.ops[0].modifiers.iter().any(|m| m.contains("RETURN"))
    };
    let load =
        matches!(kind, Class::VmemLoad | Class::ScratchLoad | Class::Image) || kind == Class::VmemAtomic && returns();
    let store = matches!(kind, Class::VmemStore | Class::ScratchStore) || kind == Class::VmemAtomic && !load;
    let lds = kind.is_lds() || kind == Class::LdsLanes;
    let new = generation >= Generation::Gfx12;
    let mut counters = Vec::new();
    if load {
        let sample = kind == Class::Image && name.starts_with("image_sample");
        counters.push(if !new {
            "vmcnt"
        } else if sample {
            "samplecnt"
        } else {
            "loadcnt"
        });
    }
    if store {
        counters.push(match generation {
            _ if new => "storecnt",
            Generation::Gfx10 | Generation::Gfx11 => "vscnt",
            _ => "vmcnt",
        });
    }
    if lds || flat {
        counters.push(if new { "dscnt" } else { "lgkmcnt" });
    }
    if kind == Class::Smem || name.starts_with("s_sendmsg") {
        counters.push(if new { "kmcnt" } else { "lgkmcnt" });
    }
    counters
}

/// The counters that an instruction waits for, with how many may remain.
fn waited(op: &Op) -> Vec<(&'static str, u32)> {
    let known = |name: &str| COUNTERS.iter().find(|c| c.name == name).map(|c| c.name);
    let last = op.operands.last().and_then(|o| if let Operand::Number(n) = o { Some(*n) } else { None });
    match op.name.as_str() {
        "s_waitcnt" => {
            let words = op.operands.iter().filter_map(|o| if let Operand::Other(w) = o { Some(w) } else { None });
            let pair = |word: &String| {
                let (name, left) = word.trim_end_matches(')').split_once('(')?;
                Some((known(name)?, left.parse().ok()?))
            };
            words.chain(&op.modifiers).filter_map(pair).collect()
        }
        // Each in six bits of the same number.
        "s_wait_loadcnt_dscnt" => last.map_or(vec![], |n| vec![("loadcnt", n >> 8 & 63), ("dscnt", n & 63)]),
        "s_wait_storecnt_dscnt" => last.map_or(vec![], |n| vec![("storecnt", n >> 8 & 63), ("dscnt", n & 63)]),
        name => {
            let counter = name.strip_prefix("s_waitcnt_").or_else(|| name.strip_prefix("s_wait_"));
            counter.and_then(known).zip(last).into_iter().collect()
        }
    }
}

/// All waits for memory.
pub fn waits(insts: &[Inst], flow: &Flow, generation: Generation) -> Vec<Wait> {
    let mut found = Vec::new();
    for block in &flow.blocks {
        // What was issued in the block, for each counter.
        let mut issued: Vec<Vec<usize>> = vec![Vec::new(); COUNTERS.len()];
        for at in block.first..block.end {
            let inst = &insts[at];
            for name in counted(inst, generation) {
                let counter = COUNTERS.iter().position(|c| c.name == name);
                issued[counter.unwrap_or(0)].push(at);
            }
            let waits = waited(&inst.ops[0]);
            if waits.is_empty() {
                continue;
            }
            let counters = waits.into_iter().map(|(name, left)| {
                let at_counter = COUNTERS.iter().position(|c| c.name == name).unwrap_or(0);
                let counter = &COUNTERS[at_counter];
                let done = issued[at_counter].len().checked_sub(left as usize + 1);
                // LDS answers in order, scalar loads don't.
                let in_order =
                    counter.in_order || issued[at_counter].iter().all(|&i| class(insts[i].name()) != Class::Smem);
                let newest = done.filter(|_| in_order || left == 0).map(|i| issued[at_counter][i]);
                WaitCounter {
                    name: name.into(),
                    counts: counts(counter, generation).into(),
                    left,
                    newest: newest.map(|i| insts[i].offset),
                    between: newest.map(|i| (at - i - 1) as u32),
                }
            });
            let counters = counters.collect();
            found.push(Wait { offset: inst.offset, region: region_of(flow, at), counters });
        }
    }
    found
}

/// What a counter counts on chips of that generation.
fn counts(counter: &Counter, generation: Generation) -> &'static str {
    let stores_apart = matches!(generation, Generation::Gfx10 | Generation::Gfx11);
    if counter.name == "vmcnt" && stores_apart { "vector loads" } else { counter.counts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: &[&str], generation: Generation) -> Vec<(usize, String, u32, Option<usize>, Option<u32>)> {
        let insts: Vec<Inst> = lines.iter().enumerate().map(|(i, text)| Inst::parse(4 * i, 4, text)).collect();
        let waits = waits(&insts, &Flow::new(&insts), generation);
        let flat = waits.into_iter().flat_map(|w| {
            w.counters.into_iter().map(move |c| {
                (w.offset / 4, format!("{} {}", c.name, c.counts), c.left, c.newest.map(|n| n / 4), c.between)
            })
        });
        flat.collect()
    }

    #[test]
    fn the_last_operation_that_has_to_be_done_is_found() {
        let lines = [
            "global_load_b32 v0, v[2:3], off",
            "global_load_b32 v1, v[2:3], off",
            "v_add_f32_e32 v2, v2, v2",
            "s_waitcnt vmcnt(1)",
            "global_store_b32 v[2:3], v0, off",
            "s_waitcnt vmcnt(0) lgkmcnt(0)",
            "s_waitcnt_vscnt null, 0x0",
        ];
        let loads = "vmcnt vector loads".to_string();
        assert_eq!(
            found(&lines, Generation::Gfx11),
            [
                (3, loads.clone(), 1, Some(0), Some(2)),
                (5, loads, 0, Some(1), Some(3)),
                (5, "lgkmcnt LDS and scalar loads".into(), 0, None, None),
                (6, "vscnt vector stores".into(), 0, Some(4), Some(1)),
            ]
        );
        // Before gfx10 stores are counted with the loads.
        assert_eq!(found(&lines, Generation::Gfx9)[1], (5, "vmcnt vector memory".into(), 0, Some(4), Some(0)));
    }

    #[test]
    fn counters_of_gfx12() {
        let lines = [
            "s_load_b64 s[0:1], s[2:3], 0x0",
            "ds_load_b32 v0, v1",
            "global_load_b32 v0, v[2:3], off",
            "s_wait_kmcnt 0x0",
            "s_wait_loadcnt_dscnt 0x100",
            "s_wait_alu depctr_va_vdst(0)",
        ];
        assert_eq!(
            found(&lines, Generation::Gfx12),
            [
                (3, "kmcnt scalar loads".into(), 0, Some(0), Some(2)),
                (4, "loadcnt vector loads".into(), 1, None, None),
                (4, "dscnt LDS".into(), 0, Some(1), Some(2)),
            ]
        );
    }
}
