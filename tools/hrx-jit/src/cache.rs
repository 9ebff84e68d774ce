//! `hrx-jit cache`: the cache of compiled kernels.

use crate::Outcome;
use clap::Subcommand;
use hrx_cache::{Cache, CacheOptions, Listed};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
    /// The cache's directory [default: the user's]
    #[arg(long, value_name = "DIR", global = true)]
    cache_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Verb {
    /// Count entries and bytes
    Stat,
    /// List the entries, the most recently used first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check every entry and remove the damaged ones; exit code 1 if there were any
    Verify,
    /// Put the kernels of a pack into the cache
    Import {
        /// A file that `hrx-jit pack` made
        pack: PathBuf,
    },
    /// Remove all entries
    Clear,
}

pub fn run(args: &Args) -> Outcome {
    let options = match &args.cache_dir {
        Some(dir) => CacheOptions::at(dir),
        None => CacheOptions::from_env()?,
    };
    let dir = options.dir.display().to_string();
    let cache = Cache::open(options)?;
    let mut out = std::io::stdout().lock();
    match &args.verb {
        Verb::Stat => {
            let stat = cache.stat()?;
            writeln!(out, "directory  {dir}\nentries    {}\nbytes      {}", stat.entries, stat.bytes)?;
            writeln!(out, "temporary  {}", stat.temporary)?;
        }
        Verb::List { json } => list(&mut out, &cache.list()?, *json)?,
        Verb::Import { pack } => {
            let shown = pack.display();
            let bytes = std::fs::read(pack).map_err(|e| format!("can't read {shown}: {e}"))?;
            let entries = hrx_cache::unpack(&bytes).map_err(|e| format!("{shown}: {e}"))?;
            let done = cache.import(&entries)?;
            writeln!(out, "{} kernels imported into {dir}", done.written)?;
        }
        Verb::Verify => {
            let verified = cache.verify()?;
            for damage in &verified.damaged {
                writeln!(out, "{damage}")?;
            }
            writeln!(out, "{} good, {} damaged", verified.good, verified.damaged.len())?;
            if !verified.damaged.is_empty() {
                return Ok(ExitCode::FAILURE);
            }
        }
        Verb::Clear => {
            let cleared = cache.clear()?;
            writeln!(out, "removed {} entries of {} bytes from {dir}", cleared.entries, cleared.bytes)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(out: &mut dyn Write, entries: &[Listed], as_json: bool) -> std::io::Result<()> {
    if as_json {
        let list: Vec<Value> = entries.iter().map(entry).collect();
        return writeln!(out, "{:#}", Value::from(list));
    }
    writeln!(out, "{:16}   bytes  compile ms  kernel  (target)", "hash")?;
    for e in entries {
        let meta = meta(e);
        let text = |key: &str| meta.get(key).and_then(Value::as_str).unwrap_or("-").escape_debug().to_string();
        let time = meta.get("compile_ms").and_then(Value::as_f64).map_or("-".into(), |t| format!("{t:.1}"));
        let hash = &e.key.to_string()[..16];
        writeln!(out, "{hash}  {:>6}  {time:>10}  {}  ({})", e.bytes, text("kernel"), text("target"))?;
    }
    Ok(())
}

/// The entry's metadata; null where it can't be read.
fn meta(e: &Listed) -> Value {
    e.meta.as_deref().and_then(|m| serde_json::from_slice(m).ok()).unwrap_or_default()
}

fn entry(e: &Listed) -> Value {
    let mut entry = json!({ "hash": e.key.to_string(), "path": e.path, "bytes": e.bytes });
    if let Some(t) = e.last_use.and_then(|t| t.duration_since(UNIX_EPOCH).ok()) {
        entry["last_use"] = json!(t.as_secs());
    }
    if let Some(uses) = e.uses {
        entry["uses"] = json!(uses);
    }
    if let Value::Object(fields) = meta(e) {
        for (key, value) in fields {
            entry[key] = value;
        }
    }
    entry
}
