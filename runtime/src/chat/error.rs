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
    #[error("chat template '{name}'{}: {problem}", at_line(*.line))]
    Template {
        /// Which template.
        name: String,
        /// The line, counted from 1, where the engine knows it.
        line: Option<usize>,
        /// The engine's message, or what the template itself raised.
        problem: String,
    },
}

fn at_line(line: Option<usize>) -> String {
    line.map(|line| format!(" line {line}")).unwrap_or_default()
}

impl ChatError {
    pub(super) fn template(name: &str, error: &minijinja::Error) -> ChatError {
        let problem = match error.detail() {
            Some(detail) => format!("{}: {detail}", error.kind()),
            None => error.kind().to_string(),
        };
        ChatError::Template { name: name.to_owned(), line: error.line(), problem }
    }
}
