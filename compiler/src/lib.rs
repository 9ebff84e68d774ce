//! From tile IR to machine code. The only crate that knows LLVM.
//!
//! ```text
//! Kernel ──passes──▶ Kernel (byte operations only) ──codegen──▶ LLVM module ──emit──▶ object ──loader──▶ callable code
//! ```
//!
//! * [`target`]: what a target is: its facts, read from CPUID for the host.
//! * [`passes`]: tile IR to simpler tile IR; quantised-block operations become byte operations here.
//! * [`codegen`]: one LLVM function for a kernel. A tile is one LLVM vector for each combination of its leading
//!   indices, over its last axis; LLVM splits vectors into the registers that the target has.
//! * `mlir` (feature of that name): a kernel as MLIR, and a second lowering of it to LLVM, through MLIR's own passes.
//! * [`emit`]: runs LLVM and returns an object, assembly or LLVM's text.
//! * [`loader`]: maps an object's sections into memory, relocates them and hands out the kernel's entry point.

mod codegen;
pub mod emit;
mod error;
pub mod lane;
pub mod loader;
#[cfg(feature = "mlir")]
pub mod mlir;
pub mod passes;
pub mod target;

pub use emit::{Compiled, Emit, compile, compile_all, emit};
pub use error::CompileError;
pub use loader::LoadedKernel;
pub use target::Target;

/// Changes whenever the code that this crate generates for the same kernel and target may change: part of cache keys.
pub const CODEGEN_VERSION: u32 = 2;

/// The version of LLVM this crate is built against, as part of cache keys.
pub const LLVM_VERSION: &str = "22.1";
