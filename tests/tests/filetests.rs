//! Runs the file tests; `HRX_UPDATE=1` rewrites their expectations.

use hrx_tests::filetest;
use std::path::Path;

#[test]
fn filetests() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests");
    let files = filetest::files(&dir).expect("the directory of file tests");
    assert!(!files.is_empty(), "no files in {}", dir.display());
    let update = std::env::var_os("HRX_UPDATE").is_some_and(|v| v == "1");
    let failures: Vec<String> = files.iter().filter_map(|f| filetest::check(f, update).err()).collect();
    assert!(failures.is_empty(), "{} of {} files\n\n{}", failures.len(), files.len(), failures.join("\n\n"));
}

#[test]
fn a_wrong_expectation_fails_and_names_file_and_command() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("wrong.tile");
    let text = "// test: verify-fail\n// error: `x` [type] y\n\nkernel @k(v0: i8) {\n}\n";
    std::fs::write(&path, text).expect("the file");
    let error = filetest::check(&path, false).expect_err("another error is found");
    assert!(error.contains("wrong.tile") && error.contains(filetest::UPDATE) && error.contains("[param]"), "{error}");
    filetest::check(&path, true).expect("an update");
    filetest::check(&path, false).expect("the updated file");
}

#[test]
fn unknown_commands_list_the_known_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("unknown.tile");
    std::fs::write(&path, "// test: verfy\n\nkernel @k() {\n}\n").expect("the file");
    let error = filetest::check(&path, false).expect_err("there is no such command");
    assert!(error.contains("parse, parse-fail, verify"), "{error}");
}
