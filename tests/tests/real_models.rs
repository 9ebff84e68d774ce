//! Real models against known answers, where their files are (`cargo xtask models`).

use hrx::{Model, SessionOptions};
use hrx_tests::golden::{Golden, RealModel, real_model_file};
use hrx_tests::logits::argmax;
use hrx_tests::models::options;

/// Bound on the difference of the natural logarithms of a likely token's probability: what the cache's binary16 leaves.
const LOG_PROBABILITY: f64 = 0.02;

fn open(real: &RealModel, threads: usize) -> Option<Model> {
    let path = real_model_file(&real.model)?;
    let size = std::fs::metadata(&path).expect("the file").len();
    assert_eq!(size, real.size, "{} is another file than the one that the answers are of", path.display());
    Some(Model::open(&path, &options(threads)).unwrap_or_else(|e| panic!("{e}")))
}

fn session(model: &Model, real: &RealModel) -> hrx::Session {
    let options = SessionOptions { n_ctx: real.n_ctx as u32, ..SessionOptions::default() };
    model.session(&options).unwrap_or_else(|e| panic!("{}: {e}", real.model))
}

/// ln of the sum of the exponentials.
fn log_sum_exp(logits: &[f32]) -> f64 {
    let largest = f64::from(logits[argmax(logits)]);
    largest + logits.iter().map(|&x| (f64::from(x) - largest).exp()).sum::<f64>().ln()
}

#[test]
fn greedy_texts_and_probabilities_are_the_known_ones() {
    for real in Golden::locate().published_models().unwrap() {
        let Some(model) = open(&real, 0) else { continue };
        for prompt in &real.prompts {
            let what = format!("{}, {:?}", real.model, prompt.text);
            let ids = model.tokenizer().unwrap().encode(&prompt.text, true, false).unwrap();
            assert_eq!(ids, prompt.tokens, "{what}: ids");
            let mut session = session(&model, &real);
            let mut logits = session.eval(&prompt.tokens).unwrap();

            let scale = log_sum_exp(&logits);
            let mut worst = 0f64;
            for &(id, probability) in &prompt.top10 {
                let found = f64::from(logits[id as usize]) - scale;
                let error = (found - probability).abs();
                worst = worst.max(error);
                assert!(error < LOG_PROBABILITY, "{what}: ln p({id}) is {found}, not {probability}");
            }
            let clear = prompt.clear_greedy();
            for (step, &want) in clear.iter().enumerate() {
                let margin = prompt.margin[step];
                assert_eq!(argmax(&logits) as u32, want, "{what}: step {step}, decided by {margin}");
                logits = session.eval(&[want]).unwrap();
            }
            println!("{what}: {} clear steps of {}, ln p within {worst:.3}", clear.len(), prompt.greedy.len());
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
            let mut session = session(&model, &real);
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
