//! Whole-system tests. This library is what they share beside the reference data (`hrx-golden`): among others the runner of
//! file tests. The tests themselves are in `tests/tests/`.

pub mod emulator;
pub mod filetest;
pub mod host;
pub mod lanes;
pub mod llvm;
pub mod models;
pub mod needed;
pub mod ptxas;
pub mod small_kernels;
pub mod synthetic;

pub use hrx_golden::{anchors, golden, logits, turns};

use hrx_ir::tile::Kernel;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A number by which a kernel draws which of the more costly checks it gets: the same in every run.
fn draw(kernel: &Kernel) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&kernel.name, kernel.insts.len()).hash(&mut hasher);
    hasher.finish()
}
