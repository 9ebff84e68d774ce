//! The library's error.

use crate::device::DeviceError;
use crate::gguf::GgufError;
use crate::models::ModelError;
use hrx_templates::TemplateError;

/// Why a model can't be opened or run. Every message says what and where.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not a whole and valid GGUF.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// A name stands for no model.
    #[error(transparent)]
    Name(#[from] crate::names::NameError),
    /// The file's model can't be built.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No kernel does what the model needs.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A text is not a kernel in tile IR.
    #[error("tile IR: {0}")]
    Parse(#[from] hrx_ir::tile::ParseError),
    /// A kernel can't be compiled.
    #[error(transparent)]
    Compile(#[from] hrx_compiler::CompileError),
    /// The device failed or has not enough memory.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The tokenizer can't be made, or refuses a text.
    #[error(transparent)]
    Tokenizer(#[from] crate::tokenizer::TokenizerError),
    /// The chat template is broken.
    #[error(transparent)]
    Chat(#[from] crate::chat::ChatError),
    /// The sampler's options are out of range.
    #[error(transparent)]
    Sampler(#[from] crate::sampler::SamplerError),
    /// The kernel cache that was asked for can't be used.
    #[error("kernel cache: {0}")]
    Cache(#[from] hrx_cache::CacheError),
    /// The model does not fit the device's memory.
    #[error("{0}")]
    DoesNotFit(String),
    /// The context is full.
    #[error("the context of {n_ctx} tokens is full: {used} are in it, {wanted} more are wanted")]
    ContextFull {
        /// Its size.
        n_ctx: u32,
        /// Tokens in it.
        used: u32,
        /// Tokens that were to be added.
        wanted: u32,
    },
    /// The caller asks for something that can't be done.
    #[error("{0}")]
    Invalid(String),
}
