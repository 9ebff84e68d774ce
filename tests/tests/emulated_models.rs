//! Golden models on emulated GPUs, through the HIP device: their logits, held to the figures that the host is held to, and
//! no report of the sanitizer, which would fail a step.

use hrx::exec::Activations;
use hrx::{CacheChoice, Model, ModelOptions};
use hrx_tests::anchors;
use hrx_tests::golden::Golden;
use hrx_tests::logits::Comparison;
use hrx_tests::models::{Feeding, logits};
use std::process::Command;
use std::time::Instant;

/// One of each architecture, with different formats.
const SOME: [&str; 4] = ["llama-Q4_1.gguf", "qwen2-Q4_K_M.gguf", "qwen3-Q6_K.gguf", "gemma3-Q4_0.gguf"];

/// The variable by which a process of these tests is told its chip: one process emulates one.
const CHIP: &str = "HRX_TEST_CHIP";

/// Runs the goldens in a process of their own.
fn in_a_process(chip: &str) {
    let test = std::env::current_exe().expect("a path");
    let mut command = Command::new(test);
    command.args(["--exact", "goldens_on_the_chip_of_the_environment", "--ignored", "--nocapture"]).env(CHIP, chip);
    let output = command.output().expect("runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{out}");
    assert!(output.status.success() && out.contains("1 passed"), "{chip}: {out}\n{err}");
}

#[test]
fn every_golden_is_as_close_as_its_anchor_on_gfx1100() {
    in_a_process("gfx1100");
}

#[test]
fn goldens_are_as_close_as_their_anchors_on_gfx1201() {
    in_a_process("gfx1201");
}

#[test]
fn goldens_are_as_close_as_their_anchors_on_gfx942() {
    in_a_process("gfx942");
}

#[test]
#[ignore = "run by the others, with a chip"]
fn goldens_on_the_chip_of_the_environment() {
    let chip = std::env::var(CHIP).expect("the variable with a chip");
    let golden = Golden::locate();
    let models = golden.models().expect("goldens");
    let wanted = |file: &str| chip == "gfx1100" || SOME.contains(&file);
    let mut failures = Vec::new();
    let mut count = 0;
    for m in models.iter().filter(|m| m.is_supported() && wanted(&m.file)) {
        let (device, cache) = (format!("emu:{chip}"), CacheChoice::Disabled);
        let model = Model::open(golden.path(m), &ModelOptions { device, cache, ..ModelOptions::default() });
        let model = model.unwrap_or_else(|e| panic!("{}: {e}", m.file));
        let start = Instant::now();
        let feeding = Feeding::prompt(m.n_prompt, Activations::F32);
        let found = logits(&model, m.n_ctx as u32, &m.all_tokens(), &feeding);
        let found = found.unwrap_or_else(|e| panic!("{}: {e}", m.file));
        let reference = golden.logits(m).expect("logits");
        let found = Comparison::of(&found, &reference);
        println!("{chip} {}: median NMSE {:.2e}, {:.1} s", m.file, found.median(), start.elapsed().as_secs_f64());
        failures.extend(anchors::failures(&m.file, m, &reference, &found));
        count += 1;
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 0, "no golden was found");
}
