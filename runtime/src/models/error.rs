//! Why a file's model can't be built.

use super::ARCHITECTURES;
use crate::gguf::GgufError;
use hrx_ir::graph::GraphError;
use std::fmt;
use std::path::PathBuf;

/// Why a file's model can't be built, with the file's name in the message.
#[derive(Debug)]
pub struct ModelError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong in it.
    pub problem: Box<Problem>,
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.problem {
            // Names the file itself.
            Problem::Gguf(e) => e.fmt(f),
            other => write!(f, "{}: {other}", self.file.display()),
        }
    }
}

impl std::error::Error for ModelError {}

/// What is wrong with a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Metadata that is absent or of the wrong type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// There is no such architecture.
    #[error("unknown architecture `{found}`, want one of {} (docs/models.md says which models these are)", names())]
    UnknownArchitecture {
        /// The name in the file.
        found: String,
    },
    /// A metadata value that the model can't have, or that asks for something not supported.
    #[error("metadata key `{key}` is {found}, want {want}")]
    Metadata {
        /// The key.
        key: String,
        /// Its value.
        found: String,
        /// What would do.
        want: String,
    },
    /// A tensor is absent.
    #[error("no tensor `{name}`, want it with dimensions {want:?}")]
    MissingTensor {
        /// Its name.
        name: String,
        /// Its dimensions in GGML's order.
        want: Vec<u64>,
    },
    /// A tensor has the wrong dimensions.
    #[error("tensor `{name}` has dimensions {found:?}, want {want:?}")]
    TensorShape {
        /// Its name.
        name: String,
        /// Its dimensions in GGML's order.
        found: Vec<u64>,
        /// Those that the metadata ask for.
        want: Vec<u64>,
    },
    /// A tensor is of a type that can't be read here.
    #[error("tensor `{name}` is of type {found}, want one of {}", want.join(", "))]
    TensorType {
        /// Its name.
        name: String,
        /// Its type.
        found: &'static str,
        /// Those that can.
        want: Vec<&'static str>,
    },
    /// Tensors that the architecture has no use for.
    #[error("tensor `{name}`{} no part of a {architecture} model as it is known here", match others {
        0 => " is".into(),
        n => format!(" and {n} more are"),
    })]
    UnusedTensors {
        /// The architecture.
        architecture: String,
        /// The first of them.
        name: String,
        /// How many more there are.
        others: usize,
    },
    /// Sizes that don't fit each other.
    #[error("the model makes no valid graph: {0}")]
    Graph(#[from] GraphError),
}

fn names() -> String {
    ARCHITECTURES.iter().map(|a| a.name).collect::<Vec<_>>().join(", ")
}
