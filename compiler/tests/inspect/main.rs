//! Inspection of code objects, from objects that LLVM makes of the IR in `ir/` and of that for code objects.

mod accesses;
mod changes;
mod damaged;
mod pages;
mod reports;
#[path = "../code_object/support.rs"]
#[allow(dead_code, reason = "it is shared with the tests of code objects, which use all of it")]
mod support;

use hrx_compiler::inspect::{Inspection, KernelReport, Options, inspect};
use hrx_compiler::link;

/// Kernels whose accesses are easy to say.
pub const STREAM: &str = include_str!("ir/stream.ll");

/// An HSACO of a module in IR.
pub fn built(ir: &str, chip: &str) -> Vec<u8> {
    link(&support::object(ir, chip), chip).expect("linked")
}

/// A code object that must be inspected without fault.
pub fn inspected(file: &[u8]) -> Inspection {
    inspect(file, &Options::default()).expect("inspected")
}

/// One kernel of it.
pub fn kernel(file: &[u8], name: &str) -> KernelReport {
    let options = Options { kernel: Some(name), ..Options::default() };
    inspect(file, &options).expect("inspected").kernels.remove(0)
}
