//! Compile time beside Triton: its installation, ours, and the script that times both.

use crate::shell::{cargo, command, run as run_command, succeeds, target_dir};

/// The version that bars are set against.
const TRITON: &str = "3.9.0";

/// Installs Triton, builds `hrx-bench` and compares.
///
/// # Errors
/// No Python, no connection, no wheel of Triton for it, or a comparison that is not as it should be.
pub fn run() -> Result<(), String> {
    let venv = target_dir().join("bench-triton/venv");
    let python = venv.join("bin/python");
    let has_triton = || {
        let check = format!("import importlib.metadata as m; assert m.version('triton') == '{TRITON}'");
        succeeds(command(&python).args(["-c", &check]))
    };
    if !has_triton() {
        run_command(command("python3").args(["-m", "venv"]).arg(&venv))
            .map_err(|error| format!("{error}: Python's venv is wanted (Debian: apt-get install python3-venv)"))?;
        let package = format!("triton=={TRITON}");
        run_command(command(&python).args(["-m", "pip", "install", "--quiet", &package]))?;
    }
    run_command(cargo().args(["build", "--release", "--package", "hrx-bench"]))?;
    let program = target_dir().join("release/hrx-bench");
    run_command(command(&python).arg("tools/bench-triton/bench.py").arg(program))
}
