//! Whole-system tests. This library is what they share: reference data and how results are held
//! against it, and the runner of file tests. The tests themselves are in `tests/tests/`.

pub mod anchors;
pub mod emulator;
pub mod filetest;
pub mod golden;
pub mod host;
pub mod lanes;
pub mod llvm;
pub mod logits;
pub mod models;
pub mod synthetic;
pub mod turns;

use hrx_ir::tile::Kernel;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A number by which a kernel draws which of the more costly checks it gets: the same in every run.
fn draw(kernel: &Kernel) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&kernel.name, kernel.insts.len()).hash(&mut hasher);
    hasher.finish()
}
