//! What a model is made of and what it takes to run it, as text or JSON.

use crate::args::Args;
use crate::console::Console;
use crate::engine::{model_options, session_options};
use crate::failure::Failure;
use crate::output::Output;
use hrx::names::{Keeper, Places};
use hrx::{Explanation, Model};
use std::fmt::Write;
use std::sync::Arc;

/// Metadata that the report shows in other places, or that are as long as they are dull.
const NOT_OF_NOTE: [&str; 3] = ["general.architecture", "general.name", "tokenizer.chat_template"];

/// Explains.
///
/// # Errors
/// If the model can't be opened, or the report can't be written.
pub fn run(args: &Args, console: &Arc<Console>) -> Result<(), Failure> {
    let found = Places::from_env().find(args.model()).map_err(hrx::Error::from)?;
    let model = Model::open(&found.path, &model_options(args, console))?;
    let explanation = model.explain(&session_options(args, &model))?;
    let text = if args.json {
        let json = serde_json::to_string_pretty(&explanation);
        json.map_err(|e| Failure::Input(format!("the report is no JSON: {e}")))? + "\n"
    } else {
        let kept = match found.keeper {
            Keeper::File => String::new(),
            keeper => format!("{} of {}\n", found.name, keeper.name()),
        };
        kept + &report(&explanation)
    };
    let mut output = Output::new();
    // What fails is kept.
    let _ = output.write(&text);
    output.finish()
}

fn report(e: &Explanation) -> String {
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = sections(&mut out, e);
    // A file's texts must not move a terminal's cursor.
    out.chars().map(|c| if c.is_control() && c != '\n' { '\u{FFFD}' } else { c }).collect()
}

fn sections(out: &mut String, e: &Explanation) -> std::fmt::Result {
    let files = if e.files > 1 { format!(" and {} more", e.files - 1) } else { String::new() };
    writeln!(out, "{}{files}, {}", e.file.display(), size(e.file_bytes))?;
    let name = e.name.as_deref().unwrap_or("no name");
    writeln!(out, "{name}: {}, {}, {:.1} M parameters", e.architecture, e.file_type, e.n_params as f64 / 1e6)?;

    let s = &e.sizes;
    writeln!(out, "\nSizes")?;
    for (what, n, key) in [
        ("layers", s.n_layer, ""),
        ("hidden state", s.n_embd, ""),
        ("query heads", s.n_head, "n_head"),
        ("key/value heads", s.n_kv_head, "n_kv_head"),
        ("head of queries and keys", s.head_dim, ""),
        ("head of values", s.value_dim, ""),
        ("feed-forward network", s.n_ff, "n_ff"),
        ("experts", s.n_expert, ""),
        ("experts of a token", s.n_expert_used, "n_expert_used"),
        ("vocabulary", s.n_vocab, ""),
        ("trained context", s.n_ctx_train, ""),
    ] {
        if n > 0 {
            let differs = if s.by_layer.contains(&key) { " at most; layers differ" } else { "" };
            writeln!(out, "  {what:<26}{n:>10}{differs}")?;
        }
    }

    writeln!(out, "\nTensors{:>21}{:>16}{:>13}", "count", "elements", "bytes")?;
    for t in &e.tensors {
        writeln!(out, "  {:<12}{:>14}{:>16}{:>13}", t.name, t.count, t.elements, size(t.bytes))?;
    }

    let total = "launches of a step";
    let width = e.kernels.iter().map(|k| k.name.len()).max().unwrap_or(0).max(total.len());
    writeln!(out, "\n{:<1$}{2:>10}{3:>9}", "Kernels", width + 2, "decode", "prefill")?;
    for k in &e.kernels {
        writeln!(out, "  {:<width$}{:>10}{:>9}", k.name, k.decode, k.prefill)?;
    }
    writeln!(out, "  {total:<width$}{:>10}{:>9}", e.launches.decode, e.launches.prefill)?;

    let (m, f) = (&e.memory, &e.fit);
    writeln!(out, "\nMemory with a context of {} tokens, {} in a step", f.n_ctx, f.n_batch)?;
    let weights = if m.weights_are_copied { "copied to the device" } else { "read where the file is mapped" };
    writeln!(out, "  {:<16}{:>12}  {weights}", "weights", size(m.weights))?;
    if m.kv_cache > 0 {
        writeln!(out, "  {:<16}{:>12}  {} bytes a token", "KV cache", size(m.kv_cache), m.kv_cache_per_token)?;
    }
    if m.states > 0 {
        writeln!(out, "  {:<16}{:>12}  of any context", "states", size(m.states))?;
    }
    writeln!(out, "  {:<16}{:>12}", "activations", size(m.activations))?;
    writeln!(out, "  {:<16}{:>12}  of {}, {}", "to allocate", size(m.total), f.device, f.description)?;
    match &f.problem {
        Some(problem) => writeln!(out, "  does not fit: {problem}")?,
        None => {
            let longest =
                f.longest_context.map(|n| format!(", enough for a context of {n} tokens")).unwrap_or_default();
            writeln!(out, "  fits: {} are free{longest}", size(f.device_free))?;
        }
    }

    writeln!(out, "\nText")?;
    match (&e.tokenizer, &e.tokenizer_problem) {
        (Some(t), _) => {
            writeln!(out, "  {} tokens, cut by {}; answers end at {}", t.tokens, t.pre, t.ends.join(" "))?;
            let has = |what: bool| if what { "" } else { "no " };
            match (&t.template_problem, t.chat_templates.is_empty()) {
                (Some(problem), _) => writeln!(out, "  {problem}")?,
                (None, true) => writeln!(out, "  no chat template, as base models")?,
                (None, false) => writeln!(
                    out,
                    "  chat template{} {}, with {}tools and {}switch for reasoning",
                    if t.chat_templates.len() > 1 { "s" } else { "" },
                    t.chat_templates.join(", "),
                    has(t.tools),
                    has(t.reasoning.is_some())
                )?,
            }
        }
        (None, problem) => writeln!(out, "  {}", problem.as_deref().unwrap_or("no tokenizer"))?,
    }

    writeln!(out, "\nMetadata")?;
    for (key, value) in e.metadata.iter().filter(|(key, _)| !NOT_OF_NOTE.contains(&key.as_str())) {
        match value.as_str() {
            Some(text) => writeln!(out, "  {key}: {text}")?,
            None => writeln!(out, "  {key}: {value}")?,
        }
    }
    Ok(())
}

/// Bytes as people read them.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match UNITS.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{:.1} {unit}", bytes as f64 / (1u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}
