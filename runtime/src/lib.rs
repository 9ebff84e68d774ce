//! hrx

pub mod gguf;
pub mod models;
pub mod npy;
