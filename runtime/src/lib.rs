//! hrx runs language models from GGUF files with kernels that are generated for the machine at hand: the model's graph
//! is fused and specialised for the processor, the quantisation of each tensor and the model's own sizes, LLVM makes
//! machine code of it in milliseconds, and that is kept in a cache keyed by its content.
//!
//! There are three levels to come in at. Each has a runnable example in `examples/`.
//!
//! # A whole model
//!
//! [`Model`] opens a file, [`Session`] holds one sequence of tokens with its KV cache (`generate.rs`, `embed.rs`):
//!
//! ```no_run
//! use hrx::{GenerateOptions, Model, ModelOptions, SessionOptions};
//! use std::ops::ControlFlow;
//! let model = Model::open("model.gguf", &ModelOptions::default())?;
//! let prompt = model.tokenizer()?.encode("The capital of France is", true, false)?;
//! let mut session = model.session(&SessionOptions::default())?;
//! let options = GenerateOptions { max_tokens: Some(32), ..GenerateOptions::default() };
//! session.generate(&model, &prompt, &options, |text| {
//!     print!("{text}");
//!     ControlFlow::Continue(())
//! })?;
//! let embedding: Vec<f32> = model.embed("A text as a point on the unit sphere.")?;
//! # Ok::<(), hrx::Error>(())
//! ```
//!
//! # A quantised product
//!
//! [`QuantMatmul`] multiplies rows of `f32` with a matrix in any of GGUF's formats, on the caller's own memory. It is safe:
//! every length is checked (`quant_matmul.rs`):
//!
//! ```
//! use hrx::{KernelStore, ModelOptions, QuantMatmul};
//! let store = KernelStore::open(&ModelOptions { cache: hrx::CacheChoice::Disabled, ..ModelOptions::default() })?;
//! let (n, k, rows) = (3, 256, 2);
//! let matmul = QuantMatmul::new(&store, "Q4_K", n, k)?;
//! let weights = vec![0u8; matmul.weight_bytes() as usize];
//! let (x, mut y) = (vec![1f32; rows * k as usize], vec![9f32; rows * n as usize]);
//! matmul.run(&weights, &x, &mut y)?;
//! assert_eq!(y, [0.0; 6]);
//! # Ok::<(), hrx::Error>(())
//! ```
//!
//! # A kernel of one's own
//!
//! [`CallableKernel`] compiles a kernel in [tile IR](hrx_ir::tile), from its text or from a
//! [builder](hrx_ir::tile::Builder), and calls it on slices (`call_kernel.rs`):
//!
//! ```
//! use hrx::{CallableKernel, KernelArg, KernelStore, ModelOptions};
//! let store = KernelStore::open(&ModelOptions { cache: hrx::CacheChoice::Disabled, ..ModelOptions::default() })?;
//! let negate = CallableKernel::from_text(
//!     &store,
//!     "kernel @negate(m0: inout f32[4]) {
//!        v0: i32 = const 0
//!        v1: f32[4] = load m0[v0]
//!        v2: f32[4] = neg v1
//!        store m0[v0], v2
//!      }",
//! )?;
//! let mut x = [1.0, -2.0, 3.0, -4.0f32];
//! // SAFETY: the one program loads and stores the view's four elements.
//! unsafe { negate.launch([KernelArg::write(&mut x)])? };
//! assert_eq!(x, [-1.0, 2.0, -3.0, 4.0]);
//! # Ok::<(), hrx::Error>(())
//! ```
//!
//! The two lower levels share a [`KernelStore`]: a device, and the kernels loaded on it. All levels reach a device by the
//! [`Device`](device::Device) trait alone.

mod caches;
pub mod chat;
pub mod device;
mod error;
pub mod exec;
mod explain;
mod fit;
mod generate;
pub mod gguf;
mod kernel;
mod matmul;
mod model;
pub mod models;
pub mod names;
pub mod npy;
pub mod sampler;
mod session;
mod session_plan;
mod stop;
mod summary;
pub mod synthetic;
pub mod tokenizer;
pub mod work;

pub use error::Error;
pub use exec::KernelStore;
pub use explain::{Explanation, Fit, KernelUse, Launches, Memory, ModelSizes, TensorType, TokenizerFacts};
pub use generate::{Event, GenerateOptions, Generated, Stop};
pub use kernel::{CallableKernel, KernelArg, Plain};
pub use matmul::QuantMatmul;
pub use model::{CacheChoice, Model, ModelOptions, open_cache};
pub use session::{Outputs, Session, SessionOptions};
pub use summary::ModelSummary;
pub use {hrx_compiler as compiler, hrx_ir as ir, hrx_templates as templates};
