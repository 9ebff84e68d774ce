//! The devices that NVIDIA's driver offers, and which of them is used.

use super::api::{ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR, ATTRIBUTE_MULTIPROCESSORS, NO_DEVICE};
use super::library::Library;
use crate::device::gpu::call::{CallError, text};
use hrx_compiler::target::nvidia::{self, Chip};
use std::ffi::c_int;

/// A device of the driver's.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// The driver's number for it.
    pub index: i32,
    /// What NVIDIA calls it.
    pub name: String,
    /// Its compute capability: major, minor.
    pub capability: [u32; 2],
    /// What code is generated for, if the capability is not too old.
    pub chip: Option<&'static Chip>,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Its place on the PCI bus.
    pub pci: String,
    /// Bytes of its memory.
    pub memory: u64,
}

impl Found {
    /// Its compute capability, for people.
    pub fn compute(&self) -> String {
        format!("{}.{}", self.capability[0], self.capability[1])
    }
}

/// All devices, in the driver's order. None is not an error.
///
/// # Errors
/// If a call fails.
pub fn found(library: &Library) -> Result<Vec<Found>, CallError> {
    let mut count: c_int = 0;
    // SAFETY: the calls take a number and write one.
    let counted = unsafe { library.cuda.cuInit(0).and_then(|()| library.cuda.cuDeviceGetCount(&raw mut count)) };
    match counted {
        Err(e) if e.status == NO_DEVICE => return Ok(Vec::new()),
        other => other?,
    }
    (0..count).map(|index| device(library, index)).collect()
}

fn device(library: &Library, index: c_int) -> Result<Found, CallError> {
    let cuda = &library.cuda;
    let (mut device, mut memory) = (0, 0);
    // SAFETY: the calls write one number each.
    unsafe {
        cuda.cuDeviceGet(&raw mut device, index)?;
        cuda.cuDeviceTotalMem(&raw mut memory, device)?;
    }
    let number = |attribute| {
        let mut value = 0;
        // SAFETY: the call writes one number.
        unsafe { cuda.cuDeviceGetAttribute(&raw mut value, attribute, device)? };
        Ok::<u32, CallError>(value.max(0) as u32)
    };
    let capability = [number(ATTRIBUTE_MAJOR)?, number(ATTRIBUTE_MINOR)?];
    Ok(Found {
        index,
        // SAFETY: the calls write at most as many characters as they are told, with a 0 at the end.
        name: text(|to, len| unsafe { cuda.cuDeviceGetName(to, len, device) })?,
        capability,
        chip: nvidia::for_capability(capability),
        multiprocessors: number(ATTRIBUTE_MULTIPROCESSORS)?,
        // SAFETY: as above.
        pci: text(|to, len| unsafe { cuda.cuDeviceGetPCIBusId(to, len, device) })?,
        memory: memory as u64,
    })
}

/// The device to use: the one of that number, else the first that code is generated for.
///
/// # Errors
/// If there is none, or no code is generated for it; the reason names what there is.
pub fn choose(devices: &[Found], number: Option<usize>) -> Result<&Found, String> {
    let listed = || {
        let list =
            devices.iter().map(|d| format!("cuda:{} is {} (compute capability {})", d.index, d.name, d.compute()));
        list.collect::<Vec<_>>().join("; ")
    };
    if devices.is_empty() {
        return Err("CUDA finds no device".into());
    }
    match number {
        Some(n) => {
            let device = devices.get(n).ok_or_else(|| format!("there is no cuda:{n}: {}", listed()))?;
            let old = || {
                format!("no code is generated for compute capability {}, which {} has", device.compute(), device.name)
            };
            device.chip.map(|_| device).ok_or_else(old)
        }
        None => devices
            .iter()
            .find(|d| d.chip.is_some())
            .ok_or_else(|| format!("no code is generated for any device that is there: {}", listed())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(index: i32, capability: [u32; 2]) -> Found {
        let chip = nvidia::for_capability(capability);
        let (name, pci) = (format!("GPU {index}"), format!("0000:0{index}:00.0"));
        Found { index, name, capability, chip, multiprocessors: 80, pci, memory: 8 << 30 }
    }

    fn chosen(devices: &[Found], number: Option<usize>) -> Result<i32, String> {
        choose(devices, number).map(|d| d.index)
    }

    #[test]
    fn the_first_that_code_is_for_is_taken() {
        let devices = [device(0, [7, 5]), device(1, [9, 0]), device(2, [8, 6])];
        assert_eq!(chosen(&devices, None), Ok(1));
        assert_eq!(chosen(&devices, Some(2)), Ok(2));
        let old = "no code is generated for compute capability 7.5, which GPU 0 has";
        assert_eq!(chosen(&devices, Some(0)), Err(old.into()));
        assert_eq!(
            chosen(&devices[..1], None),
            Err("no code is generated for any device that is there: cuda:0 is GPU 0 (compute capability 7.5)".into())
        );
        let none = "there is no cuda:1: cuda:0 is GPU 0 (compute capability 7.5)";
        assert_eq!(chosen(&devices[..1], Some(1)), Err(none.into()));
        assert_eq!(chosen(&[], None), Err("CUDA finds no device".into()));
    }
}
