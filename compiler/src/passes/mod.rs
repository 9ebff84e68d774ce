//! Passes over tile IR. Each takes a verified kernel and leaves one that verifies.

mod dce;
mod expand;

pub use dce::remove_unused;
pub use expand::expand_blocks;

use hrx_ir::tile::Kernel;

/// All passes in order: what code generation takes.
pub fn lower(mut kernel: Kernel) -> Kernel {
    expand_blocks(&mut kernel);
    remove_unused(&mut kernel);
    kernel
}
