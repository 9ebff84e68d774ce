//! Whole models, from the file through the graph and its f64 interpreter, against reference logits.

use hrx::gguf::{GgmlType, Gguf};
use hrx::models::{ARCHITECTURES, GgufRows, ModelGraph, weight_content};
use hrx::npy::Matrix;
use hrx_ir::graph::Interp;
use hrx_tests::golden::{self, Golden, Model};
use hrx_tests::logits::Comparison;

/// Bound on the worst row. The reference's own float32 arithmetic leaves about 1e-12.
const MOST_NMSE: f64 = 1e-9;

/// Rows that the reference decides by less may have another best token.
const CLEAR_MARGIN: f64 = 1e-3;

fn run(golden: &Golden, model: &Model) -> Matrix {
    let gguf = Gguf::open(&golden.path(model)).unwrap_or_else(|e| panic!("{e}"));
    let graph = ModelGraph::from_gguf(&gguf).unwrap_or_else(|e| panic!("{e}")).graph;
    let weights = GgufRows(&gguf);
    let ids: Vec<i32> = model.all_tokens().into_iter().map(|id| id as i32).collect();
    let positions: Vec<i32> = (0..ids.len() as i32).collect();

    // The prompt in one batch, then the other tokens one at a time.
    let mut interp = Interp::new(&graph).unwrap();
    let n = model.n_prompt;
    let mut logits = interp.step(&weights, &ids[..n], &positions[..n], &positions[..n]).unwrap();
    for i in n..ids.len() {
        logits.data.extend(interp.step(&weights, &ids[i..=i], &positions[i..=i], &[0]).unwrap().data);
    }
    let data = logits.data.iter().map(|&x| x as f32).collect();
    Matrix { rows: ids.len(), cols: logits.cols, data }
}

fn check(architecture: &str) {
    let golden = Golden::locate();
    let models = golden.models().unwrap();
    let models: Vec<&Model> = models.iter().filter(|m| m.is_supported() && m.arch == architecture).collect();
    assert!(!models.is_empty(), "no model of {architecture} in {}", golden.dir().display());
    for model in models {
        let comparison = Comparison::of(&run(&golden, model), &golden.logits(model).unwrap());
        println!("{}: worst row's nmse {:.1e}, median {:.1e}", model.file, comparison.max(), comparison.median());
        assert!(comparison.max() < MOST_NMSE, "{}: worst row's nmse {:e}", model.file, comparison.max());
        for &row in &comparison.top1_differs {
            assert!(model.top2_margin[row] < CLEAR_MARGIN, "{}: row {row} has another best token", model.file);
        }
    }
}

/// Among them one for each type of weights, and Llama 3's rotary factors with a tied head.
#[test]
fn llama() {
    check("llama");
}

#[test]
fn qwen2() {
    check("qwen2");
}

#[test]
fn qwen3() {
    check("qwen3");
}

#[test]
fn gemma3() {
    check("gemma3");
}

/// Each architecture has a test above, and each type that can be read occurs in a golden model.
#[test]
fn nothing_is_left_out() {
    let names: Vec<&str> = ARCHITECTURES.iter().map(|a| a.name).collect();
    assert_eq!(names, golden::ARCHITECTURES);
    let mut types: Vec<&str> =
        GgmlType::ALL.iter().filter(|&&t| weight_content(t).is_some()).map(|t| t.name()).collect();
    let mut run = golden::TYPES;
    types.sort_unstable();
    run.sort_unstable();
    assert_eq!(types, run);
}

/// A golden file that can't be run is refused with the reason.
#[test]
fn other_models_are_refused() {
    let golden = Golden::locate();
    for model in golden.models().unwrap().iter().filter(|m| !m.is_supported()) {
        let gguf = Gguf::open(&golden.path(model)).unwrap_or_else(|e| panic!("{e}"));
        let error = ModelGraph::from_gguf(&gguf).expect_err(&model.file).to_string();
        let want = match (golden::ARCHITECTURES.contains(&model.arch.as_str()), model.variant.as_str()) {
            (false, _) => format!("unknown architecture `{}`", model.arch),
            (true, _) if model.quant == "NVFP4" => "no part of a llama model".into(),
            (true, "llama-moe") => "`llama.expert_count` is 8, want 0".into(),
            (true, _) => "is of type ".into(),
        };
        assert!(error.contains(&want) && error.contains(&model.file), "{error}");
    }
}
