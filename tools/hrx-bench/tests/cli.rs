//! hrx-bench from outside.

use hrx_tests::golden::Golden;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn model() -> PathBuf {
    let golden = Golden::compact();
    let model = golden.models().unwrap().into_iter().find(|m| m.file == "llama-Q4_1.gguf").unwrap();
    golden.path(&model)
}

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hrx-bench"))
}

fn run(args: &[&str]) -> Output {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hrx-bench-cache");
    bench().arg(model()).args(args).arg("--cache-dir").arg(cache).output().unwrap()
}

fn text(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_combination_is_measured_in_order() {
    let args = ["-p", "4,8", "-n", "3", "-d", "0,5", "-r", "3", "-t", "1,2", "--no-limits", "-o", "json"];
    let Value::Array(records) = serde_json::from_str(&text(&args)).unwrap() else { panic!("no list") };
    let number = |r: &Value, name: &str| r[name].as_u64().unwrap();
    let shapes: Vec<_> =
        records.iter().map(|r| ["n_threads", "n_depth", "n_prompt", "n_gen"].map(|name| number(r, name))).collect();
    let mut expected = Vec::new();
    for threads in [1, 2] {
        for depth in [0, 5] {
            expected.extend([[threads, depth, 4, 0], [threads, depth, 8, 0], [threads, depth, 0, 3]]);
        }
    }
    assert_eq!(shapes, expected);
    for r in &records {
        let samples: Vec<f64> = r["samples_ns"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect();
        assert_eq!((samples.len(), r["samples_ts"].as_array().unwrap().len()), (3, 3));
        let mean = samples.iter().sum::<f64>() / 3.0;
        assert!((r["avg_ns"].as_f64().unwrap() - mean).abs() <= 1.0);
        let tokens = (number(r, "n_prompt") + number(r, "n_gen")) as f64;
        let first = r["samples_ts"][0].as_f64().unwrap();
        assert!((first * samples[0] / (tokens * 1e9) - 1.0).abs() < 1e-9);
        assert!(r["model_type"].as_str().unwrap().starts_with("llama ") && number(r, "model_size") > 0);
    }
}

#[test]
fn a_synthetic_model_needs_no_file_and_is_held_to_the_devices_limits() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hrx-bench-cache");
    let args = ["--synthetic", "qwen3-0.6b:q4_0", "--device", "cpu", "-p", "4", "-n", "2", "-r", "1", "-o", "json"];
    let output = bench().args(args).arg("--cache-dir").arg(cache).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [prompt, generation] = [0, 1].map(|i| &records[i]);
    let number = |r: &Value, name: &str| r[name].as_f64().unwrap_or_else(|| panic!("{name}: {r}"));
    assert_eq!(prompt["model_filename"], "qwen3-0.6b:q4_0");
    assert_eq!(prompt["model_type"], "qwen3 596.05M Q4_0");
    assert_eq!(prompt["backends"], "CPU");
    // All weights but the norms are read for a token: the embeddings are the output's.
    assert!((number(generation, "bytes_per_token") / (596.0e6 * 18.0 / 32.0) - 1.0).abs() < 0.01, "{generation}");
    assert!((number(generation, "ops_per_token") / (2.0 * 596.0e6) - 1.0).abs() < 0.01, "{generation}");
    assert!(number(prompt, "bytes_per_token") < number(generation, "bytes_per_token") / 3.0, "{prompt}");
    for r in [prompt, generation] {
        assert!(number(r, "copy_bandwidth") > 1e8 && number(r, "product_rate") > 1e8, "{r}");
        let share = number(r, "bandwidth") / number(r, "copy_bandwidth");
        assert!((number(r, "bandwidth_share") / share - 1.0).abs() < 1e-9, "{r}");
        let share = number(r, "bandwidth") / number(r, "read_bandwidth");
        assert!((number(r, "read_share") / share - 1.0).abs() < 1e-9 && share > 0.0, "{r}");
        assert!(number(r, "launches") > 100.0, "{r}");
    }

    let output = bench().args(["--synthetic", "qwen3-0.6b:q9"]).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && err.contains("no recipe q9; there are: q4_k_m, "), "{err}");
}

#[test]
fn kernels_are_timed() {
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace.json");
    let args = ["--device", "cpu", "-p", "40", "-b", "16", "-n", "4", "-d", "3", "-r", "2", "--no-limits", "--profile"];
    let more = ["--trace", trace.to_str().unwrap(), "-o", "json"];
    let records: Value = serde_json::from_str(&text(&[&args[..], &more].concat())).unwrap();
    for (i, steps) in [(0, 3), (1, 4)] {
        let profile = &records[i]["profile"];
        assert_eq!(profile["steps"], steps, "{profile}");
        let kernels = profile["by_kernel"].as_array().unwrap();
        let sum = |field: &str| kernels.iter().map(|k| k[field].as_f64().unwrap()).sum::<f64>();
        let all = |field: &str| profile[field].as_f64().unwrap();
        assert!((sum("us") / all("kernels_us") - 1.0).abs() < 1e-6 && (sum("share") - 1.0).abs() < 1e-6, "{profile}");
        assert!((sum("launches") - all("launches")).abs() < 1e-6 && all("gaps_us") >= 0.0, "{profile}");
    }
    assert_eq!(records[1]["profile"]["launches"].as_f64(), records[1]["launches"].as_f64());
    let trace: Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    let slices = trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X" && e["tid"] == 1);
    let per_step = |i: usize, steps: f64| records[i]["profile"]["launches"].as_f64().unwrap() * steps;
    assert_eq!(slices.count() as f64, per_step(0, 3.0) + per_step(1, 4.0));
    let table = text(&args);
    assert!(table.contains("tg4 @ d3: a step of 1 tokens has ") && table.contains("| us a launch |"), "{table}");
}

#[test]
fn goldens_are_judged_as_tests_judge_them() {
    let dir = hrx_tests::golden::repository().join("tests/golden");
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hrx-bench-cache");
    let golden = |more: &[&str]| {
        let mut command = bench();
        command.arg("golden").arg(&dir).args(["--device", "cpu"]).args(more).arg("--cache-dir").arg(&cache);
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (code, out, err) = golden(&["--only", "llama-Q4_1,llama-linear-F16", "-o", "jsonl"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let rows: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{out}");
    for row in &rows {
        let [found, bound] = ["median_nmse", "bound"].map(|name| row[name].as_f64().unwrap());
        assert!(found > 0.0 && found < bound && row["device"] == "cpu", "{row}");
    }
    let (code, out, _) = golden(&["--only", "llama-Q4_1"]);
    assert!(code == Some(0) && out.contains("| ok   |") && out.contains("1 models, 0 failed"), "{out}");
    let (code, _, err) = golden(&["--only", "nothing"]);
    assert!(code == Some(1) && err.contains("no model there has nothing in its name"), "{err}");
}

#[test]
fn tables_and_lines() {
    let args = ["-p", "4", "-n", "2", "-d", "5", "-r", "2", "--no-limits", "-o"];
    let with = |form| text(&[&args[..], &[form]].concat());
    let md = with("md");
    assert!(md.contains(" pp4 @ d5 |") && md.contains(" tg2 @ d5 |") && md.contains('±'), "{md}");
    let csv = with("csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 3);
    // Values are quoted, as some have commas in them.
    assert!(lines[1..].iter().all(|l| l.split("\",\"").count() == lines[0].split(',').count()), "{csv}");
    assert!(lines[0].starts_with("build_commit,") && lines[0].contains(",stddev_ts,median_ts,"), "{csv}");
    for line in with("jsonl").lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    assert_eq!(text(&["-p", "0", "-n", "0", "-o", "json"]), "[\n]\n");
}

#[test]
fn errors_are_one_line() {
    for (args, code, words) in [
        (&["--device", "abacus"][..], 1, &["error: ", "abacus"][..]),
        (&["-p", "4294967295", "-d", "1"], 1, &["error: ", "4294967296 tokens"]),
        (&["-p", "x"], 2, &["--n-prompt"]),
        (&["-r", "0"], 2, &["--repetitions"]),
        (&["-o", "xml"], 2, &["md", "json", "csv"]),
    ] {
        let output = run(args);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
        assert!(words.iter().all(|w| err.contains(w)) && !err.contains("panicked"), "{args:?}: {err}");
        assert!(code != 1 || err.lines().count() == 1, "{err}");
    }
}

#[test]
fn compiling_is_measured_by_target_and_kind_of_kernel() {
    let args = ["--target", "gfx1100,x86-64-v3", "-r", "2", "--json"];
    let output = bench().arg("compile").arg(model()).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let is_host = |r: &Value| r["target"].as_str().unwrap().starts_with("x86-64+avx2");
    assert_eq!((rows.len(), &rows[0]["target"], is_host(&rows[1])), (2, &"gfx1100".into(), true));
    for row in rows {
        assert_eq!((&row["model"], &row["faults"]), (&"llama-Q4_1.gguf".into(), &Value::Array(vec![])));
        let kernels = row["kernels"].as_array().unwrap();
        let time = |k: &Value| k["cpu_ms"].as_f64().unwrap();
        assert!(kernels.len() > 10 && kernels.iter().all(|k| time(k) > 0.0 && k["bytes"].as_u64().unwrap() > 100));
        let sum: f64 = kernels.iter().map(time).sum();
        assert!((row["cpu_ms"].as_f64().unwrap() / sum - 1.0).abs() < 1e-9);
        for kind in ["decode", "tile"] {
            let of_kind: Vec<f64> = kernels.iter().filter(|k| k[kind] == true).map(time).collect();
            assert_eq!(row[kind]["kernels"], of_kind.len());
            assert_eq!(row[kind]["worst_ms"].as_f64(), of_kind.iter().copied().reduce(f64::max));
        }
        // Processors have no matrix unit, and their kernels no tiles for one.
        assert_eq!(row["tile"]["kernels"] == 0, is_host(row));
        assert!(row["cold_wall_ms"].as_f64().unwrap() > row["warm_wall_ms"].as_f64().unwrap());
    }
}

#[test]
fn compiling_is_a_table_too() {
    let output = bench().args(["compile", "--tile", "16x16x32w1", "--target", "gfx1201", "-r", "1"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let cells: Vec<&str> = text.lines().nth(2).unwrap_or_default().split('|').map(str::trim).collect();
    assert_eq!(cells[1..5], ["gfx1201", "tiles", "1", "0"], "{text}");
    assert!(output.status.success() && text.ends_with("1 kernels compiled, 0 faults\n"), "{text}");
}

#[test]
fn errors_of_compiling_are_one_line() {
    for (args, code, words) in [
        (&["no-such.gguf"][..], 1, &["error: ", "no-such.gguf"][..]),
        (&["--tile", "24x64x32w4"], 1, &["error: ", "powers of two"]),
        (&["--tile", "64x64w4"], 2, &["MxNxKwWAVES"]),
        (&["x", "--target", "gfx1100,z80"], 2, &["z80", "there are: host"]),
        (&[], 2, &["<MODEL>"]),
    ] {
        let output = bench().arg("compile").args(args).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {err}");
        assert!(words.iter().all(|w| err.contains(w)) && !err.contains("panicked"), "{args:?}: {err}");
        assert!(code != 1 || err.lines().count() == 1, "{err}");
    }
}

/// Another engine in one line of shell: it answers what was asked and writes it down.
fn peer(answer: &str) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let asked = dir.path().join("asked");
    let command = format!("sh -c 'echo \"$0 $1 $2 $3\" >> {}; {answer}' {{p}} {{n}} {{d}} {{t}}", asked.display());
    (dir, command)
}

#[test]
fn another_engine_is_measured_in_turn() {
    let answer = r#"echo "[{\"n_prompt\": $0, \"n_gen\": $1, \"n_depth\": $2, \"avg_ts\": 2.0}]""#;
    let (dir, command) = peer(answer);
    let args =
        ["-p", "4", "-n", "3", "-d", "5", "-r", "2", "-t", "1", "--no-limits", "--against", &command, "-o", "json"];
    let Value::Array(records) = serde_json::from_str(&text(&args)).unwrap() else { panic!("no list") };
    assert_eq!(std::fs::read_to_string(dir.path().join("asked")).unwrap(), "4 0 5 1\n4 0 5 1\n0 3 5 1\n0 3 5 1\n");
    for r in &records {
        let (ours, against) = (r["median_ts"].as_f64().unwrap(), &r["against"]);
        assert_eq!(against["samples_ts"], serde_json::json!([2.0, 2.0]));
        assert!((against["ratio"].as_f64().unwrap() - ours / 2.0).abs() < 1e-6 * ours);
    }
    let table = text(&[&args[..13], &["-o", "md"]].concat());
    assert!(table.contains("| median t/s |   the other | ratio | of neighbours |"), "{table}");
}

#[test]
fn another_engines_faults_are_said() {
    for (answer, said) in [
        ("echo no model >&2; exit 3", "failed (exit status: 3): no model"),
        ("echo a table", "does not answer in llama-bench's JSON"),
        ("echo []", "has no result of pp4"),
    ] {
        let (_dir, command) = peer(answer);
        let output = run(&["-p", "4", "-n", "0", "-r", "1", "--no-limits", "--against", &command]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(said), "{error}");
    }
    let output = run(&["--against", "llama-bench -p {p}"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("{n} has to stand"));
    let output = run(&["-p", "4", "-r", "1", "--no-limits", "--against", "/nowhere/llama-bench {p} {n}"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("can't be run"));
}
