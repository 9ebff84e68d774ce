//! What the parser reports.

use std::fmt;

/// Why a text is not a kernel, and where.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub kind: ParseErrorKind,
    /// The line's text, or the part of a long line around the column.
    pub snippet: String,
    /// The column within the snippet, from 0.
    pub caret: usize,
}

/// What is wrong with a text.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParseErrorKind {
    /// Something else stands where something is due.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What may stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A name with two definitions.
    #[error("{name} is already defined on line {first}")]
    Redefined {
        /// The name.
        name: String,
        /// The line of the first definition.
        first: usize,
    },
    /// A name without a definition.
    #[error("{name} is not defined")]
    Undefined {
        /// The name.
        name: String,
    },
    /// More nesting than [`MAX_NESTING`](crate::tile::walk::MAX_NESTING).
    #[error("nested more than {limit} deep")]
    TooDeep {
        /// The limit.
        limit: usize,
    },
}

/// The most characters of a line that are shown.
const SNIPPET: usize = 160;

impl ParseError {
    /// An error at a byte offset of `source`.
    pub(super) fn at(source: &str, offset: usize, kind: ParseErrorKind) -> ParseError {
        let (before, after) = source.split_at(offset.min(source.len()));
        let start = before.rfind('\n').map_or(0, |n| n + 1);
        let column = before[start..].chars().count();
        let skip = column.saturating_sub(SNIPPET / 2);
        let line = before[start..].chars().chain(after.chars().take_while(|&c| c != '\n'));
        let snippet = line.skip(skip).take(SNIPPET).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let line = before.matches('\n').count() + 1;
        ParseError { line, column: column + 1, kind, snippet, caret: column - skip }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}, column {}: {}", self.line, self.column, self.kind)?;
        writeln!(f, "  {}", self.snippet.trim_end())?;
        write!(f, "  {:1$}^", "", self.caret)
    }
}

/// Describes the names that may stand where `found` does: those like it if there are any, else all.
pub(super) fn one_of<'a>(what: &str, found: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let near = |n: &&str| found.len() <= 32 && distance(n, found) <= (found.len() / 3).max(1);
    let like: Vec<&str> = names.clone().filter(near).collect();
    if like.is_empty() {
        format!("{what} ({})", names.collect::<Vec<_>>().join(", "))
    } else {
        format!("{what}, perhaps {}", like.join(" or "))
    }
}

/// The number of insertions, deletions and replacements between two names (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
