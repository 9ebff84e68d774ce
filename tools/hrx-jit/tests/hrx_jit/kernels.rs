//! `kernels`.

use crate::support::{fails, good, model, run};
use serde_json::Value;
use std::collections::HashSet;

fn list(args: &[&str]) -> Vec<Value> {
    let ran = good(&[&["kernels"], args, &["--json"]].concat());
    let all: Value = serde_json::from_slice(&ran.out).expect("JSON");
    all["kernels"].as_array().expect("a list").clone()
}

#[test]
fn every_kernel_has_its_facts_hash_time_bytes_and_launches() {
    let kernels = list(&[&model("qwen2-Q4_K_M"), "--no-cache"]);
    let mut hashes = HashSet::new();
    for k in &kernels {
        let name = k["name"].as_str().expect("a name");
        assert!(!k["facts"].as_str().expect("facts").is_empty(), "{name}");
        assert!(k["compile_ms"].as_f64().expect("a time") > 0.0, "{name}");
        assert!(k["bytes"].as_u64().expect("bytes") > 100, "{name}");
        let launches = |key: &str| k[key].as_u64().expect("launches");
        assert!(launches("decode_launches") + launches("prefill_launches") > 0, "{name}");
        assert!(hashes.insert(k["hash"].as_str().expect("a hash").to_string()), "{name} is listed twice");
    }
    // Its matrices are of two formats, its layers have biases.
    let any = |part: &str| kernels.iter().any(|k| k["name"].as_str().is_some_and(|n| n.contains(part)));
    assert!(any("matmul_q4_k_") && any("matmul_q6_k_") && any("_bias") && any("attention") && any("embed"));
}

#[test]
fn launches_are_those_of_a_session() {
    let options = hrx::ModelOptions { cache: hrx::CacheChoice::Disabled, ..hrx::ModelOptions::default() };
    let opened = hrx::Model::open(model("llama-linear-F16"), &options).expect("opens");
    let session = opened.session(&hrx::SessionOptions { n_ctx: 64, ..Default::default() }).expect("a session");
    let kernels = list(&[&model("llama-linear-F16"), "--no-cache"]);
    let decode: u64 = kernels.iter().filter_map(|k| k["decode_launches"].as_u64()).sum();
    assert_eq!(decode, session.decode_launches().0 as u64);
    let listed: HashSet<String> = kernels.iter().filter_map(|k| Some(k["hash"].as_str()?.into())).collect();
    // Those that pack matrices run once, when the model is placed.
    let reports = opened.kernels().reports();
    let of_steps = reports.iter().filter(|r| !r.name.starts_with("pack_"));
    let made: HashSet<String> = of_steps.map(|r| r.key.to_string()).collect();
    assert_eq!(listed, made, "the hashes are the cache's keys");
}

#[test]
fn a_second_run_takes_all_from_the_cache_and_prints_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().display().to_string();
    let model = model("llama-Q8_0");
    let table = || good(&["kernels", &model, "--cache-dir", &dir]).text().to_string();
    let first = table();
    assert_eq!(first, table());
    let kernels = list(&[&model, "--cache-dir", &dir]);
    let last = first.lines().last().expect("a summary");
    assert!(last.starts_with(&format!("{} kernels, ", kernels.len())) && last.contains("worst"), "{last}");
    assert_eq!(first.lines().count(), kernels.len() + 2);
    let stat = good(&["cache", "stat", "--cache-dir", &dir]);
    assert!(stat.text().contains(&format!("entries    {}\n", kernels.len())), "{}", stat.text());
}

#[test]
fn another_target_makes_other_hashes() {
    let hashes = |target: &str| {
        let kernels = list(&[&model("llama-linear-F16"), "--no-cache", "--target", target]);
        kernels.into_iter().map(|k| k["hash"].to_string()).collect::<Vec<_>>()
    };
    let host = hrx::compiler::Target::host().expect("a host");
    let same = host == hrx::compiler::Target::x86_64_v3();
    assert_eq!(hashes("host") == hashes("x86-64-v3"), same);
}

#[test]
fn bad_models_and_usage_are_one_clear_error() {
    fails(&["kernels", "/nowhere.gguf"], 1, "/nowhere.gguf: can't open");
    let notes = crate::support::tests("golden/README.md");
    let err = fails(&["kernels", &notes], 1, "README.md").err;
    assert_eq!(err.lines().count(), 1, "{err}");
    fails(&["kernels"], 2, "MODEL");
    fails(&["kernels", "x", "--target", "z80"], 2, "there are: host, x86-64-v3");
    fails(&["kernels", "x", "--no-cache", "--cache-dir", "y"], 2, "cannot be used with");
    let none = run(&[]);
    assert_eq!(none.code, Some(2), "no subcommand");
}

#[test]
fn a_cache_that_cannot_be_written_is_an_error() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let ran = run(&["kernels", &model("llama-linear-F16"), "--cache-dir", &file.path().display().to_string()]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.starts_with("error: kernel cache: "), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
}
