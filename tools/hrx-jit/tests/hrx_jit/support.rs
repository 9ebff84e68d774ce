//! Running the program.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A file of the repository's tests.
pub fn tests(path: &str) -> String {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    dir.join(path).canonicalize().expect("the file exists").display().to_string()
}

/// A small model of the compact golden set.
pub fn model(name: &str) -> String {
    tests(&format!("golden/models/{name}.gguf"))
}

/// What a run came to.
pub struct Ran {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ran {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("text on stdout")
    }
}

/// Runs hrx-jit with an empty cache of its own unless the arguments name another.
pub fn run(args: &[&str]) -> Ran {
    run_with(args, "")
}

/// As [`run`], with a text on standard input.
pub fn run_with(args: &[&str], input: &str) -> Ran {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(env!("CARGO_BIN_EXE_hrx-jit"))
        .args(args)
        .env("HRX_CACHE_DIR", dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("hrx-jit starts");
    // A run that fails early does not read it.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("hrx-jit ends");
    Ran { code: status.code(), out: stdout, err: String::from_utf8(stderr).expect("text on stderr") }
}

/// A run that succeeds and has nothing to complain about.
#[track_caller]
pub fn good(args: &[&str]) -> Ran {
    let ran = run(args);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{args:?}");
    ran
}

/// A run that fails with this exit code and an error that has this in it.
#[track_caller]
pub fn fails(args: &[&str], code: i32, message: &str) -> Ran {
    let ran = run(args);
    assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.err);
    assert!(ran.err.starts_with("error: ") && ran.err.contains(message), "{args:?}: {}", ran.err);
    assert!(!ran.err.contains("panicked"), "{}", ran.err);
    assert!(ran.out.is_empty(), "{args:?} printed something");
    ran
}
