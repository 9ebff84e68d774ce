//! `hrx-jit compile`: kernels from a text.

use crate::Outcome;
use crate::output::{emit_parser, pick, target_parser, write};
use hrx::compiler::{Emit, Target, emit};
use hrx::ir::tile::{Kernel, parse_module, verify};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// A file with kernels in tile IR; `-` for standard input
    file: PathBuf,
    /// The kernel, where the file has several: its name, or a part that no other name has. All of them without, in a
    /// form that is text
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The form
    #[arg(long, value_name = "FORM", default_value = "asm", value_parser = emit_parser())]
    emit: Emit,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to compile for: host, x86-64-v3, gfx1100, …
    #[arg(long, default_value = "host", value_parser = target_parser)]
    target: Target,
}

pub fn run(args: &Args) -> Outcome {
    let (name, mut kernels) = kernels_of(&args.file)?;
    let names: Vec<&str> = kernels.iter().map(|k| k.name.as_str()).collect();
    match &args.kernel {
        Some(wanted) => {
            let at = pick(&names, wanted, &name)?;
            kernels = vec![kernels.swap_remove(at)];
        }
        None if args.emit.is_binary() && names.len() > 1 => {
            let list = names.join(", ");
            return Err(format!("{name}: an object holds one kernel; choose one with --kernel: {list}").into());
        }
        None => {}
    }
    let mut forms = Vec::with_capacity(kernels.len());
    for kernel in &kernels {
        verify(kernel).map_err(|e| format!("{name}: {e}"))?;
        forms.push(emit(kernel, &args.target, args.emit).map_err(|e| format!("{name}: {e}"))?);
    }
    write(&forms.join(&b'\n'), args.output.as_deref(), args.emit.is_binary())?;
    Ok(ExitCode::SUCCESS)
}

/// A file's name for messages, and its kernels, of which there is at least one.
///
/// # Errors
/// What can't be read or does not parse.
pub fn kernels_of(path: &Path) -> Result<(String, Vec<Kernel>), String> {
    let (name, text) = read(path)?;
    let kernels = parse_module(&text).map_err(|e| format!("{name}: {e}"))?;
    if kernels.is_empty() {
        return Err(format!("{name}: there is no kernel in it"));
    }
    Ok((name, kernels))
}

/// A file's name for messages, and its text.
fn read(path: &Path) -> Result<(String, String), String> {
    let (name, bytes) = if path == Path::new("-") {
        let mut bytes = Vec::new();
        ("standard input".into(), std::io::stdin().read_to_end(&mut bytes).map(|_| bytes))
    } else {
        (path.display().to_string(), std::fs::read(path))
    };
    let bytes = bytes.map_err(|e| format!("can't read {name}: {e}"))?;
    let text = String::from_utf8(bytes)
        .map_err(|e| format!("{name}: not text: byte {} is not UTF-8", e.utf8_error().valid_up_to()))?;
    Ok((name, text))
}
