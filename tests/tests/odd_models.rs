//! Models of awkward sizes through the whole pipeline, held to the graph's f64 interpreter.

use hrx::exec::Activations;
use hrx::gguf::{GgmlType, Gguf};
use hrx::models::{GgufRows, ModelGraph};
use hrx::{CacheChoice, Model, ModelOptions, Outputs, SessionOptions};
use hrx_ir::graph::Interp;
use hrx_tests::logits::nmse;
use hrx_tests::synthetic::{Random, Sizes, model};

/// Tokens of the prompt, then single steps.
const PROMPT: usize = 21;
const STEPS: usize = 4;

/// Runs a model both ways; returns the worst row's error.
fn worst_nmse(sizes: &Sizes, seed: u64, activations: Activations) -> f64 {
    let bytes = model(sizes, seed);
    let mut random = Random::new(seed + 1);
    let tokens: Vec<u32> = (0..PROMPT + STEPS).map(|_| random.below(sizes.n_vocab)).collect();

    let gguf = Gguf::from_bytes(&bytes).unwrap_or_else(|e| panic!("{sizes:?}: {e}"));
    let graph = ModelGraph::from_gguf(&gguf).unwrap_or_else(|e| panic!("{sizes:?}: {e}")).graph;
    let ids: Vec<i32> = tokens.iter().map(|&t| t as i32).collect();
    let positions: Vec<i32> = (0..ids.len() as i32).collect();
    let want = Interp::new(&graph).unwrap().step(&GgufRows(&gguf), &ids, &positions, &positions).unwrap();

    let options = ModelOptions { cache: CacheChoice::Disabled, threads: 2, ..ModelOptions::default() };
    let opened = Model::from_gguf(gguf, &options).unwrap_or_else(|e| panic!("{sizes:?}: {e}"));
    let session_options =
        SessionOptions { n_ctx: 128, n_batch: 16, outputs: Outputs::All, activations, ..SessionOptions::default() };
    let mut session = opened.session(&session_options).unwrap_or_else(|e| panic!("{sizes:?}: {e}"));
    let mut rows: Vec<Vec<f32>> = Vec::new();
    let mut keep = |row: &[f32]| {
        rows.push(row.to_vec());
        Ok(())
    };
    session.eval_rows(&tokens[..PROMPT], &mut keep).unwrap();
    for token in &tokens[PROMPT..] {
        session.eval_rows(&[*token], &mut keep).unwrap();
    }
    assert_eq!(rows.len(), want.rows);
    let errors = rows.iter().enumerate().map(|(i, row)| {
        let reference: Vec<f32> = want.row(i).iter().map(|&x| x as f32).collect();
        nmse(row, &reference)
    });
    errors.fold(0.0, f64::max)
}

fn sizes(architecture: &'static str) -> Sizes {
    Sizes {
        architecture,
        n_embd: 96,
        n_layer: 2,
        n_head: 5,
        n_kv_head: 1,
        head_dim: 24,
        n_ff: 160,
        n_vocab: 131,
        n_rot: 16,
        window: 7,
        types: vec![GgmlType::F32],
    }
}

#[test]
fn float_weights_of_odd_sizes() {
    for (seed, s) in [
        sizes("llama"),
        Sizes { n_embd: 72, n_ff: 100, n_vocab: 33, types: vec![GgmlType::F32, GgmlType::F16], ..sizes("llama") },
        Sizes { n_head: 7, n_kv_head: 7, head_dim: 8, n_rot: 8, ..sizes("qwen2") },
        Sizes { n_head: 6, n_kv_head: 2, head_dim: 80, n_rot: 80, types: vec![GgmlType::BF16], ..sizes("qwen3") },
        Sizes { n_head: 3, n_kv_head: 1, head_dim: 256, n_rot: 256, n_layer: 7, ..sizes("gemma3") },
    ]
    .into_iter()
    .enumerate()
    {
        let worst = worst_nmse(&s, seed as u64 + 1, Activations::F32);
        println!("{} {:?}: {worst:.1e}", s.architecture, s.types);
        // What is left is the cache's binary16 and f32 sums.
        assert!(worst < 2e-6, "{s:?}: {worst:e}");
    }
}

#[test]
fn every_quantised_type_of_odd_sizes() {
    use GgmlType as T;
    let blocks = Sizes { n_embd: 160, n_head: 4, n_kv_head: 2, head_dim: 40, n_rot: 40, n_ff: 96, ..sizes("llama") };
    let k_blocks = Sizes { n_embd: 256, n_head: 4, n_kv_head: 4, head_dim: 64, n_rot: 32, n_ff: 768, ..sizes("qwen3") };
    let mut cases: Vec<Sizes> = [T::Q4_0, T::Q4_1, T::Q5_0, T::Q5_1, T::Q8_0]
        .into_iter()
        .map(|t| Sizes { types: vec![t], ..blocks.clone() })
        .collect();
    cases.extend([T::Q4_K, T::Q5_K, T::Q6_K].map(|t| Sizes { types: vec![t], ..k_blocks.clone() }));
    // Mixtures: the layers of one input read different forms of it.
    cases.push(Sizes { types: vec![T::Q4_0, T::F16, T::Q8_0, T::BF16, T::Q5_1], ..blocks.clone() });
    cases.push(Sizes { types: vec![T::Q4_K, T::F32, T::Q6_K, T::Q8_0, T::F16, T::Q5_K], ..k_blocks });
    cases.push(Sizes { types: vec![T::Q4_1, T::F32], n_layer: 7, ..Sizes { architecture: "gemma3", ..blocks } });
    for (seed, s) in cases.into_iter().enumerate() {
        // What f32 leaves is the cache's binary16, on these peaked models; with 8 bit llama.cpp's golden errors are 3e-4
        // to 2e-3.
        for (activations, bound) in [(Activations::F32, 1e-5), (Activations::Q8, 4e-3)] {
            let worst = worst_nmse(&s, seed as u64 + 100, activations);
            println!("{} {:?} {activations:?}: {worst:.1e}", s.architecture, s.types);
            assert!(worst < bound, "{s:?}, {activations:?}: {worst:e}");
        }
    }
}
