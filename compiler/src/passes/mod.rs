//! Passes over tile IR. Each takes a verified kernel and leaves one that verifies.

mod dce;
mod expand;
mod math;
mod rewrite;
mod runs;

pub use dce::remove_unused;
pub use expand::expand_blocks;
pub use math::expand_math;

use hrx_ir::tile::Kernel;

/// All passes in order: what the host's code generation takes.
pub fn lower_host(mut kernel: Kernel) -> Kernel {
    expand_blocks(&mut kernel);
    expand_math(&mut kernel);
    remove_unused(&mut kernel);
    kernel
}

/// What code generation for targets with lanes takes: reads of blocks and runs stay, as lanes share them out.
pub fn lower_lanes(mut kernel: Kernel) -> Kernel {
    expand_math(&mut kernel);
    remove_unused(&mut kernel);
    kernel
}
