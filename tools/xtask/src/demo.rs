//! From a bare machine to text from two models.

use crate::models::{self, GEMMA3, SMOLLM2};
use crate::setup;
use crate::shell::{cargo, command, run as run_command, target_dir};

/// Sets up, downloads, builds and runs.
///
/// # Errors
/// The first step that fails.
pub fn run() -> Result<(), String> {
    setup::run()?;
    models::run()?;
    run_command(cargo().args(["build", "--release", "--package", "hrx-run"]))?;
    for model in [&SMOLLM2, &GEMMA3] {
        println!();
        let mut hrx_run = command(target_dir().join("release/hrx-run"));
        hrx_run.arg(models::dir().join(model.file));
        run_command(hrx_run.args(["-p", "The capital of France is", "-n", "48", "--temp", "0"]))?;
        println!();
    }
    println!("\nThe same programs take any GGUF file; hrx-run --help lists the options.");
    Ok(())
}
