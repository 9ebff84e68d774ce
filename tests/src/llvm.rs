//! LLVM's own programs, to hold what we make to them.

use std::path::PathBuf;
use std::process::Command;

/// The most files of one call: an argument list has room for more.
const FILES: usize = 200;

/// One of LLVM's programs, where `LLVM_SYS_221_PREFIX` says or Debian has it.
///
/// # Panics
/// If it is not there.
pub fn tool(name: &str) -> PathBuf {
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX").map_or_else(|| "/usr/lib/llvm-22".into(), PathBuf::from);
    let path = prefix.join("bin").join(name);
    assert!(path.exists(), "{} is missing: cargo xtask setup installs it", path.display());
    path
}

/// What one of LLVM's programs that read objects complains of, given files with their names: a line for each complaint,
/// with the file's name. The program's failing is a complaint, and so is printing nothing of a file.
///
/// # Panics
/// If the files can't be written or the program can't be run.
pub fn complaints(program: &str, arguments: &[&str], files: &[(String, Vec<u8>)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for files in files.chunks(FILES) {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |(name, bytes): &(String, Vec<u8>)| {
            std::fs::write(folder.path().join(name), bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        };
        files.iter().for_each(write);
        let mut command = Command::new(tool(program));
        command.current_dir(folder.path()).args(arguments).args(files.iter().map(|(name, _)| name));
        let output = command.output().unwrap_or_else(|e| panic!("{program}: {e}"));
        let [text, errors] = [&output.stdout, &output.stderr].map(|s| String::from_utf8_lossy(s).into_owned());
        complaints.extend(errors.lines().map(String::from));
        complaints.extend(text.lines().filter(|l| l.contains("warning:")).map(String::from));
        let silent = files.iter().filter(|(name, _)| !text.contains(&format!("File: {name}\n")));
        complaints.extend(silent.map(|(name, _)| format!("{name}: {program} says nothing of it")));
        if !output.status.success() && errors.is_empty() {
            complaints.push(format!("{program}: {}", output.status));
        }
    }
    complaints
}
