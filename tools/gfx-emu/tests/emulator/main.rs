//! The emulator on code that is written by hand, in assembly or C, with expectations worked out apart from it.

mod foreign;
mod instructions;
mod lanes;
mod matrix;
mod mode;
mod reports;
mod scalar;
mod support;
