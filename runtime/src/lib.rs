//! hrx: runs GGUF models with kernels that are generated for the machine at hand.

pub mod chat;
pub mod device;
mod error;
pub mod exec;
mod generate;
pub mod gguf;
mod model;
pub mod models;
pub mod npy;
pub mod sampler;
mod session;
mod summary;
pub mod tokenizer;

pub use error::Error;
pub use generate::{Event, GenerateOptions, Generated, Stop};
pub use model::{CacheChoice, DEVICES, Model, ModelOptions, open_cache, open_device};
pub use session::{Outputs, Session, SessionOptions};
pub use summary::ModelSummary;
