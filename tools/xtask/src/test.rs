//! What CI checks, in the order in which a mistake shows soonest.

use std::process::Command;
use std::time::Instant;

use crate::shell::{cargo, run as run_command, succeeds};
use crate::{models, setup};

/// Seconds that the brief fuzz run spends on each target, after the tests' own.
const FUZZ_SECONDS: &str = "10";

/// A step: its name and what it does.
type Step = (&'static str, fn() -> Result<(), String>);

const STEPS: &[Step] = &[
    ("setup", setup::run),
    ("format", || run_command(cargo().args(["fmt", "--all", "--check"]))),
    ("lint", || run_command(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))),
    ("models", models::run),
    ("tests", tests),
    ("doc tests", || run_command(cargo().args(["test", "--workspace", "--doc"]))),
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

/// All tests but those in documentation, with nextest where it is installed.
fn tests() -> Result<(), String> {
    let all = ["--workspace", "--no-fail-fast"];
    if succeeds(cargo().args(["nextest", "--version"])) {
        return run_command(cargo().args(["nextest", "run"]).args(all));
    }
    let every_target = ["--lib", "--bins", "--tests", "--examples"];
    let mut test: Command = cargo();
    run_command(test.arg("test").args(all).args(every_target))
}
