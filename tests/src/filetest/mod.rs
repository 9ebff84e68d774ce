//! File tests: kernels in text form whose head says what to do with them and what comes out.
//!
//! ```text
//! // test: verify-fail
//! // error: `v1: f32 = neg v0` [type] neg does not take b1
//!
//! kernel @k(…) …
//! ```
//!
//! A file begins with its head, lines of comments up to the first other line. A line `// test: COMMAND [ARGUMENTS]`
//! names one of [`commands::COMMANDS`]; there may be several. A line `// KEY: TEXT` is input to a command or the
//! expectation that one keeps under that key. Other comments are for the reader.
//!
//! A command returns what came out, and the runner compares it with the file; with `HRX_UPDATE=1` it writes it there.
//! An update is accepted only if running the new file gives the same again.

pub mod commands;

use commands::{COMMANDS, Command};
use std::path::{Path, PathBuf};

/// How to rewrite the expectations of all files.
pub const UPDATE: &str = "HRX_UPDATE=1 cargo test -p hrx-tests --test filetests";

/// A test file, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestFile {
    /// The head's lines.
    pub head: Vec<String>,
    /// The rest of the file: kernels.
    pub body: String,
}

impl TestFile {
    /// Splits a file's text.
    pub fn parse(text: &str) -> TestFile {
        let head: Vec<String> = text.lines().take_while(|l| l.starts_with("//")).map(String::from).collect();
        let body = text.lines().skip(head.len()).fold(String::new(), |s, l| s + l + "\n");
        TestFile { head, body: body.trim_start_matches('\n').into() }
    }

    /// The file's text.
    pub fn text(&self) -> String {
        format!("{}\n\n{}", self.head.join("\n"), self.body)
    }

    /// The number of the file's lines above the body.
    pub fn lines_above(&self) -> usize {
        self.head.len() + 1
    }

    /// The texts of the head's lines with a key.
    pub fn lines(&self, key: &str) -> Vec<&str> {
        self.head.iter().filter_map(|l| keyed(l, key)).collect()
    }

    /// Replaces the lines with a key, where the first one was or else at the end of the head.
    fn set_lines(&mut self, key: &str, lines: &[String]) {
        let at = self.head.iter().position(|l| keyed(l, key).is_some());
        self.head.retain(|l| keyed(l, key).is_none());
        let at = at.unwrap_or(self.head.len());
        self.head.splice(at..at, lines.iter().map(|l| format!("// {key}: {l}").trim_end().to_string()));
    }

    /// The commands with their arguments.
    fn tests(&self) -> Result<Vec<(&'static Command, String)>, String> {
        let find = |line: &&str| {
            let (name, args) = line.split_once(' ').unwrap_or((line, ""));
            let names = || COMMANDS.iter().map(|c| c.name).collect::<Vec<_>>().join(", ");
            let command = COMMANDS.iter().find(|c| c.name == name);
            command
                .map(|c| (c, args.trim().to_string()))
                .ok_or_else(|| format!("no command {name:?}: there are {}", names()))
        };
        let tests: Vec<_> = self.lines("test").iter().map(find).collect::<Result<_, _>>()?;
        if tests.is_empty() { Err("the head has no line `// test: COMMAND`".into()) } else { Ok(tests) }
    }
}

fn keyed<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.strip_prefix("// ")?.strip_prefix(key)?.strip_prefix(':').map(str::trim)
}

/// What a command makes of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Lines that the head has under a key.
    Lines {
        /// The key.
        key: &'static str,
        /// The lines.
        lines: Vec<Line>,
    },
    /// What the file's body should be.
    Body(String),
    /// Nothing to compare.
    Passed,
}

/// A line of an expectation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// What has to agree.
    pub decisive: String,
    /// What is only for the reader, so that a better wording breaks no test.
    pub prose: String,
}

/// Runs the commands of a file's text. Gives the text with expectations brought up to date, and what differed.
fn run(file: &TestFile) -> Result<(TestFile, Vec<String>), String> {
    let (mut updated, mut differences) = (file.clone(), Vec::new());
    for (command, args) in file.tests()? {
        let outcome = (command.run)(file, &args).map_err(|e| format!("{}: {e}", command.name))?;
        match outcome {
            Outcome::Passed => {}
            Outcome::Body(body) => {
                if body != file.body {
                    differences.push(format!("{}: the text should be\n{body}", command.name));
                }
                updated.body = body;
            }
            Outcome::Lines { key, lines } => {
                let has = file.lines(key);
                let same = has.len() == lines.len() && has.iter().zip(&lines).all(|(h, l)| h.starts_with(&l.decisive));
                let lines: Vec<String> = lines.iter().map(|l| format!("{} {}", l.decisive, l.prose)).collect();
                if !same {
                    let list = |l: &[&str]| l.iter().map(|l| format!("\n  {key}: {l}")).collect::<String>();
                    let got: Vec<&str> = lines.iter().map(String::as_str).collect();
                    differences.push(format!("{}: expected{}\ngot{}", command.name, list(&has), list(&got)));
                }
                updated.set_lines(key, &lines);
            }
        }
    }
    Ok((updated, differences))
}

/// Runs one file, or brings it up to date.
///
/// # Errors
/// What went wrong, with the file and, where only an expectation differs, the command that updates it.
pub fn check(path: &Path, update: bool) -> Result<(), String> {
    let fault = |e: String| format!("{}: {e}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| fault(e.to_string()))?;
    let (updated, differences) = run(&TestFile::parse(&text)).map_err(fault)?;
    if update {
        let text = updated.text();
        let (_, unstable) = run(&TestFile::parse(&text)).map_err(fault)?;
        if !unstable.is_empty() {
            return Err(fault(format!("the update does not give the same again: {}", unstable.join("\n"))));
        }
        return std::fs::write(path, text).map_err(|e| fault(e.to_string()));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!("{}\nif that is right: {UPDATE}", fault(differences.join("\n"))))
}

/// All `.tile` files under a directory, in order.
///
/// # Errors
/// If a directory can't be read.
pub fn files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            out.extend(files(&path)?);
        } else if path.extension().is_some_and(|e| e == "tile") {
            out.push(path);
        }
    }
    out.sort();
    Ok(out)
}
