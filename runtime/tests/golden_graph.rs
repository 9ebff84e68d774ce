//! Whole models, from the file through the graph and its f64 interpreter, against reference logits.
//!
//! The reference data are `golden/` of the folder in `HRX_SHARED`, else of `shared` beside the checkout, else the part
//! of them in `tests/`. Their README describes them.

use hrx::gguf::{GgmlType, Gguf};
use hrx::models::{ARCHITECTURES, GgufRows, Model, weight_content};
use hrx::npy;
use hrx_ir::graph::Interp;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What the reference's own float32 arithmetic leaves; the GELU models' too, since the reference has no table.
const MOST_NMSE: f64 = 1e-9;

fn models() -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let places = match std::env::var_os("HRX_SHARED") {
        Some(shared) => vec![PathBuf::from(shared)],
        None => vec![repository.join("../shared"), repository.join("tests")],
    };
    let found = places.iter().map(|p| p.join("golden/models")).find(|p| p.join("index.json").is_file());
    found.unwrap_or_else(|| panic!("no golden models in {places:?}"))
}

fn json(file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(models().join(file)).unwrap()).unwrap()
}

fn ids(list: &Value) -> Vec<i32> {
    list.as_array().unwrap().iter().map(|id| id.as_i64().unwrap() as i32).collect()
}

/// The models of this architecture whose tensors are all of types that can be read.
fn readable(architecture: &str) -> Vec<Value> {
    let index = json("index.json");
    let type_is_read = |name: &String| GgmlType::ALL.iter().any(|t| t.name() == name && weight_content(*t).is_some());
    let is_read = |m: &&Value| {
        let types = m["tensor_types"].as_object().unwrap();
        m["arch"] == architecture && m["variant"] != "llama-moe" && types.keys().all(type_is_read)
    };
    let found: Vec<Value> = index.as_array().unwrap().iter().filter(is_read).cloned().collect();
    assert!(!found.is_empty(), "no model of {architecture} in {:?}", models());
    found
}

/// Sum of squares of the difference over that of the reference.
fn nmse(found: &[f64], want: &[f32]) -> f64 {
    assert_eq!(found.len(), want.len());
    let error: f64 = found.iter().zip(want).map(|(a, &b)| (a - f64::from(b)).powi(2)).sum();
    error / want.iter().map(|&b| f64::from(b).powi(2)).sum::<f64>()
}

fn check(entry: &Value) {
    let file = entry["file"].as_str().unwrap();
    let description = json(&file.replace(".gguf", ".json"));
    let gguf = Gguf::open(&models().join(file)).unwrap();
    let model = Model::from_gguf(&gguf).unwrap_or_else(|e| panic!("{e}"));
    let want = npy::read(&models().join(description["logits"].as_str().unwrap())).unwrap();
    let (prompt, greedy) = (ids(&description["tokens"]), ids(&description["greedy"]));
    let weights = GgufRows(&gguf);

    // The prompt in one batch, then the other tokens one at a time.
    let mut interp = Interp::new(&model.graph).unwrap();
    let rows: Vec<i32> = (0..prompt.len() as i32).collect();
    let mut found = interp.step(&weights, &prompt, &rows, &rows).unwrap().data;
    for (i, &id) in greedy.iter().enumerate() {
        found.extend(interp.step(&weights, &[id], &[(prompt.len() + i) as i32], &[0]).unwrap().data);
    }
    let nmse = nmse(&found, &want.data);
    println!("{file}: nmse {nmse:.2e}");
    assert!(nmse < MOST_NMSE, "{file}: nmse {nmse:e}");

    let best = |row: &[f64]| (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap() as i32;
    for (i, row) in found.chunks_exact(want.cols).enumerate().skip(prompt.len() - 1).take(greedy.len()) {
        if description["top2_margin"][i].as_f64().unwrap() > 1e-3 {
            assert_eq!(best(row), greedy[i + 1 - prompt.len()], "{file}: row {i}");
        }
    }
}

fn check_all(architecture: &str) {
    readable(architecture).iter().for_each(check);
}

/// Among them one for each type of weights, and Llama 3's rotary factors with a tied head.
#[test]
fn llama() {
    check_all("llama");
}

#[test]
fn qwen2() {
    check_all("qwen2");
}

#[test]
fn qwen3() {
    check_all("qwen3");
}

#[test]
fn gemma3() {
    check_all("gemma3");
}

/// Each architecture has a test above, and the types that occur in them are all that can be read.
#[test]
fn nothing_is_left_out() {
    assert_eq!(ARCHITECTURES.iter().map(|a| a.name).collect::<Vec<_>>(), ["llama", "qwen2", "qwen3", "gemma3"]);
    let models: Vec<Value> = ARCHITECTURES.iter().flat_map(|a| readable(a.name)).collect();
    for ty in GgmlType::ALL.iter().filter(|&&t| weight_content(t).is_some()) {
        assert!(models.iter().any(|m| m["tensor_types"].get(ty.name()).is_some()), "no model has {ty}");
    }
}

/// A golden file that can't be run is refused with the reason.
#[test]
fn other_models_are_refused() {
    let index = json("index.json");
    for description in index.as_array().unwrap() {
        let (file, architecture) = (description["file"].as_str().unwrap(), description["arch"].as_str().unwrap());
        let gguf = Gguf::open(&models().join(file)).unwrap();
        let known = ARCHITECTURES.iter().any(|a| a.name == architecture);
        if known && readable(architecture).contains(description) {
            continue;
        }
        let error = Model::from_gguf(&gguf).expect_err(file).to_string();
        let want = match (known, description["variant"] == "llama-moe") {
            (false, _) => format!("unknown architecture `{architecture}`"),
            (true, true) => "`llama.expert_count` is 8, want 0".into(),
            (true, false) => "is of type ".into(),
        };
        assert!(error.contains(&want) && error.contains(file), "{error}");
    }
}
