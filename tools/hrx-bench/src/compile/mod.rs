//! `hrx-bench compile`: how long it takes to compile a model's kernels, and whether the code holds to what it should.
//!
//! * [`measure`]: one model on one target. [`report`]: the table, the list of what is wrong, and JSON. [`tile`]: the
//!   command line's products of `f16` matrices, which other compilers can be measured with as well.

mod measure;
mod report;
mod tile;

use crate::Failure;
use hrx::compiler::target::amd::CHIPS;
use hrx::compiler::{CompileError, Target};
use hrx::exec::model_kernels;
use hrx::models::ModelGraph;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tile::Tile;

/// Measures how long compiling a model's kernels takes, and checks the code.
///
/// Every kernel is compiled anew on one thread, -r times, and its processor time taken; then all of them together on all
/// cores into an empty cache, and once more out of the cache (wall-clock times). LLVM's preparation for a target is made
/// before and not counted in processor times. Code for AMD GPUs is read back: it is to be whole, with known instructions
/// only, without scratch memory or spilled registers, and within the chip's LDS. What is wrong is listed, and the exit
/// code is 1 then.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Models: GGUF files
    #[arg(value_name = "MODEL", required_unless_present = "tile")]
    models: Vec<PathBuf>,

    /// What to compile for: all AMD GPUs, or names as LLVM has them
    #[arg(long, value_name = "all|NAME,...", value_delimiter = ',', default_value = "all", value_parser = targets)]
    target: Vec<Targets>,

    /// How often each kernel is compiled; its time is the median
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repetitions: u32,

    /// Print JSON, with each kernel's time
    #[arg(long)]
    json: bool,

    /// Instead of a model's kernels, products of f16 matrices with tiles of M by N outputs, steps of K and W waves
    #[arg(long, value_name = "MxNxKwW,...", value_delimiter = ',', conflicts_with = "models", hide = true)]
    tile: Vec<Tile>,
}

/// A value of `--target`.
#[derive(Clone, Debug)]
enum Targets {
    All,
    One(Target),
}

fn targets(name: &str) -> Result<Targets, CompileError> {
    if name == "all" { Ok(Targets::All) } else { Target::from_name(name).map(Targets::One) }
}

/// Runs the verb.
///
/// # Errors
/// If a model can't be read or lowered, the temporary cache can't be used, or the report can't be written. What is wrong
/// with kernels is no error but reported.
pub fn run(args: &Args, out: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut rows = Vec::new();
    let tiles = args.tile.iter().map(Tile::kernel).collect::<Result<Vec<_>, _>>()?;
    let of_models = args
        .models
        .iter()
        .map(|path| Ok((path, ModelGraph::open(path)?.graph)))
        .collect::<Result<Vec<_>, Failure>>()?;
    for target in args.target.iter().flat_map(Targets::all) {
        if !tiles.is_empty() {
            rows.push(measure::run("tiles", &tiles, &target, args.repetitions)?);
        }
        for (path, graph) in &of_models {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            rows.push(measure::run(&name, &model_kernels(graph, &target)?, &target, args.repetitions)?);
        }
    }
    if args.json {
        report::json(&rows, out)?
    } else {
        report::table(&rows, out)?
    }
    Ok(if rows.iter().all(|r| r.faults.is_empty()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Targets {
    fn all(&self) -> Vec<Target> {
        match self {
            Targets::All => CHIPS.iter().map(Target::Amd).collect(),
            Targets::One(target) => vec![target.clone()],
        }
    }
}
