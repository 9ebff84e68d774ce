//! AMD GPUs through HIP's runtime, and the emulator, which has the same functions.
//!
//! * [`api`]: the functions that are used.
//! * [`library`]: the library they are in, opened at run time.
//! * [`found`]: the devices that it offers, and which is used.
//! * `layout`: where arguments lie, as code objects say.
//! * `driver`: which function does what of that which [GPUs](super::gpu) share.

pub mod api;
mod driver;
pub mod found;
mod layout;
pub mod library;

pub use found::Found;
pub use library::Library;

use super::DeviceError;
use super::gpu::{Facts, GpuDevice};
use super::kfd::{Kind, Topology};
use crate::exec::Warn;
use driver::HipDriver;
use hrx_compiler::Target;
use std::sync::Arc;

/// The variable that says whether graphs are used: 0 or 1.
pub const GRAPHS: &str = "HRX_HIP_GRAPH";

/// The GPU of that number in HIP's order, else the one that is preferred.
///
/// # Errors
/// If there is no library, no device, or none that code is generated for.
pub fn open(number: Option<usize>, warn: &Warn) -> Result<GpuDevice, DeviceError> {
    let asked = number.map_or("hip".into(), |n| format!("hip:{n}"));
    let unavailable = |reason: String| DeviceError::Unavailable { device: asked.clone(), reason };
    let topology = Topology::of_this_machine();
    let hardware = || match &topology {
        Ok(t) => format!("the kernel's driver lists {}", t.summary()),
        Err(e) => e.to_string(),
    };
    let library = Library::open().map_err(|e| unavailable(format!("{e} ({})", hardware())))?;
    let from = format!("{}, version {}", library.path.display(), library.version());
    let devices = found::found(&library).map_err(|e| unavailable(format!("{e} ({from})")))?;
    let chosen = found::choose(&devices, number);
    let chosen = chosen.map_err(|reason| unavailable(format!("{reason} ({from}; {})", hardware())))?;
    for text in found::warnings(chosen, &devices, topology.as_ref().ok(), |name| std::env::var(name).ok()) {
        warn(&text);
    }
    device(Arc::new(library), chosen, format!("hip:{}", chosen.index), warn)
}

/// The emulator of a chip.
///
/// # Errors
/// If the chip is unknown, or the emulator's library is not there.
pub fn open_emulator(chip: &str, warn: &Warn) -> Result<GpuDevice, DeviceError> {
    let asked = format!("emu:{chip}");
    let unavailable = |reason: String| DeviceError::Unavailable { device: asked.clone(), reason };
    match Target::from_name(chip)? {
        Target::Amd(_) => {}
        Target::Host(_) => return Err(unavailable("it is no GPU's processor, as gfx1100 is".into())),
        Target::Nvidia(_) => return Err(unavailable("it is no AMD GPU, as gfx1100 is".into())),
    }
    let library = Library::open_emulator().map_err(|e| unavailable(e.to_string()))?;
    library.set_chip(chip).map_err(|e| unavailable(e.to_string()))?;
    let devices = found::found(&library).map_err(|e| unavailable(e.to_string()))?;
    let chosen = found::choose(&devices, None).map_err(unavailable)?;
    device(Arc::new(library), chosen, asked.clone(), warn)
}

/// A device of a library's.
///
/// # Errors
/// If no code is generated for it, or a call fails.
pub fn device(library: Arc<Library>, found: &Found, name: String, warn: &Warn) -> Result<GpuDevice, DeviceError> {
    let chip = found.chip.ok_or_else(|| DeviceError::Unavailable {
        device: name.clone(),
        reason: format!("no code is generated for {}", found.processor()),
    })?;
    let kind = if found.kind == Kind::Integrated { ", integrated" } else { "" };
    let description =
        format!("{} ({}{kind}), HIP {} from {}", found.name, found.arch, library.version(), library.path.display());
    // Graphs of older runtimes are slower than launches, and less often right.
    let graphs = match std::env::var(GRAPHS).ok().as_deref() {
        Some("0") => false,
        Some("1") => true,
        _ => library.version[0] >= 6,
    };
    let facts = Facts { name, target: Target::Amd(chip), description, memory: found.memory, graphs };
    GpuDevice::new(HipDriver { library, index: found.index, chip }, facts, warn)
}
