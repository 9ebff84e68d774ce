//! hrx

pub mod chat;
pub mod gguf;
pub mod npy;
pub mod sampler;
pub mod tokenizer;
