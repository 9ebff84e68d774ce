//! `hrx-jit diff`: what changed between two code objects.

use crate::Outcome;
use crate::inspect::of_code_object;
use crate::output::{board_parser, write};
use hrx::compiler::inspect::{Inspection, Options, diff};
use hrx::compiler::target::amd::Board;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// The HSACO before
    before: PathBuf,
    /// The HSACO after
    after: PathBuf,
    /// The kernel, in both: its name, or a part that no other kernel's name has. All that both have without
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The board whose roofs are taken: its name, or a part that no other board's name has [default: a typical one of
    /// the chip]
    #[arg(long, value_name = "NAME", value_parser = board_parser)]
    board: Option<&'static Board>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let read = |path: &Path| -> Result<Inspection, Box<dyn Error>> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path).map_err(|e| format!("can't read {name}: {e}"))?;
        of_code_object(&bytes, args.kernel.as_deref(), &Options { board: args.board, ..Options::default() }, &name)
    };
    let [before, after] = [read(&args.before)?, read(&args.after)?];
    let names = format!("{} and {}", args.before.display(), args.after.display());
    let found = diff(&before, &after).map_err(|e| format!("{names}: {e}"))?;
    let text = if args.json { serde_json::to_string_pretty(&found)? + "\n" } else { found.to_string() };
    write(text.as_bytes(), None, false)?;
    Ok(ExitCode::SUCCESS)
}
