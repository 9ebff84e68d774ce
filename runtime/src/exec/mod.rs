//! The executor: from a model's graph to recorded launches.
//!
//! ```text
//! Graph ──lower──▶ steps (kernel requests with operands) ──schedule──▶ stages ──plan──▶ offsets in one arena
//!                                │                                                        │
//!                                └────────── kernels: cache or compiler ──────────────────┴──▶ Device::record
//! ```
//!
//! * [`mod@lower`]: chooses kernels, fuses neighbours into them, and negotiates the form in which each activation is stored:
//!   consumers say what they read, producers write it.
//! * [`schedule`]: a step's stage follows from what it reads. StepKind of one stage run side by side.
//! * [`plan`]: buffers whose lifetimes do not meet share memory.
//! * [`objects`]: kernels to objects, from the cache or the compiler.
//! * [`machine_code`]: objects to machine code, where the device's driver makes that.
//! * [`kernels`]: requests to kernels loaded on a device.
//! * [`inputs`]: what a step is given.
//! * [`program`]: all of it for one kind of step, recorded on a device.
//! * [`weights`]: which form of each weight the programs read.
//! * [`drafts`]: the programs of a session before they are recorded.
//! * [`model_kernels`](mod@model_kernels): the kernels of a model, without a session.

pub mod drafts;
pub mod inputs;
pub mod kernels;
pub mod lower;
pub mod machine_code;
pub mod model_kernels;
pub mod objects;
pub mod plan;
pub mod program;
pub mod rope;
pub mod schedule;
pub mod weights;

pub use drafts::Drafts;
pub use kernels::{KernelReport, KernelStats, KernelStore};
pub use lower::{Activations, Lowered, Mode, Operand, Step, StepKind, lower};
pub use model_kernels::{ModelKernel, model_kernels};
pub use objects::{KernelCache, KernelObject, Objects, Warn};
pub use program::{Draft, Program};

use hrx_compiler::Target;
use hrx_compiler::target::amd::{Chip, MatrixType};
use hrx_compiler::target::nvidia;
use hrx_templates::{TargetShape, Waves};

/// What tilings for a target are chosen from.
pub fn target_shape(target: &Target) -> TargetShape {
    let (lanes, registers) = (target.vector_lanes(), target.vector_registers());
    match target {
        Target::Host(host) => TargetShape::vectors(lanes, registers).with_byte_dot(host.has_byte_dot()),
        Target::Amd(chip) => TargetShape::waves(lanes, registers, waves(chip)),
        Target::Nvidia(chip) => TargetShape::waves(lanes, registers, nvidia_waves(chip)),
    }
}

/// What of a chip tilings are chosen by.
fn waves(chip: &'static Chip) -> Waves {
    let vgprs = chip.vgprs[0];
    // SIMDs of the typical board; a generic target has none.
    let simds = chip.board().ok().map(|b| b.cus * chip.simds / chip.block.cus());
    let product = chip
        .matrix_products(MatrixType::F16, MatrixType::F16, MatrixType::F32)
        .ok()
        .and_then(|ops| ops.into_iter().find(|op| (op.m, op.n) == (16, 16)))
        .and_then(|op| op.cycles.map(|c| c.value * 16 / op.k));
    // Without a matrix unit an instruction multiplies two pairs a lane; without such a dot product one pair, and widens it.
    let without = 4096 / chip.wave / if chip.dot2 { 2 } else { 1 };
    Waves {
        register_file: vgprs.total,
        register_granule: vgprs.granule,
        max_waves: chip.max_waves,
        lds: chip.lds,
        simds,
        product_cycles: product.unwrap_or(without),
        product_instructions: if product.is_some() { 1 } else { without },
        code_factor: 1,
        transposing_loads: false,
        cache_bytes: None,
        fixed_rows: false,
        arranged: false,
    }
}

/// As [`waves`], of an NVIDIA GPU.
fn nvidia_waves(chip: &'static nvidia::Chip) -> Waves {
    let product = chip.matrix_ops.iter().find(|op| op.a == MatrixType::F16);
    // Without a matrix unit an instruction multiplies one pair a lane, and the pair was widened before.
    let without = 4096 / nvidia::WARP;
    Waves {
        register_file: chip.partition_registers(),
        register_granule: chip.lane_granule(),
        max_waves: chip.partition_waves(),
        lds: chip.most_shared.value,
        simds: Some(chip.board.multiprocessors.value * nvidia::PARTITIONS.value),
        product_cycles: product.and_then(|op| op.cycles).map_or(without, |c| c.value),
        // Two: each has half of the columns.
        product_instructions: if product.is_some() { 2 } else { without },
        code_factor: 4,
        transposing_loads: true,
        // 128 for the four partitions of a multiprocessor: the width of its L1 cache.
        cache_bytes: Some(32),
        // A lane's 64 bytes of `f32` lie that far from its neighbour's, and the cache takes four times as long for them.
        fixed_rows: true,
        // Loads are of whole words at their multiples, and up to four of them.
        arranged: true,
    }
}
