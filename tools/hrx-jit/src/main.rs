//! hrx-jit: shows what the JIT compiler makes, and looks after its cache.

mod cache;
mod compile;
mod diff;
mod dump;
mod emulate;
mod input;
mod inspect;
mod kernels;
mod output;
mod pack;
mod targets;
mod verify;
mod why;

use clap::{Parser, Subcommand};
use std::error::Error;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// What a subcommand comes to: whether all is well, or why it could not do its work.
type Outcome = Result<ExitCode, Box<dyn Error>>;

/// Shows what the JIT compiler makes, and looks after its cache.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the kernels that a model needs: name, hash, compile time, size, launches a step, facts
    Kernels(kernels::Args),
    /// Print a model's graph, or one of its kernels in a form on its way to machine code
    Dump(dump::Args),
    /// Compile kernels from a file in tile IR's text form
    Compile(compile::Args),
    /// Compile every kernel of a model ahead into one file, which `cache import` takes
    Pack(pack::Args),
    /// Say why a kernel is cut as it is, and what else was possible
    Why(why::Args),
    /// Say what a kernel for a GPU takes of the chip, executes and does with memory
    Inspect(inspect::Args),
    /// Run the final bytes of kernels for GPUs in the emulator, and hold them to the interpreter
    Verify(verify::Args),
    /// Run a kernel of any compiler's code object in the emulator, and say what its checks find
    Emulate(emulate::Args),
    /// Say what changed between two code objects
    Diff(diff::Args),
    /// List the targets, and what this machine has of them
    Targets(targets::Args),
    /// Look at the cache of compiled kernels
    Cache(cache::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Kernels(args) => kernels::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Compile(args) => compile::run(&args),
        Command::Pack(args) => pack::run(&args),
        Command::Why(args) => why::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Emulate(args) => emulate::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Targets(args) => targets::run(&args),
        Command::Cache(args) => cache::run(&args),
    };
    match outcome {
        Ok(code) => code,
        // Whoever reads has seen enough.
        Err(e) if is_broken_pipe(&*e) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(e: &(dyn Error + 'static)) -> bool {
    e.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
}
