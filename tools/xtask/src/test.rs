//! What CI checks, in the order in which a mistake shows soonest.

use std::time::Instant;

use crate::shell::{cargo, run as run_command, succeeds};
use crate::{models, setup};

/// Seconds that the brief fuzz run spends on each target, after the tests' own.
const FUZZ_SECONDS: &str = "10";

/// The features that bring in MLIR.
const MLIR: [&str; 2] = ["--features", "hrx-jit/mlir,hrx-tests/mlir"];

/// The tests that run through MLIR what the features let them.
const MLIR_TESTS: [&str; 12] = [
    "--test",
    "mlir",
    "--test",
    "hrx_jit",
    "--test",
    "host_ops",
    "--test",
    "host_random",
    "--test",
    "host_templates",
    "--test",
    "host_matrix",
];

/// All targets with tests; documentation has a step of its own.
const EVERY_TARGET: [&str; 4] = ["--lib", "--bins", "--tests", "--examples"];

/// The packages whose documentation is read.
const LIBRARIES: [&str; 5] = ["hrx-ir", "hrx-templates", "hrx-compiler", "hrx-cache", "hrx"];

/// A step: its name and what it does.
type Step = (&'static str, fn() -> Result<(), String>);

const STEPS: &[Step] = &[
    ("setup", setup::for_tests),
    ("format", || run_command(cargo().args(["fmt", "--all", "--check"]))),
    ("lint", || {
        let mut clippy = cargo();
        clippy.args(["clippy", "--workspace", "--all-targets"]).args(MLIR);
        run_command(clippy.args(["--", "-D", "warnings"]))
    }),
    ("models", models::run),
    ("tests", || tests(&EVERY_TARGET)),
    ("mlir", || tests(&[&MLIR[..], &MLIR_TESTS].concat())),
    ("doc tests", || run_command(cargo().args(["test", "--workspace", "--doc"]))),
    ("documentation", || {
        let mut doc = cargo();
        doc.args(["doc", "--no-deps"]).args(LIBRARIES.iter().flat_map(|name| ["--package", name]));
        run_command(doc.env("RUSTDOCFLAGS", "-D warnings"))
    }),
    ("examples", || run_command(cargo().args(["build", "--package", "hrx", "--examples"]))),
    ("fuzz", || {
        let mut fuzz = cargo();
        fuzz.args(["test", "--package", "hrx-fuzz", "--test", "mutate", "--", "--nocapture"]);
        run_command(fuzz.env("HRX_FUZZ_SECONDS", FUZZ_SECONDS))
    }),
];

/// Runs all steps, and says how long each took.
///
/// # Errors
/// The first step that fails.
pub fn run() -> Result<(), String> {
    let start = Instant::now();
    let mut times = Vec::new();
    for (number, (name, step)) in STEPS.iter().enumerate() {
        println!("\n=== {}/{} {name}", number + 1, STEPS.len());
        let begin = Instant::now();
        let result = step();
        let seconds = begin.elapsed().as_secs_f64();
        result.map_err(|error| format!("FAILED in step `{name}` after {seconds:.1} s: {error}"))?;
        println!("=== {name}: ok in {seconds:.1} s");
        times.push(format!("{name} {seconds:.0} s"));
    }
    let total = start.elapsed().as_secs_f64();
    println!("\nxtask test: all {} steps passed in {total:.0} s ({})", STEPS.len(), times.join(", "));
    Ok(())
}

/// The tests of some targets of the workspace, with nextest where it is installed.
fn tests(which: &[&str]) -> Result<(), String> {
    let mut test = cargo();
    if succeeds(cargo().args(["nextest", "--version"])) {
        test.args(["nextest", "run"]);
    } else {
        test.arg("test");
    }
    run_command(test.args(["--workspace", "--no-fail-fast"]).args(which))
}
