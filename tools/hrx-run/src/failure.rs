//! Why a run ends with an error.

use std::io;
use std::path::PathBuf;

/// Why a run ends with an error.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The library refuses.
    #[error(transparent)]
    Hrx(#[from] hrx::Error),
    /// The file of logits can't be written.
    #[error(transparent)]
    Npy(#[from] hrx::npy::NpyError),
    /// A file of the command line can't be used.
    #[error("{}: can't {action}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// Standard input or output fails.
    #[error("can't {action}: {source}")]
    Stream {
        /// What was tried.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The input makes no sense for the model.
    #[error("{0}")]
    Input(String),
}

impl From<hrx::tokenizer::TokenizerError> for Failure {
    fn from(e: hrx::tokenizer::TokenizerError) -> Failure {
        Failure::Hrx(e.into())
    }
}

impl From<hrx::chat::ChatError> for Failure {
    fn from(e: hrx::chat::ChatError) -> Failure {
        Failure::Hrx(e.into())
    }
}
