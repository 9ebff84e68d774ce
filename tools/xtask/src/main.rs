//! `cargo xtask VERB`: what people and CI do with this repository, in one command each.
//!
//! Only the standard library is used, so that this builds in a second on a bare machine and can
//! then install what everything else needs.

mod bench_triton;
mod demo;
mod dist;
mod models;
mod setup;
mod shell;
mod test;

use std::process::ExitCode;

/// A verb: its name, what it does, and the function.
type Verb = (&'static str, &'static str, fn() -> Result<(), String>);

const VERBS: &[Verb] = &[
    ("setup", "install what the build needs (Debian: LLVM 22, a C++ compiler, pip)", setup::run),
    ("setup-tests", "the same for `test` and the feature `mlir` (Debian: MLIR 22, libclang)", setup::for_tests),
    ("models", "download the two small models into .models (or $HRX_MODELS)", models::run),
    ("demo", "set up, download, build, and run both models", demo::run),
    ("dist", "build the programs to hand out, with LLVM inside, and check their limits", dist::run),
    ("bench-triton", "compare compile times with Triton's, which is installed under target", bench_triton::run),
    ("test", "everything that CI checks; stops at the first failure", test::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let help = matches!(arguments.as_slice(), [word] if ["help", "-h", "--help"].contains(&word.as_str()));
    let verb = match arguments.as_slice() {
        [word] => VERBS.iter().find(|(name, ..)| name == word),
        _ => None,
    };
    let Some((name, _, run)) = verb else {
        let usage: String = VERBS.iter().map(|(name, what, _)| format!("  cargo xtask {name:12} {what}\n")).collect();
        if help {
            print!("{usage}");
            return ExitCode::SUCCESS;
        }
        eprint!("xtask: one verb is wanted, of:\n{usage}");
        return ExitCode::FAILURE;
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {name}: {error}");
            ExitCode::FAILURE
        }
    }
}
