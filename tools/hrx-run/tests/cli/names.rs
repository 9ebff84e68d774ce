//! Models by name, from stores in a folder of the test.

use crate::support::{command, ran, small};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A name's command, which looks in `home` only.
fn named(home: &Path, name: &str, args: &[&str]) -> Command {
    let mut command = command(Path::new(name), args);
    for variable in
        ["OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "LLAMA_CACHE", "XDG_CACHE_HOME"]
    {
        command.env_remove(variable);
    }
    command.env("HOME", home).current_dir(home);
    command
}

fn link(home: &Path, at: &str) -> PathBuf {
    let path = home.join(at);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    symlink(small(), &path).unwrap();
    path
}

fn write(home: &Path, at: &str, text: &str) {
    let path = home.join(at);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const GREEDY: [&str; 6] = ["-p", "Hello there", "-n", "8", "--temp", "0"];

/// A model of Ollama's with these parameters.
fn ollama(home: &Path, tag: &str, digit: char, params: &str) {
    let hash = |digit: char| digit.to_string().repeat(64);
    let store = ".ollama/models";
    if !home.join(format!("{store}/blobs/sha256-{}", hash('0'))).exists() {
        link(home, &format!("{store}/blobs/sha256-{}", hash('0')));
    }
    write(home, &format!("{store}/blobs/sha256-{}", hash(digit)), params);
    let layer = |kind: &str, digit: char| {
        format!(r#"{{"mediaType":"application/vnd.ollama.image.{kind}","digest":"sha256:{}"}}"#, hash(digit))
    };
    let manifest = format!(r#"{{"layers":[{},{}]}}"#, layer("model", '0'), layer("params", digit));
    write(home, &format!("{store}/manifests/registry.ollama.ai/library/tiny/{tag}"), &manifest);
}

#[test]
fn names_of_every_store_give_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let wanted = ran(&mut command(&small(), &GREEDY)).text();
    ollama(home, "1b", '1', "{}");
    link(home, ".cache/huggingface/hub/models--Org--Tiny-GGUF/snapshots/r/tiny-Q4_1.gguf");
    write(home, ".cache/huggingface/hub/models--Org--Tiny-GGUF/refs/main", "r");
    for name in ["tiny:1b", "tiny", "Org/Tiny-GGUF", "Org/Tiny-GGUF:Q4_1", "Org/Tiny-GGUF/tiny-Q4_1.gguf"] {
        assert_eq!(ran(&mut named(home, name, &GREEDY)).text(), wanted, "{name}");
    }
    let said = ran(&mut named(home, "tiny", &[&GREEDY[..], &["-v"]].concat()));
    assert!(said.err.contains("tiny:1b of Ollama: "), "{}", said.err);
}

#[test]
fn ollamas_parameters_hold_unless_the_command_line_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let text = ran(&mut command(&small(), &GREEDY)).text();
    let middle = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
    let stop = text[middle..].chars().next().unwrap();
    let cut = &text[..text.find(stop).unwrap()];
    ollama(home, "cold", '1', &serde_json::json!({"temperature": 0, "stop": [stop.to_string()]}).to_string());
    let no_temp = &GREEDY[..4];
    assert_eq!(ran(&mut named(home, "tiny", no_temp)).text(), cut);
    assert_eq!(ran(&mut named(home, "tiny", &[no_temp, &["--ignore-eos"]].concat())).text().find(cut), Some(0));
    assert_eq!(ran(&mut command(&small(), &[&GREEDY[..], &["--stop", &stop.to_string()]].concat())).text(), cut);
    ollama(home, "hot", '2', r#"{"temperature": 100, "top_k": 0, "top_p": 1, "min_p": 0}"#);
    assert_eq!(ran(&mut named(home, "tiny:hot", &GREEDY)).text(), text);
}

#[test]
fn a_name_of_several_or_of_none_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let repo = ".cache/huggingface/hub/models--Org--Tiny-GGUF/snapshots/r";
    link(home, &format!("{repo}/tiny-Q4_1.gguf"));
    write(home, &format!("{repo}/tiny-Q8_0.gguf"), "another file");
    let ambiguous = ran(&mut named(home, "Org/Tiny-GGUF", &GREEDY));
    let error = ambiguous.error();
    assert!(error.contains("any of 2: Org/Tiny-GGUF/tiny-Q4_1.gguf, Org/Tiny-GGUF/tiny-Q8_0.gguf"), "{error}");
    let none = ran(&mut named(home, "Org/Other", &GREEDY));
    let error = none.error();
    assert!(error.contains("no file and no model named `Org/Other`") && error.contains("huggingface/hub"), "{error}");
    assert!(error.contains(".ollama/models (Ollama, which is not there)"), "{error}");
}
