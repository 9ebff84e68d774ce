//! What can go wrong on the way from a kernel to callable code.

/// An error of compiling or loading a kernel. Each says which kernel or object it is about.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The target can't be compiled for.
    #[error("target {target}: {reason}")]
    Target {
        /// Its name.
        target: String,
        /// What is missing.
        reason: String,
    },
    /// The kernel breaks a rule of tile IR or asks for something the target has not got.
    #[error("kernel {kernel}: {reason}")]
    Kernel {
        /// Its name.
        kernel: String,
        /// Which rule.
        reason: String,
    },
    /// LLVM refused: a fault of this crate, reported with LLVM's words.
    #[error("kernel {kernel}: LLVM: {reason}")]
    Llvm {
        /// The kernel being compiled.
        kernel: String,
        /// LLVM's message.
        reason: String,
    },
    /// MLIR refused, or this crate was built without it.
    #[error("kernel {kernel}: MLIR: {reason}")]
    Mlir {
        /// The kernel being lowered.
        kernel: String,
        /// MLIR's message, or how to get a build with it.
        reason: String,
    },
    /// An object can't be loaded: damaged, foreign, or with something the loader doesn't know.
    #[error("object of {kernel}: {reason}")]
    Object {
        /// The kernel it should hold.
        kernel: String,
        /// What is wrong.
        reason: String,
    },
    /// A code object for AMD GPUs can't be read: damaged, foreign, or of a version that is not known.
    #[error("code object: {reason}")]
    CodeObject {
        /// What is wrong.
        reason: String,
    },
}
