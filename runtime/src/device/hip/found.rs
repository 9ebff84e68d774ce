//! The devices that HIP's runtime offers, and which of them is used.

use super::api::{
    ARCH_NAME, ARCH_NAME_BYTES, ARCH_NAME_R0600, ATTRIBUTE_INTEGRATED, INVALID_DEVICE, NO_DEVICE, PROPERTY_BYTES,
};
use super::library::Library;
use crate::device::gpu::call::{CallError, text};
use crate::device::kfd::{Gpu, Kind, Override, Topology};
use hrx_compiler::target::amd::{self, Chip};
use std::ffi::{CStr, c_int};

/// A device of HIP's.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// HIP's number for it.
    pub index: i32,
    /// What AMD calls it.
    pub name: String,
    /// The processor with its settings, as `gfx90a:sramecc+:xnack-`.
    pub arch: String,
    /// What code is generated for, if the processor is in the table.
    pub chip: Option<&'static Chip>,
    /// A card, or part of a processor.
    pub kind: Kind,
    /// Its place on the PCI bus.
    pub pci: String,
    /// Bytes of its memory.
    pub memory: u64,
}

impl Found {
    /// The processor without its settings.
    pub fn processor(&self) -> &str {
        self.arch.split(':').next().unwrap_or_default()
    }

    /// The GPU of the driver's list that this is: the one at the same place on the PCI bus.
    pub fn gpu<'t>(&self, topology: &'t Topology) -> Option<&'t Gpu> {
        topology.gpus.iter().find(|g| g.pci.to_string().eq_ignore_ascii_case(&self.pci))
    }
}

/// All devices, in HIP's order. None is not an error.
///
/// # Errors
/// If a call fails, or the library's properties are in a layout that is not known.
pub fn found(library: &Library) -> Result<Vec<Found>, FindError> {
    let mut count: c_int = 0;
    // SAFETY: the calls take a number and write one.
    let counted = unsafe { library.hip.hipInit(0).and_then(|()| library.hip.hipGetDeviceCount(&raw mut count)) };
    match counted {
        // Without any device hipInit of 5.2 says the latter.
        Err(e) if [NO_DEVICE, INVALID_DEVICE].contains(&e.status) => return Ok(Vec::new()),
        other => other?,
    }
    (0..count).map(|index| device(library, index)).collect()
}

/// Why devices can't be listed.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// A call failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The library has neither of the functions that say which processor a device is.
    #[error("the library has no hipGetDeviceProperties, which says what processor a device is")]
    NoProperties,
    /// There is no processor's name where it should be.
    #[error("device {index}: its properties are in a layout that is not known: no processor's name at byte {offset}")]
    Layout {
        /// HIP's number for the device.
        index: i32,
        /// Where the name should be.
        offset: usize,
    },
}

fn device(library: &Library, index: c_int) -> Result<Found, FindError> {
    let hip = &library.hip;
    let (mut integrated, mut memory) = (0, 0);
    // SAFETY: the calls write one number each.
    unsafe {
        hip.hipDeviceGetAttribute(&raw mut integrated, ATTRIBUTE_INTEGRATED, index)?;
        hip.hipDeviceTotalMem(&raw mut memory, index)?;
    }
    // SAFETY: the calls write at most as many characters as they are told, with a 0 at the end.
    let name = text(|to, len| unsafe { hip.hipDeviceGetName(to, len, index) })?;
    // SAFETY: as above.
    let pci = text(|to, len| unsafe { hip.hipDeviceGetPCIBusId(to, len, index) })?;
    let arch = arch_name(library, index)?;
    let chip = amd::for_processor(arch.split(':').next().unwrap_or_default());
    let kind = if integrated != 0 { Kind::Integrated } else { Kind::Discrete };
    Ok(Found { index, name, arch, chip, kind, pci, memory: memory as u64 })
}

/// `gcnArchName`: the only place where HIP says it is a struct whose layout changed with ROCm 6, when the function that
/// writes the new one got another name. So the name says where to look, and what is there must look like it.
fn arch_name(library: &Library, index: c_int) -> Result<String, FindError> {
    let mut properties = vec![0u64; PROPERTY_BYTES / 8];
    let to = properties.as_mut_ptr().cast();
    // SAFETY: the room is more than any layout takes.
    let offset = match (&library.properties, &library.old_properties) {
        // SAFETY: see above.
        (Some(new), _) => unsafe { new.hipGetDevicePropertiesR0600(to, index) }.map(|()| ARCH_NAME_R0600)?,
        // SAFETY: see above.
        (None, Some(old)) => unsafe { old.hipGetDeviceProperties(to, index) }.map(|()| ARCH_NAME)?,
        (None, None) => return Err(FindError::NoProperties),
    };
    let bytes: Vec<u8> = properties.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let name = &bytes[offset..offset + ARCH_NAME_BYTES];
    let name = CStr::from_bytes_until_nul(name).ok().and_then(|n| n.to_str().ok());
    name.filter(|n| n.starts_with("gfx")).map(String::from).ok_or(FindError::Layout { index, offset })
}

/// The device to use: the one of that number, else the first card whose processor is in the table, else the first
/// integrated GPU of which that holds.
///
/// # Errors
/// If there is none, or the processor is not in the table; the reason names what there is.
pub fn choose(devices: &[Found], number: Option<usize>) -> Result<&Found, String> {
    let listed = || {
        let list = devices.iter().map(|d| format!("hip:{} is {} ({}, {})", d.index, d.name, d.arch, d.kind));
        list.collect::<Vec<_>>().join("; ")
    };
    if devices.is_empty() {
        return Err("HIP finds no device".into());
    }
    match number {
        Some(n) => {
            let device = devices.get(n).ok_or_else(|| format!("there is no hip:{n}: {}", listed()))?;
            match device.chip {
                Some(_) => Ok(device),
                None => Err(format!("no code is generated for {}, which {} is", device.processor(), device.name)),
            }
        }
        None => {
            let usable = devices.iter().filter(|d| d.chip.is_some());
            let best = usable.min_by_key(|d| (d.kind == Kind::Integrated, d.index));
            best.ok_or_else(|| format!("no code is generated for any processor that is there: {}", listed()))
        }
    }
}

/// What a person is to know of the choice: that a card is passed over, that an override is in force.
pub fn warnings(
    chosen: &Found,
    devices: &[Found],
    topology: Option<&Topology>,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    let mut said = Vec::new();
    let passed = devices.iter().filter(|d| d.kind == Kind::Discrete && d.chip.is_none());
    if chosen.kind == Kind::Integrated {
        said.extend(passed.map(|d| {
            let (name, processor) = (&d.name, d.processor());
            format!("{name} is not used: no code is generated for {processor}; using {} instead", chosen.name)
        }));
    }
    let Some(gpu) = topology.and_then(|t| chosen.gpu(t)) else { return said };
    match Override::of_node(gpu.node, variable) {
        Ok(Some(found)) => said.push(found.warning(gpu)),
        Ok(None) if chosen.processor() != gpu.processor => said.push(format!(
            "HIP calls the GPU at PCI {} a {}, the kernel's driver a {}",
            gpu.pci,
            chosen.processor(),
            gpu.processor
        )),
        Ok(None) => {}
        Err(e) => said.push(e.to_string()),
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::kfd::PciAddress;

    fn device(index: i32, arch: &str, kind: Kind) -> Found {
        let processor = arch.split(':').next().unwrap_or_default();
        let chip = amd::for_processor(processor);
        let (name, pci) = (format!("GPU {index}"), format!("0000:0{index}:00.0"));
        Found { index, name, arch: arch.into(), chip, kind, pci, memory: 8 << 30 }
    }

    fn chosen(devices: &[Found], number: Option<usize>) -> Result<i32, String> {
        choose(devices, number).map(|d| d.index)
    }

    #[test]
    fn a_card_goes_before_an_integrated_gpu() {
        use Kind::{Discrete, Integrated};
        let apu = device(0, "gfx1036", Integrated);
        let card = device(1, "gfx1100", Discrete);
        let other = device(2, "gfx90a:sramecc+:xnack-", Discrete);
        assert_eq!(chosen(&[apu.clone(), card.clone(), other.clone()], None), Ok(1));
        assert_eq!(chosen(std::slice::from_ref(&apu), None), Ok(0));
        assert_eq!(chosen(&[apu.clone(), card.clone(), other.clone()], Some(2)), Ok(2));
        assert_eq!(chosen(&[apu.clone(), card.clone()], Some(0)), Ok(0));
        assert_eq!(
            chosen(&[apu, card], Some(2)),
            Err("there is no hip:2: hip:0 is GPU 0 (gfx1036, integrated); hip:1 is GPU 1 (gfx1100, discrete)".into())
        );
        assert_eq!(chosen(&[], None), Err("HIP finds no device".into()));
        assert_eq!(other.processor(), "gfx90a");
    }

    #[test]
    fn unknown_processors_are_named_and_refused() {
        let old = device(0, "gfx803", Kind::Discrete);
        let apu = device(1, "gfx1103", Kind::Integrated);
        let none = "no code is generated for any processor that is there: hip:0 is GPU 0 (gfx803, discrete)";
        assert_eq!(chosen(std::slice::from_ref(&old), None), Err(none.into()));
        let both = [old, apu];
        assert_eq!(chosen(&both, Some(0)), Err("no code is generated for gfx803, which GPU 0 is".into()));
        assert_eq!(chosen(&both, None), Ok(1));
        assert_eq!(
            warnings(&both[1], &both, None, |_| None),
            ["GPU 0 is not used: no code is generated for gfx803; using GPU 1 instead"]
        );
    }

    #[test]
    fn an_override_in_force_is_said() {
        let gpu = Gpu {
            index: 0,
            node: 1,
            processor: "gfx1103".into(),
            chip: amd::find("gfx1103"),
            kind: Kind::Integrated,
            memory: 4 << 30,
            pci: PciAddress { domain: 0, location: 0 },
            render_minor: Some(128),
            simds: 24,
        };
        let topology = Topology { gpus: vec![gpu], hidden: Vec::new() };
        let devices = [device(0, "gfx1100", Kind::Integrated)];
        let said = |set: Option<&str>| {
            let variable = |name: &str| set.filter(|_| name == "HSA_OVERRIDE_GFX_VERSION").map(String::from);
            warnings(&devices[0], &devices, Some(&topology), variable)
        };
        let over = said(Some("11.0.0"));
        assert!(over.len() == 1 && over[0].contains("takes the gfx1103 at PCI 0000:00:00.0 for a gfx1100"), "{over:?}");
        assert_eq!(said(None), ["HIP calls the GPU at PCI 0000:00:00.0 a gfx1100, the kernel's driver a gfx1103"]);
        assert!(said(Some("11"))[0].contains("not three numbers"));
    }
}
