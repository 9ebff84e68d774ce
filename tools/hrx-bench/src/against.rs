//! Another engine's bench command, run in turn with ours.
//!
//! Machines differ from minute to minute, so what is compared are neighbours: ours, theirs, ours, theirs. The other command
//! is asked for one repetition of one test at a time, and answers in llama-bench's JSON.

use crate::args::Args;
use crate::measure::{Running, Samples, Test};
use crate::stats::median;
use hrx::Model;
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A command in words, with places for what is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    words: Vec<String>,
}

/// Why another engine could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum AgainstError {
    #[error("`{0}` can't be run: {1}")]
    Start(String, std::io::Error),
    #[error("`{command}` failed ({status}): {said}")]
    Status { command: String, status: std::process::ExitStatus, said: String },
    #[error("`{0}` does not answer in llama-bench's JSON (its option -o json): {1}")]
    Answer(String, String),
    #[error("`{0}` has no result of {1} in its answer")]
    NoSuchTest(String, String),
}

/// What stands for a number or name of the test in a command.
const PLACES: [&str; 6] = ["{model}", "{p}", "{n}", "{d}", "{b}", "{t}"];

impl std::str::FromStr for Peer {
    type Err = String;

    fn from_str(text: &str) -> Result<Peer, String> {
        let words = shlex::split(text).ok_or("a quotation mark has no partner")?;
        if words.is_empty() {
            return Err("there is no command".into());
        }
        for place in ["{p}", "{n}"] {
            if !words.iter().any(|word| word.contains(place)) {
                return Err(format!(
                    "{place} has to stand where the command takes the test's; there are: {}",
                    PLACES.join(", ")
                ));
            }
        }
        Ok(Peer { words })
    }
}

/// A result, of which llama-bench's JSON has more.
#[derive(Debug, Deserialize)]
struct Answer {
    n_prompt: u32,
    n_gen: u32,
    #[serde(default)]
    n_depth: u32,
    avg_ts: f64,
}

/// What another engine reached in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Against {
    /// Its tokens a second, in the order of ours.
    pub samples_ts: Vec<f64>,
    /// Their median.
    pub median_ts: f64,
    /// Our median over its median.
    pub ratio: f64,
    /// Of each of our repetitions over the one of its that followed: the least and the most.
    pub ratios: [f64; 2],
}

impl Against {
    fn new(ours: &[f64], theirs: Vec<f64>) -> Against {
        let ratios = ours.iter().zip(&theirs).map(|(a, b)| a / b);
        let least = ratios.clone().fold(f64::INFINITY, f64::min);
        let most = ratios.fold(0.0, f64::max);
        let median_ts = median(&theirs).unwrap_or(0.0);
        let ratio = median(ours).unwrap_or(0.0) / median_ts;
        Against { samples_ts: theirs, median_ts, ratio, ratios: [least, most] }
    }
}

impl Peer {
    /// The command for one test.
    fn words(&self, args: &Args, test: &Test, threads: u32) -> Vec<String> {
        let [p, n, d, b, t] = [test.n_prompt, test.n_gen, test.n_depth, test.n_batch, threads].map(|n| n.to_string());
        let values = [args.model_name(), p, n, d, b, t];
        let fill = |word: &String| PLACES.iter().zip(&values).fold(word.clone(), |w, (place, v)| w.replace(place, v));
        self.words.iter().map(fill).collect()
    }

    /// Runs the command for one test: its tokens a second.
    fn speed(&self, args: &Args, test: &Test, threads: u32) -> Result<f64, AgainstError> {
        let words = self.words(args, test, threads);
        let command = words.join(" ");
        let ran = Command::new(&words[0]).args(&words[1..]).stdin(Stdio::null()).output();
        let output = ran.map_err(|e| AgainstError::Start(command.clone(), e))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().map(str::trim).rfind(|l| !l.is_empty()).unwrap_or("it said nothing");
            return Err(AgainstError::Status { command, status: output.status, said: said.to_owned() });
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let answers = answers(&text).map_err(|e| AgainstError::Answer(command.clone(), e.to_string()))?;
        let same = |a: &&Answer| (a.n_prompt, a.n_gen, a.n_depth) == (test.n_prompt, test.n_gen, test.n_depth);
        let found = answers.iter().find(same).map(|a| a.avg_ts);
        found.filter(|&ts| ts > 0.0).ok_or_else(|| AgainstError::NoSuchTest(command, test.name()))
    }
}

/// A list of results, or one a line.
fn answers(text: &str) -> Result<Vec<Answer>, serde_json::Error> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text);
    }
    serde_json::Deserializer::from_str(text).into_iter().collect()
}

/// Measures a test and another engine's, one repetition of each in turn.
///
/// # Errors
/// If either fails.
pub fn run(
    model: &Model,
    args: &Args,
    peer: &Peer,
    test: &Test,
    threads: u32,
) -> Result<(Samples, Against), crate::Failure> {
    let mut running = Running::start(model, test, args.how())?;
    let mut theirs = Vec::new();
    for _ in 0..args.repetitions {
        running.repeat()?;
        theirs.push(peer.speed(args, test, threads)?);
    }
    let samples = running.finish()?;
    let speed = |t: &Duration| f64::from(test.tokens()) / t.as_secs_f64().max(1e-9);
    let ours: Vec<f64> = samples.times.iter().map(speed).collect();
    Ok((samples, Against::new(&ours, theirs)))
}

#[cfg(test)]
mod tests {
    use super::{Against, Peer, answers};

    #[test]
    fn commands_are_words_with_places() {
        let peer: Peer = "llama-bench -m '{model}' -p {p} -n {n}".parse().expect("a command");
        assert_eq!(peer.words, ["llama-bench", "-m", "{model}", "-p", "{p}", "-n", "{n}"]);
        for (bad, said) in [("", "no command"), ("x -p {p}", "{n} has to stand"), ("x 'y", "quotation")] {
            let e = bad.parse::<Peer>().expect_err("refused");
            assert!(e.contains(said), "{e}");
        }
    }

    #[test]
    fn answers_are_lists_or_lines() {
        let one = r#"{"n_prompt": 4, "n_gen": 0, "avg_ts": 1.5, "more": [1]}"#;
        for text in [format!("[{one}, {one}]"), format!("{one}\n{one}\n")] {
            let found = answers(&text).expect("results");
            assert_eq!((found.len(), found[1].n_prompt, found[1].avg_ts), (2, 4, 1.5));
        }
        answers("| model | size |").expect_err("a table");
    }

    #[test]
    fn ratios_are_of_neighbours_and_of_medians() {
        let a = Against::new(&[4.0, 6.0, 9.0], vec![2.0, 3.0, 3.0]);
        assert_eq!((a.median_ts, a.ratio, a.ratios), (3.0, 2.0, [2.0, 3.0]));
    }
}
