//! `hrx-jit pack`: a model's kernels compiled ahead.

use crate::Outcome;
use crate::output::{target_parser, write};
use hrx::CacheChoice;
use hrx::compiler::Target;
use hrx::exec::{KernelObject, Objects, model_kernels};
use hrx::ir::tile::Kernel;
use hrx::models::ModelGraph;
use hrx::open_cache;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file
    model: PathBuf,
    /// What to compile for; several with commas between them: host, gfx1100, …
    #[arg(long, default_value = "host", value_parser = target_parser, value_delimiter = ',')]
    target: Vec<Target>,
    /// Where to write the pack
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The cache of compiled kernels [default: the user's]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
}

pub fn run(args: &Args) -> Outcome {
    let choice = args.cache_dir.clone().map_or(CacheChoice::Default, CacheChoice::Dir);
    let warn: hrx::exec::Warn = Arc::new(|text: &str| eprintln!("warning: {text}"));
    let mut all: Vec<(KernelObject, Vec<u8>)> = Vec::new();
    for target in &args.target {
        let kernels = model_kernels(&ModelGraph::open(&args.model)?.graph, target)?;
        let objects = Objects::new(target.clone(), open_cache(&choice, &warn)?, Arc::clone(&warn));
        let kernels: Vec<&Kernel> = kernels.iter().map(|k| &k.kernel).collect();
        let made = objects.get(&kernels)?.objects;
        let metas: Vec<Vec<u8>> = kernels.iter().zip(&made).map(|(k, o)| objects.meta(k, o.time)).collect();
        all.extend(made.into_iter().zip(metas));
    }
    let bytes = hrx_cache::pack(all.iter().map(|(o, meta)| (o.key, meta.as_slice(), o.bytes.as_slice())));
    write(&bytes, Some(&args.output), true)?;
    let targets: Vec<String> = args.target.iter().map(Target::name).collect();
    println!("{} kernels for {}: {} bytes", all.len(), targets.join(", "), bytes.len());
    Ok(ExitCode::SUCCESS)
}
