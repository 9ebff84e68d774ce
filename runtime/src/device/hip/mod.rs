//! AMD GPUs through HIP's runtime, and the emulator, which has the same functions.
//!
//! * [`api`]: the functions that are used, each with a method that makes an error of its status.
//! * [`library`]: the library they are in, opened at run time.
//! * [`found`]: the devices that it offers, and which is used.
//! * `context`: a device with its stream; memory, copies.
//! * `kernel`: loaded code objects; where arguments lie.
//! * `launch`: recorded stages, launch by launch or as a graph.

pub mod api;
mod context;
pub mod found;
mod kernel;
mod launch;
pub mod library;

pub use api::HipError;
pub use found::Found;
pub use library::{Library, LibraryError};

use super::kfd::{Kind, Topology};
use super::{Buffer, Device, DeviceError, DeviceInfo, KernelId, Launch, Recorded};
use crate::exec::Warn;
use context::{Context, DeviceMemory};
use hrx_compiler::Target;
use hrx_compiler::target::amd::Chip;
use hrx_ir::tile::Kernel;
use kernel::HipKernel;
use launch::{HipLaunch, HipRecorded};
use std::sync::{Arc, Mutex};

/// The variable that says whether graphs are used: 0 or 1.
pub const GRAPHS: &str = "HRX_HIP_GRAPH";

/// A GPU.
pub struct HipDevice {
    context: Arc<Context>,
    chip: &'static Chip,
    target: Target,
    description: String,
    memory: u64,
    graphs: bool,
    warn: Warn,
    kernels: Mutex<Vec<Arc<HipKernel>>>,
}

impl HipDevice {
    /// The GPU of that number in HIP's order, else the one that is preferred.
    ///
    /// # Errors
    /// If there is no library, no device, or none that code is generated for.
    pub fn open(number: Option<usize>, warn: &Warn) -> Result<HipDevice, DeviceError> {
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
        HipDevice::new(Arc::new(library), chosen, format!("hip:{}", chosen.index), warn)
    }

    /// The emulator of a chip.
    ///
    /// # Errors
    /// If the chip is unknown, or the emulator's library is not there.
    pub fn open_emulator(chip: &str, warn: &Warn) -> Result<HipDevice, DeviceError> {
        let asked = format!("emu:{chip}");
        let unavailable = |reason: String| DeviceError::Unavailable { device: asked.clone(), reason };
        match Target::from_name(chip)? {
            Target::Amd(_) => {}
            Target::Host(_) | Target::Nvidia(_) => {
                return Err(unavailable("it is no AMD GPU's processor, as gfx1100 is".into()));
            }
        }
        let library = Library::open_emulator().map_err(|e| unavailable(e.to_string()))?;
        library.set_chip(chip).map_err(|e| unavailable(e.to_string()))?;
        let devices = found::found(&library).map_err(|e| unavailable(e.to_string()))?;
        let chosen = found::choose(&devices, None).map_err(unavailable)?;
        HipDevice::new(Arc::new(library), chosen, asked.clone(), warn)
    }

    /// A device of a library's.
    ///
    /// # Errors
    /// If no code is generated for it, or a call fails.
    pub fn new(library: Arc<Library>, found: &Found, name: String, warn: &Warn) -> Result<HipDevice, DeviceError> {
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
        let context = Context::new(library, found.index, name)?;
        Ok(HipDevice {
            context: Arc::new(context),
            chip,
            target: Target::Amd(chip),
            description,
            memory: found.memory,
            graphs,
            warn: Arc::clone(warn),
            kernels: Mutex::default(),
        })
    }

    fn allocate(&self, bytes: u64, what: &str) -> Result<DeviceMemory, DeviceError> {
        DeviceMemory::new(&self.context, bytes).map_err(|e| match e {
            DeviceError::Hip { device, source } if source.status == api::OUT_OF_MEMORY => {
                let free = self.context.memory().map_or(String::new(), |(free, _)| format!(", {free} bytes are free"));
                DeviceError::Memory { device, bytes, what: what.into(), reason: format!("{source}{free}") }
            }
            other => other,
        })
    }

    fn buffer(&self, memory: DeviceMemory, bytes: u64) -> Buffer {
        // SAFETY: the memory is at least this long and lives as long as the buffer's owner, which it is.
        unsafe { Buffer::new(memory.address(), bytes, Arc::new(memory)) }
    }
}

impl Device for HipDevice {
    fn info(&self) -> DeviceInfo {
        // A device that can't be asked has nothing free: what comes next says why.
        let (free, memory) = self.context.memory().unwrap_or((0, self.memory));
        DeviceInfo { name: self.context.name.clone(), description: self.description.clone(), memory, free }
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn alloc(&self, bytes: u64, what: &str) -> Result<Buffer, DeviceError> {
        let memory = self.allocate(bytes, what)?;
        memory.zero(bytes)?;
        Ok(self.buffer(memory, bytes))
    }

    fn place(&self, data: crate::gguf::TensorData, what: &str) -> Result<Buffer, DeviceError> {
        let memory = self.allocate(data.len() as u64, what)?;
        // SAFETY: the memory is as long as the data.
        unsafe { self.context.copy_in(memory.address(), &data)? };
        Ok(self.buffer(memory, data.len() as u64))
    }

    fn copies_data(&self) -> bool {
        true
    }

    fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let part = buffer.part(offset, bytes.len() as u64);
        // SAFETY: the part lies inside the buffer.
        unsafe { self.context.copy_in(part.address(), bytes) }
    }

    fn read(&self, buffer: &Buffer, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let part = buffer.part(offset, bytes.len() as u64);
        // SAFETY: the part lies inside the buffer.
        unsafe { self.context.copy_out(part.address(), bytes) }
    }

    fn load(&self, kernel: &Kernel, object: &[u8]) -> Result<KernelId, DeviceError> {
        let loaded = HipKernel::load(&self.context, kernel, self.chip, object)?;
        let mut kernels = self.kernels.lock().unwrap_or_else(|e| e.into_inner());
        kernels.push(Arc::new(loaded));
        Ok(KernelId(kernels.len() - 1))
    }

    unsafe fn record(&self, stages: Vec<Vec<Launch>>) -> Result<Box<dyn Recorded>, DeviceError> {
        let kernels = self.kernels.lock().unwrap_or_else(|e| e.into_inner());
        let launch = |launch: Launch| {
            let kernel = kernels.get(launch.kernel.0).ok_or_else(|| DeviceError::Launch {
                kernel: format!("#{}", launch.kernel.0),
                reason: "it was not loaded on this device".into(),
            })?;
            HipLaunch::new(Arc::clone(kernel), launch.args)
        };
        let launches = stages.into_iter().flatten().map(launch).collect::<Result<_, _>>()?;
        Ok(Box::new(HipRecorded::new(&self.context, launches, self.graphs, Arc::clone(&self.warn))))
    }
}
