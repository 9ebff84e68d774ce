//! AMD GPUs as Linux lists them, without any part of ROCm.
//!
//! The kernel's compute driver describes every CPU and GPU as a node below `/sys/class/kfd/kfd/topology/nodes`: a folder
//! with the files `gpu_id` (0 for a CPU), `name`, `properties` and `mem_banks/*/properties`, the latter two a name and a
//! decimal number a line. Source: `node_show` and `mem_show` in Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c.

mod overridden;

pub use overridden::{Override, OverrideError};

use hrx_compiler::target::amd::{self, Chip};
use std::fmt;
use std::path::{Path, PathBuf};

/// Where the driver lists nodes.
pub const NODES: &str = "/sys/class/kfd/kfd/topology/nodes";

/// Kinds of memory banks that are memory of a GPU: frame buffer, visible to the host or not. Source: HSA_HEAPTYPE_* in
/// the kernel's kfd_crat.h.
const FRAME_BUFFER: [u64; 2] = [1, 2];

/// Processors that exist only as the graphics of a CPU: the column "APU" of the table of processors in LLVM's "User Guide
/// for AMDGPU Backend". Newer kernels list them as nodes of their own, like cards, so that the node does not say it.
const INTEGRATED: &[&str] = &[
    "gfx700", "gfx801", "gfx810", "gfx902", "gfx909", "gfx90c", "gfx1013", "gfx1033", "gfx1035", "gfx1036", "gfx1103",
    "gfx1150", "gfx1151", "gfx1152", "gfx1153",
];

/// Why GPUs can't be listed.
#[derive(Debug, thiserror::Error)]
pub enum KfdError {
    /// The driver is not there.
    #[error("{path} can't be read ({source}): Linux's compute driver for AMD GPUs (amdgpu with amdkfd) is not loaded")]
    NoDriver {
        /// Where it would list nodes.
        path: PathBuf,
        /// Why that can't be read.
        source: std::io::Error,
    },
    /// A node's file is not as the driver writes it.
    #[error("{path}: {reason}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Whether a GPU is a card or part of a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// With memory of its own.
    Discrete,
    /// On the memory of the computer.
    Integrated,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Discrete => "discrete",
            Kind::Integrated => "integrated",
        })
    }
}

/// A place on the PCI bus, shown as Linux does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciAddress {
    /// The domain.
    pub domain: u32,
    /// Bus, device and function: 8, 5 and 3 bits.
    pub location: u32,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.location;
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.domain, at >> 8 & 0xff, at >> 3 & 0x1f, at & 7)
    }
}

/// A GPU.
#[derive(Clone, PartialEq, Debug)]
pub struct Gpu {
    /// Its place among the GPUs, in the driver's order.
    pub index: usize,
    /// The driver's node.
    pub node: u32,
    /// LLVM's name of the processor.
    pub processor: String,
    /// What code is generated for, if the processor is in the table.
    pub chip: Option<&'static Chip>,
    /// A card, or part of a processor.
    pub kind: Kind,
    /// Bytes of its own memory; of an integrated one, of what the firmware set aside or the kernel lets it have.
    pub memory: u64,
    /// Its place on the PCI bus.
    pub pci: PciAddress,
    /// N of `/dev/dri/renderDN`, where it has one.
    pub render_minor: Option<u32>,
    /// Its SIMD units.
    pub simds: u32,
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, PCI {}, {} MiB", self.processor, self.kind, self.pci, self.memory >> 20)
    }
}

/// The GPUs of a machine, in the driver's order, and what could not be read.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Topology {
    /// GPUs by their nodes' numbers.
    pub gpus: Vec<Gpu>,
    /// Nodes that this process may not read: devices of the machine that a container keeps from it.
    pub hidden: Vec<u32>,
}

impl Topology {
    /// The GPUs of this machine.
    ///
    /// # Errors
    /// As [`read`](Topology::read).
    pub fn of_this_machine() -> Result<Topology, KfdError> {
        Topology::read(Path::new(NODES))
    }

    /// The GPUs of a tree of nodes.
    ///
    /// # Errors
    /// If there is no such tree, or a node's files are not as the driver writes them.
    pub fn read(nodes: &Path) -> Result<Topology, KfdError> {
        let missing = |source| KfdError::NoDriver { path: nodes.into(), source };
        let entries = std::fs::read_dir(nodes).map_err(missing)?;
        let number = |e: std::io::Result<std::fs::DirEntry>| e.ok()?.file_name().to_str()?.parse::<u32>().ok();
        let mut numbers: Vec<u32> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        let mut found = Topology::default();
        for node in numbers {
            let dir = nodes.join(node.to_string());
            let properties = match Properties::read(&dir.join("properties"))? {
                Some(properties) => properties,
                None => {
                    found.hidden.push(node);
                    continue;
                }
            };
            found.gpus.extend(gpu(node, found.gpus.len(), &dir, &properties)?);
        }
        Ok(found)
    }

    /// The GPU that is used where nobody says which: the first card whose processor is in the table, else the first
    /// integrated GPU of which that holds.
    pub fn preferred(&self) -> Option<&Gpu> {
        self.gpus.iter().filter(|g| g.chip.is_some()).min_by_key(|g| (g.kind == Kind::Integrated, g.index))
    }

    /// Where several look the same or nothing is usable: all of them in one line.
    pub fn summary(&self) -> String {
        if self.gpus.is_empty() {
            return "no AMD GPU".into();
        }
        self.gpus.iter().map(|g| format!("GPU {}: {g}", g.index)).collect::<Vec<_>>().join("; ")
    }
}

/// The GPU of a node; none if it is a CPU.
fn gpu(node: u32, index: usize, dir: &Path, properties: &Properties) -> Result<Option<Gpu>, KfdError> {
    let version = properties.u32("gfx_target_version")?.unwrap_or(0);
    let simds = properties.u32("simd_count")?.unwrap_or(0);
    // Processors are nodes without SIMDs, of version 0.
    if version == 0 || simds == 0 {
        return Ok(None);
    }
    let processor = processor(version);
    // Nodes of CPU and GPU in one are how older kernels list processors with graphics.
    let with_cpu = properties.u32("cpu_cores_count")?.unwrap_or(0) > 0;
    let integrated = with_cpu || INTEGRATED.contains(&processor.as_str());
    let pci = PciAddress {
        domain: properties.u32("domain")?.unwrap_or(0),
        location: properties.u32("location_id")?.unwrap_or(0),
    };
    Ok(Some(Gpu {
        index,
        node,
        chip: amd::for_processor(&processor),
        processor,
        kind: if integrated { Kind::Integrated } else { Kind::Discrete },
        memory: memory(&dir.join("mem_banks"))?,
        pci,
        // Minor numbers of render nodes begin at 128.
        render_minor: properties.u32("drm_render_minor")?.filter(|&n| n >= 128),
        simds,
    }))
}

/// Bytes of frame buffer in a node's memory banks.
fn memory(banks: &Path) -> Result<u64, KfdError> {
    let mut bytes = 0u64;
    for entry in std::fs::read_dir(banks).into_iter().flatten().flatten() {
        let Some(bank) = Properties::read(&entry.path().join("properties"))? else { continue };
        if bank.number("heap_type")?.is_some_and(|kind| FRAME_BUFFER.contains(&kind)) {
            bytes = bytes.saturating_add(bank.number("size_in_bytes")?.unwrap_or(0));
        }
    }
    Ok(bytes)
}

/// LLVM's name of a processor by the driver's number: two decimal digits each of minor version and stepping, which LLVM
/// writes as one hexadecimal digit each.
pub fn processor(version: u32) -> String {
    processor_of([version / 10_000, version / 100 % 100, version % 100])
}

/// LLVM's name of a processor of this major and minor version and stepping.
fn processor_of([major, minor, stepping]: [u32; 3]) -> String {
    format!("gfx{major}{minor:x}{stepping:x}")
}

/// A file of names and numbers.
struct Properties {
    path: PathBuf,
    text: String,
}

impl Properties {
    /// The file; none if it may not be read.
    fn read(path: &Path) -> Result<Option<Properties>, KfdError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Some(Properties { path: path.into(), text })),
            Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => Ok(None),
            Err(e) => Err(KfdError::Damaged { path: path.into(), reason: e.to_string() }),
        }
    }

    fn number(&self, name: &str) -> Result<Option<u64>, KfdError> {
        let value = |line: &'_ str| line.strip_prefix(name)?.strip_prefix(' ').map(|v| v.trim().to_owned());
        let Some(value) = self.text.lines().find_map(value) else { return Ok(None) };
        let damaged = |_| self.damaged(format!("{name} is {}, not a number", value.escape_debug()));
        value.parse().map(Some).map_err(damaged)
    }

    fn u32(&self, name: &str) -> Result<Option<u32>, KfdError> {
        let fits = |n| u32::try_from(n).map_err(|_| self.damaged(format!("{name} is {n}, more than 32 bits")));
        self.number(name)?.map(fits).transpose()
    }

    fn damaged(&self, reason: String) -> KfdError {
        KfdError::Damaged { path: self.path.clone(), reason }
    }
}

#[cfg(test)]
mod tests;
