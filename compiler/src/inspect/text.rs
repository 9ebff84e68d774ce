//! Reports as text.

use super::class::Class;
use super::report::{
    GlobalAccess, Inspection, KernelReport, LdsAccess, LineCount, LineGroup, Reach, Region, Roofline, Touched, Wait,
};
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
        global(f, self)?;
        reaches(f, self)?;
        lds(f, self)?;
        waits(f, self)?;
        roofline(f, self)?;
        self.notes.iter().try_for_each(|note| writeln!(f, "  note: {note}"))
    }
}

/// What a kernel is and takes: labels with values.
pub fn facts(k: &KernelReport) -> Vec<(&'static str, String)> {
    let mut rows = vec![("code", format!("{} bytes", k.code_bytes)), ("wave", format!("{} lanes", k.wave))];
    if let Some(w) = &k.workgroup {
        let most = if w.at_most { "at most " } else { "" };
        let size = w.size.map_or(String::new(), |[x, y, z]| format!(" ({x} x {y} x {z})"));
        rows.push((
            "workgroup",
            format!("{most}{}{size}, {}", count(w.work_items, "work item"), count(w.waves, "wave")),
        ));
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
        rows.push(("limited by", all_of(&o.limits)));
        if let Some(next) = &o.next {
            let needs = [(next.vgprs, "VGPRs"), (next.sgprs, "SGPRs"), (next.lds_bytes, "bytes of LDS")];
            let needs: Vec<String> = needs.into_iter().filter_map(|(n, what)| Some(format!("{} {what}", n?))).collect();
            let (waves, groups) = (next.waves_per_simd, next.workgroups);
            rows.push(("one step up", format!("{waves} waves, {groups} workgroups: at most {}", needs.join(" and "))));
        }
    }
    rows
}

/// Words with commas, and an "and" before the last.
pub fn all_of(words: &[String]) -> String {
    match words.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

fn spills(n: Option<u32>) -> String {
    n.filter(|&n| n > 0).map_or(String::new(), |n| format!(", {n} spilled"))
}

/// A region's name in headings.
pub fn region_name(region: &Region) -> String {
    match &region.of {
        None => "outside of loops".into(),
        Some(l) => match l.trips {
            Some(n) => format!("loop {:#x}, {}", l.offset, count(n as i64, "iteration")),
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
        writeln!(f, "{indent}{name}: {}", count(region.instructions, "instruction"))?;
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

/// A number of things.
pub fn count(n: impl Into<i64>, what: &str) -> String {
    let n = n.into();
    format!("{n} {what}{}", if n.abs() == 1 { "" } else { "s" })
}

fn bytes(n: i64) -> String {
    count(n, "byte")
}

/// How many lines.
fn lines(of: LineCount) -> String {
    match of {
        LineCount { least, most } if least == most => count(most, "line"),
        LineCount { least, most } => format!("{least} to {most} lines"),
    }
}

/// Bytes from lane to lane.
fn apart(stride: Option<i64>) -> String {
    stride.map_or(String::new(), |n| format!(", {} apart", bytes(n)))
}

/// What an access of memory does.
pub fn global_meaning(a: &GlobalAccess) -> String {
    let step = a.step.map_or(String::new(), |n| format!("; moves {} an iteration", bytes(n)));
    let lanes = format!("{} of {}{}", count(a.lanes, "lane"), bytes(i64::from(a.bytes)), apart(a.stride));
    format!("{lanes}: {}, {} at least{step}", lines(a.lines), a.least_lines)
}

/// What an access of LDS does.
pub fn lds_meaning(a: &LdsAccess) -> String {
    let least = if a.at_least { "at least " } else { "" };
    let without = match a.cycles > a.best_cycles {
        true => format!(", {} without conflicts", a.best_cycles),
        false if a.at_least => String::new(),
        false => ", no conflicts".into(),
    };
    format!(
        "{} a lane{}: {least}{}{without}",
        bytes(i64::from(a.bytes)),
        apart(a.stride),
        count(a.cycles, "bank cycle")
    )
}

/// Instructions with what is to be said of them; those of which the same is to be said are one line.
fn alike(indent: &str, said: impl Iterator<Item = (usize, String)>) -> String {
    let mut lines: Vec<(usize, String, u32)> = Vec::new();
    for (offset, text) in said {
        match lines.iter_mut().find(|(_, t, _)| *t == text) {
            Some((_, _, more)) => *more += 1,
            None => lines.push((offset, text, 0)),
        }
    }
    let shown = lines.iter().map(|(offset, text, more)| {
        let more = if *more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{indent}{offset:#6x}{more}  {text}\n")
    });
    shown.collect()
}

fn global(f: &mut fmt::Formatter<'_>, k: &KernelReport) -> fmt::Result {
    if k.global.is_empty() {
        return Ok(());
    }
    writeln!(f, "  accesses of memory, each wave")?;
    for (r, region) in k.regions.iter().enumerate() {
        let groups: Vec<&LineGroup> = k.groups.iter().filter(|g| g.region == r).collect();
        if groups.is_empty() {
            continue;
        }
        writeln!(f, "    {}", region_name(region))?;
        // Groups of which the same is to be said are said once.
        let mut said: Vec<(String, String, u32)> = Vec::new();
        for group in groups {
            let of = group.resource.as_ref().map_or(String::new(), |r| format!(", {r}"));
            let what = count(group.offsets.len() as u32, group.class.name());
            let together = if group.offsets.len() > 1 { " together" } else { "" };
            let (bytes, used) = (bytes(i64::from(group.distinct_bytes)), 100.0 * group.used);
            let head = format!("{what}{of}: {bytes} in {}{together}, {used:.0}% used", lines(group.lines));
            let here: Vec<_> = k.global.iter().filter(|a| group.offsets.contains(&a.offset)).collect();
            let key = head.clone() + &here.iter().map(|a| global_meaning(a)).collect::<String>();
            match said.iter_mut().find(|(other, ..)| *other == key) {
                Some((.., more)) => *more += 1,
                None => {
                    let parts = alike("        ", here.iter().map(|a| (a.offset, global_meaning(a))));
                    said.push((key, format!("{head}\n{parts}"), 0));
                }
            }
        }
        for (_, text, more) in said {
            let (head, parts) = text.split_once('\n').unwrap_or((&text, ""));
            let more = if more > 0 { format!("; and {more} more like this") } else { String::new() };
            write!(f, "      {head}{more}\n{parts}")?;
        }
    }
    Ok(())
}

/// What a workgroup does with a pointer.
pub fn reach_meaning(r: &Reach) -> String {
    let said = |t: &Touched| {
        let (bytes, used) = (bytes(i64::from(t.bytes)), 100.0 * t.used(r.line_bytes));
        format!("{bytes} in {}, {used:.0}% used", lines(t.lines))
    };
    let beside = r.beside.as_ref().map_or(String::new(), |(n, t)| format!("; {n} workgroups in a row: {}", said(t)));
    format!("{}{beside}", said(&r.workgroup))
}

fn reaches(f: &mut fmt::Formatter<'_>, k: &KernelReport) -> fmt::Result {
    if !k.reaches.is_empty() {
        writeln!(f, "  memory of all waves of a workgroup and their iterations, each line once")?;
    }
    k.reaches.iter().try_for_each(|r| writeln!(f, "    {}, {}: {}", r.resource, r.class.name(), reach_meaning(r)))
}

fn lds(f: &mut fmt::Formatter<'_>, k: &KernelReport) -> fmt::Result {
    if k.lds.is_empty() {
        return Ok(());
    }
    writeln!(f, "  accesses of LDS, each wave")?;
    for (r, region) in k.regions.iter().enumerate() {
        let here: Vec<&LdsAccess> = k.lds.iter().filter(|a| a.region == r).collect();
        if !here.is_empty() {
            writeln!(f, "    {}", region_name(region))?;
        }
        let said = here.iter().map(|a| (a.offset, format!("{}, {}", a.class.name(), lds_meaning(a))));
        f.write_str(&alike("      ", said))?;
    }
    Ok(())
}

/// A number with as many digits as say something.
pub fn short(n: f64) -> String {
    match n.abs() {
        n_abs if n_abs >= 100.0 => format!("{n:.0}"),
        n_abs if n_abs >= 1.0 => format!("{n:.1}"),
        _ => format!("{n:.3}"),
    }
}

/// The reasoning of a roofline, step by step.
pub fn roofline_steps(k: &KernelReport, r: &Roofline) -> Vec<String> {
    let region = match &k.regions[r.region].of {
        None => "the whole kernel".to_string(),
        Some(_) => format!("one pass of {}", region_name(&k.regions[r.region])),
    };
    let measured = if r.bandwidth_measured { "measured" } else { "published" };
    let mut steps =
        vec![format!("{}: {} CUs at {} MHz, {} GB/s ({measured})", r.board, r.cus, r.clock_mhz, short(r.bandwidth))];
    let bytes = match (r.bytes, r.bytes_distinct) {
        (0, _) => "no bytes of memory".into(),
        (n, true) => format!("{n} bytes of memory"),
        (n, false) => format!("{n} bytes of memory, some of which lanes may share"),
    };
    let intensity = r.intensity.map_or(String::new(), |i| format!(": {} operations a byte", short(i)));
    steps.push(format!("{region}, each wave: {} operations, {bytes}{intensity}", r.ops));
    let matrix = r.matrix_cycles.map_or(String::new(), |n| format!(", {} in its matrix unit", short(n)));
    steps.push(format!(
        "takes a SIMD {} cycles for its part of the bandwidth, {} for vector instructions{matrix}",
        short(r.memory_cycles),
        short(r.issue_cycles)
    ));
    let peaks = [(r.vector_peak, "of vector f32"), (r.matrix_peak, "of its matrix instructions")];
    let peaks: Vec<String> = peaks.iter().filter_map(|(p, of)| Some(format!("{} {of}", short((*p)?)))).collect();
    let peaks = if peaks.is_empty() { String::new() } else { format!("; peaks: {}", peaks.join(", ")) };
    let attainable = r.attainable.map_or(String::new(), |n| format!(": at most {} Gop/s", short(n)));
    steps.push(format!("bound by {}{attainable}{peaks}", r.bound.name()));
    steps
}

fn roofline(f: &mut fmt::Formatter<'_>, k: &KernelReport) -> fmt::Result {
    let Some(r) = &k.roofline else { return Ok(()) };
    writeln!(f, "  roofline, if nothing else takes time and waves share no bytes")?;
    roofline_steps(k, r).iter().try_for_each(|step| writeln!(f, "    {step}"))
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
            (Some(at), Some(n)) => format!(", up to {at:#x}, {} before", count(n, "instruction")),
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
