//! The golden models open, and have the tensors that their index says.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::*;

/// The folder of golden data: `HRX_SHARED`, or `shared` beside the checkout.
fn golden_models() -> Option<PathBuf> {
    let shared = match std::env::var_os("HRX_SHARED") {
        Some(path) => PathBuf::from(path),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"),
    };
    let models = shared.join("golden/models");
    models.is_dir().then_some(models)
}

#[test]
fn golden_models_open() {
    let Some(models) = golden_models() else {
        println!("skipped: no golden models (set HRX_SHARED)");
        return;
    };
    let index = fs::read_to_string(models.join("index.json")).unwrap();
    let index: serde_json::Value = serde_json::from_str(&index).unwrap();
    let index = index.as_array().unwrap();
    assert!(!index.is_empty());
    for model in index {
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
    println!("{} golden models", index.len());
}
