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
//! * [`kernels`]: requests to loaded kernels, by way of the cache.
//! * [`program`]: all of it for one kind of step, recorded on a device.

pub mod kernels;
pub mod lower;
pub mod plan;
pub mod program;
pub mod rope;
pub mod schedule;

pub use kernels::{KernelReport, KernelStats, KernelStore};
pub use lower::{Lowered, Mode, Operand, Step, lower};
pub use program::Program;
