//! What the waves of a workgroup read and write together, over all iterations, and what workgroups beside one another do.
//!
//! A wave's part of a row seldom fills its first and last line, but what one wave leaves of a line another one uses, in
//! the same iteration or in the next. So lines are counted once for all of them: the number of the wave and that of the
//! iteration are symbols of the addresses, which take all their values here. That holds while the caches hold the lines
//! until their last use; what does not fit in them is fetched again.

use super::asm::special;
use super::class::Class;
use super::flow::Flow;
use super::follow::{Access, Followed, Lanes, Move, Origin, Space, Sum, Symbol};
use super::lines::{Ranges, lanes_of, resource};
use super::report::{Reach, Touched, Workgroup};
use crate::hsaco::{Generation, Kernel};

/// Workgroups that are looked at beside one another.
const BESIDE: u32 = 16;

/// The most addresses that are looked at for one pointer.
const MOST: u64 = 1 << 22;

/// What a symbol is multiplied by in all lanes that take part, if that is the same.
fn factor(access: &Access, times: &Lanes) -> Option<u32> {
    let mut of_lanes = lanes_of(access.lanes).map(|lane| times.at(lane));
    let first = of_lanes.next()?;
    of_lanes.all(|n| n == first).then_some(first)
}

/// What is known of the kernel.
pub struct Reaching<'a> {
    /// Its flow.
    pub flow: &'a Flow,
    /// The kernel.
    pub kernel: &'a Kernel<'a>,
    /// What was found of its addresses.
    pub followed: &'a Followed,
    /// Its workgroups.
    pub workgroup: &'a Workgroup,
    /// Bytes of a line.
    pub line: u32,
    /// The generation of its processor.
    pub generation: Generation,
}

/// A symbol that takes the values 0, `times`, 2 `times`, and so on.
struct Count {
    values: u32,
    step: u32,
}

/// An access with what its address counts by.
struct Counted<'a> {
    access: &'a Access,
    /// Its address, without what loops add.
    address: Sum,
    counts: Vec<Count>,
    /// What the number of the workgroup is multiplied by.
    of_group: u32,
    /// What is left of the unknown part: the same for all waves and iterations.
    rest: Vec<(Symbol, u32)>,
}

impl Reaching<'_> {
    /// What is reached through each pointer.
    pub fn reaches(&self) -> Vec<Reach> {
        let mut all: Vec<(String, Class, Vec<Counted<'_>>)> = Vec::new();
        for access in self.followed.accesses.iter().filter(|a| a.space == Space::Global && a.lanes != 0) {
            // What can't be followed may be of any pointer.
            let Some([address]) = access.addresses.as_deref() else { return Vec::new() };
            let Some(resource) = resource(self.kernel, address, &self.followed.symbols) else { continue };
            let Some(counted) = self.counted(access, address) else { continue };
            // What is apart by what is not known is not counted together.
            let joins = |(r, c, list): &&mut (String, Class, Vec<Counted<'_>>)| {
                let (of, unknown) = (&list[0], (&counted.rest, counted.of_group));
                (r.as_str(), *c) == (resource.as_str(), access.class) && (&of.rest, of.of_group) == unknown
            };
            match all.iter_mut().find(joins) {
                Some((.., list)) => list.push(counted),
                None => all.push((resource, access.class, vec![counted])),
            }
        }
        let reach = |(resource, class, list): (String, Class, Vec<Counted<'_>>)| {
            let first = &list[0];
            let workgroup = self.touched(&list, 1)?;
            let beside = if first.of_group == 0 { None } else { self.touched(&list, BESIDE).map(|t| (BESIDE, t)) };
            Some(Reach { resource, class, workgroup, line_bytes: self.line, beside })
        };
        all.into_iter().filter_map(reach).collect()
    }

    /// Parts an address into what counts and what does not. None if it moves in a way that is not known.
    fn counted<'a>(&self, access: &'a Access, address: &Sum) -> Option<Counted<'a>> {
        let mut found = Counted { access, address: address.clone(), counts: Vec::new(), of_group: 0, rest: Vec::new() };
        // By loop: several of its symbols move together.
        let mut moves: Vec<(usize, u32)> = Vec::new();
        // What a loop starts from may move in an outer loop.
        while let Some((symbol, times, of)) = self.moving(access, &found.address)? {
            let Move { first, step } = self.followed.moves.get(&self.followed.symbols.origin(symbol))?;
            let step = times.wrapping_mul(*step);
            match moves.iter_mut().find(|(l, _)| *l == of) {
                Some((_, sum)) => *sum = sum.wrapping_add(step),
                None => moves.push((of, step)),
            }
            let own = found.address.of(symbol);
            found.address = found.address.sub(&own);
            match first {
                Some(first) => found.address = found.address.add(&first.scale(&Lanes::All(times))),
                // Where it starts is the same for all.
                None => found.rest.push((symbol, times)),
            }
        }
        for (of, step) in moves {
            let trips = self.followed.trips[of].and_then(|n| u32::try_from(n).ok())?;
            found.counts.push(Count { values: trips, step });
        }
        for (symbol, times) in &found.address.terms {
            let times = factor(access, times)?;
            match self.followed.symbols.origin(*symbol) {
                _ if times == 0 => {}
                Origin::Wave(0) => found.counts.push(Count { values: self.workgroup.waves, step: times }),
                // The numbers of waves in y and z count apart.
                Origin::Wave(_) => return None,
                Origin::Scalar(register) if Some(register) == self.group_register() => found.of_group = times,
                Origin::Inst(at, _) if self.flow.loop_of(at).is_some() => return None,
                _ => found.rest.push((*symbol, times)),
            }
        }
        Some(found)
    }

    /// A symbol of an address that moves in a loop, with what it is multiplied by, and the loop. The outer None says that
    /// lanes multiply it by different numbers, or that it is of no loop.
    fn moving(&self, access: &Access, address: &Sum) -> Option<Option<(Symbol, u32, usize)>> {
        for (symbol, times) in &address.terms {
            if let Origin::ScalarAt(block, _) | Origin::VectorAt(block, _) = self.followed.symbols.origin(*symbol) {
                let times = factor(access, times)?;
                let of = self.flow.loops.iter().position(|l| l.header == block)?;
                return Some(Some((*symbol, times, of)));
            }
        }
        Some(None)
    }

    /// The scalar register with the workgroup's number along x. From LLVM's "User Guide for AMDGPU Backend", section
    /// "Initial Kernel Execution State".
    fn group_register(&self) -> Option<u16> {
        let descriptor = &self.kernel.descriptor;
        if matches!(self.generation, Generation::Gfx12 | Generation::Gfx125) {
            return Some(special::TTMP0 + 9);
        }
        descriptor.field("enable_sgpr_workgroup_id_x").filter(|&n| n == 1)?;
        descriptor.field("user_sgpr_count").map(|n| n as u16)
    }

    /// What accesses touch in so many workgroups beside one another.
    fn touched(&self, list: &[Counted<'_>], groups: u32) -> Option<Touched> {
        let addresses = |c: &Counted<'_>| {
            let of_counts: u64 = c.counts.iter().map(|c| u64::from(c.values)).product();
            of_counts * u64::from(c.access.lanes.count_ones()) * u64::from(groups)
        };
        if list.iter().map(addresses).sum::<u64>() > MOST {
            return None;
        }
        let mut ranges = Ranges::new(list[0].address.lanes.at(0), self.line);
        for c in list {
            let group = Count { values: groups, step: c.of_group };
            let counts: Vec<&Count> = c.counts.iter().chain([&group]).collect();
            let mut offsets = vec![0_u32];
            for count in counts {
                offsets = offsets
                    .iter()
                    .flat_map(|&o| (0..count.values).map(move |n| o.wrapping_add(n.wrapping_mul(count.step))))
                    .collect();
            }
            for lane in lanes_of(c.access.lanes) {
                let own = c.address.lanes.at(lane);
                offsets.iter().for_each(|o| ranges.add(own.wrapping_add(*o), c.access.bytes));
            }
        }
        // The first workgroup of those that are looked at may be any.
        let first = &list[0];
        let group = first.of_group.trailing_zeros();
        let rest: Vec<_> = first.rest.iter().map(|(s, times)| (*s, Lanes::All(*times))).collect();
        Some(ranges.touched(self.followed.symbols.zeros(&rest).min(group)))
    }
}
