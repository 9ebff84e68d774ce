//! The executor: from a model's graph to recorded launches.
//!
//! ```text
//! Graph ──lower──▶ steps (kernel requests with operands) ──schedule──▶ stages ──plan──▶ offsets in one arena
//!                                │                                                        │
//!                                └────────── kernels: cache or compiler ──────────────────┴──▶ Device::record
//! ```
//!
//! * [`lower`]: chooses kernels, fuses neighbours into them, and negotiates the form in which each activation is stored:
//!   consumers say what they read, producers write it.
//! * [`schedule`]: a step's stage follows from what it reads. Steps of one stage run side by side.
//! * [`plan`]: buffers whose lifetimes do not meet share memory.
//! * [`objects`]: kernels to objects, from the cache or the compiler.
//! * [`kernels`]: requests to kernels loaded on a device.
//! * [`program`]: all of it for one kind of step, recorded on a device.
//! * [`drafts`]: the programs of a session before they are recorded.
//! * [`model_kernels`](mod@model_kernels): the kernels of a model, without a session.

pub mod drafts;
pub mod kernels;
pub mod lower;
pub mod model_kernels;
pub mod objects;
pub mod plan;
pub mod program;
pub mod rope;
pub mod schedule;

pub use drafts::Drafts;
pub use kernels::{KernelReport, KernelStats, KernelStore};
pub use lower::{Activations, Lowered, Mode, Operand, Step, lower};
pub use model_kernels::{ModelKernel, model_kernels};
pub use objects::{KernelCache, KernelObject, Objects, Warn};
pub use program::{Draft, Program};

use hrx_compiler::Target;
use hrx_templates::TargetShape;

/// What tilings for a target are chosen from.
pub fn target_shape(target: &Target) -> TargetShape {
    TargetShape {
        lanes: target.vector_lanes(),
        registers: target.vector_registers(),
        waves: matches!(target, Target::Amd(_)),
    }
}
