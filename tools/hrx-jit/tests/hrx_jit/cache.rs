//! `cache`.

use crate::support::{fails, good, model, run};
use serde_json::Value;

#[test]
fn verbs_count_list_check_and_clear() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().display().to_string();
    let cache = |verb: &'static str| ["cache", verb, "--cache-dir", &dir].map(String::from);
    let run_verb = |verb| {
        let args = cache(verb);
        run(&args.each_ref().map(String::as_str))
    };
    assert_eq!(run_verb("verify").text(), "0 good, 0 damaged\n", "an empty cache is in order");
    let kernels = good(&["kernels", &model("llama-linear-F16"), "--cache-dir", &dir, "--json"]);
    let kernels: Value = serde_json::from_slice(&kernels.out).expect("JSON");
    let count = kernels["kernels"].as_array().expect("a list").len();

    let list = good(&["cache", "list", "--json", "--cache-dir", &dir]);
    let list: Vec<Value> = serde_json::from_slice(&list.out).expect("JSON");
    assert_eq!(list.len(), count);
    for k in kernels["kernels"].as_array().expect("a list") {
        let entry = list.iter().find(|e| e["hash"] == k["hash"]).expect("every kernel is listed");
        assert_eq!((&entry["kernel"], &entry["compile_ms"]), (&k["name"], &k["compile_ms"]));
    }
    assert_eq!(run_verb("list").text().lines().count(), count + 1);
    let bytes: u64 = list.iter().filter_map(|e| e["bytes"].as_u64()).sum();
    assert!(run_verb("stat").text().contains(&format!("entries    {count}\nbytes      {bytes}\n")));
    assert_eq!(run_verb("verify").text(), format!("{count} good, 0 damaged\n"));

    // One bit of one entry.
    let path = list[0]["path"].as_str().expect("a path");
    let mut damaged = std::fs::read(path).expect("an entry");
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(path, damaged).expect("writable");
    let ran = run_verb("verify");
    assert_eq!(ran.code, Some(1));
    assert!(ran.text().contains(path) && ran.text().contains("wrong checksum"), "{}", ran.text());
    assert!(ran.text().ends_with(&format!("{} good, 1 damaged\n", count - 1)), "{}", ran.text());
    let again = run_verb("verify");
    assert_eq!((again.code, again.text()), (Some(0), format!("{} good, 0 damaged\n", count - 1).as_str()));

    assert!(run_verb("clear").text().starts_with(&format!("removed {} entries of ", count - 1)));
    assert!(run_verb("stat").text().contains("entries    0\nbytes      0\n"));
}

#[test]
fn a_damaged_entry_is_said_and_compiled_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path().display().to_string();
    let model = model("llama-linear-F16");
    let args = ["kernels", &model, "--cache-dir", &dir];
    good(&args);
    let list = good(&["cache", "list", "--json", "--cache-dir", &dir]);
    let list: Vec<Value> = serde_json::from_slice(&list.out).expect("JSON");
    std::fs::write(list[0]["path"].as_str().expect("a path"), "not an entry").expect("writable");
    let ran = run(&args);
    assert_eq!(ran.code, Some(0));
    assert!(ran.err.starts_with("warning: damaged cache entry ") && ran.err.lines().count() == 1, "{}", ran.err);
    good(&args);
}

#[test]
fn a_directory_that_is_none_is_an_error() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fails(&["cache", "stat", "--cache-dir", &file.path().display().to_string()], 1, "cache: cannot open");
    fails(&["cache", "polish"], 2, "polish");
}
