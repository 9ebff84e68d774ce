//! What changed between two code objects.

use super::class::Class;
use super::report::{Inspection, KernelReport, Region};
use super::text::{all_of, region_name};
use crate::CompileError;
use serde::Serialize;
use std::fmt;

/// The differences of two code objects.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Diff {
    /// The processor that both are for.
    pub processor: String,
    /// Kernels of both, with what changed.
    pub kernels: Vec<KernelDiff>,
    /// Kernels that only the first has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only_before: Vec<String>,
    /// Kernels that only the second has.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub only_after: Vec<String>,
}

/// The differences of two kernels.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KernelDiff {
    /// The first one's name.
    pub before: String,
    /// The second one's name.
    pub after: String,
    /// Everything that is not the same.
    pub changes: Vec<Change>,
    /// Whether the code is the same, but for what is not known.
    pub same_code: bool,
}

/// Something that is not the same.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Change {
    /// What it is.
    pub what: String,
    /// The loop, if it is of one.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// In the first; none where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Quantity>,
    /// In the second; none where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Quantity>,
}

/// A value that may change.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Quantity {
    /// A count.
    Count(u64),
    /// A measure.
    Measure(f64),
    /// Words.
    Text(String),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Count(n) => write!(f, "{n}"),
            Quantity::Measure(n) => f.write_str(&super::text::short(*n)),
            Quantity::Text(t) => f.write_str(t),
        }
    }
}

/// Compares two code objects: kernels of the same name, or the only ones of both.
///
/// # Errors
/// If they are for different processors, or have no kernel in common.
pub fn diff(before: &Inspection, after: &Inspection) -> Result<Diff, CompileError> {
    let refused = |reason: String| CompileError::CodeObject { reason };
    if before.processor != after.processor {
        let reason =
            format!("the one is for {}, the other for {}: they can't be compared", before.processor, after.processor);
        return Err(refused(reason));
    }
    let pairs: Vec<(&KernelReport, &KernelReport)> = match (&before.kernels[..], &after.kernels[..]) {
        ([a], [b]) => vec![(a, b)],
        (a, b) => a.iter().filter_map(|k| Some((k, b.iter().find(|o| o.name == k.name)?))).collect(),
    };
    if pairs.is_empty() {
        return Err(refused("they have no kernel in common: they can't be compared".into()));
    }
    let missing = |all: &[KernelReport], of: &dyn Fn(&(&KernelReport, &KernelReport)) -> String| -> Vec<String> {
        let paired: Vec<String> = pairs.iter().map(of).collect();
        all.iter().map(|k| k.name.clone()).filter(|n| !paired.contains(n)).collect()
    };
    Ok(Diff {
        processor: before.processor.clone(),
        only_before: missing(&before.kernels, &|p| p.0.name.clone()),
        only_after: missing(&after.kernels, &|p| p.1.name.clone()),
        kernels: pairs.iter().map(|(a, b)| of_kernels(a, b)).collect(),
    })
}

fn of_kernels(a: &KernelReport, b: &KernelReport) -> KernelDiff {
    let mut changes = Vec::new();
    let mut compare = |region: Option<&str>, what: String, before: Option<Quantity>, after: Option<Quantity>| {
        if before != after {
            changes.push(Change { what, region: region.map(String::from), before, after });
        }
    };
    let (of_a, of_b) = (quantities(a), quantities(b));
    for (what, before, after) in united(of_a, of_b) {
        compare(None, what, before, after);
    }
    // Loops can be told apart only if both have them alike.
    let shape =
        |k: &KernelReport| k.regions.iter().map(|r| r.of.as_ref().map(|l| (l.depth, l.parent))).collect::<Vec<_>>();
    if shape(a) == shape(b) {
        for (r, (x, y)) in a.regions.iter().zip(&b.regions).enumerate() {
            let name = (a.regions.len() > 1).then(|| region_name(y));
            for (what, before, after) in united(of_region(a, r, x), of_region(b, r, y)) {
                compare(name.as_deref(), what, before, after);
            }
        }
    } else {
        let loops = |k: &KernelReport| Some(Quantity::Count(k.regions.len() as u64 - 1));
        compare(None, "loops".into(), loops(a), loops(b));
        for (what, before, after) in united(of_all_regions(a), of_all_regions(b)) {
            compare(None, what, before, after);
        }
    }
    let code = |k: &KernelReport| k.listing.iter().map(|l| l.text.clone()).collect::<Vec<_>>();
    KernelDiff { before: a.name.clone(), after: b.name.clone(), changes, same_code: code(a) == code(b) }
}

type Quantities = Vec<(String, Quantity)>;

/// Everything that either has, with what it is in both.
fn united(a: Quantities, b: Quantities) -> Vec<(String, Option<Quantity>, Option<Quantity>)> {
    let value = |of: &Quantities, what: &str| of.iter().find(|(w, _)| w == what).map(|(_, q)| q.clone());
    let mut names: Vec<&String> = a.iter().map(|(what, _)| what).collect();
    names.extend(b.iter().map(|(what, _)| what).filter(|what| value(&a, what).is_none()));
    names.into_iter().map(|what| (what.clone(), value(&a, what), value(&b, what))).collect()
}

/// What is known of a kernel as a whole.
fn quantities(k: &KernelReport) -> Quantities {
    let mut all = Vec::new();
    let mut count = |what: &str, n: Option<u64>| all.extend(n.map(|n| (what.to_string(), Quantity::Count(n))));
    let r = &k.resources;
    count("bytes of code", Some(k.code_bytes as u64));
    count("lanes of a wave", Some(u64::from(k.wave)));
    count("work items of a workgroup", k.workgroup.as_ref().map(|w| u64::from(w.work_items)));
    count("VGPRs", r.vgprs.map(u64::from));
    count("VGPRs allocated", r.vgprs_allocated.map(u64::from));
    count("accumulators", r.agprs.map(u64::from));
    count("SGPRs", r.sgprs.map(u64::from));
    count("spilled VGPRs", r.vgpr_spills.map(u64::from));
    count("spilled SGPRs", r.sgpr_spills.map(u64::from));
    count("bytes of LDS", Some(u64::from(r.lds_bytes)));
    count("bytes of scratch memory", Some(u64::from(r.scratch_bytes)));
    count("bytes of arguments", r.argument_bytes);
    count("waves of a SIMD", k.occupancy.as_ref().map(|o| u64::from(o.waves_per_simd)));
    count("resident workgroups", k.occupancy.as_ref().map(|o| u64::from(o.workgroups)));
    let mut text = |what: &str, t: Option<String>| all.extend(t.map(|t| (what.to_string(), Quantity::Text(t))));
    text("limited by", k.occupancy.as_ref().map(|o| all_of(&o.limits)));
    if let Some(roof) = &k.roofline {
        text("bound by", Some(roof.bound.name().into()));
        let measures = [("operations a byte", roof.intensity), ("most Gop/s", roof.attainable)];
        all.extend(measures.into_iter().filter_map(|(what, n)| Some((what.to_string(), Quantity::Measure(n?)))));
    }
    all
}

/// What is known of a region: kinds of instructions, bytes, waits, lines and bank cycles.
fn of_region(k: &KernelReport, at: usize, region: &Region) -> Quantities {
    let mut all = Vec::new();
    let mut count = |what: &str, n: u64| all.push((what.to_string(), Quantity::Count(n)));
    count("instructions", u64::from(region.instructions));
    for class in Class::ALL {
        count(class.name(), u64::from(region.mix.get(&class).copied().unwrap_or(0)));
    }
    count("bytes of global memory read a lane", u64::from(region.global_bytes_of_lane.read));
    count("bytes of global memory written a lane", u64::from(region.global_bytes_of_lane.written));
    count("bytes of LDS read a lane", u64::from(region.lds_bytes_of_lane.read));
    count("bytes of LDS written a lane", u64::from(region.lds_bytes_of_lane.written));
    count("bytes of scratch memory a lane", u64::from(region.scratch_bytes_of_lane.sum()));
    count("bytes of scalar loads", u64::from(region.scalar_bytes));
    count("operations a lane", region.lane_ops);
    count("waits for memory", k.waits.iter().filter(|w| w.region == at).count() as u64);
    if let Some(ops) = region.matrix_ops {
        count("matrix operations", ops);
    }
    if let Some(trips) = region.of.as_ref().and_then(|l| l.trips) {
        count("iterations", trips);
    }
    // Sums over accesses are comparable only if none is missing.
    let accesses =
        |is: fn(Class) -> bool| region.mix.iter().filter(|(c, _)| is(**c)).map(|(_, n)| *n as usize).sum::<usize>();
    let global = k.global.iter().filter(|a| a.region == at).count();
    if global == accesses(Class::is_vmem) {
        let lines = k.groups.iter().filter(|g| g.region == at).map(|g| u64::from(g.lines.most)).sum();
        count("lines of memory, at most", lines);
        count("bytes of memory", k.groups.iter().filter(|g| g.region == at).map(|g| u64::from(g.distinct_bytes)).sum());
    }
    let lds: Vec<_> = k.lds.iter().filter(|a| a.region == at).collect();
    if lds.len() == accesses(Class::is_lds) {
        count("bank cycles, at least", lds.iter().map(|a| u64::from(a.cycles)).sum());
    }
    all
}

/// The sums over all regions of what is known of each, for kernels whose loops differ.
fn of_all_regions(k: &KernelReport) -> Quantities {
    let mut all: Vec<(String, u64, usize)> = Vec::new();
    for (r, region) in k.regions.iter().enumerate() {
        for (what, quantity) in of_region(k, r, region) {
            let (Quantity::Count(n), true) = (quantity, what != "iterations") else { continue };
            match all.iter_mut().find(|(w, ..)| *w == what) {
                Some((_, sum, regions)) => (*sum, *regions) = (*sum + n, *regions + 1),
                None => all.push((what, n, 1)),
            }
        }
    }
    let known = all.into_iter().filter(|(_, _, regions)| *regions == k.regions.len());
    known.map(|(what, n, _)| (what, Quantity::Count(n))).collect()
}

impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for k in &self.kernels {
            match k.before == k.after {
                true => writeln!(f, "kernel {}", k.after)?,
                false => writeln!(f, "kernel {}, before {}", k.after, k.before)?,
            }
            match (k.same_code, k.changes.is_empty()) {
                (true, true) => writeln!(f, "  nothing has changed")?,
                (true, false) => writeln!(f, "  the code is the same")?,
                (false, true) => writeln!(f, "  the code has changed, and nothing that is counted")?,
                (false, false) => {}
            }
            let mut region = None;
            for change in &k.changes {
                if change.region != region {
                    region.clone_from(&change.region);
                    writeln!(f, "  {}", change.region.as_deref().unwrap_or("in all"))?;
                }
                writeln!(f, "    {change}")?;
            }
        }
        self.only_before.iter().try_for_each(|name| writeln!(f, "only before: {name}"))?;
        self.only_after.iter().try_for_each(|name| writeln!(f, "only after: {name}"))
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |q: &Option<Quantity>| q.as_ref().map_or("not known".to_string(), Quantity::to_string);
        write!(f, "{:38} {} → {}", self.what, shown(&self.before), shown(&self.after))?;
        match (&self.before, &self.after) {
            (Some(Quantity::Count(a)), Some(Quantity::Count(b))) => write!(f, " ({:+})", *b as i128 - *a as i128),
            _ => Ok(()),
        }
    }
}
