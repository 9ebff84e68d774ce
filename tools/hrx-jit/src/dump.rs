//! `hrx-jit dump`: a model's graph, or one of its kernels.

use crate::Outcome;
use crate::output::{pick, target_parser, write};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use hrx::compiler::{Emit, Target, emit};
use hrx::exec::model_kernels;
use hrx::models::ModelGraph;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file
    model: PathBuf,
    /// The kernel: its name, or a part that no other kernel's name has. Not needed for the graph
    #[arg(long, value_name = "NAME", required_unless_present = "emit",
        required_if_eq_any = Emit::ALL.map(|(name, _)| ("emit", name)))]
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
        Form::Graph => (ModelGraph::open(&args.model)?.graph.to_string().into_bytes(), false),
        Form::Kernel(form) => {
            let kernels = model_kernels(&ModelGraph::open(&args.model)?.graph, &args.target)?;
            let names: Vec<&str> = kernels.iter().map(|k| k.kernel.name.as_str()).collect();
            let wanted = args.kernel.as_deref().unwrap_or_default();
            let at = pick(&names, wanted, &args.model.display().to_string())?;
            (emit(&kernels[at].kernel, &args.target, form)?, form.is_binary())
        }
    };
    write(&bytes, args.output.as_deref(), binary)?;
    Ok(ExitCode::SUCCESS)
}
