//! From tile IR to machine code. The only crate that knows LLVM.
//!
//! ```text
//! Kernel ──passes──▶ Kernel (byte operations only) ──codegen──▶ LLVM module ──emit──▶ object ──loader──▶ callable code
//! ```
//!
//! * [`target`]: what a target is: its facts, read from CPUID for the host.
//! * [`passes`]: tile IR to simpler tile IR; quantised-block operations become byte operations here, and `exp` and `tanh`
//!   arithmetic; what each kind of target takes is [`passes::lower_host`] and [`passes::lower_lanes`].
//! * `codegen`: one LLVM function for a kernel. A tile is one LLVM vector for each combination of its leading
//!   indices, over its last axis; LLVM splits vectors into the registers that the target has.
//! * [`lanes`]: what one lane of a GPU's wave does; `simt`: that as LLVM IR, with `amdgpu` and `nvptx` for what differs.
//! * `mlir` (feature of that name): a kernel as MLIR, and a second lowering of it to LLVM, through MLIR's own passes.
//! * [`mod@emit`]: runs LLVM and returns an object, assembly or LLVM's text.
//! * [`mod@link`]: makes an HSACO, which AMD's driver loads, of an object for AMD GPUs.
//! * [`hsaco`]: reads HSACOs of any compiler: kernels, their descriptors, metadata and code.
//! * [`disasm`]: AMD code as assembly.
//! * [`mod@audit`]: looks over what was generated for AMD GPUs: no scratch memory, nothing spilled, and so on.
//! * [`inspect`]: what a code object's kernels take of a chip, execute and do with memory.
//! * [`x86`]: what functions of objects for x86-64 execute; [`ptx`]: what kernels in PTX do.
//! * [`loader`]: maps an object's sections into memory, relocates them and hands out the kernel's entry point.

mod amdgpu;
pub mod audit;
mod code_object;
mod codegen;
mod counts;
pub mod disasm;
pub mod emit;
mod error;
mod generators;
pub mod host_lane;
pub mod hsaco;
pub mod inspect;
pub mod lanes;
pub mod link;
pub mod loader;
mod loops;
mod memory;
#[cfg(feature = "mlir")]
pub mod mlir;
mod nvptx;
pub mod passes;
pub mod ptx;
mod simt;
pub mod target;
pub mod x86;

pub use amdgpu::LARGEST_VIEW;
pub use audit::audit;
pub use disasm::disassemble;
pub use emit::{Compiled, Emit, compile, compile_all, emit};
pub use error::CompileError;
pub use link::link;
pub use loader::LoadedKernel;
pub use target::Target;

/// Changes whenever the code that this crate generates for the same kernel and target may change: part of cache keys.
pub const CODEGEN_VERSION: u32 = 11;

/// The version of LLVM this crate is built against, as part of cache keys.
pub const LLVM_VERSION: &str = "22.1";
