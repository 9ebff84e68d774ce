//! Golden models on emulated GPUs, through the HIP device: their logits, held to the figures that the host is held to, and
//! no report of the sanitizer, which would fail a step.

use hrx::exec::Activations;
use hrx::gguf::Gguf;
use hrx::{CacheChoice, Model, ModelOptions, SessionOptions};
use hrx_tests::anchors;
use hrx_tests::golden::{Golden, real_model_path};
use hrx_tests::logits::{Comparison, argmax, nmse};
use hrx_tests::models::{Feeding, logits, with_experts_apart};
use hrx_tests::turns;
use std::process::Command;
use std::time::Instant;

/// Goldens that every run takes.
const SOME: [&str; 4] = ["llama-Q4_1.gguf", "qwen2-Q4_K_M.gguf", "qwen3-Q6_K.gguf", "gemma3-Q4_0.gguf"];

/// The tests that take a chip.
const GOLDENS: &str = "goldens_on_the_chip_of_the_environment";
const SESSIONS: &str = "sessions_on_the_chip_of_the_environment";
const EXPERTS: &str = "experts_apart_on_the_chip_of_the_environment";
const REAL: &str = "a_real_model_on_the_chip_of_the_environment";

/// The MiB of memory that the devices are given, so that what is free is known.
const MIB: &str = "4096";

/// The variable by which a process of these tests is told its chip: one process emulates one.
const CHIP: &str = "HRX_TEST_CHIP";

/// The parts that the other goldens take turns in.
const TURNS: u64 = 8;

/// Runs one of the tests below that take a chip, in a process of its own.
fn in_a_process(chip: &str, name: &str) {
    let test = std::env::current_exe().expect("a path");
    let mut command = Command::new(test);
    command.args(["--exact", name, "--ignored", "--nocapture"]).env(CHIP, chip).env("HRX_EMU_MEMORY", MIB);
    let output = command.output().expect("runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{out}");
    assert!(output.status.success() && out.contains("1 passed"), "{chip}: {out}\n{err}");
}

/// All of them in the days of [`TURNS`]; `HRX_ALL=1` takes all at once, `HRX_GOLDEN=TEXT` those with it in their name.
#[test]
fn every_golden_is_as_close_as_its_anchor_on_gfx1100() {
    in_a_process("gfx1100", GOLDENS);
}

#[test]
fn goldens_are_as_close_as_their_anchors_on_gfx1201() {
    in_a_process("gfx1201", GOLDENS);
}

#[test]
fn goldens_are_as_close_as_their_anchors_on_gfx942() {
    in_a_process("gfx942", GOLDENS);
}

/// A real model takes a minute on the emulator, so one chip is for every run; `HRX_ALL=1` is for all.
#[test]
fn a_real_model_chooses_the_tokens_that_the_host_chooses() {
    let chips = ["gfx1100", "gfx1201", "gfx942"];
    let all = std::env::var_os("HRX_ALL").is_some_and(|v| v == "1");
    chips.into_iter().take(if all { 3 } else { 1 }).for_each(|chip| in_a_process(chip, REAL));
}

#[test]
#[ignore = "run by the others, with a chip"]
fn a_real_model_on_the_chip_of_the_environment() {
    let chip = std::env::var(CHIP).expect("the variable with a chip");
    let path = real_model_path("SmolLM2-135M-Instruct.Q4_1.gguf");
    // Tokens one at a time: a step of several takes the emulator as long as one of 64.
    let session_options =
        SessionOptions { n_ctx: 64, n_batch: 1, activations: Activations::F32, ..SessionOptions::default() };
    let open = |device: String| {
        let options = ModelOptions { device, cache: CacheChoice::Disabled, ..ModelOptions::default() };
        let model = Model::open(&path, &options).unwrap_or_else(|e| panic!("{e}"));
        let session = model.session(&session_options).unwrap_or_else(|e| panic!("{e}"));
        (model, session)
    };
    let (model, mut host) = open("cpu".into());
    let (_gpu, mut emulated) = open(format!("emu:{chip}"));
    let mut next = model.tokenizer().and_then(|t| Ok(t.encode("The capital of France is", true, false)?)).expect("ids");
    let mut choices = 0;
    for step in 0..4 {
        let [wanted, found] =
            [&mut host, &mut emulated].map(|s| s.eval(&next).unwrap_or_else(|e| panic!("{chip}: {e}")));
        let error = nmse(&found, &wanted);
        assert!(error < 1e-4, "{chip}, step {step}: NMSE {error:.2e}");
        let best = argmax(&wanted);
        let second = wanted.iter().enumerate().filter(|(i, _)| *i != best).fold(f32::MIN, |m, (_, &x)| m.max(x));
        println!("{chip}, step {step}: NMSE {error:.2e}, margin {:.2}", wanted[best] - second);
        // As clear as the reference data calls clear.
        if wanted[best] - second > 0.05 {
            assert_eq!(argmax(&found), best, "{chip}, step {step}");
            choices += 1;
        }
        // Both go on with the host's choice.
        next = vec![best as u32];
    }
    assert!(choices > 0, "no choice was clear");
}

#[test]
fn sessions_share_the_weights_on_the_device() {
    in_a_process("gfx1100", SESSIONS);
}

#[test]
#[ignore = "run by the others, with a chip"]
fn sessions_on_the_chip_of_the_environment() {
    let chip = std::env::var(CHIP).expect("the variable with a chip");
    let golden = Golden::locate();
    let models = golden.models().expect("goldens");
    let m = models.iter().find(|m| m.file == SOME[0]).expect("a golden");
    let (device, cache) = (format!("emu:{chip}"), CacheChoice::Disabled);
    let model = Model::open(golden.path(m), &ModelOptions { device, cache, ..ModelOptions::default() });
    let model = model.unwrap_or_else(|e| panic!("{e}"));
    let session = || model.session(&SessionOptions { n_ctx: 64, ..SessionOptions::default() }).expect("a session");
    let free = || model.kernels().device().info().free;
    let before = free();
    let mut first = session();
    let between = free();
    let mut second = session();
    let after = free();
    let weights = model.summary().tensor_bytes;
    let taken = [before - between, between - after];
    // Both take the same beside the weights, and what copies go through.
    assert!(taken[0] > taken[1] + weights, "{taken:?}, weights of {weights} bytes");
    let (a, b) = (first.eval(&[1, 2, 3]).expect("runs"), second.eval(&[1, 2, 3]).expect("runs"));
    assert_eq!(a, b);
    drop((first, second));
    assert!(free() > between, "sessions give back what is their own");
}

#[test]
fn experts_apart_are_put_together_on_the_device() {
    in_a_process("gfx1100", EXPERTS);
}

#[test]
#[ignore = "run by the others, with a chip"]
fn experts_apart_on_the_chip_of_the_environment() {
    let chip = std::env::var(CHIP).expect("the variable with a chip");
    let golden = Golden::compact();
    let models = golden.models().expect("goldens");
    let m = models.iter().find(|m| m.file == "qwen3moe-Q5_0.gguf").expect("a golden");
    let whole = Gguf::open(&golden.path(m)).expect("a file");
    let apart = Gguf::from_bytes(with_experts_apart(&whole).expect("a file")).expect("a valid file");
    let [whole, apart] = [whole, apart].map(|gguf| {
        let (device, cache) = (format!("emu:{chip}"), CacheChoice::Disabled);
        let model = Model::from_gguf(gguf, &ModelOptions { device, cache, ..ModelOptions::default() });
        let feeding = Feeding::prompt(m.n_prompt, Activations::F32);
        logits(&model.expect("a model"), m.n_ctx as u32, &m.all_tokens(), &feeding).expect("runs")
    });
    assert_eq!(whole.data, apart.data);
}

#[test]
#[ignore = "run by the others, with a chip"]
fn goldens_on_the_chip_of_the_environment() {
    let chip = std::env::var(CHIP).expect("the variable with a chip");
    let golden = Golden::locate();
    let models = golden.models().expect("goldens");
    let name = std::env::var("HRX_GOLDEN").unwrap_or_default();
    println!("{chip}: HRX_TURN={}", turns::now());
    let wanted = |at: usize, file: &str| {
        let takes_turns = chip == "gfx1100" && turns::is_turn(at, TURNS);
        file.contains(&name) && (SOME.contains(&file) || takes_turns)
    };
    let mut failures = Vec::new();
    let mut count = 0;
    for (_, m) in models.iter().enumerate().filter(|(i, m)| m.is_readable() && wanted(*i, &m.file)) {
        count += 1;
        let start = Instant::now();
        let (device, cache) = (format!("emu:{chip}"), CacheChoice::Disabled);
        let model = Model::open(golden.path(m), &ModelOptions { device, cache, ..ModelOptions::default() });
        let feeding = Feeding::prompt(m.n_prompt, Activations::F32);
        let found = model.and_then(|model| logits(&model, m.n_ctx as u32, &m.all_tokens(), &feeding));
        let found = match found {
            Ok(found) => found,
            Err(e) => {
                failures.push(format!("{}: {e}", m.file));
                continue;
            }
        };
        let reference = golden.logits(m).expect("logits");
        let found = Comparison::of(&found, &reference);
        println!("{chip} {}: median NMSE {:.2e}, {:.1} s", m.file, found.median(), start.elapsed().as_secs_f64());
        failures.extend(anchors::failures(&m.file, m, m.nmse_bound_of_f16(), &reference, &found));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 0, "no golden has `{name}` in its name");
}
