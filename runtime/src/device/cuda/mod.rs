//! NVIDIA GPUs through the library of their driver. No toolkit is used: kernels are PTX, which the driver assembles.
//!
//! * [`api`]: the functions that are used.
//! * [`library`]: the library they are in, opened at run time.
//! * [`found`]: the devices that it offers, and which is used.
//! * `layout`: where arguments lie, as PTX says.
//! * `driver`: which function does what of that which [GPUs](super::gpu) share, and the assembler.

pub mod api;
mod driver;
pub mod found;
mod layout;
pub mod library;

pub use found::Found;
pub use library::Library;

use super::DeviceError;
use super::gpu::{Facts, GpuDevice};
use crate::exec::Warn;
use driver::CudaDriver;
use hrx_compiler::Target;
use std::sync::Arc;

/// The variable that says whether graphs are used: 0 or 1.
pub const GRAPHS: &str = "HRX_CUDA_GRAPH";

/// The first CUDA whose driver takes the PTX that is generated.
const OLDEST: [u32; 2] = [12, 0];

/// The GPU of that number in the driver's order, else the first that code is generated for.
///
/// # Errors
/// If there is no library, no device, none that code is generated for, or the driver is too old.
pub fn open(number: Option<usize>, warn: &Warn) -> Result<GpuDevice, DeviceError> {
    let asked = number.map_or("cuda".into(), |n| format!("cuda:{n}"));
    let unavailable = |reason: String| DeviceError::Unavailable { device: asked.clone(), reason };
    let library = Library::open().map_err(|e| unavailable(e.to_string()))?;
    let from = format!("{}, CUDA {}", library.path.display(), library.version());
    let devices = found::found(&library).map_err(|e| unavailable(format!("{e} ({from})")))?;
    let chosen = found::choose(&devices, number).map_err(|reason| unavailable(format!("{reason} ({from})")))?;
    device(Arc::new(library), chosen, warn)
}

/// Whether there is a library with a device that code is generated for.
pub fn is_there() -> bool {
    let devices = Library::open().ok().and_then(|library| found::found(&library).ok());
    devices.is_some_and(|devices| found::choose(&devices, None).is_ok())
}

/// A device of the driver's.
///
/// # Errors
/// If no code is generated for it, the driver is too old, or a call fails.
pub fn device(library: Arc<Library>, found: &Found, warn: &Warn) -> Result<GpuDevice, DeviceError> {
    let name = format!("cuda:{}", found.index);
    let unavailable = |reason: String| DeviceError::Unavailable { device: name.clone(), reason };
    let chip = found
        .chip
        .ok_or_else(|| unavailable(format!("no code is generated for compute capability {}", found.compute())))?;
    if library.version < OLDEST {
        let (have, [major, minor]) = (library.version(), OLDEST);
        let reason = format!("the driver is for CUDA {have}, which is too old: {major}.{minor} or later is wanted");
        return Err(unavailable(reason));
    }
    let (compute, version, path) = (found.compute(), library.version(), library.path.display());
    let description = format!("{} (compute capability {compute}), CUDA {version} from {path}", found.name);
    let graphs = std::env::var(GRAPHS).ok().as_deref() != Some("0");
    let driver =
        CudaDriver::new(library, found, chip).map_err(|source| DeviceError::Call { device: name.clone(), source })?;
    let facts = Facts { name, target: Target::Nvidia(chip), description, memory: found.memory, graphs };
    GpuDevice::new(driver, facts, warn)
}
