//! `hrx-jit targets`: the table of targets, and what this machine has of them.

use crate::Outcome;
use crate::output::target_parser;
use hrx::compiler::Target;
use hrx::compiler::target::amd::{BOARDS, CHIPS, Chip, Row, report};
use serde_json::{Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

/// Where Linux's driver for AMD GPUs lists its nodes.
const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";

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
    std::iter::once(Target::x86_64_v3()).chain(CHIPS.iter().map(Target::Amd)).collect()
}

fn rows(target: &Target) -> Vec<Row> {
    match target {
        Target::Amd(chip) => report(chip),
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
    writeln!(out, "{:16}{:16}", Target::x86_64_v3().name().split('+').next().unwrap_or_default(), "x86-64, AVX2")?;
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
    match gpus(nodes) {
        Ok(gpus) => found["gpus"] = json!(gpus),
        Err(why) => found["no_gpus"] = json!(why),
    }
    match Target::host() {
        Ok(host) => found["host"] = json!(host.name()),
        Err(e) => found["no_host"] = json!(e.to_string()),
    }
    found
}

/// The GPUs among the driver's nodes, as LLVM calls them, or why there are none.
fn gpus(nodes: &Path) -> Result<Vec<Value>, String> {
    let entries = std::fs::read_dir(nodes)
        .map_err(|e| format!("{} can't be read ({e}): the driver of AMD GPUs is not loaded", nodes.display()))?;
    let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path().join("properties"))).collect();
    paths.sort();
    let gpu = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).ok()?;
        let property = |name: &str| {
            let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u32>().ok();
            text.lines().find_map(value)
        };
        // Processors are nodes too, of version 0.
        let name = processor(property("gfx_target_version").filter(|&v| v > 0)?);
        let mut gpu = json!({ "processor": name, "node": path.parent().map(|p| p.display().to_string()) });
        if let Some(chip) = CHIPS.iter().find(|c| c.name == name || c.members.contains(&name.as_str())) {
            gpu["target"] = json!(chip.name);
        }
        Some(gpu)
    };
    let found: Vec<Value> = paths.iter().filter_map(gpu).collect();
    if found.is_empty() { Err(format!("{} lists no GPU", nodes.display())) } else { Ok(found) }
}

/// LLVM's name of a processor by the driver's number: two decimal digits each of minor version and stepping, which LLVM
/// writes as one hexadecimal digit each.
fn processor(version: u32) -> String {
    format!("gfx{}{:x}{:x}", version / 10_000, version / 100 % 100, version % 100)
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
        writeln!(out, "  GPU {}{target} ({})", of("processor"), of("node"))?;
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
    fn processors_are_named_as_llvm_does() {
        for (version, name) in [(90_010, "gfx90a"), (90_402, "gfx942"), (110_000, "gfx1100"), (110_501, "gfx1151")] {
            assert_eq!(processor(version), name);
        }
        assert_eq!(processor(100_304), "gfx1034");
    }

    #[test]
    fn nodes_with_a_version_are_gpus() {
        let dir = tempfile::tempdir().expect("a directory");
        for (node, text) in [
            ("0", "cpu_cores_count 16\ngfx_target_version 0\n"),
            ("1", "simd_count 192\ngfx_target_version 110000\nvendor_id 4098\n"),
            ("2", "gfx_target_version 100304\n"),
            ("3", "gfx_target_version 80003\n"),
            ("4", "damaged"),
        ] {
            std::fs::create_dir(dir.path().join(node)).expect("a node");
            std::fs::write(dir.path().join(node).join("properties"), text).expect("its properties");
        }
        let found = gpus(dir.path()).expect("GPUs");
        let shown: Vec<_> = found.iter().map(|g| (g["processor"].as_str(), g["target"].as_str())).collect();
        let wanted =
            [(Some("gfx1100"), Some("gfx1100")), (Some("gfx1034"), Some("gfx10-3-generic")), (Some("gfx803"), None)];
        assert_eq!(shown, wanted);
        let mut text = Vec::new();
        print_here(&mut text, &here(dir.path())).expect("written");
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains("GPU gfx1034, which runs code for gfx10-3-generic ("), "{text}");
        assert!(text.contains("GPU gfx803, which is not in the table ("), "{text}");
    }

    #[test]
    fn nothing_found_is_said_so() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(gpus(dir.path()).expect_err("no GPU").ends_with("lists no GPU"));
        let none = dir.path().join("none");
        assert!(gpus(&none).expect_err("no GPU").contains("the driver of AMD GPUs is not loaded"));
        let found = here(&none);
        assert!(found.get("gpus").is_none() && found["no_gpus"].is_string(), "{found}");
    }
}
