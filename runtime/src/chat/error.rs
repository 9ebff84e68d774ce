//! What can go wrong with a chat template.

use crate::gguf::GgufError;

/// An error of a chat template.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// A metadata value has the wrong type (the message names the key).
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// The file has no template of this name.
    #[error("chat template: the file has none called '{name}'; it has: {known}")]
    NoSuchTemplate {
        /// The name asked for.
        name: String,
        /// Those that are there, separated by commas.
        known: String,
    },
    /// The template cannot be parsed, or refuses or fails on these messages.
    #[error("chat template '{name}'{}: {problem}{}", at_line(*.line), quoted(construct))]
    Template {
        /// Which template.
        name: String,
        /// The line, counted from 1, where the engine knows it.
        line: Option<usize>,
        /// The engine's message, or what the template itself raised.
        problem: String,
        /// What stands in that line.
        construct: Option<String>,
    },
    /// A list of tools is none.
    #[error("tools: {0}")]
    Tools(String),
}

/// Longest part of a template's line in a message, in characters.
const QUOTED: usize = 100;

fn quoted(construct: &Option<String>) -> String {
    construct.as_ref().map(|text| format!(", in `{text}`")).unwrap_or_default()
}

fn at_line(line: Option<usize>) -> String {
    line.map(|line| format!(" line {line}")).unwrap_or_default()
}

impl ChatError {
    pub(super) fn template(name: &str, source: &str, error: &minijinja::Error) -> ChatError {
        let problem = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        let line = error.line();
        let construct = line.and_then(|line| construct(source, line, error.range()));
        ChatError::Template { name: name.to_owned(), line, problem, construct }
    }
}

/// What is wrong in a line: the tag or expression around the error's place where the engine knows it, else the line.
fn construct(source: &str, line: usize, place: Option<std::ops::Range<usize>>) -> Option<String> {
    let text = source.lines().nth(line.checked_sub(1)?)?;
    let around = place.and_then(|place| {
        let before = source.get(..place.start)?;
        let start = ["{{", "{%"].iter().filter_map(|open| before.rfind(open)).max()?;
        let tag = source.get(start..)?;
        let close = if tag.starts_with("{{") { "}}" } else { "%}" };
        let length = tag.find(close)? + close.len();
        (start + length > place.start).then(|| &tag[..length])
    });
    let shown = around.unwrap_or(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if shown.is_empty() {
        return None;
    }
    match shown.char_indices().nth(QUOTED) {
        Some((end, _)) => Some(format!("{} ...", &shown[..end])),
        None => Some(shown),
    }
}
