//! The two intermediate representations of hrx and their oracle.
//!
//! * [`graph`]: a model as operations over named tensors; sizes are constants except the number of tokens.
//! * [`tile`]: one kernel as SSA over statically shaped tiles; has a text form, a verifier and an interpreter.
//! * [`quant`]: the table of quantised block formats that the interpreter, the templates and the compiler share.
//!
//! Nothing in this crate knows LLVM, a device or a file.

pub mod graph;
pub mod quant;
pub mod tile;
