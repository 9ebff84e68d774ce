//! Devices by name.

use super::kfd::Topology;
use super::{Cpu, Device, DeviceError, cuda, hip};
use crate::exec::Warn;
use hrx_compiler::Target;
use std::sync::Arc;

/// The forms of names that there are, for errors.
const NAMES: &str = "auto; cpu; cpu:x86-64-v3 for the CPU with code of AVX2 alone; cuda or hip; cuda:N or hip:N for the GPU of \
                     that number; emu:CHIP for the emulator of a chip, as emu:gfx1100";

/// What takes the place of a device's name where nobody says which.
pub const AUTO: &str = "auto";

/// Opens a device by name: `cpu`, `cpu:x86-64-v3` (with code of AVX2 alone, whatever there is), `cuda` or `hip` (the preferred GPU), `cuda:N` or `hip:N` (the one of that number),
/// `emu:CHIP`, or `auto`: an NVIDIA GPU if there is one that can be used, else the CPU, with a warning where there is one.
///
/// # Errors
/// If there is none of that name, or it can't be used; the error says why and what there is.
pub fn open_device(name: &str, threads: usize, warn: &Warn) -> Result<Arc<dyn Device>, DeviceError> {
    let unknown = || DeviceError::Unknown { name: name.into(), available: NAMES.into() };
    match name.split_once(':') {
        None if name == "cpu" => Ok(Arc::new(Cpu::new(threads)?)),
        None if name == "hip" => Ok(Arc::new(hip::open(None, warn)?)),
        None if name == "cuda" => Ok(Arc::new(cuda::open(None, warn)?)),
        None if name == AUTO => match cuda::open(None, warn) {
            Ok(device) => Ok(Arc::new(device)),
            Err(e) => {
                // That there is none is what most machines say, and no news.
                if cuda::is_there() {
                    warn(&format!("{e}; the CPU is used instead"));
                }
                open_device("cpu", threads, warn)
            }
        },
        Some(("cpu", target)) => {
            let target = Target::from_name(target).map_err(|_| unknown())?;
            Ok(Arc::new(Cpu::with_target(threads, target)?))
        }
        Some((kind @ ("hip" | "cuda"), number)) => {
            let number = Some(number.parse().map_err(|_| unknown())?);
            Ok(Arc::new(if kind == "hip" { hip::open(number, warn)? } else { cuda::open(number, warn)? }))
        }
        Some(("emu", chip)) if !chip.is_empty() => Ok(Arc::new(hip::open_emulator(chip, warn)?)),
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
    std::iter::once(cpu).chain(nvidia_gpus()).chain(amd_gpus()).collect()
}

/// GPUs as NVIDIA's driver lists them, or why it does not.
fn nvidia_gpus() -> Vec<Listed> {
    let why = match cuda::Library::open() {
        Ok(library) => match cuda::found::found(&library) {
            Ok(devices) if devices.is_empty() => format!("CUDA ({}) finds no device", library.path.display()),
            Ok(devices) => {
                let preferred = cuda::found::choose(&devices, None).ok().map(|d| d.index);
                return devices.iter().map(|d| nvidia(d, preferred)).collect();
            }
            Err(e) => e.to_string(),
        },
        Err(e) => e.to_string(),
    };
    vec![Listed { name: None, description: format!("no NVIDIA GPU: {why}") }]
}

fn nvidia(d: &cuda::Found, preferred: Option<i32>) -> Listed {
    let (compute, memory) = (d.compute(), d.memory >> 20);
    let sms = d.multiprocessors;
    let description = format!(
        "{} (compute capability {compute}, {sms} multiprocessors), PCI {}, {memory} MiB of memory",
        d.name, d.pci
    );
    listed("cuda", d.index, description, d.chip.is_some(), preferred)
}

/// GPUs as HIP lists them; where it lists none, as the kernel's driver does, and why HIP does not.
fn amd_gpus() -> Vec<Listed> {
    let why = match hip::Library::open() {
        Ok(library) => match hip::found::found(&library) {
            Ok(devices) if devices.is_empty() => format!("HIP ({}) finds no device", library.path.display()),
            Ok(devices) => {
                let preferred = hip::found::choose(&devices, None).ok().map(|d| d.index);
                return devices.iter().map(|d| amd(d, preferred)).collect();
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

fn amd(d: &hip::Found, preferred: Option<i32>) -> Listed {
    let memory = d.memory >> 20;
    let description = format!("{} ({}, {}), PCI {}, {memory} MiB of memory", d.name, d.arch, d.kind, d.pci);
    listed("hip", d.index, description, d.chip.is_some(), preferred)
}

fn listed(kind: &str, index: i32, mut description: String, has_code: bool, preferred: Option<i32>) -> Listed {
    if !has_code {
        description += "; no code is generated for this processor";
    } else if preferred == Some(index) {
        description += &format!("; what --device {kind} takes");
    }
    Listed { name: has_code.then(|| format!("{kind}:{index}")), description }
}
