//! The golden models open, and have the tensors that their index says.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::*;

/// The folders of golden models: this repository's, and that of `HRX_SHARED`, or of `shared` beside the checkout.
fn golden_models() -> Vec<PathBuf> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = std::env::var_os("HRX_SHARED").map_or_else(|| crate_dir.join("../../shared"), PathBuf::from);
    let shared = shared.join("golden/models");
    let own = crate_dir.join("../tests/golden/models");
    std::iter::once(own).chain(shared.is_dir().then_some(shared)).collect()
}

#[test]
fn golden_models_open() {
    let read = |path: PathBuf| -> serde_json::Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    for models in golden_models() {
        let index = read(models.join("index.json"));
        let index = index.as_array().unwrap();
        assert!(!index.is_empty());
        for row in index {
            check(&models, &read(models.join(row["json"].as_str().unwrap())));
        }
        println!("{}: {} golden models", models.display(), index.len());
    }
}

fn check(models: &Path, model: &serde_json::Value) {
    let file = model["file"].as_str().unwrap();
    let gguf = Gguf::open(&models.join(file)).unwrap();
    assert_eq!(gguf.metadata().require_str("general.architecture").unwrap(), model["arch"], "{file}");
    let mut types = BTreeMap::new();
    for tensor in gguf.tensors() {
        *types.entry(tensor.ggml_type().name().to_owned()).or_insert(0u64) += 1;
    }
    let want: BTreeMap<String, u64> = serde_json::from_value(model["tensor_types"].clone()).unwrap();
    assert_eq!(types, want, "{file}");

    // Tensors follow each other with less than an alignment between them: the block sizes are right.
    let mut ranges: Vec<_> = gguf.tensors().iter().map(TensorInfo::range).collect();
    ranges.sort_by_key(|range| range.start);
    for pair in ranges.windows(2) {
        assert!((pair[0].end..pair[0].end + 32).contains(&pair[1].start), "{file}: {pair:?}");
    }
    let rest = gguf.file_size() as usize - ranges.last().unwrap().end;
    assert!(rest < 32, "{file}: {rest} bytes after the last tensor");
    gguf.walk();
}
