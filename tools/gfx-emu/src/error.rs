//! What can go wrong without being a fault of the kernel's own doing.

use thiserror::Error;

/// Why something was refused or stopped.
#[derive(Debug, Error)]
pub enum Error {
    /// The machine that the emulator runs on lacks something.
    #[error("the emulator needs a CPU with {0}")]
    Host(&'static str),
    /// The operating system gives no memory.
    #[error("{bytes} bytes of device memory: {reason}")]
    Memory {
        /// How many were asked for.
        bytes: u64,
        /// What the operating system says.
        reason: String,
    },
    /// An address or range is not that of device memory.
    #[error("{call} at {address:#x}, {bytes} bytes: {reason}")]
    Address {
        /// What was asked for.
        call: &'static str,
        /// Where.
        address: u64,
        /// How much.
        bytes: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A code object cannot be read.
    #[error(transparent)]
    CodeObject(#[from] hrx_compiler::CompileError),
    /// A code object is for something else, or has what a loader does not apply.
    #[error("code object: {0}")]
    Module(String),
    /// A launch that hardware or driver would refuse.
    #[error("{kernel}: {reason}")]
    Launch {
        /// The kernel.
        kernel: String,
        /// Why.
        reason: String,
    },
    /// An instruction that the emulator does not know was reached.
    #[error("{kernel}: unknown instruction at {pc:#x}: {text}: {reason}")]
    Instruction {
        /// The kernel.
        kernel: String,
        /// Its address in the code object.
        pc: u64,
        /// Its disassembly.
        text: String,
        /// What of it is not known.
        reason: String,
    },
    /// A workgroup cannot go on, or has executed more than was allowed.
    #[error("{kernel}: workgroup {workgroup:?}: {reason}")]
    Stuck {
        /// The kernel.
        kernel: String,
        /// Which workgroup.
        workgroup: [u32; 3],
        /// What it waits for.
        reason: String,
    },
}
