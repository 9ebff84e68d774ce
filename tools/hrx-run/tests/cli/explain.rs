//! What a model is, without running it.

use crate::support::{command, model, ran, small};

#[test]
fn a_report_names_sizes_types_kernels_and_memory() {
    let text = ran(&mut command(&small(), &["--explain", "-c", "128"])).text();
    for words in ["llama", "Q4_1", "layers", "Tensors", "Kernels", "launches of a step", "context of 128 tokens"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.contains("KV cache") && text.contains("activations") && text.contains("  fits: "), "{text}");
    assert!(text.contains("read where the file is mapped") && text.contains("no chat template"), "{text}");
}

#[test]
fn json_has_the_numbers_of_the_file_and_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let stats = dir.path().join("stats.json");
    for name in ["llama-Q4_1", "gemma3-Q4_0", "qwen3-Q6_K"] {
        let path = model(name).1;
        let explained = ran(&mut command(&path, &["--explain", "--json", "-c", "64"])).text();
        let e: serde_json::Value = serde_json::from_str(&explained).unwrap();
        let sum = |list: &str, key: &str| -> u64 {
            e[list].as_array().unwrap().iter().map(|row| row[key].as_u64().unwrap()).sum()
        };
        assert_eq!(sum("tensors", "elements"), e["n_params"].as_u64().unwrap(), "{name}");
        assert_eq!(sum("tensors", "bytes"), e["memory"]["weights"].as_u64().unwrap(), "{name}");
        assert_eq!(sum("kernels", "decode"), e["launches"]["decode"].as_u64().unwrap(), "{name}");
        assert_eq!(e["fit"]["fits"], true, "{name}");
        let args = ["--tokens", "1,2", "-c", "64", "--stats", stats.to_str().unwrap()];
        ran(&mut command(&path, &args)).text();
        let run = crate::support::json(&stats);
        assert_eq!(run["launches_per_token"], e["launches"]["decode"], "{name}");
        assert_eq!(run["kv_cache_bytes"], e["memory"]["kv_cache"], "{name}");
        assert_eq!(run["activation_bytes"], e["memory"]["activations"], "{name}");
    }
}

#[test]
fn states_that_do_not_grow_are_told_from_the_cache() {
    let (_, path) = model("qwen3next-F16");
    let memory = |n_ctx: u64| {
        let text = ran(&mut command(&path, &["--explain", "--json", "-c", &n_ctx.to_string()])).text();
        let e: serde_json::Value = serde_json::from_str(&text).unwrap();
        let [states, kv, token] =
            ["states", "kv_cache", "kv_cache_per_token"].map(|k| e["memory"][k].as_u64().unwrap());
        assert_eq!(kv, n_ctx * token);
        (states, kv)
    };
    let (short, long) = (memory(64), memory(128));
    assert!(short.0 > 0 && short.0 == long.0, "{short:?} {long:?}");
    assert!(short.1 > 0 && long.1 == 2 * short.1, "{short:?} {long:?}");
    let text = ran(&mut command(&path, &["--explain"])).text();
    assert!(text.contains("of any context"), "{text}");
}

#[test]
fn what_does_not_fit_is_said_and_what_would() {
    let text = ran(&mut command(&small(), &["--explain", "-c", "2000000"])).text();
    if text.contains("does not fit") {
        assert!(text.contains("a context of ") && text.contains("would fit"), "{text}");
    }
    let e: serde_json::Value =
        serde_json::from_str(&ran(&mut command(&small(), &["--explain", "--json", "-c", "2000000"])).text()).unwrap();
    let longest = e["fit"]["longest_context"].as_u64().unwrap();
    assert_eq!(e["fit"]["fits"].as_bool().unwrap(), longest >= 2_000_000, "{}", e["fit"]);
}
