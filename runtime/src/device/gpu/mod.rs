//! What all GPUs share, whoever's driver runs them.
//!
//! * [`call`]: tables of a library's functions, and an error for each status.
//! * [`library`]: a library that is opened at run time.
//! * [`shared`]: the functions that HIP and CUDA both have.
//! * `driver`: a device of a driver's; what differs [`hip`](super::hip) and [`cuda`](super::cuda) say.
//! * `context`: a device with its stream; memory, copies.
//! * `kernel`: loaded code; where arguments lie.
//! * `launch`: recorded stages, launch by launch or as a graph.

pub mod call;
mod context;
pub(super) mod driver;
pub(super) mod kernel;
mod launch;
pub mod library;
pub mod shared;

pub use call::CallError;
pub use library::LibraryError;

use super::{Assembler, Buffer, Device, DeviceError, DeviceInfo, KernelId, Launch, Recorded};
use crate::exec::Warn;
use context::{Context, DeviceMemory};
use driver::Driver;
use hrx_compiler::Target;
use hrx_ir::tile::Kernel;
use kernel::GpuKernel;
use launch::{GpuLaunch, GpuRecorded};
use std::sync::{Arc, Mutex};

/// What is known of a device before it is used.
pub(super) struct Facts {
    /// The name that `--device` takes.
    pub(super) name: String,
    /// What code is compiled for.
    pub(super) target: Target,
    /// What a person calls it.
    pub(super) description: String,
    /// Bytes of its memory.
    pub(super) memory: u64,
    /// Whether repeated replays are captured as graphs, where the driver can do that.
    pub(super) graphs: bool,
}

/// A GPU.
pub struct GpuDevice {
    context: Arc<Context>,
    facts: Facts,
    /// What machine code depends on, where the driver makes it.
    assembler: Option<String>,
    warn: Warn,
    kernels: Mutex<Vec<Arc<GpuKernel>>>,
}

impl GpuDevice {
    /// A driver's device.
    pub(super) fn new(driver: impl Driver + 'static, facts: Facts, warn: &Warn) -> Result<GpuDevice, DeviceError> {
        let assembler = driver.assembler();
        let context = Arc::new(Context::new(Box::new(driver), facts.name.clone())?);
        Ok(GpuDevice { context, facts, assembler, warn: Arc::clone(warn), kernels: Mutex::default() })
    }

    fn allocate(&self, bytes: u64, what: &str) -> Result<DeviceMemory, DeviceError> {
        DeviceMemory::new(&self.context, bytes).map_err(|e| match e {
            DeviceError::Call { device, source } if source.status == call::OUT_OF_MEMORY => {
                let free = self.context.memory().map_or(String::new(), |[free, _]| format!(", {free} bytes are free"));
                DeviceError::Memory { device, bytes, what: what.into(), reason: format!("{source}{free}") }
            }
            other => other,
        })
    }

    fn buffer(&self, memory: DeviceMemory, bytes: u64) -> Buffer {
        // SAFETY: the memory is at least this long and lives as long as the buffer's owner, which it is.
        unsafe { Buffer::new(memory.address, bytes, Arc::new(memory)) }
    }
}

impl Device for GpuDevice {
    fn info(&self) -> DeviceInfo {
        // A device that can't be asked has nothing free: what comes next says why.
        let [free, memory] = self.context.memory().unwrap_or([0, self.facts.memory]);
        DeviceInfo { name: self.context.name.clone(), description: self.facts.description.clone(), memory, free }
    }

    fn target(&self) -> &Target {
        &self.facts.target
    }

    fn alloc(&self, bytes: u64, what: &str) -> Result<Buffer, DeviceError> {
        let memory = self.allocate(bytes, what)?;
        memory.zero(bytes)?;
        Ok(self.buffer(memory, bytes))
    }

    fn place(&self, data: crate::gguf::TensorData, what: &str) -> Result<Buffer, DeviceError> {
        let memory = self.allocate(data.len() as u64, what)?;
        // SAFETY: the memory is as long as the data.
        unsafe { self.context.copy_in(memory.address, &data)? };
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

    fn read_with(
        &self,
        buffer: &Buffer,
        offset: u64,
        len: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), DeviceError> {
        let part = buffer.part(offset, len);
        // SAFETY: the part lies inside the buffer.
        unsafe { self.context.landed(part.address(), len, take) }
    }

    fn copy(&self, from: &Buffer, to: &Buffer) -> Result<(), DeviceError> {
        assert_eq!(from.len(), to.len(), "buffers of one length");
        if from.is_empty() {
            return Ok(());
        }
        // SAFETY: both are of this length; two buffers overlap only as parts of one, which the caller sees to.
        unsafe { self.context.copy(to.address(), from.address(), from.len()) }
    }

    fn assembler(&self) -> Option<&dyn Assembler> {
        self.assembler.is_some().then_some(self)
    }

    fn load(&self, kernel: &Kernel, object: &[u8]) -> Result<KernelId, DeviceError> {
        if self.assembler.is_some() {
            return self.load_assembled(kernel, object, &self.assemble(kernel, object)?);
        }
        self.load_assembled(kernel, object, object)
    }

    fn load_assembled(&self, kernel: &Kernel, object: &[u8], machine_code: &[u8]) -> Result<KernelId, DeviceError> {
        let loaded = GpuKernel::load(&self.context, kernel, object, machine_code)?;
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
            GpuLaunch::new(Arc::clone(kernel), launch.args)
        };
        let stage = |stage: Vec<Launch>| stage.into_iter().map(launch).collect::<Result<_, _>>();
        let stages = stages.into_iter().map(stage).collect::<Result<_, DeviceError>>()?;
        Ok(Box::new(GpuRecorded::new(&self.context, stages, self.facts.graphs, Arc::clone(&self.warn))))
    }
}

impl Assembler for GpuDevice {
    fn identity(&self) -> String {
        self.assembler.clone().unwrap_or_default()
    }

    fn assemble(&self, kernel: &Kernel, object: &[u8]) -> Result<Vec<u8>, DeviceError> {
        let refuse = |reason| DeviceError::Launch { kernel: kernel.name.clone(), reason };
        // What the object says of the kernel is looked at first: it is also what says that it is a whole one.
        self.context.driver.layout(kernel, object).map_err(refuse)?;
        let made = self.context.call(|d| Ok(d.assemble(object)))?;
        made.unwrap_or_else(|| Ok(object.to_vec())).map_err(refuse)
    }
}
