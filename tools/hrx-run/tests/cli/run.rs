//! Texts, token ids, logits and numbers.

use crate::support::{bare, command, ids, json, model, ran, ran_with_input, small};
use hrx::npy;
use hrx_tests::golden::Golden;
use hrx_tests::logits::Comparison;
use std::io::Read;
use std::process::Stdio;

const GREEDY: [&str; 6] = ["-p", "Hello there", "-n", "12", "--temp", "0"];

#[test]
fn logits_of_tokens_are_the_golden_ones() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["llama-Q4_1", "gemma3-Q4_0", "qwen3-Q6_K"] {
        let (golden, path) = model(name);
        let reference = Golden::compact().logits(&golden).unwrap();
        let tokens = ids(&golden.all_tokens());
        let prefill = golden.n_prompt.to_string();
        let mut by_run = Vec::new();
        for (run, more) in
            [&["--prefill", &prefill, "-t", "1"][..], &["-t", "2"], &["--prefill", "0"]].iter().enumerate()
        {
            let file = dir.path().join(format!("{name}.{run}.npy"));
            let mut args = vec!["--tokens", &tokens, "--logits", file.to_str().unwrap()];
            args.extend(*more);
            let text = ran(&mut command(&path, &args)).text();
            assert_eq!(text, "", "nothing is generated unless asked for");
            let logits = npy::read(&file).unwrap();
            let median = Comparison::of(&logits, &reference).median();
            assert!(median <= golden.nmse_bound(), "{name} {more:?}: {median:e} > {:e}", golden.nmse_bound());
            by_run.push(logits.data);
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().filter(is_part).count(), 0);
    }
}

fn is_part(file: &std::io::Result<std::fs::DirEntry>) -> bool {
    file.as_ref().unwrap().file_name().to_string_lossy().ends_with(".part")
}

#[test]
fn a_prompt_is_a_text_a_file_a_pipe_or_its_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let text = ran(&mut command(&small(), &GREEDY)).text();
    assert!(!text.is_empty());
    let file = dir.path().join("prompt.txt");
    std::fs::write(&file, "Hello there\n").unwrap();
    let rest = ["-n", "12", "--temp", "0"];
    let from = |[option, value]: [&str; 2]| [option, value, rest[0], rest[1], rest[2], rest[3]].map(String::from);
    assert_eq!(ran(&mut command(&small(), &from(["-f", file.to_str().unwrap()]))).text(), text);
    assert_eq!(ran_with_input(&mut command(&small(), &from(["-f", "-"])), b"Hello there").text(), text);

    let gguf = hrx::gguf::Gguf::open(&small()).unwrap();
    let tokenizer = hrx::tokenizer::Tokenizer::from_metadata(gguf.metadata()).unwrap();
    let tokens = tokenizer.encode("Hello there", true, true).unwrap();
    for tokens in [ids(&tokens), ids(&tokens).replace(',', " ")] {
        assert_eq!(ran(&mut command(&small(), &from(["--tokens", &tokens]))).text(), text);
    }
    // The same with the names that llama.cpp's users know.
    let mut known = std::process::Command::new(env!("CARGO_BIN_EXE_hrx-run"));
    let path = small();
    known.args(["-m", path.to_str().unwrap(), "--prompt", "Hello there", "--n-predict", "12", "--temperature", "0"]);
    known.args(["--ctx-size", "128", "--threads", "1", "--batch-size", "4", "--no-cache"]);
    assert_eq!(ran(&mut known).text(), text);
}

#[test]
fn logits_of_a_prompt_and_what_is_generated() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("p.npy");
    let mut args = GREEDY.to_vec();
    args.extend(["--logits", file.to_str().unwrap()]);
    let text = ran(&mut command(&small(), &args)).text();
    assert_eq!(text, ran(&mut command(&small(), &GREEDY)).text(), "the same text as without");
    let logits = npy::read(&file).unwrap();
    // "Hello there" has at most a token a byte; the last of the 12 is not evaluated.
    let gguf = hrx::gguf::Gguf::open(&small()).unwrap();
    let tokenizer = hrx::tokenizer::Tokenizer::from_metadata(gguf.metadata()).unwrap();
    let n_prompt = tokenizer.encode("Hello there", true, true).unwrap().len();
    assert_eq!((logits.rows, logits.cols), (n_prompt + 11, 320));
}

#[test]
fn a_seed_gives_the_same_text_each_time() {
    let text = |seed: &str| {
        let args = ["-p", "Hello", "-n", "16", "--temp", "2", "--top-k", "0", "--ignore-eos", "--seed", seed];
        // Characters may be cut, so the bytes need not be text.
        let ran = ran(&mut command(&small(), &args));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        ran.out
    };
    assert_eq!(text("7"), text("7"));
    assert_ne!(text("7"), text("8"));
    assert_ne!(text("-1"), text("-1"), "another seed each time");
}

#[test]
fn stats_say_what_happened() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stats.json");
    let cache = dir.path().join("cache");
    let run = || {
        let mut args = GREEDY.to_vec();
        args.extend(["--ignore-eos", "-v", "-t", "2", "--stats", file.to_str().unwrap()]);
        args.extend(["--cache-dir", cache.to_str().unwrap()]);
        let ran = ran(&mut bare(&small(), &args));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        (json(&file), ran.err)
    };
    let (cold, said) = run();
    let kernels = cold["kernels"].as_u64().unwrap();
    assert!(kernels > 0 && cold["cache_misses"] == kernels && cold["cache_hits"] == 0, "{cold}");
    assert_eq!(said.lines().filter(|l| l.starts_with("kernel: ") && l.contains("compiled in")).count() as u64, kernels);
    let (warm, said) = run();
    assert!(warm["cache_misses"] == 0 && warm["cache_hits"] == kernels && warm["compile_ms"] == 0.0, "{warm}");
    assert_eq!(said.lines().filter(|l| l.starts_with("kernel: ") && l.ends_with("cache")).count() as u64, kernels);
    assert!(said.contains("KV cache"), "{said}");

    for name in
        ["load_ms", "prefill_tok_s", "decode_tok_s", "first_token_ms", "peak_memory_bytes", "launches_per_token"]
    {
        assert!(warm[name].as_f64().is_some_and(|x| x > 0.0), "{name}: {warm}");
    }
    assert!(warm["first_token_ms"].as_f64() > warm["ready_ms"].as_f64());
    let facts = ["generated_tokens", "stop", "threads", "device"].map(|name| warm[name].clone());
    assert_eq!(facts, [12.into(), "max_tokens".into(), 2.into(), serde_json::Value::from("cpu")]);
    assert_eq!(warm["model"]["file_bytes"], std::fs::metadata(small()).unwrap().len());
    assert_eq!(warm["model"]["architecture"], "llama");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "the file and the cache, nothing else");
}

#[test]
fn a_full_context_ends_the_text_with_a_warning() {
    let args = ["-p", "Hello there", "--ignore-eos", "-c", "32", "--temp", "0"];
    let ran = ran(&mut command(&small(), &args));
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.contains("warning: the context of 32 tokens is full; -c"), "{}", ran.err);
}

#[test]
fn devices_are_listed_without_a_model() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_hrx-run")).arg("--list-devices").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("cpu: "));
}

#[test]
fn wrong_usage_ends_with_2_and_names_the_option() {
    for (args, named) in [
        (&["-p", "x", "--top-p", "2"][..], "--top-p"),
        (&["-p", "x", "--min-p", "-0.1"], "--min-p"),
        (&["-p", "x", "--temp", "-1"], "--temp"),
        (&["-p", "x", "--temp", "nan"], "--temp"),
        (&["-p", "x", "--repeat-penalty", "0"], "--repeat-penalty"),
        (&["-p", "x", "-n", "-2"], "--predict"),
        (&["-p", "x", "-b", "0"], "--batch-size"),
        (&["-p", "x", "-t", "99999"], "--threads"),
        (&["-p", "x", "-c", "-1"], "-c"),
        (&["-p", "x", "--seed", "-2"], "--seed"),
        (&["--tokens", "1,x"], "--tokens"),
        (&["--tokens", " "], "--tokens"),
        (&["-p", "x", "--prefill", "1"], "--prefill"),
        (&["-p", "x", "--system", "y"], "--chat"),
        (&["-p", "x", "-f", "y"], "--file"),
        (&["--chat", "--logits", "y"], "--logits"),
        (&[], "--prompt"),
    ] {
        let ran = ran(&mut bare(&small(), args));
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(named) && ran.out.is_empty(), "{args:?}: {}", ran.err);
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let mut child = command(&small(), &["-p", "Hello", "--ignore-eos", "-c", "20000", "--temp", "0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !err.contains("error") && !err.contains("panicked"), "{err}");
}

#[test]
fn control_c_stops_in_good_order() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stats.json");
    let args = ["-p", "Hello", "--ignore-eos", "-c", "20000", "--temp", "0", "--stats", file.to_str().unwrap()];
    let mut child = command(&small(), &args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 1]).unwrap();
    let killed = std::process::Command::new("sh").args(["-c", "kill -INT $0", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    // The rest is read so that the program can write it.
    out.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(json(&file)["stop"], "interrupted");
}
