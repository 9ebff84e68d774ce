//! Reports as text.

use super::class::Class;
use super::report::{Inspection, KernelReport, Moved, Region, Wait};
use std::fmt;

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generation = self.generation.as_ref().map_or(String::new(), |g| format!(", {g}"));
        writeln!(f, "{}{generation}, code object version {}", self.target, self.code_object_version)?;
        self.kernels.iter().try_for_each(|k| write!(f, "\n{k}"))
    }
}

impl fmt::Display for KernelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {}", self.name)?;
        for (label, value) in facts(self) {
            writeln!(f, "  {label:15} {value}")?;
        }
        mix(f, &self.regions)?;
        waits(f, self)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  note: {note}"))
    }
}

/// What a kernel is and takes: labels with values.
pub fn facts(k: &KernelReport) -> Vec<(&'static str, String)> {
    let mut rows = vec![("code", format!("{} bytes", k.code_bytes)), ("wave", format!("{} lanes", k.wave))];
    if let Some(w) = &k.workgroup {
        let most = if w.at_most { "at most " } else { "" };
        let size = w.size.map_or(String::new(), |[x, y, z]| format!(" ({x} x {y} x {z})"));
        rows.push(("workgroup", format!("{most}{} work items{size}, {} waves", w.work_items, w.waves)));
    }
    let r = &k.resources;
    if let Some(n) = r.vgprs {
        let allocated = r.vgprs_allocated.map_or(String::new(), |n| format!(", {n} allocated"));
        let agprs = r.agprs.filter(|&n| n > 0).map_or(String::new(), |n| format!(", {n} accumulators"));
        rows.push(("VGPRs", format!("{n}{allocated}{agprs}{}", spills(r.vgpr_spills))));
    }
    if let Some(n) = r.sgprs {
        rows.push(("SGPRs", format!("{n}{}", spills(r.sgpr_spills))));
    }
    rows.push(("LDS", format!("{} bytes a workgroup", r.lds_bytes)));
    let grows = if r.dynamic_stack { ", and a stack that grows" } else { "" };
    rows.push(("scratch", format!("{} bytes a lane{grows}", r.scratch_bytes)));
    if let Some(n) = r.argument_bytes {
        rows.push(("arguments", format!("{n} bytes")));
    }
    if let Some(o) = &k.occupancy {
        let (waves, most) = (o.waves_per_simd, o.max_waves_per_simd);
        rows.push(("occupancy", format!("{waves} of {most} waves a SIMD, {} workgroups a {}", o.workgroups, o.block)));
        rows.push(("limited by", o.limits.join(" and ")));
        if let Some(next) = &o.next {
            let needs = [(next.vgprs, "VGPRs"), (next.sgprs, "SGPRs"), (next.lds_bytes, "bytes of LDS")];
            let needs: Vec<String> = needs.into_iter().filter_map(|(n, what)| Some(format!("{} {what}", n?))).collect();
            let (waves, groups) = (next.waves_per_simd, next.workgroups);
            rows.push(("one step up", format!("{waves} waves, {groups} workgroups: at most {}", needs.join(" and "))));
        }
    }
    rows
}

fn spills(n: Option<u32>) -> String {
    n.filter(|&n| n > 0).map_or(String::new(), |n| format!(", {n} spilled"))
}

/// A region's name in headings.
pub fn region_name(region: &Region) -> String {
    match &region.of {
        None => "outside of loops".into(),
        Some(l) => match l.trips {
            Some(n) => format!("loop {:#x}, {n} iterations", l.offset),
            None => format!("loop {:#x}", l.offset),
        },
    }
}

/// What a region moves and computes: labels with values, without what there is none of.
pub fn sums(region: &Region) -> Vec<(&'static str, u64)> {
    let of_lane = [
        ("bytes of global memory read a lane", region.global_bytes_of_lane.read),
        ("bytes of global memory written a lane", region.global_bytes_of_lane.written),
        ("bytes of LDS read a lane", region.lds_bytes_of_lane.read),
        ("bytes of LDS written a lane", region.lds_bytes_of_lane.written),
        ("bytes of scratch memory a lane", region.scratch_bytes_of_lane.sum()),
        ("bytes of scalar loads", region.scalar_bytes),
        ("accesses of unknown size", region.unsized_accesses),
    ];
    let rows = of_lane.into_iter().map(|(label, n)| (label, u64::from(n)));
    let ops = [("operations a lane", region.lane_ops), ("matrix operations", region.matrix_ops.unwrap_or(0))];
    rows.chain(ops).filter(|&(_, n)| n > 0).collect()
}

fn mix(f: &mut fmt::Formatter<'_>, regions: &[Region]) -> fmt::Result {
    writeln!(f, "  executes, each wave and pass")?;
    for region in regions.iter().filter(|r| r.instructions > 0) {
        let (indent, name) = (2 * region.of.as_ref().map_or(0, |l| l.depth as usize), region_name(region));
        let indent = format!("    {:indent$}", "");
        writeln!(f, "{indent}{name}: {} instructions", region.instructions)?;
        let counts = Class::ALL.iter().filter_map(|c| Some(format!("{} {}", region.mix.get(c)?, c.name())));
        list(f, &indent, counts)?;
        list(f, &indent, sums(region).into_iter().map(|(label, value)| format!("{value} {label}")))?;
    }
    Ok(())
}

/// Parts of a line with commas, in as many lines as it takes.
fn list(f: &mut fmt::Formatter<'_>, indent: &str, parts: impl Iterator<Item = String>) -> fmt::Result {
    const WIDTH: usize = 110;
    let mut line = String::new();
    for part in parts {
        if line.len() + part.len() > WIDTH {
            writeln!(f, "{indent}  {line},")?;
            line.clear();
        }
        line += if line.is_empty() { "" } else { ", " };
        line += &part;
    }
    if line.is_empty() { Ok(()) } else { writeln!(f, "{indent}  {line}") }
}

/// What a wait waits for.
pub fn wait_meaning(wait: &Wait) -> String {
    let parts = wait.counters.iter().map(|c| {
        let left = match c.left {
            0 => format!("all {}", c.counts),
            n => format!("{} but the last {n}", c.counts),
        };
        let newest = match (c.newest, c.between) {
            (Some(at), Some(0)) => format!(", up to {at:#x} just before"),
            (Some(at), Some(n)) => format!(", up to {at:#x}, {n} instructions before"),
            _ => String::new(),
        };
        format!("{left}{newest}")
    });
    parts.collect::<Vec<_>>().join("; ")
}

fn waits(f: &mut fmt::Formatter<'_>, k: &KernelReport) -> fmt::Result {
    if k.waits.is_empty() {
        return Ok(());
    }
    writeln!(f, "  waits for memory")?;
    for (r, region) in k.regions.iter().enumerate() {
        let here: Vec<&Wait> = k.waits.iter().filter(|w| w.region == r).collect();
        if here.is_empty() {
            continue;
        }
        writeln!(f, "    {}", region_name(region))?;
        here.iter().try_for_each(|w| writeln!(f, "      {:#6x}  {}", w.offset, wait_meaning(w)))?;
    }
    Ok(())
}
