//! An emulator of AMD GPUs, which runs final code objects and looks for what is wrong with them.
//!
//! ```no_run
//! use gfx_emu::{Dispatch, Gpu, Options};
//! # fn main() -> Result<(), gfx_emu::Error> {
//! # let hsaco: Vec<u8> = Vec::new();
//! let chip = hrx_compiler::target::amd::find("gfx1100").expect("a chip of the table");
//! let gpu = Gpu::new(chip, Options::default())?;
//! let module = gpu.load(&hsaco)?;
//! let kernel = module.kernel("scale").expect("a kernel");
//! let buffer = gpu.alloc(1024)?;
//! gpu.fill(buffer, 1024, &[0])?;
//! let dispatch = Dispatch { grid: [4, 1, 1], block: [64, 1, 1], dynamic_lds: 0 };
//! let mut kernarg = vec![0; kernel.kernarg_size()];
//! kernarg[..8].copy_from_slice(&buffer.to_le_bytes());
//! gpu.fill_hidden_args(&kernel, &dispatch, &mut kernarg);
//! for report in gpu.launch(&kernel, dispatch, &kernarg)?.reports {
//!     println!("{report}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! * `memory`: device memory is memory of this process. What is known of its bytes: whether they were written, and who
//!   accessed them last in a launch.
//! * `decode`: LLVM's disassembly, parsed by `hrx_compiler::inspect::asm`, becomes instructions without text, once for a
//!   code object.
//! * `exec`: what instructions do. Tables with a row for a mnemonic (`valu`, `salu`, `memop`), and for each encoding the
//!   code that brings operands to rows and results to registers. A vector register is an array of 32 lanes, or two.
//! * `run`: workgroups over threads, waves in turns, and what registers hold at the start.
//! * [`verify`]: kernels of tile IR run here and held to the tile interpreter.
//! * `check`: what the sanitizer knows of LDS and of register banks.
//!
//! A register that nobody wrote is no fault until it decides an address, a jump or what is stored: what is unknown is
//! followed through arithmetic, lane by lane. A load's result is there at once, and using it before the wait that covers
//! it is a fault.

mod check;
mod decode;
mod error;
mod estimate;
mod exec;
mod gpu;
mod hidden;
mod memory;
mod module;
mod random;
mod report;
mod run;
pub mod verify;

pub use decode::{Surveyed, survey};
pub use error::Error;
pub use estimate::Estimate;
pub use gpu::{Dispatch, Gpu, Options};
pub use module::{Kernel, Module};
pub use random::Random;
pub use report::{Counters, Kind, Report, Run};
