//! One model's kernels on one target.

use crate::Failure;
use crate::stats::median;
use hrx::compiler::ptx::Ptx;
use hrx::compiler::{Target, audit, compile};
use hrx::exec::{ModelKernel, Objects, Warn};
use hrx::ir::tile::Kernel;
use hrx::templates::{LinearCut, Request};
use hrx::{CacheChoice, open_cache};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What was measured of a model on a target. Times are in milliseconds.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The model.
    pub model: String,
    /// The target.
    pub target: String,
    /// Kernels that decode steps launch.
    pub decode: Group,
    /// Kernels that multiply tiles of matrices, for prefill.
    pub tile: Group,
    /// Processor time of all kernels.
    pub cpu_ms: f64,
    /// Wall-clock time of compiling all kernels on all cores. This and the next are left out where a kernel can't be
    /// compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_wall_ms: Option<f64>,
    /// Wall-clock time of opening the cache and finding all kernels in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_wall_ms: Option<f64>,
    /// Each kernel that could be compiled.
    pub kernels: Vec<KernelRow>,
    /// What is wrong, each line with the kernel's name.
    pub faults: Vec<String>,
}

/// Some of the kernels.
#[derive(Debug, Default, Serialize)]
pub struct Group {
    /// How many.
    pub kernels: usize,
    /// The median of their times; none without kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_ms: Option<f64>,
    /// The longest time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_ms: Option<f64>,
}

/// A kernel.
#[derive(Debug, Serialize)]
pub struct KernelRow {
    /// Its name.
    pub name: String,
    /// Median processor time of compiling it.
    pub cpu_ms: f64,
    /// Bytes of its object.
    pub bytes: usize,
    /// Whether decode steps launch it.
    pub decode: bool,
    /// Whether it multiplies tiles of matrices.
    pub tile: bool,
}

/// Measures.
///
/// # Errors
/// If the temporary cache can't be used.
pub fn run(model: &str, kernels: &[ModelKernel], target: &Target, repetitions: u32) -> Result<Row, Failure> {
    // Makes LLVM ready for the target. Whether the kernel can be compiled is seen below.
    let _ = kernels.first().map(|k| compile(&k.kernel, target));
    let mut rows = Vec::with_capacity(kernels.len());
    let mut faults = Vec::new();
    for k in kernels {
        let name = &k.kernel.name;
        let compiled: Result<Vec<_>, _> = (0..repetitions).map(|_| compile(&k.kernel, target)).collect();
        match compiled.as_deref() {
            Ok([first, others @ ..]) => {
                match target {
                    Target::Amd(chip) => {
                        faults.extend(audit(&first.object, name, chip).iter().map(|f| format!("{name}: {f}")));
                    }
                    Target::Nvidia(_) => {
                        faults.extend(Ptx::read(&first.object).err().map(|e| format!("{name}: {e}")));
                    }
                    Target::Host(_) => {}
                }
                if others.iter().any(|o| o.object != first.object) {
                    faults.push(format!("{name}: the code is another each time"));
                }
                let times: Vec<f64> =
                    [std::slice::from_ref(first), others].concat().iter().map(|c| 1e3 * c.time.as_secs_f64()).collect();
                rows.push(KernelRow {
                    name: name.clone(),
                    cpu_ms: median(&times).unwrap_or_default(),
                    bytes: first.object.len(),
                    decode: k.decode > 0,
                    tile: matches!(&k.request, Request::Linear(l) if matches!(l.tiling, LinearCut::Matrix(_))),
                });
            }
            Ok([]) => {}
            // The error says the kernel's name.
            Err(e) => faults.push(e.to_string()),
        }
    }
    let [cold_wall_ms, warm_wall_ms] = match rows.len() == kernels.len() {
        true => walls(kernels, target, repetitions)?.map(Some),
        false => [None; 2],
    };
    Ok(Row {
        model: model.into(),
        target: target.name(),
        decode: Group::of(rows.iter().filter(|r| r.decode)),
        tile: Group::of(rows.iter().filter(|r| r.tile)),
        cpu_ms: rows.iter().map(|r| r.cpu_ms).sum(),
        cold_wall_ms,
        warm_wall_ms,
        kernels: rows,
        faults,
    })
}

impl Group {
    fn of<'a>(rows: impl Iterator<Item = &'a KernelRow>) -> Group {
        let times: Vec<f64> = rows.map(|r| r.cpu_ms).collect();
        Group { kernels: times.len(), median_ms: median(&times), worst_ms: times.iter().copied().reduce(f64::max) }
    }
}

/// Median wall-clock times of compiling all kernels into an empty cache, and of getting them out of it.
fn walls(kernels: &[ModelKernel], target: &Target, repetitions: u32) -> Result<[f64; 2], Failure> {
    let kernels: Vec<&Kernel> = kernels.iter().map(|k| &k.kernel).collect();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..repetitions {
        let dir = tempfile::tempdir().map_err(Failure::Temporary)?;
        let made = objects(target, dir.path())?.get(&kernels)?;
        times[0].push(1e3 * made.compile.as_secs_f64());
        let start = Instant::now();
        objects(target, dir.path())?.get(&kernels)?;
        times[1].push(1e3 * start.elapsed().as_secs_f64());
    }
    Ok(times.map(|t| median(&t).unwrap_or_default()))
}

/// The objects of a target with a cache in a directory.
fn objects(target: &Target, dir: &Path) -> Result<Objects, Failure> {
    let warn: Warn = Arc::new(|text: &str| eprintln!("warning: {text}"));
    Ok(Objects::new(target.clone(), open_cache(&CacheChoice::Dir(dir.into()), &warn)?, warn))
}
