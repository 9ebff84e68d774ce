//! HIP's runtime over the emulator: a drop-in `libamdhip64.so`.
//!
//! A program that uses HIP runs against it unchanged, as far as it uses the functions that are here, on the chip that the
//! variable `HRX_EMU_CHIP` names. All work is done at once, in the calling thread's order, so streams and events are
//! always ready; graphs hold what they were given. What the emulator's sanitizer reports of a launch goes to standard
//! error, a line each, and is the status of the next call that waits for the device.
//!
//! * `status`: HIP's statuses.
//! * `call`: what every function does around its work: initialisation, last errors, faults on demand.
//! * `state`: everything that handles stand for.
//! * `options`: the variables.
//! * `device`, `memory`, `stream`, `module`, `launch`, `graph`, `program`: the functions.
//! * `machine`: the emulator.
//! * `properties`: both layouts of device properties.
//! * `bundle`: code objects in bundles; sizes of images that are passed without.

mod bundle;
mod call;
mod device;
mod graph;
mod launch;
mod machine;
mod memory;
mod module;
mod options;
mod program;
mod properties;
mod state;
mod status;
mod stream;

pub use options::{Options, OptionsError};
pub use status::Status;
