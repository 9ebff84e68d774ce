//! `hrx-jit kernels`: the kernels that a model needs.

use crate::Outcome;
use crate::output::target_parser;
use hrx::compiler::Target;
use hrx::exec::{KernelObject, ModelKernel, Objects, model_kernels};
use hrx::ir::tile::Kernel;
use hrx::models::ModelGraph;
use hrx::{CacheChoice, open_cache};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file
    model: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// What to compile for: host, x86-64-v3
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
    let kernels = model_kernels(&ModelGraph::open(&args.model)?.graph, &args.target)?;
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
        let list: Vec<Value> = rows.iter().map(|(k, o)| entry(k, o)).collect();
        let all = json!({ "model": args.model, "target": args.target.name(), "kernels": list });
        writeln!(out, "{}", serde_json::to_string_pretty(&all)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let width = rows.iter().map(|(k, _)| k.kernel.name.len()).max().unwrap_or(0).max(4);
    writeln!(out, "{:width$}  hash              compile ms   bytes  decode  prefill  facts", "name")?;
    for (k, o) in &rows {
        let time = o.time.map_or("-".into(), |t| format!("{:.1}", 1e3 * t.as_secs_f64()));
        let hash = &o.key.to_string()[..16];
        writeln!(
            out,
            "{:width$}  {hash}  {time:>10}  {:>6}  {:>6}  {:>7}  {}",
            k.kernel.name,
            o.bytes.len(),
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

fn entry(k: &ModelKernel, o: &KernelObject) -> Value {
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
    entry
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
