//! `hrx-jit inspect`: what a kernel takes of a chip, executes and does with memory.

use crate::Outcome;
use crate::input::{bytes_of, is_gguf, size_parser};
use crate::output::{board_parser, pick, target_parser, write};
use hrx::compiler::hsaco::Hsaco;
use hrx::compiler::inspect::{Inspection, Options, inspect};
use hrx::compiler::target::amd::Board;
use hrx::compiler::{Target, compile};
use hrx::exec::model_kernels;
use hrx::models::ModelGraph;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// An HSACO of any compiler, or a GGUF file
    file: PathBuf,
    /// The kernel: its name, or a part that no other kernel's name has. All kernels of an HSACO without
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The GPU that a model's kernel is compiled for. An HSACO says what it is for
    #[arg(long, value_parser = target_parser)]
    target: Option<Target>,
    /// The board whose roofs are drawn: its name, or a part that no other board's name has [default: a typical one of
    /// the chip]
    #[arg(long, value_name = "NAME", value_parser = board_parser)]
    board: Option<&'static Board>,
    /// Work items of a workgroup: X, XxY or XxYxZ, for kernels that don't say. Which lanes access what may depend on it
    #[arg(long, value_name = "SIZE", value_parser = size_parser)]
    workgroup: Option<[u32; 3]>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a page of HTML, with the code and the roofline drawn
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "output"])]
    html: Option<PathBuf>,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args) -> Outcome {
    let found = inspected(args)?;
    if let Some(page) = &args.html {
        write(found.html().as_bytes(), Some(page), false)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = if args.json { serde_json::to_string_pretty(&found)? + "\n" } else { found.to_string() };
    write(text.as_bytes(), args.output.as_deref(), false)?;
    Ok(ExitCode::SUCCESS)
}

fn inspected(args: &Args) -> Result<Inspection, Box<dyn Error>> {
    let name = args.file.display().to_string();
    if is_gguf(&args.file)? {
        return of_model(args, &name);
    }
    if args.target.is_some() {
        return Err(format!("{name}: --target is for models; a code object says what it is for").into());
    }
    let bytes = bytes_of(&args.file)?;
    of_code_object(&bytes, args.kernel.as_deref(), &args.options(), &name)
}

impl Args {
    fn options(&self) -> Options<'static> {
        Options { kernel: None, board: self.board, workgroup: self.workgroup }
    }
}

/// Inspects a code object, of which messages speak by that name; one kernel of it, whose name may be a part.
pub fn of_code_object(
    bytes: &[u8],
    kernel: Option<&str>,
    options: &Options<'_>,
    name: &str,
) -> Result<Inspection, Box<dyn Error>> {
    let said = |e: hrx::compiler::CompileError| format!("{name}: {e}");
    let kernel = match kernel {
        None => None,
        Some(wanted) => {
            let hsaco = Hsaco::read(bytes).map_err(said)?;
            let names: Vec<&str> = hsaco.kernels.iter().map(|k| k.name).collect();
            Some(names[pick(&names, wanted, name)?].to_string())
        }
    };
    Ok(inspect(bytes, &Options { kernel: kernel.as_deref(), ..*options }).map_err(said)?)
}

fn of_model(args: &Args, name: &str) -> Result<Inspection, Box<dyn Error>> {
    let Some(target @ Target::Amd(_)) = &args.target else {
        return Err(format!("{name}: say with --target for which GPU its kernel is to be compiled").into());
    };
    let Some(wanted) = &args.kernel else {
        return Err(format!("{name}: say with --kernel which of its kernels").into());
    };
    let kernels = model_kernels(&ModelGraph::open(&args.file)?.graph, target)?;
    let names: Vec<&str> = kernels.iter().map(|k| k.kernel.name.as_str()).collect();
    let kernel = &kernels[pick(&names, wanted, name)?].kernel;
    let compiled = compile(kernel, target)?;
    of_code_object(&compiled.object, None, &args.options(), &kernel.name)
}
