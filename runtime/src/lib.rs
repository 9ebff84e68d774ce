//! hrx

pub mod gguf;
pub mod npy;
