//! `hrx-jit why`: the choice of a kernel's tile shape, with the costs of all that was looked at.

use crate::Outcome;
use crate::input::graph_of;
use crate::output::{pick, target_parser};
use hrx::compiler::Target;
use hrx::exec::{model_kernels, target_shape};
use hrx::templates::{LinearCut, Request};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file, or a model of published sizes, as qwen3-8b:q4_k_m
    model: PathBuf,
    /// The kernel: its name, or a part that no other kernel's name has
    #[arg(long, value_name = "NAME")]
    kernel: String,
    /// What to compile for: host, x86-64-v3, gfx1100, …
    #[arg(long, default_value = "host", value_parser = target_parser)]
    target: Target,
    /// How many of the cuts that were not taken to print
    #[arg(long, value_name = "N", default_value_t = 5)]
    others: usize,
}

pub fn run(args: &Args) -> Outcome {
    let kernels = model_kernels(&graph_of(&args.model)?, &args.target)?;
    let names: Vec<&str> = kernels.iter().map(|k| k.kernel.name.as_str()).collect();
    let at = pick(&names, &args.kernel, &args.model.display().to_string())?;
    let (kernel, shape) = (&kernels[at], target_shape(&args.target));
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} for {}: {shape:?}", kernel.kernel.name, args.target.name())?;
    let Request::Linear(l) = &kernel.request else {
        writeln!(out, "the shape follows from the kernel's facts alone: {:?}", kernel.request)?;
        return Ok(ExitCode::SUCCESS);
    };
    let matrices = if l.gated.is_some() { 2 } else { 1 };
    let tokens = if matches!(l.tiling, LinearCut::Rows(_)) { 1 } else { model_kernels::BATCH };
    let candidates = LinearCut::candidates(&shape, [l.n, l.k], l.weight, tokens, matrices);
    let (possible, refused): (Vec<_>, Vec<_>) = candidates.iter().partition(|c| c.refused.is_none());
    for c in possible.iter().take(args.others + 1) {
        writeln!(out, "{} {c}", if c.cut == l.tiling { "taken:" } else { "not:" })?;
    }
    for c in refused.iter().take(args.others) {
        writeln!(out, "not: {c}")?;
    }
    Ok(ExitCode::SUCCESS)
}
