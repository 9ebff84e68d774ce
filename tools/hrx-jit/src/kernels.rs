//! `hrx-jit kernels`: the kernels that a model needs.

use crate::Outcome;
use crate::input::graph_of;
use crate::output::target_parser;
use hrx::compiler::Target;
use hrx::compiler::hsaco::Hsaco;
use hrx::compiler::ptx::Ptx;
use hrx::compiler::target::amd::Resources;
use hrx::exec::{KernelObject, ModelKernel, Objects, model_kernels};
use hrx::ir::tile::Kernel;
use hrx::{CacheChoice, open_cache};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file, or a model of published sizes, as qwen3-8b:q4_k_m
    model: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// What to compile for: host, x86-64-v3, gfx1100, …
    #[arg(long, default_value = "host", value_parser = target_parser)]
    target: Target,
    /// The cache of compiled kernels [default: the user's]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Compile every kernel anew and keep nothing
    #[arg(long, conflicts_with = "cache_dir")]
    no_cache: bool,
}

/// Lists kernels. Those in the cache are listed with the time that compiling them took then.
pub fn run(args: &Args) -> Outcome {
    let kernels = model_kernels(&graph_of(&args.model)?, &args.target)?;
    let choice = match (&args.cache_dir, args.no_cache) {
        (_, true) => CacheChoice::Disabled,
        (Some(dir), _) => CacheChoice::Dir(dir.clone()),
        (None, _) => CacheChoice::Default,
    };
    let warn: hrx::exec::Warn = Arc::new(|text: &str| eprintln!("warning: {text}"));
    let objects = Objects::new(args.target.clone(), open_cache(&choice, &warn)?, warn);
    let made = objects.get(&kernels.iter().map(|k| &k.kernel).collect::<Vec<&Kernel>>())?.objects;
    let rows: Vec<(&ModelKernel, &KernelObject)> = kernels.iter().zip(&made).collect();
    let mut out = std::io::stdout().lock();
    if args.json {
        let list =
            rows.iter().map(|(k, o)| entry(k, o, used(&args.target, &o.bytes)?)).collect::<Result<Vec<_>, _>>()?;
        let all = json!({ "model": args.model, "target": args.target.name(), "kernels": list });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let used: Vec<Option<Used>> = made.iter().map(|o| used(&args.target, &o.bytes)).collect::<Result<_, _>>()?;
    let width = rows.iter().map(|(k, _)| k.kernel.name.len()).max().unwrap_or(0).max(4);
    let registers = if matches!(args.target, Target::Host(_)) { "" } else { "  VGPR  SGPR    LDS  waves/SIMD" };
    writeln!(out, "{:width$}  hash              compile ms   bytes{registers}  decode  prefill  facts", "name")?;
    for ((k, o), used) in rows.iter().zip(&used) {
        let time = o.time.map_or("-".into(), |t| format!("{:.1}", 1e3 * t.as_secs_f64()));
        let hash = &o.key.to_string()[..16];
        writeln!(
            out,
            "{:width$}  {hash}  {time:>10}  {:>6}{}  {:>6}  {:>7}  {}",
            k.kernel.name,
            o.bytes.len(),
            used.as_ref().map_or(String::new(), Used::columns),
            k.decode,
            k.prefill,
            facts(k)
        )?;
    }
    writeln!(out, "{}", summary(&rows))?;
    Ok(ExitCode::SUCCESS)
}

/// What the kernel was made from: the family's struct as Rust writes it.
fn facts(k: &ModelKernel) -> String {
    let request = format!("{:?}", k.request);
    // The request's variant has the family's name, as the struct in it does.
    request.split_once('(').and_then(|(_, r)| r.strip_suffix(')')).map_or(request.clone(), String::from)
}

/// What a kernel for a GPU takes of it.
struct Used {
    vgprs: Option<u32>,
    sgprs: Option<u32>,
    lds: u32,
    /// Waves of a SIMD that run beside one another.
    waves: Option<u32>,
}

impl Used {
    fn columns(&self) -> String {
        let text = |n: Option<u32>| n.map_or("-".into(), |n| n.to_string());
        format!("  {:>4}  {:>4}  {:>5}  {:>10}", text(self.vgprs), text(self.sgprs), self.lds, text(self.waves))
    }
}

/// Registers, LDS and occupancy of an object for a GPU; none for others. Of NVIDIA's only LDS is known: registers are
/// allocated by the driver.
fn used(target: &Target, object: &[u8]) -> Result<Option<Used>, Box<dyn std::error::Error>> {
    let chip = match target {
        Target::Host(_) => return Ok(None),
        Target::Nvidia(_) => {
            let lds = Ptx::read(object)?.kernels.iter().map(|k| k.static_shared + k.dynamic_shared).sum();
            return Ok(Some(Used { vgprs: None, sgprs: None, lds, waves: None }));
        }
        Target::Amd(chip) => chip,
    };
    let hsaco = Hsaco::read(object)?;
    let Some(kernel) = hsaco.kernels.first() else { return Err("an object without a kernel".into()) };
    let meta = kernel.metadata.as_ref();
    let (vgprs, sgprs) = (meta.and_then(|m| m.vgpr_count), meta.and_then(|m| m.sgpr_count));
    let lds = kernel.descriptor.group_segment_fixed_size;
    let size = meta.and_then(|m| m.reqd_workgroup_size).map(|s| s.iter().product::<u32>());
    let waves = match (vgprs, sgprs, size) {
        (Some(vgprs), Some(sgprs), Some(size)) => {
            let waves_per_workgroup = size.div_ceil(chip.wave);
            let resources = Resources { wave: chip.wave, vgprs, sgprs, lds_bytes: lds, waves_per_workgroup };
            Some(chip.occupancy(&resources)?.waves_per_simd)
        }
        _ => None,
    };
    Ok(Some(Used { vgprs, sgprs, lds, waves }))
}

fn entry(k: &ModelKernel, o: &KernelObject, used: Option<Used>) -> Result<Value, Box<dyn std::error::Error>> {
    let mut entry = json!({
        "name": k.kernel.name,
        "facts": facts(k),
        "hash": o.key.to_string(),
        "bytes": o.bytes.len(),
        "decode_launches": k.decode,
        "prefill_launches": k.prefill,
    });
    // What was not measured is left out.
    if let Some(t) = o.time {
        entry["compile_ms"] = json!(1e3 * t.as_secs_f64());
    }
    if let Some(used) = used {
        let fields = [
            ("vgprs", used.vgprs),
            ("sgprs", used.sgprs),
            ("lds_bytes", Some(used.lds)),
            ("waves_per_simd", used.waves),
        ];
        fields.into_iter().filter_map(|(n, v)| Some((n, v?))).for_each(|(n, v)| entry[n] = json!(v));
    }
    Ok(entry)
}

fn summary(rows: &[(&ModelKernel, &KernelObject)]) -> String {
    let mut times: Vec<f64> = rows.iter().filter_map(|(_, o)| o.time).map(|t| 1e3 * t.as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    let bytes: usize = rows.iter().map(|(_, o)| o.bytes.len()).sum();
    let [decode, prefill] = rows.iter().fold([0, 0], |[d, p], (k, _)| [d + k.decode, p + k.prefill]);
    let mut text =
        format!("{} kernels, {bytes} bytes, {decode} launches a decode step, {prefill} a prefill step", rows.len());
    if let Some(worst) = times.last() {
        let sum: f64 = times.iter().sum();
        text += &format!("; compile {sum:.1} ms, median {:.1} ms, worst {worst:.1} ms", times[times.len() / 2]);
    }
    text
}
