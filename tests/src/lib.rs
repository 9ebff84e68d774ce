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
