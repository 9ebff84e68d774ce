//! Devices: where kernels run. All of them are used through one trait.
//!
//! A step of a model is *recorded* once as stages of launches and *replayed* with new values of its run-time
//! variables. Launches of one stage do not depend on one another; a stage begins when the one before it has ended.

mod cores;
mod cpu;
pub mod cuda;
pub mod gpu;
pub mod hip;
mod host;
pub mod kfd;
mod memory;
mod pool;
mod select;
mod shares;
mod slots;

pub use cores::cores;
pub use cpu::Cpu;
pub use gpu::GpuDevice;
pub(crate) use host::HostSlices;
pub use select::{AUTO, Listed, devices, open_device};

use hrx_compiler::Target;
use hrx_ir::tile::Kernel;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// What can go wrong on a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// An allocation failed or does not fit.
    #[error("{device}: no memory for {bytes} bytes ({what}): {reason}")]
    Memory {
        /// The device's name.
        device: String,
        /// How much was asked for.
        bytes: u64,
        /// What it was for.
        what: String,
        /// Why not.
        reason: String,
    },
    /// A kernel can't be loaded.
    #[error(transparent)]
    Compile(#[from] hrx_compiler::CompileError),
    /// A launch does not go with its kernel.
    #[error("kernel {kernel}: {reason}")]
    Launch {
        /// The kernel's name.
        kernel: String,
        /// What does not fit.
        reason: String,
    },
    /// There is no such device.
    #[error("no device {name}; there are: {available}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        available: String,
    },
    /// The device is there but can't be used, or what it needs is not there.
    #[error("{device} can't be used: {reason}")]
    Unavailable {
        /// What was asked for.
        device: String,
        /// Why not.
        reason: String,
    },
    /// A call of the driver's library failed.
    #[error("{device}: {source}")]
    Call {
        /// The device's name.
        device: String,
        /// The call and its status.
        source: gpu::CallError,
    },
    /// The device stopped in the middle of its work.
    #[error("{device}: {reason}")]
    Failed {
        /// The device's name.
        device: String,
        /// What happened.
        reason: String,
    },
}

/// A range of device memory. Clones share it; it is freed with the last one.
#[derive(Clone)]
pub struct Buffer {
    address: u64,
    len: u64,
    owner: Arc<dyn Any + Send + Sync>,
}

impl Buffer {
    /// A range that lives as long as `owner`.
    ///
    /// # Safety
    /// `address..address + len` stays valid device memory until `owner` is dropped, and is not written by anything
    /// else while launches that use it run.
    pub unsafe fn new(address: u64, len: u64, owner: Arc<dyn Any + Send + Sync>) -> Buffer {
        Buffer { address, len, owner }
    }

    /// The device address of its first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it, which keeps the whole alive.
    ///
    /// # Panics
    /// If the part leaves the buffer.
    pub fn part(&self, offset: u64, len: u64) -> Buffer {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "a part lies inside its buffer");
        Buffer { address: self.address + offset, len, owner: Arc::clone(&self.owner) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

/// A run-time variable of a recorded step, as an index into the values that a replay is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Var(pub usize);

/// One argument of a launch.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Memory for a view.
    Buffer(Buffer),
    /// A scalar that is the same in each replay.
    I32(i32),
    /// A scalar that is the same in each replay.
    F32(f32),
    /// A scalar that each replay sets.
    Var(Var),
    /// A scalar that each replay sets, times a constant.
    Times(Var, u32),
}

/// A kernel with its arguments, one for each of its parameters. Its grid is its own.
#[derive(Clone, Debug)]
pub struct Launch {
    /// A kernel of the device's.
    pub kernel: KernelId,
    /// In the order of the kernel's parameters.
    pub args: Vec<Arg>,
}

/// A kernel that has been loaded on a device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KernelId(pub usize);

/// What a device is.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The name that `--device` takes.
    pub name: String,
    /// What a person calls it.
    pub description: String,
    /// Bytes of memory in all.
    pub memory: u64,
    /// Bytes that are free now.
    pub free: u64,
}

/// When a launch of a profiled replay ran, counted from the replay's begin on the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaunchTime {
    /// The kernel's name.
    pub kernel: String,
    /// The stage that the launch is of.
    pub stage: usize,
    /// Programs of its grid.
    pub programs: u64,
    /// When it began.
    pub start: Duration,
    /// When it had ended.
    pub end: Duration,
}

/// Stages of launches that can be run again and again.
pub trait Recorded: Send {
    /// Runs all stages and returns when the last has ended.
    ///
    /// # Errors
    /// If a variable is missing or the device fails.
    fn replay(&mut self, vars: &[i32]) -> Result<(), DeviceError>;

    /// As [`replay`](Recorded::replay), but may return when the device has been told: what the device does next it does
    /// when all stages have ended, and a failure may be that of a later call.
    ///
    /// # Errors
    /// As [`replay`](Recorded::replay).
    fn start(&mut self, vars: &[i32]) -> Result<(), DeviceError> {
        self.replay(vars)
    }

    /// As [`replay`](Recorded::replay), one launch behind another, each with its time: by events on a GPU (what two events
    /// with nothing between them take is taken off), by the host's clock on the CPU.
    ///
    /// # Errors
    /// As [`replay`](Recorded::replay).
    fn profile(&mut self, vars: &[i32]) -> Result<Vec<LaunchTime>, DeviceError>;
}

/// What makes machine code of compiled objects. May be called from several threads.
pub trait Assembler: Sync {
    /// All that machine code depends on beside the object: part of the key under which it is kept.
    fn identity(&self) -> String;

    /// Machine code of a kernel's object.
    ///
    /// # Errors
    /// What the driver says of it.
    fn assemble(&self, kernel: &Kernel, object: &[u8]) -> Result<Vec<u8>, DeviceError>;
}

/// A place where kernels run.
pub trait Device: Send + Sync {
    /// What it is.
    fn info(&self) -> DeviceInfo;

    /// What kernels for it are compiled for.
    fn target(&self) -> &Target;

    /// Zeroed memory. `what` it is for goes into the error.
    ///
    /// # Errors
    /// If there is not enough.
    fn alloc(&self, bytes: u64, what: &str) -> Result<Buffer, DeviceError>;

    /// As [`alloc`](Device::alloc), for what is read from end to end in each step: weights, and what is kept by position.
    ///
    /// # Errors
    /// If there is not enough.
    fn alloc_weights(&self, bytes: u64, what: &str) -> Result<Buffer, DeviceError> {
        self.alloc(bytes, what)
    }

    /// Constant data on the device: where the host's memory is the device's, the data itself.
    ///
    /// # Errors
    /// If there is not enough memory.
    fn place(&self, data: crate::gguf::TensorData, what: &str) -> Result<Buffer, DeviceError>;

    /// Host memory in place as a buffer, where kernels of this device can use it as it is. None where it has to be
    /// copied, by [`alloc`](Device::alloc), [`write`](Device::write) and [`read`](Device::read).
    ///
    /// # Safety
    /// The `len` bytes from `memory` on stay valid until the last clone of the buffer is dropped. While a replay runs
    /// that uses it, nothing else writes them, and nothing else reads what its launches write.
    unsafe fn borrow_host(&self, memory: *mut u8, len: u64) -> Option<Buffer> {
        let _ = (memory, len);
        None
    }

    /// Whether [`place`](Device::place) takes memory of the device for what it places.
    fn copies_data(&self) -> bool {
        false
    }

    /// Copies to the device.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If the bytes do not fit the buffer from `offset` on.
    fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies from the device.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If the bytes leave the buffer.
    fn read(&self, buffer: &Buffer, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError>;

    /// Gives `len` bytes of a buffer to a function, in whatever place they come to first.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If the bytes leave the buffer.
    fn read_with(
        &self,
        buffer: &Buffer,
        offset: u64,
        len: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), DeviceError> {
        let mut bytes = vec![0; len as usize];
        self.read(buffer, offset, &mut bytes)?;
        take(&bytes);
        Ok(())
    }

    /// Copies inside the device. A buffer and a part of it, or two parts, may not overlap. A device that has no way of its
    /// own goes by the host.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If the buffers are not of one length.
    fn copy(&self, from: &Buffer, to: &Buffer) -> Result<(), DeviceError> {
        assert_eq!(from.len(), to.len(), "buffers of one length");
        let mut bytes = vec![0; from.len() as usize];
        self.read(from, 0, &mut bytes)?;
        self.write(to, 0, &bytes)
    }

    /// What makes machine code of compiled objects, where the device's driver does that: none where objects are it.
    fn assembler(&self) -> Option<&dyn Assembler> {
        None
    }

    /// Makes compiled code callable. `object` is what [`hrx_compiler::compile`] made of `kernel` for this target.
    ///
    /// # Errors
    /// If the object does not hold the kernel.
    fn load(&self, kernel: &Kernel, object: &[u8]) -> Result<KernelId, DeviceError>;

    /// As [`load`](Device::load), with the machine code that the device's [assembler](Device::assembler) made of the
    /// object, now or in an earlier process.
    ///
    /// # Errors
    /// As [`load`](Device::load).
    fn load_assembled(&self, kernel: &Kernel, object: &[u8], machine_code: &[u8]) -> Result<KernelId, DeviceError> {
        let _ = machine_code;
        self.load(kernel, object)
    }

    /// Records stages of launches.
    ///
    /// # Errors
    /// If the arguments do not go with a kernel's parameters.
    ///
    /// # Safety
    /// Every buffer is large enough for what its kernel does with it in each replay, launches of one stage write
    /// nothing that another of the stage reads or writes, and variables stay in the range that this holds for.
    unsafe fn record(&self, stages: Vec<Vec<Launch>>) -> Result<Box<dyn Recorded>, DeviceError>;
}
