//! Real models against known answers, where their files are (`cargo xtask models`).

use hrx::exec::Activations;
use hrx::{Model, ModelOptions, SessionOptions};
use hrx_tests::golden::{Golden, RealModel, real_model_file, real_model_path};
use hrx_tests::logits::argmax;
use hrx_tests::models::options;

/// Bound on the difference of the natural logarithms of the probability of one of the ten likeliest tokens: with `f32`
/// activations what the cache's binary16 leaves; 8-bit ones move logits by some tenths where they are large.
fn log_probability(activations: Activations) -> f64 {
    match activations {
        Activations::F32 => 0.02,
        Activations::Auto | Activations::Q8 => 1.0,
    }
}

fn open(real: &RealModel, threads: usize) -> Option<Model> {
    let path = real_model_file(&real.model)?;
    let size = std::fs::metadata(&path).expect("the file").len();
    assert_eq!(size, real.size, "{} is another file than the one that the answers are of", path.display());
    Some(Model::open(&path, &options(threads)).unwrap_or_else(|e| panic!("{e}")))
}

fn session(model: &Model, real: &RealModel, activations: Activations) -> hrx::Session {
    let options = SessionOptions { n_ctx: real.n_ctx as u32, activations, ..SessionOptions::default() };
    model.session(&options).unwrap_or_else(|e| panic!("{}: {e}", real.model))
}

/// ln of the sum of the exponentials.
fn log_sum_exp(logits: &[f32]) -> f64 {
    let largest = f64::from(logits[argmax(logits)]);
    largest + logits.iter().map(|&x| (f64::from(x) - largest).exp()).sum::<f64>().ln()
}

/// With `f32` activations every choice that the reference data calls clear is the reference's.
#[test]
fn greedy_texts_and_probabilities_are_the_known_ones() {
    compare(Activations::F32, 0.05);
}

/// With 8-bit activations some choices differ, as in llama.cpp's own runs of the same files: none wider than the widest
/// of those.
#[test]
fn choices_with_8_bit_activations_differ_where_they_are_close() {
    let models = Golden::locate().real_models().unwrap();
    let anchors = models.iter().flat_map(|real| &real.prompts).map(|p| p.anchor_default.top1_disagree_max_margin);
    compare(Activations::Q8, anchors.fold(0.05, f64::max));
}

/// Runs every real model whose file is there. A choice that differs at a margin of `widest` or more, before the first that
/// is unclear, is a failure.
fn compare(activations: Activations, widest: f64) {
    let (mut failures, mut totals) = (Vec::new(), [0; 3]);
    for real in Golden::locate().real_models().unwrap() {
        // The files that were published are asked for, those made from them are taken where somebody made them.
        if !real.original && !real_model_path(&real.model).is_file() {
            continue;
        }
        let Some(model) = open(&real, 0) else { continue };
        for (number, prompt) in real.prompts.iter().enumerate() {
            let what = format!("{}, prompt {number}", real.model);
            let ids = model.tokenizer().unwrap().encode(&prompt.text, true, false).unwrap();
            assert_eq!(ids, prompt.tokens, "{what}: ids");
            let mut session = session(&model, &real, activations);
            let mut logits = session.eval(&prompt.tokens).unwrap();

            let scale = log_sum_exp(&logits);
            let mut worst = 0f64;
            for &(id, probability) in &prompt.top10 {
                let found = f64::from(logits[id as usize]) - scale;
                worst = worst.max((found - probability).abs());
            }
            if worst >= log_probability(activations) {
                failures.push(format!("{what}: ln p of a likely token is {worst} off"));
            }
            let clear = prompt.clear_greedy().len();
            let mut others = 0;
            for (step, &want) in prompt.greedy.iter().enumerate() {
                let margin = prompt.margin[step];
                // The reference's choice is fed back, so that what follows is compared on the same text.
                if argmax(&logits) as u32 != want {
                    others += 1;
                    if step < clear && margin >= widest {
                        failures.push(format!("{what}: step {step}, decided by {margin}, differs"));
                    }
                }
                logits = session.eval(&[want]).unwrap();
            }
            let (steps, theirs) = (prompt.greedy.len(), prompt.anchor_default.top1_disagree);
            println!(
                "{what}: {others} of {steps} choices differ (llama.cpp {theirs}), {clear} before the first unclear one; \
                 ln p within {worst:.3}"
            );
            totals = [totals[0] + others, totals[1] + theirs, totals[2] + steps];
        }
    }
    println!("{activations:?}: {} of {} choices differ (llama.cpp {})", totals[0], totals[2], totals[1]);
    assert!(failures.is_empty(), "{activations:?}:\n{}", failures.join("\n"));
}

/// Code of AVX2 alone, of another number of lanes and registers, without VNNI: the same choices as the host's own, and the
/// same bits, since no tile, lane or instruction changes the order of a sum.
#[test]
fn code_of_avx2_alone_gives_the_same_tokens() {
    for real in Golden::locate().published_models().unwrap() {
        let Some(path) = real_model_file(&real.model) else { continue };
        for activations in [Activations::F32, Activations::Q8] {
            let rows = ["cpu", "cpu:x86-64-v3"].map(|device| {
                let options = ModelOptions { device: device.into(), ..options(0) };
                let model = Model::open(&path, &options).unwrap_or_else(|e| panic!("{e}"));
                let mut session = session(&model, &real, activations);
                let mut rows = vec![session.eval(&real.prompts[0].tokens).unwrap()];
                for &token in real.prompts[0].greedy.iter().take(16) {
                    rows.push(session.eval(&[token]).unwrap());
                }
                rows
            });
            let tokens = rows.each_ref().map(|rows| rows.iter().map(|r| argmax(r)).collect::<Vec<_>>());
            assert_eq!(tokens[0], tokens[1], "{}, {activations:?}", real.model);
            let bits = rows.map(|rows| rows.into_iter().flatten().map(f32::to_bits).collect::<Vec<_>>());
            let others = bits[0].iter().zip(&bits[1]).filter(|(a, b)| a != b).count();
            assert_eq!(others, 0, "{}, {activations:?}: of {} logits so many differ", real.model, bits[0].len());
        }
    }
}

/// The same tokens and logits for 1, 2 and 4 threads, in every one of 16 runs.
#[test]
fn threads_and_runs_change_no_bit() {
    const RUNS: usize = 16;
    const STEPS: usize = 8;
    for real in Golden::locate().published_models().unwrap() {
        let mut first: Option<Vec<Vec<f32>>> = None;
        for threads in [1, 2, 4] {
            let Some(model) = open(&real, threads) else { break };
            let mut session = session(&model, &real, Activations::default());
            for run in 0..RUNS {
                session.truncate(0).unwrap();
                let mut rows = vec![session.eval(&real.prompts[0].tokens).unwrap()];
                for _ in 0..STEPS {
                    let token = argmax(&rows[rows.len() - 1]) as u32;
                    rows.push(session.eval(&[token]).unwrap());
                }
                let first = first.get_or_insert_with(|| rows.clone());
                let bits = |rows: &[Vec<f32>]| -> Vec<u32> { rows.iter().flatten().map(|x| x.to_bits()).collect() };
                assert!(bits(first) == bits(&rows), "{}: run {run} with {threads} threads", real.model);
            }
        }
    }
}
