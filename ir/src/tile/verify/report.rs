//! What the verifier reports: each violation with the line of text that it is about and a mark under the culprit.

use super::super::kernel::Kernel;
use super::super::print::Text;
use super::{Found, Rule};
use std::fmt;

/// A rule that a kernel breaks. Names of values and views are those of the kernel's text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// The kind of rule.
    pub rule: Rule,
    /// The rule and what breaks it.
    pub message: String,
    /// The instruction, parameter or head of the kernel as a line of its text.
    pub text: String,
    /// That line's number in the printed kernel, from 1; none for what the text does not show.
    pub line: Option<usize>,
    /// What to mark: first column, from 0, and number of characters.
    pub mark: (usize, usize),
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[{}] {}", self.rule.name(), self.message)?;
        let number = self.line.map_or_else(String::new, |n| n.to_string());
        writeln!(f, "{number:>5} | {}", self.text)?;
        let (column, width) = self.mark;
        write!(f, "      | {:column$}{:^<width$}", "", "")
    }
}

/// All rules that a kernel breaks; at least one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyErrors {
    /// The kernel's name.
    pub kernel: String,
    /// The violations, in the order of the text.
    pub errors: Vec<VerifyError>,
}

impl VerifyErrors {
    pub(super) fn new(k: &Kernel, mut found: Vec<Found>) -> VerifyErrors {
        let text = Text::new(k);
        let lines: Vec<&str> = text.text.lines().collect();
        found.sort_by_key(|f| text.lines.get(&f.place).copied());
        let error = |f: Found| {
            let at = text.lines.get(&f.place).copied();
            let line = at.and_then(|n| lines.get(n)).map_or("", |l| l.trim());
            let focus = f.focus.map(|name| text.names.translate(&name));
            let whole = (0, line.chars().count().max(1));
            let mark = focus.and_then(|name| find_word(line, &name)).unwrap_or(whole);
            let message = text.names.translate(&f.message);
            VerifyError { rule: f.rule, message, text: line.into(), line: at.map(|n| n + 1), mark }
        };
        VerifyErrors { kernel: k.name.clone(), errors: found.into_iter().map(error).collect() }
    }
}

impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.errors.len();
        write!(f, "kernel @{} breaks {n} rule{}", self.kernel.escape_debug(), if n == 1 { "" } else { "s" })?;
        self.errors.iter().try_for_each(|e| write!(f, "\n{e}"))
    }
}

impl std::error::Error for VerifyErrors {}

/// The place of a whole word in a line, the last one: operands stand behind what a line defines.
fn find_word(line: &str, word: &str) -> Option<(usize, usize)> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let whole = |&(at, _): &(usize, &str)| {
        !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part) && !word.is_empty()
    };
    let (at, _) = line.match_indices(word).filter(whole).last()?;
    Some((line[..at].chars().count(), word.chars().count()))
}
