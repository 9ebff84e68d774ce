//! hrx

pub mod gguf;
pub mod npy;
pub mod tokenizer;
