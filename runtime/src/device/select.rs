//! Devices by name.

use super::hip::{HipDevice, Library, found};
use super::kfd::Topology;
use super::{Cpu, Device, DeviceError};
use crate::exec::Warn;
use std::sync::Arc;

/// The forms of names that there are, for errors.
const NAMES: &str =
    "cpu; hip, or hip:N for the GPU of that number; emu:CHIP for the emulator of a chip, as emu:gfx1100";

/// Opens a device by name: `cpu`, `hip` (the preferred GPU), `hip:N` (the one of that number) or `emu:CHIP`.
///
/// # Errors
/// If there is none of that name, or it can't be used; the error says why and what there is.
pub fn open_device(name: &str, threads: usize, warn: &Warn) -> Result<Arc<dyn Device>, DeviceError> {
    let unknown = || DeviceError::Unknown { name: name.into(), available: NAMES.into() };
    match name.split_once(':') {
        None if name == "cpu" => Ok(Arc::new(Cpu::new(threads)?)),
        None if name == "hip" => Ok(Arc::new(HipDevice::open(None, warn)?)),
        Some(("hip", number)) => {
            let number = number.parse().map_err(|_| unknown())?;
            Ok(Arc::new(HipDevice::open(Some(number), warn)?))
        }
        Some(("emu", chip)) if !chip.is_empty() => Ok(Arc::new(HipDevice::open_emulator(chip, warn)?)),
        _ => Err(unknown()),
    }
}

/// A device as a list of devices shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The name that opens it; none if it can't be opened.
    pub name: Option<String>,
    /// What a person calls it, and why it can't be opened.
    pub description: String,
}

/// The devices of this machine. Nothing is an error here: what can't be used is listed with the reason.
pub fn devices(threads: usize) -> Vec<Listed> {
    let cpu = match Cpu::new(threads) {
        Ok(cpu) => {
            let info = cpu.info();
            let (memory, free) = (info.memory >> 20, info.free >> 20);
            let description = format!("{}, {memory} MiB of memory, {free} MiB free", info.description);
            Listed { name: Some(info.name), description }
        }
        Err(e) => Listed { name: None, description: format!("cpu: {e}") },
    };
    std::iter::once(cpu).chain(gpus()).collect()
}

/// GPUs as HIP lists them; where it lists none, as the kernel's driver does, and why HIP does not.
fn gpus() -> Vec<Listed> {
    let why = match Library::open() {
        Ok(library) => match found::found(&library) {
            Ok(devices) if devices.is_empty() => format!("HIP ({}) finds no device", library.path.display()),
            Ok(devices) => {
                let preferred = found::choose(&devices, None).ok().map(|d| d.index);
                return devices.iter().map(|d| listed(d, preferred)).collect();
            }
            Err(e) => e.to_string(),
        },
        Err(e) => e.to_string(),
    };
    let text = |description: String| vec![Listed { name: None, description }];
    match Topology::of_this_machine() {
        Ok(topology) if topology.gpus.is_empty() => text(format!("no AMD GPU; {why}")),
        Ok(topology) => topology
            .gpus
            .iter()
            .map(|gpu| Listed { name: None, description: format!("AMD GPU {gpu}: can't be used: {why}") })
            .collect(),
        Err(e) => text(format!("no AMD GPU: {e}; {why}")),
    }
}

fn listed(d: &found::Found, preferred: Option<i32>) -> Listed {
    let memory = d.memory >> 20;
    let mut description = format!("{} ({}, {}), PCI {}, {memory} MiB of memory", d.name, d.arch, d.kind, d.pci);
    match d.chip {
        None => description += "; no code is generated for this processor",
        Some(_) if preferred == Some(d.index) => description += "; what --device hip takes",
        Some(_) => {}
    }
    Listed { name: d.chip.map(|_| format!("hip:{}", d.index)), description }
}
