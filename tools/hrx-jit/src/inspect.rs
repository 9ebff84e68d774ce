//! `hrx-jit inspect`: what a kernel takes of a chip, executes and does with memory.

mod mca;

use crate::Outcome;
use crate::compile::kernels_of;
use crate::input::{bytes_of, is_gguf, size_parser};
use crate::output::{board_parser, pick, target_parser, write};
use hrx::compiler::hsaco::Hsaco;
use hrx::compiler::inspect::{Inspection, Options, inspect};
use hrx::compiler::ptx::{self, Ptx};
use hrx::compiler::target::amd::Board;
use hrx::compiler::x86;
use hrx::compiler::{Target, compile};
use hrx::exec::model_kernels;
use hrx::ir::tile::Kernel;
use hrx::models::ModelGraph;
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// An HSACO of any compiler, PTX, an object for x86-64, a file with kernels in tile IR (.tile), or a GGUF file
    file: PathBuf,
    /// The kernel: its name, or a part that no other kernel's name has. All kernels of an HSACO, of PTX and
    /// of an object without
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The GPU or processor (host, x86-64-v3) that a model's or a tile IR file's kernel is compiled for. An HSACO, PTX or an
    /// object says what it is for
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

/// What is said of a file.
enum Found {
    /// Of a code object for AMD GPUs.
    Hsaco(Inspection),
    /// Of PTX.
    Ptx(ptx::Report),
    /// Of an object for x86-64.
    X86(x86::Report),
}

pub fn run(args: &Args) -> Outcome {
    let found = inspected(args)?;
    if let Some(page) = &args.html {
        let Found::Hsaco(found) = &found else { return Err("pages of HTML are of code for AMD GPUs".into()) };
        write(found.html().as_bytes(), Some(page), false)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = match (&found, args.json) {
        (Found::Hsaco(found), false) => found.to_string(),
        (Found::Ptx(found), false) => found.to_string(),
        (Found::X86(found), false) => found.to_string(),
        (Found::X86(found), true) => serde_json::to_string_pretty(found)? + "\n",
        (Found::Hsaco(found), true) => serde_json::to_string_pretty(found)? + "\n",
        (Found::Ptx(found), true) => serde_json::to_string_pretty(found)? + "\n",
    };
    write(text.as_bytes(), args.output.as_deref(), false)?;
    Ok(ExitCode::SUCCESS)
}

fn inspected(args: &Args) -> Result<Found, Box<dyn Error>> {
    let name = args.file.display().to_string();
    let kernels: Vec<Kernel> = if is_gguf(&args.file)? {
        let target = args.compiled_for(&name)?;
        let of_model = model_kernels(&ModelGraph::open(&args.file)?.graph, target)?;
        of_model.into_iter().map(|k| k.kernel).collect()
    } else if args.file.extension().is_some_and(|e| e == "tile") {
        kernels_of(&args.file)?.1
    } else {
        if args.target.is_some() {
            let why = "--target is for models and tile IR; a code object says what it is for";
            return Err(format!("{name}: {why}").into());
        }
        return of_bytes(&bytes_of(&args.file)?, args.kernel.as_deref(), &args.options(), &name);
    };
    let target = args.compiled_for(&name)?;
    let names: Vec<&str> = kernels.iter().map(|k| k.name.as_str()).collect();
    let at = match (&args.kernel, &names[..]) {
        (Some(wanted), _) => pick(&names, wanted, &name)?,
        (None, [_]) => 0,
        (None, _) => return Err(format!("{name}: say with --kernel which of its kernels").into()),
    };
    let compiled = compile(&kernels[at], target)?;
    of_bytes(&compiled.object, None, &args.options(), &kernels[at].name)
}

/// Inspects a code object, PTX or a processor's object, as [`of_code_object`] does.
fn of_bytes(bytes: &[u8], kernel: Option<&str>, options: &Options<'_>, name: &str) -> Result<Found, Box<dyn Error>> {
    if x86::is_object(bytes) {
        return of_object(bytes, kernel, options, name).map(Found::X86);
    }
    if !Ptx::is(bytes) {
        return of_code_object(bytes, kernel, options, name).map(Found::Hsaco);
    }
    let said = |e: hrx::compiler::CompileError| format!("{name}: {e}");
    if options.board.is_some() || options.workgroup.is_some() {
        return Err(format!("{name}: PTX says its workgroup, and there are no roofs for it").into());
    }
    let ptx = Ptx::read(bytes).map_err(said)?;
    let names: Vec<&str> = ptx.kernels.iter().map(|k| k.name.as_str()).collect();
    let kernel = kernel.map(|wanted| pick(&names, wanted, name)).transpose()?.map(|at| names[at]);
    Ok(Found::Ptx(ptx::report(bytes, kernel).map_err(said)?))
}

/// Inspects an object for x86-64; what llvm-mca, where there is one, says of its innermost loops stands beside.
fn of_object(
    bytes: &[u8],
    function: Option<&str>,
    options: &Options<'_>,
    name: &str,
) -> Result<x86::Report, Box<dyn Error>> {
    let said = |e: hrx::compiler::CompileError| format!("{name}: {e}");
    if options.board.is_some() || options.workgroup.is_some() {
        return Err(format!("{name}: boards and workgroups are of GPUs").into());
    }
    let names = x86::names(bytes).map_err(said)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let function = function.map(|wanted| pick(&names, wanted, name)).transpose()?.map(|at| names[at]);
    let mut report = x86::report(bytes, function).map_err(said)?;
    for l in report.functions.iter_mut().flat_map(|f| &mut f.loops).filter(|l| l.innermost) {
        l.mca = mca::of_loop(&l.code);
    }
    Ok(report)
}

impl Args {
    fn options(&self) -> Options<'static> {
        Options { kernel: None, board: self.board, workgroup: self.workgroup }
    }

    /// What is compiled for.
    fn compiled_for(&self, name: &str) -> Result<&Target, String> {
        let missing = || format!("{name}: say with --target for which GPU or processor its kernel is to be compiled");
        self.target.as_ref().ok_or_else(missing)
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
