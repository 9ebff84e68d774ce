//! `hrx-jit dump`: a model's graph, or one of its kernels, or a kernel in tile IR.

use crate::Outcome;
use crate::compile::kernels_of;
use crate::input::graph_of;
use crate::output::{pick, target_parser, write};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hrx::compiler::{Emit, Target, emit};
use hrx::exec::model_kernels;
use hrx::ir::tile::Kernel;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file, a model of published sizes (qwen3-8b:q4_k_m), or a file with kernels in tile IR (.tile)
    model: PathBuf,
    /// The kernel: its name, or a part that no other kernel's name has. Not needed for the graph, or where there is one
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The form
    #[arg(long, value_name = "FORM", default_value = "tile", value_parser = form_parser())]
    emit: Form,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to compile for: host, x86-64-v3, gfx1100, …
    #[arg(long, default_value = "host", value_parser = target_parser)]
    target: Target,
}

/// What is printed.
#[derive(Clone, Copy)]
enum Form {
    Graph,
    Kernel(Emit),
}

fn form_parser() -> impl TypedValueParser<Value = Form> {
    let names = std::iter::once("graph").chain(Emit::ALL.map(|(name, _)| name));
    PossibleValuesParser::new(names.collect::<Vec<_>>()).map(|n| Emit::from_name(&n).map_or(Form::Graph, Form::Kernel))
}

pub fn run(args: &Args) -> Outcome {
    let (bytes, binary) = match args.emit {
        Form::Graph => (graph_of(&args.model)?.to_string().into_bytes(), false),
        Form::Kernel(form) => {
            let kernels: Vec<Kernel> = if args.model.extension().is_some_and(|e| e == "tile") {
                kernels_of(&args.model)?.1
            } else {
                let of_model = model_kernels(&graph_of(&args.model)?, &args.target)?;
                of_model.into_iter().map(|k| k.kernel).collect()
            };
            let names: Vec<&str> = kernels.iter().map(|k| k.name.as_str()).collect();
            let file = args.model.display().to_string();
            let at = match (&args.kernel, &names[..]) {
                (Some(wanted), _) => pick(&names, wanted, &file)?,
                (None, [_]) => 0,
                (None, _) => return Err(format!("{file}: say with --kernel which of its kernels").into()),
            };
            (emit(&kernels[at], &args.target, form)?, form.is_binary())
        }
    };
    write(&bytes, args.output.as_deref(), binary)?;
    Ok(ExitCode::SUCCESS)
}
