//! Notes the commit that the program is built from, for its reports.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Where HEAD moves, the log of HEAD grows. Outside a checkout there is neither, and the commit stays unknown.
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) {
        println!("cargo::rustc-env=HRX_COMMIT={commit}");
    }
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
