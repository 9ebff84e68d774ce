//! Cache lines that accesses of a wave touch.

use super::asm::Inst;
use super::flow::Flow;
use super::follow::{Access, Followed, Origin, Space, Sum, Symbols};
use super::mix::region_of;
use super::report::{GlobalAccess, LineCount, LineGroup, Touched};
use crate::hsaco::Kernel;
use std::collections::BTreeMap;

/// Accesses of memory whose addresses are known relative to each other, and what they share.
pub fn lines(
    insts: &[Inst],
    flow: &Flow,
    kernel: &Kernel<'_>,
    followed: &Followed,
    line: u32,
) -> (Vec<GlobalAccess>, Vec<LineGroup>) {
    let mut accesses = Vec::new();
    let mut groups: Vec<(usize, Vec<(&Access, &Sum)>)> = Vec::new();
    let known = followed.accesses.iter().filter(|a| a.space == Space::Global && a.lanes != 0);
    for (access, address) in known.filter_map(|a| Some((a, a.addresses.as_deref()?.first()?))) {
        let region = region_of(flow, access.at);
        let touched = touched(&[(access, address)], &followed.symbols, line);
        accesses.push(GlobalAccess {
            offset: insts[access.at].offset,
            region,
            class: access.class,
            resource: resource(kernel, address, &followed.symbols),
            bytes: access.bytes,
            lanes: access.lanes.count_ones(),
            stride: stride(address, access.lanes),
            distinct_bytes: touched.bytes,
            lines: touched.lines,
            least_lines: touched.bytes.div_ceil(line),
            step: step(flow, access, address, followed),
        });
        let same = |(r, all): &&mut (usize, Vec<(&Access, &Sum)>)| {
            *r == region && all[0].0.class == access.class && all[0].1.terms == address.terms
        };
        match groups.iter_mut().find(same) {
            Some((_, all)) => all.push((access, address)),
            None => groups.push((region, vec![(access, address)])),
        }
    }
    let groups = groups.into_iter().map(|(region, all)| {
        let touched = touched(&all, &followed.symbols, line);
        LineGroup {
            region,
            resource: resource(kernel, all[0].1, &followed.symbols),
            class: all[0].0.class,
            offsets: all.iter().map(|(a, _)| insts[a.at].offset).collect(),
            distinct_bytes: touched.bytes,
            lines: touched.lines,
            line_bytes: line,
            used: touched.used(line),
        }
    });
    (accesses, groups.collect())
}

/// What an address is in: an argument that is a pointer, or scratch memory.
pub fn resource(kernel: &Kernel<'_>, address: &Sum, symbols: &Symbols) -> Option<String> {
    let scratch = kernel.descriptor.field("enable_sgpr_private_segment_buffer") == Some(1);
    let arguments = kernel.metadata.as_ref().and_then(|m| m.args.as_deref()).unwrap_or_default();
    address.terms.iter().find_map(|(symbol, _)| match symbols.origin(*symbol) {
        Origin::Scalar(0) if scratch => Some("scratch".into()),
        Origin::Argument(offset) => {
            let at = arguments.iter().position(|a| a.offset == Some(u64::from(offset)))?;
            let argument = &arguments[at];
            argument.value_kind.as_deref().filter(|k| *k == "global_buffer")?;
            let name = argument.name.as_ref().map_or(String::new(), |n| format!(" ({n})"));
            Some(format!("argument {at}{name}"))
        }
        _ => None,
    })
}

/// Numbers of lanes in a mask.
pub fn lanes_of(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |lane| mask >> lane & 1 != 0)
}

/// Bytes from each lane to the next, where all are alike.
pub fn stride(address: &Sum, mask: u64) -> Option<i64> {
    let lanes: Vec<usize> = lanes_of(mask).collect();
    let apart = |a: usize, b: usize| {
        let difference = address.of_lane(b).sub(&address.of_lane(a)).as_number()?;
        Some(i64::from(difference as i32))
    };
    let mut steps = lanes.windows(2).map(|pair| apart(pair[0], pair[1]).filter(|_| pair[1] == pair[0] + 1));
    let first = steps.next()??;
    steps.all(|s| s == Some(first)).then_some(first)
}

/// How far an address moves from one iteration of its innermost loop to the next, if all of it that moves is known.
fn step(flow: &Flow, access: &Access, address: &Sum, followed: &Followed) -> Option<i64> {
    let l = &flow.loops[flow.loop_of(access.at)?];
    let inside = |block: usize| l.blocks.contains(&block);
    let mut all = 0_u32;
    for (symbol, _) in &address.terms {
        let origin = followed.symbols.origin(*symbol);
        let moves = match origin {
            Origin::Inst(at, _) if inside(flow.block_of(at)) => return None,
            Origin::ScalarAt(block, _) | Origin::VectorAt(block, _) if block == l.header => {
                followed.moves.get(&origin)?.step
            }
            Origin::ScalarAt(block, _) | Origin::VectorAt(block, _) if inside(block) => return None,
            _ => continue,
        };
        let times = address.of_symbol(*symbol)?;
        all = all.wrapping_add(times.wrapping_mul(moves));
    }
    Some(i64::from(all as i32))
}

/// Bytes, from and to.
type Range = (i64, i64);

/// Ranges of bytes near a start, whose place in a line is kept.
pub struct Ranges {
    start: u32,
    line: u32,
    all: Vec<Range>,
}

impl Ranges {
    /// None yet.
    pub fn new(start: u32, line: u32) -> Ranges {
        Ranges { start, line, all: Vec::new() }
    }

    /// One more, by the known part of its address.
    pub fn add(&mut self, address: u32, bytes: u32) {
        let first = i64::from(self.start % self.line) + i64::from(address.wrapping_sub(self.start) as i32);
        self.all.push((first, first + i64::from(bytes)));
    }

    /// What they touch, if so many low bits of the address's unknown part are zero.
    pub fn touched(self, zeros: u32) -> Touched {
        let line = self.line;
        let ranges = merged(self.all);
        let unit = 1_u32.checked_shl(zeros).map_or(line, |n| n.min(line));
        let counts = (0..line).step_by(unit as usize).map(|base| lines_of(&ranges, base, line));
        let (least, most) = counts.fold((u32::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        let bytes = ranges.iter().map(|(from, to)| (to - from) as u32).sum();
        Touched { bytes, lines: LineCount { least, most } }
    }
}

/// What accesses whose addresses have the same unknown part touch. Lanes whose unknown parts differ are apart from each
/// other by what is not known: they may share lines or not.
fn touched(accesses: &[(&Access, &Sum)], symbols: &Symbols, line: u32) -> Touched {
    // By the multiples of symbols that lanes have: how many low bits of that part are zero, and the bytes.
    let mut parts: BTreeMap<Vec<u32>, (u32, Ranges)> = BTreeMap::new();
    let start = accesses[0].1.lanes.at(0);
    for (access, address) in accesses {
        for lane in lanes_of(access.lanes) {
            let own = address.of_lane(lane);
            let multiples = address.terms.iter().map(|(_, times)| times.at(lane)).collect();
            let part = parts.entry(multiples);
            let (_, ranges) = part.or_insert_with(|| (symbols.zeros(&own.terms), Ranges::new(start, line)));
            ranges.add(own.lanes.at(0), access.bytes);
        }
    }
    let mut all = Touched { bytes: 0, lines: LineCount { least: 0, most: 0 } };
    for part in parts.into_values().map(|(zeros, ranges)| ranges.touched(zeros)) {
        let (lines, more) = (all.lines, part.lines);
        all.lines = LineCount { least: lines.least.max(more.least), most: lines.most + more.most };
        all.bytes += part.bytes;
    }
    all
}

/// Ranges in order, those that meet joined.
fn merged(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut all: Vec<Range> = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    all
}

/// Lines that ranges are in, if they start so far from the start of a line.
fn lines_of(ranges: &[Range], base: u32, line: u32) -> u32 {
    let line_of = |byte: i64| (byte + i64::from(base)).div_euclid(i64::from(line));
    let (mut count, mut next) = (0, i64::MIN);
    for &(from, to) in ranges {
        let (first, last) = (line_of(from).max(next), line_of(to - 1));
        count += (last + 1 - first).max(0);
        next = next.max(last + 1);
    }
    count as u32
}
