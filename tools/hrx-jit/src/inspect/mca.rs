//! What llvm-mca says of a loop. It is a tool of LLVM's that may be there or not; nothing of it is in this program.

use hrx::compiler::x86::Mca;
use std::io::Write;
use std::process::{Command, Stdio};

/// Its names: Debian's, then the plain one.
const NAMES: [&str; 2] = ["llvm-mca-22", "llvm-mca"];

/// Passes that are simulated.
const PASSES: u32 = 200;

/// Runs it for this machine's processor; nothing where it is not there, or has no answer.
pub fn of_loop(code: &[String]) -> Option<Mca> {
    NAMES.iter().find_map(|name| run(name, code))
}

fn run(name: &str, code: &[String]) -> Option<Mca> {
    let iterations = format!("-iterations={PASSES}");
    let mut mca = Command::new(name);
    mca.args(["-mtriple=x86_64-unknown-linux-gnu", "-mcpu=native", "-json", &iterations]);
    let mut child = mca.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    // The jump back is no part of what units do, and goes nowhere here.
    let body: Vec<&str> = code.iter().map(String::as_str).filter(|line| !line.starts_with('j')).collect();
    child.stdin.take()?.write_all((body.join("\n") + "\n").as_bytes()).ok()?;
    let output = child.wait_with_output().ok().filter(|o| o.status.success())?;
    answer(&output.stdout)
}

/// What its answer says.
fn answer(json: &[u8]) -> Option<Mca> {
    let found: serde_json::Value = serde_json::from_slice(json).ok()?;
    let summary = &found["CodeRegions"][0]["SummaryView"];
    Some(Mca {
        cpu: found["TargetInfo"]["CPUName"].as_str()?.to_owned(),
        cycles: summary["TotalCycles"].as_f64()? / summary["Iterations"].as_f64()?,
        throughput: summary["BlockRThroughput"].as_f64()?,
    })
}

#[cfg(test)]
mod tests {
    use super::answer;

    #[test]
    fn answers_are_read() {
        let json =
            br#"{"CodeRegions": [{"SummaryView": {"Iterations": 200, "TotalCycles": 500, "BlockRThroughput": 2.0}}],
            "TargetInfo": {"CPUName": "znver4"}}"#;
        let found = answer(json).expect("an answer");
        assert_eq!((found.cpu.as_str(), found.cycles, found.throughput), ("znver4", 2.5, 2.0));
        assert!(answer(b"{}").is_none() && answer(b"error").is_none());
    }
}
