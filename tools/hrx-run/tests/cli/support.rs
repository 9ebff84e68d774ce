//! Running the program on the compact golden models.

use hrx::gguf::Gguf;
use hrx::gguf::write::Builder;
use hrx_tests::golden::{Golden, Model};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The golden model of that name, and its file.
pub fn model(name: &str) -> (Model, PathBuf) {
    let golden = Golden::compact();
    let model = golden.models().unwrap().into_iter().find(|m| m.file == format!("{name}.gguf")).unwrap();
    let path = golden.path(&model);
    (model, path)
}

/// The model of most tests.
pub fn small() -> PathBuf {
    model("llama-Q4_1").1
}

/// A command with the cache that tests share: content-addressed, so that they don't disturb each other.
pub fn command<S: AsRef<OsStr>>(model: &Path, args: &[S]) -> Command {
    let mut command = bare(model, args);
    command.arg("--cache-dir").arg(Path::new(env!("CARGO_TARGET_TMPDIR")).join("hrx-run-cache"));
    command
}

/// A command without a cache of its own.
pub fn bare<S: AsRef<OsStr>>(model: &Path, args: &[S]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hrx-run"));
    command.arg(model).args(args).stdin(Stdio::null());
    command
}

/// What a run left behind.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!err.contains("panicked"), "{err}");
        Ran { code: output.status.code(), out: output.stdout, err }
    }
}

impl Ran {
    /// The text of a run that went well.
    #[track_caller]
    pub fn text(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        String::from_utf8(self.out).unwrap()
    }

    /// The line of a run that failed with an error: nothing else is said, but warnings.
    #[track_caller]
    pub fn error(&self) -> &str {
        assert_eq!(self.code, Some(1), "{self:?}");
        let lines: Vec<&str> = self.err.lines().filter(|l| !l.starts_with("warning: ")).collect();
        match lines[..] {
            [line] if line.starts_with("error: ") && self.err.ends_with('\n') => line,
            _ => panic!("not one line of error: {self:?}"),
        }
    }
}

/// Runs a command to its end.
pub fn ran(command: &mut Command) -> Ran {
    command.output().unwrap().into()
}

/// Runs a command with this on standard input.
pub fn ran_with_input(command: &mut Command, input: &[u8]) -> Ran {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap().into()
}

/// Token ids as the command line takes them.
pub fn ids(tokens: &[u32]) -> String {
    tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// A file of JSON.
pub fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The small model with these metadata besides its own, or in place of them.
pub fn with_metadata(dir: &Path, values: &[(&str, &str)]) -> PathBuf {
    let gguf = Gguf::open(&small()).unwrap();
    let mut file = Builder::new();
    for (key, value) in gguf.metadata().iter().filter(|(key, _)| values.iter().all(|(k, _)| k != key)) {
        file.value(key, value);
    }
    values.iter().for_each(|(key, value)| {
        file.value(key, *value);
    });
    for tensor in gguf.tensors() {
        file.tensor(tensor.name(), tensor.dims(), tensor.ggml_type(), gguf.data(tensor).to_vec());
    }
    let path = dir.join("altered.gguf");
    std::fs::write(&path, file.to_bytes().unwrap()).unwrap();
    path
}
