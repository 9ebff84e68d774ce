//! From tile IR to what one lane of a wave does.
//!
//! ```text
//! Kernel ──assign──▶ a layout for each value ──build──▶ lane form ──simt──▶ LLVM
//! ```
//!
//! * [`layout`]: where the elements of a tile are: registers, lanes, waves.
//! * `assign`: in which layout each value is made.
//! * [`alignment`]: what divides addresses.
//! * `facts`: what of a chip all that depends on.
//! * `blocks`: how quantised codes are made, in the form that lanes can share.
//! * `ahead`: asks for weights and caches before they are needed.
//! * `fragments`: the layouts of matrix products.
//! * [`build`]: emits lane operations.
//! * [`ir`], [`mod@print`]: the lane form and its text.
//! * [`interp`]: runs a kernel in lane form, all lanes of a workgroup in step, and finds races in LDS.

pub(crate) mod ahead;
pub mod alignment;
mod assign;
mod blocks;
mod build;
mod facts;
mod fragments;
pub mod interp;
pub mod ir;
pub mod layout;
pub mod print;

pub use build::build;
pub use facts::Facts;
