//! Models: from the metadata and tensors of a GGUF file to a graph.
//!
//! ```text
//! metadata ── config ──┐
//!                      ├── an architecture names its blocks ── blocks ── graph
//! tensors  ── builder ─┘
//! ```
//!
//! * [`ModelConfig`] is what the metadata says, checked; `keys` reads it.
//! * `builder` looks tensors up by name and shape, and keeps account of those used.
//! * `blocks` has the parts that architectures are made of, a module a kind: attention, mixtures of experts,
//!   recurrences,
//!   the decoder around them.
//! * `arch` has a module an architecture, which says which parts it has. [`ARCHITECTURES`] is the table of them.
//! * `stored` knows the forms that a weight is stored in.
//! * [`GgufRows`] gives a graph's weights to the interpreter.
//!
//! To add an architecture: a module in `arch`, a row in its table, and a golden model. CONTRIBUTING.md has the steps.
//!
//! The names of keys and tensors are those of the GGUF specification and of the files that converters write.

mod arch;
mod blocks;
mod builder;
mod config;
mod error;
mod keys;
mod rope;
mod rows;
mod stored;

#[cfg(test)]
mod tests;

use crate::error::Error;
use crate::gguf::Gguf;
use builder::ModelBuilder;
use hrx_ir::graph::Graph;
use std::path::Path;

pub use arch::{ARCHITECTURES, Architecture};
pub use config::ModelConfig;
pub use error::{ModelError, Problem};
pub use keys::PerLayer;
pub use rope::RopeConfig;
pub use rows::{GgufRows, weight_content};
pub(crate) use stored::Stored;

/// A model: its sizes, and the graph of one step.
#[derive(Clone, Debug)]
pub struct ModelGraph {
    /// Sizes and numbers from the metadata.
    pub config: ModelConfig,
    /// One step, with the outputs [`LOGITS`](hrx_ir::graph::LOGITS) and [`HIDDEN`](hrx_ir::graph::HIDDEN).
    pub graph: Graph,
}

impl ModelGraph {
    /// Reads a file and builds the graph of its model, without its weights.
    ///
    /// # Errors
    /// If the file is damaged or its model is not supported.
    pub fn open(path: impl AsRef<Path>) -> Result<ModelGraph, Error> {
        Ok(ModelGraph::from_gguf(&Gguf::open(path.as_ref())?)?)
    }

    /// Builds the graph of a file's model.
    ///
    /// Fails where the architecture is unknown, where metadata or a tensor is missing or wrong, and where the file
    /// holds a tensor that the architecture has no use for: its result would not be the model's.
    pub fn from_gguf(gguf: &Gguf) -> Result<ModelGraph, ModelError> {
        let build = || {
            let name = gguf.metadata().require_str("general.architecture")?;
            let Some(architecture) = ARCHITECTURES.iter().find(|a| a.name == name) else {
                return Err(Problem::UnknownArchitecture { found: name.into() });
            };
            let mut builder = ModelBuilder::new(gguf, ModelConfig::read(gguf, name)?);
            (architecture.build)(&mut builder)?;
            let (config, graph) = builder.finish()?;
            Ok(ModelGraph { config, graph })
        };
        build().map_err(|problem| ModelError { file: gguf.path().into(), problem: Box::new(problem) })
    }
}
