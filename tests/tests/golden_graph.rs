//! Whole models, from the file through the graph and its f64 interpreter, against reference logits.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hrx::gguf::Gguf;
use hrx::models::{ARCHITECTURES, GgufRows, ModelGraph};
use hrx::npy::Matrix;
use hrx_ir::graph::Interp;
use hrx_tests::golden::{Golden, Model};
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
    let mut interp = Interp::new(&graph).unwrap().with_context(model.n_ctx as u32);
    let n = model.n_prompt;
    let mut logits = interp.step(&weights, &ids[..n], &positions[..n], &positions[..n]).unwrap();
    for i in n..ids.len() {
        logits.data.extend(interp.step(&weights, &ids[i..=i], &positions[i..=i], &[0]).unwrap().data);
    }
    let data = logits.data.iter().map(|&x| x as f32).collect();
    Matrix { rows: ids.len(), cols: logits.cols, data }
}

/// What is wrong with a model's logits.
fn fault(golden: &Golden, model: &Model) -> Option<String> {
    let comparison = Comparison::of(&run(golden, model), &golden.logits(model).unwrap());
    println!("{}: worst row's nmse {:.1e}, median {:.1e}", model.file, comparison.max(), comparison.median());
    // Not a number is no small one.
    if !comparison.rows.iter().all(|&nmse| nmse < MOST_NMSE) {
        return Some(format!("{}: worst row's nmse {:e}", model.file, comparison.max()));
    }
    let other = comparison.top1_differs.iter().find(|&&row| model.top2_margin[row] >= CLEAR_MARGIN);
    other.map(|row| format!("{}: row {row} has another best token", model.file))
}

/// Every golden model whose weights can be read; `HRX_GOLDEN=TEXT` for those alone that have it in their name.
#[test]
fn every_golden_is_as_close_as_f32_allows() {
    let wanted = std::env::var("HRX_GOLDEN").unwrap_or_default();
    let golden = Golden::locate();
    let models = golden.models().unwrap();
    let models: Vec<&Model> = models.iter().filter(|m| m.is_readable() && m.name().contains(&wanted)).collect();
    assert!(!models.is_empty(), "no model's name has `{wanted}`");
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = fault(&golden, model);
                    faults.lock().unwrap().extend(found);
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Each architecture's row names goldens of it, all that there are, and no others.
#[test]
fn the_table_of_architectures_names_its_goldens() {
    let golden = Golden::locate();
    let models = golden.models().unwrap();
    for a in ARCHITECTURES {
        for name in a.goldens.iter().chain(a.own_goldens) {
            let model = models.iter().find(|m| m.name() == *name);
            assert!(model.is_some() || (!golden.is_whole() && a.goldens.contains(name)), "{name} is in no set");
            assert!(model.is_none_or(|m| m.arch == a.name), "{name} is no {} model", a.name);
        }
        let has = models.iter().any(|m| m.arch == a.name);
        let named = !(a.goldens.is_empty() && a.own_goldens.is_empty());
        assert!(named || !has, "there are goldens of {}", a.name);
    }
    let unknown = models.iter().find(|m| !ARCHITECTURES.iter().any(|a| a.name == m.arch));
    assert!(unknown.is_none(), "{:?}", unknown.map(|m| &m.arch));
}

/// A golden file whose types can't be read is refused with the reason.
#[test]
fn other_models_are_refused() {
    let golden = Golden::locate();
    for model in golden.models().unwrap().iter().filter(|m| !m.is_readable()) {
        let gguf = Gguf::open(&golden.path(model)).unwrap_or_else(|e| panic!("{e}"));
        let error = ModelGraph::from_gguf(&gguf).expect_err(&model.file).to_string();
        assert!(error.contains("is of type ") && error.contains(&model.file), "{error}");
    }
}
