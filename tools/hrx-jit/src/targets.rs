//! `hrx-jit targets`: the table of targets, and what this machine has of them.

use crate::Outcome;
use crate::output::target_parser;
use hrx::compiler::Target;
use hrx::compiler::target::amd::{BOARDS, CHIPS, Chip, Row, report};
use hrx::compiler::target::nvidia;
use hrx::device::kfd::{Gpu, NODES, Override, Topology};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// Say everything that is known of one target, and where it was read
    #[arg(value_parser = target_parser)]
    target: Option<Target>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> Outcome {
    let mut out = io::stdout().lock();
    match (&args.target, args.json) {
        (Some(target), true) => writeln!(out, "{:#}", of_target(target))?,
        (Some(target), false) => print_target(&mut out, target)?,
        (None, true) => {
            let targets: Vec<Value> = targets().iter().map(of_target).collect();
            writeln!(out, "{:#}", json!({ "targets": targets, "here": here(Path::new(NODES)) }))?;
        }
        (None, false) => print_table(&mut out)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// All targets but the machine's own processor, which another name stands for.
fn targets() -> Vec<Target> {
    let gpus = CHIPS.iter().map(Target::Amd).chain(nvidia::CHIPS.iter().map(Target::Nvidia));
    std::iter::once(Target::x86_64_v3()).chain(gpus).collect()
}

fn rows(target: &Target) -> Vec<Row> {
    match target {
        Target::Amd(chip) => report(chip),
        Target::Nvidia(chip) => nvidia::report(chip),
        Target::Host(_) => Vec::new(),
    }
}

/// A target with all facts; those that are not known are left out.
fn of_target(target: &Target) -> Value {
    let known = rows(target).into_iter().filter_map(|row| {
        let source = row.source?;
        Some(json!({ "fact": row.label, "value": row.value, "source": source }))
    });
    let facts: Vec<Value> = known.collect();
    let mut value = json!({ "name": target.name() });
    if let Target::Amd(chip) = target {
        value["generation"] = json!(chip.generation);
        value["facts"] = json!(facts);
        value["boards"] = json!(boards(chip));
    }
    if let Target::Nvidia(chip) = target {
        value["generation"] = json!(chip.generation);
        value["facts"] = json!(facts);
        value["boards"] = json!([chip.board.name]);
    }
    value
}

fn boards(chip: &Chip) -> Vec<&'static str> {
    BOARDS.iter().filter(|b| b.chip == chip.name).map(|b| b.name).collect()
}

fn print_target(out: &mut dyn Write, target: &Target) -> io::Result<()> {
    writeln!(out, "{}", target.name())?;
    let rows = rows(target);
    let width = rows.iter().map(|r| r.label.chars().count()).max().unwrap_or(0);
    for row in rows {
        let source = row.source.map_or(String::new(), |s| format!("  [{s}]"));
        writeln!(out, "  {:width$}  {}{source}", row.label, row.value)?;
    }
    Ok(())
}

fn print_table(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:16}{:16}{:>5}{:>7}{:>9}  {:24}boards",
        "target", "generation", "wave", "VGPRs", "LDS KiB", "products"
    )?;
    writeln!(out, "{:16}{:16}", "x86-64-v3", "AVX2")?;
    for chip in CHIPS {
        // Registers that a wave can have; products of the kinds that the chip has instructions for.
        let vgprs = chip.vgprs.first().map_or(0, |v| chip.wave_registers(v));
        let kinds = [(!chip.matrix_ops.is_empty(), matrix(chip)), (!chip.dots.is_empty(), "dot")];
        let kinds: Vec<&str> = kinds.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect();
        let boards = boards(chip).join(", ");
        let row = format!(
            "{:16}{:16}{:>5}{vgprs:>7}{:>9}  {:24}{boards}",
            chip.name,
            chip.generation,
            chip.wave,
            chip.lds >> 10,
            kinds.join(", ")
        );
        writeln!(out, "{}", row.trim_end())?;
    }
    for chip in nvidia::CHIPS {
        writeln!(
            out,
            "{:16}{:16}{:>5}{:>7}{:>9}  {:24}{}",
            chip.name,
            chip.generation,
            nvidia::WARP,
            nvidia::THREAD_REGISTERS.value,
            chip.most_shared.value >> 10,
            "mma.sync, dot",
            chip.board.name
        )?;
    }
    writeln!(out)?;
    print_here(out, &here(Path::new(NODES)))
}

/// The kind of a chip's matrix instructions.
fn matrix(chip: &Chip) -> &'static str {
    let wmma = chip.matrix_ops.iter().any(|op| op.mnemonic.starts_with("v_wmma"));
    if wmma { "WMMA" } else { "MFMA" }
}

/// What this machine has: GPUs that Linux's driver lists, and the processor.
fn here(nodes: &Path) -> Value {
    let mut found = json!({});
    match Topology::read(nodes) {
        Ok(topology) if topology.gpus.is_empty() => {
            found["no_gpus"] = json!(format!("{} lists no GPU", nodes.display()));
        }
        Ok(topology) => {
            let preferred = topology.preferred().map(|g| g.index);
            let gpus: Vec<Value> = topology.gpus.iter().map(|g| gpu(g, Some(g.index) == preferred)).collect();
            found["gpus"] = json!(gpus);
        }
        Err(e) => found["no_gpus"] = json!(e.to_string()),
    }
    match Target::host() {
        Ok(host) => found["host"] = json!(host.name()),
        Err(e) => found["no_host"] = json!(e.to_string()),
    }
    found
}

fn gpu(gpu: &Gpu, preferred: bool) -> Value {
    let mut value = json!({
        "processor": gpu.processor,
        "node": gpu.node,
        "kind": gpu.kind.to_string(),
        "pci": gpu.pci.to_string(),
        "memory_bytes": gpu.memory,
        "preferred": preferred,
    });
    if let Some(chip) = gpu.chip {
        value["target"] = json!(chip.name);
    }
    match Override::of_node(gpu.node, |name| std::env::var(name).ok()) {
        Ok(None) => {}
        Ok(Some(found)) => value["override"] = json!(found.warning(gpu)),
        Err(e) => value["override"] = json!(e.to_string()),
    }
    value
}

fn print_here(out: &mut dyn Write, here: &Value) -> io::Result<()> {
    writeln!(out, "here:")?;
    for gpu in here["gpus"].as_array().into_iter().flatten() {
        let of = |key: &str| gpu[key].as_str().unwrap_or_default();
        let target = match gpu["target"].as_str() {
            Some(t) if t == of("processor") => String::new(),
            Some(t) => format!(", which runs code for {t}"),
            None => ", which is not in the table".into(),
        };
        let memory = gpu["memory_bytes"].as_u64().unwrap_or(0) >> 20;
        let preferred = if gpu["preferred"] == true { ", preferred" } else { "" };
        let (kind, pci, node) = (of("kind"), of("pci"), &gpu["node"]);
        writeln!(out, "  GPU {}{target} ({kind}, PCI {pci}, {memory} MiB, node {node}{preferred})", of("processor"))?;
        if let Some(warning) = gpu["override"].as_str() {
            writeln!(out, "    {warning}")?;
        }
    }
    for (key, what) in [("no_gpus", "no GPU: "), ("host", "host: "), ("no_host", "no host code: ")] {
        if let Some(text) = here[key].as_str() {
            writeln!(out, "  {what}{text}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_listed_with_what_runs_on_them() {
        let dir = tempfile::tempdir().expect("a directory");
        for (node, text) in [
            ("0", "cpu_cores_count 16\ngfx_target_version 0\n"),
            ("1", "simd_count 4\ngfx_target_version 100306\nlocation_id 3072\n"),
            ("2", "simd_count 192\ngfx_target_version 110000\nlocation_id 768\n"),
            ("3", "simd_count 128\ngfx_target_version 80003\n"),
        ] {
            std::fs::create_dir(dir.path().join(node)).expect("a node");
            std::fs::write(dir.path().join(node).join("properties"), text).expect("its properties");
        }
        let mut text = Vec::new();
        print_here(&mut text, &here(dir.path())).expect("written");
        let text = String::from_utf8(text).expect("text");
        for line in [
            "GPU gfx1036, which runs code for gfx10-3-generic (integrated, PCI 0000:0c:00.0, 0 MiB, node 1)",
            "GPU gfx1100 (discrete, PCI 0000:03:00.0, 0 MiB, node 2, preferred)",
            "GPU gfx803, which is not in the table (discrete, PCI 0000:00:00.0, 0 MiB, node 3)",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn nothing_found_is_said_so() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = here(dir.path());
        assert!(found["no_gpus"].as_str().is_some_and(|t| t.ends_with("lists no GPU")), "{found}");
        let none = here(&dir.path().join("none"));
        assert!(none["no_gpus"].as_str().is_some_and(|t| t.contains("is not loaded")), "{none}");
    }
}
