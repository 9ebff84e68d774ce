//! `hrx-jit emulate`: anybody's kernel, run in the emulator with what its checks find.

mod value;

use crate::Outcome;
use crate::input::{bytes_of, size_parser};
use crate::output::{board_parser, pick};
use gfx_emu::{Counters, Dispatch, Estimate, Gpu, Kernel, Options, Run};
use hrx::compiler::hsaco::Hsaco;
use hrx::compiler::inspect::Class;
use hrx::compiler::target::amd::{self, Board};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use value::Value;

#[derive(clap::Args)]
pub struct Args {
    /// An HSACO of any compiler
    file: PathBuf,
    /// The kernel, where the file has several: its name, or a part that no other kernel's name has
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// The chip, for code of a generic target: it says which of its chips to be
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Workgroups: X, XxY or XxYxZ
    #[arg(long, value_name = "SIZE", default_value = "1", value_parser = size_parser)]
    grid: [u32; 3],
    /// Work items of a workgroup: X, XxY or XxYxZ [default: what the kernel requires, else one wave]
    #[arg(long, value_name = "SIZE", value_parser = size_parser)]
    workgroup: Option<[u32; 3]>,
    /// Bytes of LDS beyond what the kernel has
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    lds: u32,
    /// An argument, in the order of the kernel's, as often as it has some: i8:N, i16:N, i32:N, i64:N, f16:X, f32:X, f64:X,
    /// bytes:HEX (by value); room:BYTES (a buffer that nobody has written), zeros:BYTES, f32s:COUNT, f16s:COUNT (random
    /// numbers from -1 to 1), random:BYTES, file:PATH
    #[arg(long = "arg", value_name = "VALUE", value_parser = Value::parse, allow_hyphen_values = true)]
    args: Vec<Value>,
    /// Write the buffer of an argument, counted from 0, to a file afterwards: N=PATH
    #[arg(long, value_name = "N=PATH", value_parser = place_parser)]
    write: Vec<(usize, PathBuf)>,
    /// Where random numbers and the order of waves come from
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// The board of which the time is estimated: its name, or a part that no other board's name has [default: a typical
    /// one of the chip]
    #[arg(long, value_name = "NAME", value_parser = board_parser)]
    board: Option<&'static Board>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn place_parser(text: &str) -> Result<(usize, PathBuf), String> {
    let (n, path) = text.split_once('=').ok_or("an argument's number and a file, as in 2=out.bin")?;
    Ok((n.parse().map_err(|_| format!("{n:?} is no number of an argument"))?, path.into()))
}

/// Runs the kernel. Exit code 1 says that the checks found something.
pub fn run(args: &Args) -> Outcome {
    let name = args.file.display();
    let bytes = bytes_of(&args.file)?;
    let hsaco = Hsaco::read(&bytes).map_err(|e| format!("{name}: {e}"))?;
    let names: Vec<&str> = hsaco.kernels.iter().map(|k| k.name).collect();
    let at = match &args.kernel {
        Some(wanted) => pick(&names, wanted, &name.to_string())?,
        None if names.len() == 1 => 0,
        None => {
            let all = names.join(", ");
            return Err(format!("{name}: say with --kernel which of its {} kernels: {all}", names.len()).into());
        }
    };
    let processor = hsaco.identity.processor.ok_or_else(|| format!("{name}: for a processor that is not known"))?;
    let chip = args.target.as_deref().unwrap_or(processor.name);
    let chip = amd::find(chip).ok_or_else(|| format!("{chip:?} is no chip of the table; see `hrx-jit targets`"))?;
    let gpu = Gpu::new(chip, Options { shuffle: true, seed: args.seed, ..Options::default() })?;
    let module = gpu.load(&bytes).map_err(|e| format!("{name}: {e}"))?;
    let kernel = module.kernel(names[at]).ok_or_else(|| format!("{name}: no kernel {}", names[at]))?;
    let (mut kernarg, buffers) = arguments(&gpu, &kernel, args)?;
    let block = args.workgroup.or(kernel.metadata.reqd_workgroup_size).unwrap_or([kernel.wave, 1, 1]);
    let dispatch = Dispatch { grid: args.grid, block, dynamic_lds: args.lds };
    gpu.fill_hidden_args(&kernel, &dispatch, &mut kernarg);
    let run = gpu.launch(&kernel, dispatch, &kernarg)?;
    for (n, path) in &args.write {
        let Some((_, address, len)) = buffers.iter().find(|(at, ..)| at == n) else {
            return Err(format!("argument {n} is no buffer").into());
        };
        let mut bytes = vec![0; *len];
        gpu.read(*address, &mut bytes)?;
        std::fs::write(path, &bytes).map_err(|e| format!("can't write {}: {e}", path.display()))?;
    }
    if let Some(board) = args.board.filter(|b| b.chip != chip.name) {
        return Err(format!("emulated is {}, but {} has {}", chip.name, board.name, board.chip).into());
    }
    let board = args.board.or_else(|| chip.board().ok());
    let estimate = board.and_then(|board| Estimate::new(&run.counters, kernel.wave, chip, board));
    let mut out = std::io::stdout().lock();
    if args.json {
        let mut found = report(&kernel, chip.name, &dispatch, &run);
        if let Some(e) = &estimate {
            found["estimate"] = json!({ "board": e.board, "microseconds": e.microseconds(), "parts": e.parts });
        }
        writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?;
    } else {
        print(&mut out, &kernel, chip.name, &dispatch, &run)?;
        if let Some(e) = &estimate {
            writeln!(out, "{e}")?;
        }
    }
    Ok(if run.reports.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The number of an argument, the address of its buffer, and how many bytes that has.
type Buffers = Vec<(usize, u64, usize)>;

/// The bytes of the arguments, and the buffers among them.
fn arguments(gpu: &Gpu, kernel: &Kernel, args: &Args) -> Result<(Vec<u8>, Buffers), Box<dyn std::error::Error>> {
    let declared: Vec<_> = kernel.metadata.args.iter().flatten().collect();
    let hidden = |kind: &Option<String>| kind.as_ref().is_some_and(|k| k.starts_with("hidden_"));
    let declared: Vec<_> = declared.into_iter().filter(|a| !hidden(&a.value_kind)).collect();
    if declared.len() != args.args.len() {
        let list: Vec<String> = declared.iter().map(|a| value::described(a)).collect();
        let (want, got) = (declared.len(), args.args.len());
        return Err(format!("{} takes {want} arguments, not {got}: {}", kernel.name, list.join(", ")).into());
    }
    let mut kernarg = vec![0; kernel.kernarg_size()];
    let mut buffers = Vec::new();
    for (n, (argument, value)) in declared.iter().zip(&args.args).enumerate() {
        let bytes = match value.buffer(args.seed.wrapping_add(n as u64))? {
            Some(buffer) => {
                let address = gpu.alloc(buffer.len as u64)?;
                if let Some(bytes) = &buffer.bytes {
                    gpu.write(address, bytes)?;
                }
                buffers.push((n, address, buffer.len));
                address.to_le_bytes().to_vec()
            }
            None => value.by_value(),
        };
        let (offset, size) = (argument.offset.unwrap_or(0) as usize, argument.size.unwrap_or(0) as usize);
        if bytes.len() != size {
            let what = value::described(argument);
            return Err(format!("argument {n} is {what}; what it is given has {} bytes", bytes.len()).into());
        }
        let place = kernarg.get_mut(offset..offset + size).ok_or_else(|| format!("argument {n} has no place"))?;
        place.copy_from_slice(&bytes);
    }
    Ok((kernarg, buffers))
}

/// Wave instructions by class, those that there are.
fn classes(counters: &Counters) -> impl Iterator<Item = (Class, u64)> {
    Class::ALL.iter().map(|&class| (class, counters.of(class))).filter(|(_, n)| *n > 0)
}

fn print(out: &mut impl Write, kernel: &Kernel, chip: &str, d: &Dispatch, run: &Run) -> std::io::Result<()> {
    let c = &run.counters;
    let [x, y, z] = d.block;
    writeln!(
        out,
        "{} emulated on {chip}: {} workgroups of {x} x {y} x {z}, {} waves",
        kernel.name, c.workgroups, c.waves
    )?;
    writeln!(out, "  {} wave instructions", c.total())?;
    for (class, n) in classes(c) {
        writeln!(out, "    {n:>12} {}", class.name())?;
    }
    writeln!(out, "  {} accesses of memory, {} lines of 128 bytes", c.vmem_accesses, c.vmem_lines)?;
    writeln!(out, "  {} accesses of LDS, {} cycles of bank conflicts", c.lds_accesses, c.lds_conflicts)?;
    writeln!(out, "  {} waits that had to wait, {} that had not", c.exposed_waits, c.idle_waits)?;
    for report in &run.reports {
        writeln!(out, "{report}")?;
    }
    writeln!(out, "{} faults found", run.reports.len())
}

fn report(kernel: &Kernel, chip: &str, d: &Dispatch, run: &Run) -> Json {
    let c = &run.counters;
    let fault = |r: &gfx_emu::Report| {
        json!({
            "kind": r.kind.name(), "message": r.message, "pc": r.pc, "instruction": r.instruction, "workgroup": r.workgroup,
            "wave": r.wave, "lane": r.lane, "times": r.times,
        })
    };
    let issued: serde_json::Map<String, Json> = classes(c).map(|(class, n)| (class.name().into(), n.into())).collect();
    json!({
        "kernel": kernel.name, "emulated": chip, "grid": d.grid, "workgroup": d.block,
        "workgroups": c.workgroups, "waves": c.waves, "wave_instructions": c.total(), "by_class": issued,
        "vmem": { "accesses": c.vmem_accesses, "lines_of_128_bytes": c.vmem_lines },
        "lds": { "accesses": c.lds_accesses, "conflict_cycles": c.lds_conflicts },
        "waits": { "exposed": c.exposed_waits, "idle": c.idle_waits },
        "faults": run.reports.iter().map(fault).collect::<Vec<_>>(),
    })
}
