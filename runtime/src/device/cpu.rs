//! The host's processor as a device.

use super::memory::{HostMemory, system_memory};
use super::pool::{Pool, wait_until};
use super::shares::Shares;
use super::slots::{Shape, Slots};
use super::{Arg, Buffer, Device, DeviceError, DeviceInfo, KernelId, Launch, LaunchTime, Recorded};
use crate::gguf::TensorData;
use hrx_compiler::{LoadedKernel, Target};
use hrx_ir::tile::Kernel;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Copies on the device are cut among threads in multiples of this: short ones are one thread's.
const COPIED_TOGETHER: u64 = 256 << 10;

/// The host's processor.
pub struct Cpu {
    target: Target,
    pool: Arc<Pool>,
    kernels: Mutex<Vec<Arc<CpuKernel>>>,
}

/// A loaded kernel with what its launches need.
struct CpuKernel {
    name: String,
    shape: Shape,
    code: LoadedKernel,
    local_bytes: u64,
}

impl Cpu {
    /// The host with this many threads (0: one a core, as [`cores`](super::cores) counts them).
    ///
    /// # Errors
    /// If the processor lacks what generated code needs, or threads can't be started.
    pub fn new(threads: usize) -> Result<Cpu, DeviceError> {
        Cpu::with_target(threads, Target::host()?)
    }

    /// The host with code for a target that it can run: its own, or the least one that there is.
    ///
    /// # Errors
    /// As [`new`](Cpu::new).
    pub fn with_target(threads: usize, target: Target) -> Result<Cpu, DeviceError> {
        let host = Target::host()?;
        if target != host && target != Target::x86_64_v3() {
            let reason = format!("it runs code for {} or x86-64-v3, not for {}", host.name(), target.name());
            return Err(DeviceError::Failed { device: "cpu".into(), reason });
        }
        let n = if threads == 0 { super::cores() } else { threads };
        let failed = |e: std::io::Error| DeviceError::Failed {
            device: "cpu".into(),
            reason: format!("{n} threads can't be started: {e}"),
        };
        let pool = Pool::new(n).map_err(failed)?;
        Ok(Cpu { target, pool: Arc::new(pool), kernels: Mutex::new(Vec::new()) })
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }
}

impl Device for Cpu {
    fn info(&self) -> DeviceInfo {
        let (memory, free) = system_memory();
        let description = format!("{}, {} threads", self.target.name(), self.pool.threads());
        DeviceInfo { name: "cpu".into(), description, memory, free }
    }

    fn target(&self) -> &Target {
        &self.target
    }

    fn alloc(&self, bytes: u64, what: &str) -> Result<Buffer, DeviceError> {
        buffer(HostMemory::new(bytes), bytes, what)
    }

    fn alloc_weights(&self, bytes: u64, what: &str) -> Result<Buffer, DeviceError> {
        buffer(HostMemory::in_large_pages(bytes), bytes, what)
    }

    fn place(&self, data: TensorData, _what: &str) -> Result<Buffer, DeviceError> {
        let (address, len) = (data.as_ptr() as u64, data.len() as u64);
        // SAFETY: the data keeps its mapping alive and does not move. Kernels only read it: weights are `in` views.
        Ok(unsafe { Buffer::new(address, len, Arc::new(data)) })
    }

    unsafe fn borrow_host(&self, memory: *mut u8, len: u64) -> Option<Buffer> {
        // SAFETY: the caller keeps the memory valid for as long as the buffer lives, and others away from it.
        Some(unsafe { Buffer::new(memory as u64, len, Arc::new(())) })
    }

    fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let part = buffer.part(offset, bytes.len() as u64);
        // SAFETY: the part lies inside the buffer; no launch runs, since replays return when they have ended and the
        // buffer's users call from one thread at a time.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), part.address() as *mut u8, bytes.len()) };
        Ok(())
    }

    fn read(&self, buffer: &Buffer, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let part = buffer.part(offset, bytes.len() as u64);
        // SAFETY: as for `write`.
        unsafe { std::ptr::copy_nonoverlapping(part.address() as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn read_with(
        &self,
        buffer: &Buffer,
        offset: u64,
        len: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), DeviceError> {
        let part = buffer.part(offset, len);
        // SAFETY: as for `write`; the buffer is borrowed for as long.
        take(unsafe { std::slice::from_raw_parts(part.address() as *const u8, len as usize) });
        Ok(())
    }

    fn copy(&self, from: &Buffer, to: &Buffer) -> Result<(), DeviceError> {
        assert_eq!(from.len(), to.len(), "buffers of one length");
        let (source, target, len) = (from.address(), to.address(), from.len());
        // One thread does not reach what memory can do.
        let mut shares = Shares::new(self.pool.threads());
        shares.deal(len.div_ceil(COPIED_TOGETHER) as usize);
        let done = self.pool.run(&|thread| {
            shares.run(thread, |parts| {
                let [at, end] = [parts.start, parts.end].map(|part| len.min(COPIED_TOGETHER * part as u64));
                let n = (end - at) as usize;
                // SAFETY: as for `write`, each part being one thread's; two buffers overlap only as parts of one, which the
                // caller sees to.
                unsafe { std::ptr::copy_nonoverlapping((source + at) as *const u8, (target + at) as *mut u8, n) };
            });
        });
        if done { Ok(()) } else { Err(panicked()) }
    }

    fn load(&self, kernel: &Kernel, object: &[u8]) -> Result<KernelId, DeviceError> {
        let code = LoadedKernel::load(object, &kernel.name)?;
        let shape = Shape::new(kernel)?;
        let local_bytes = kernel.local_bytes().ok_or_else(|| shape.refuse("local memory of unknown size".into()))?;
        let loaded = CpuKernel { name: kernel.name.clone(), shape, code, local_bytes };
        let mut kernels = self.kernels.lock().unwrap_or_else(|e| e.into_inner());
        kernels.push(Arc::new(loaded));
        Ok(KernelId(kernels.len() - 1))
    }

    unsafe fn record(&self, stages: Vec<Vec<Launch>>) -> Result<Box<dyn Recorded>, DeviceError> {
        let kernels = self.kernels.lock().unwrap_or_else(|e| e.into_inner());
        let threads = self.pool.threads();
        let mut local_bytes = 0;
        let mut recorded = Vec::with_capacity(stages.len());
        for stage in stages {
            let mut launches = Vec::with_capacity(stage.len());
            for launch in stage {
                let kernel = kernels.get(launch.kernel.0).ok_or_else(|| DeviceError::Launch {
                    kernel: format!("#{}", launch.kernel.0),
                    reason: "it was not loaded on this device".into(),
                })?;
                local_bytes = local_bytes.max(kernel.local_bytes);
                launches.push(CpuLaunch::new(Arc::clone(kernel), launch.args)?);
            }
            recorded.push(CpuStage { launches, shares: Shares::new(threads) });
        }
        let local_stride = local_bytes.next_multiple_of(4096).max(4096);
        let local = self.alloc(local_stride * threads as u64, "local memory of kernels")?;
        Ok(Box::new(CpuRecorded { pool: Arc::clone(&self.pool), stages: recorded, local, local_stride }))
    }
}

/// Memory that was mapped as a buffer.
fn buffer(mapped: std::io::Result<HostMemory>, bytes: u64, what: &str) -> Result<Buffer, DeviceError> {
    let memory = mapped.map_err(|e| DeviceError::Memory {
        device: "cpu".into(),
        bytes,
        what: what.into(),
        reason: e.to_string(),
    })?;
    let address = memory.address() as u64;
    // SAFETY: the mapping is at least this long and lives as long as the buffer's owner, which it is.
    Ok(unsafe { Buffer::new(address, bytes, Arc::new(memory)) })
}

/// A launch with its argument slots.
struct CpuLaunch {
    kernel: Arc<CpuKernel>,
    slots: Slots,
    grid: [u64; 3],
}

impl CpuLaunch {
    fn new(kernel: Arc<CpuKernel>, args: Vec<Arg>) -> Result<CpuLaunch, DeviceError> {
        let slots = Slots::new(&kernel.shape, args)?;
        Ok(CpuLaunch { kernel, slots, grid: [0; 3] })
    }

    /// Sets the variables; returns the number of programs.
    fn set(&mut self, vars: &[i32]) -> Result<usize, DeviceError> {
        self.grid = self.slots.set(&self.kernel.shape, vars)?;
        Ok(self.programs())
    }

    fn programs(&self) -> usize {
        (self.grid[0] * self.grid[1] * self.grid[2]) as usize
    }

    /// Runs one program, the first axis of the grid changing fastest.
    fn program(&self, n: usize, local: *mut u8) {
        let n = n as u64;
        let ids = [n % self.grid[0], n / self.grid[0] % self.grid[1], n / self.grid[0] / self.grid[1]];
        // SAFETY: `record`'s caller promised that the buffers suit the kernel; slots are one a parameter; `local` has
        // room for the largest kernel of the recording, is page-aligned and this thread's own.
        unsafe { self.kernel.code.call(self.slots.values().as_ptr(), ids.map(|i| i as i32), local) };
    }
}

struct CpuStage {
    launches: Vec<CpuLaunch>,
    /// The programs, counted over all launches.
    shares: Shares,
}

impl CpuStage {
    fn run(&self, thread: usize, local: *mut u8) {
        self.shares.run(thread, |programs| {
            let mut first = 0;
            for launch in &self.launches {
                let n = launch.programs();
                for program in programs.start.max(first)..programs.end.min(first + n) {
                    launch.program(program - first, local);
                }
                first += n;
            }
        });
    }
}

struct CpuRecorded {
    pool: Arc<Pool>,
    stages: Vec<CpuStage>,
    local: Buffer,
    local_stride: u64,
}

impl Recorded for CpuRecorded {
    fn replay(&mut self, vars: &[i32]) -> Result<(), DeviceError> {
        for stage in &mut self.stages {
            let mut total = 0;
            for launch in &mut stage.launches {
                total += launch.set(vars)?;
            }
            stage.shares.deal(total);
        }
        let (stages, pool) = (&self.stages, &self.pool);
        let (local, stride) = (self.local.address(), self.local_stride);
        let done = pool.run(&|thread| {
            let local = (local + stride * thread as u64) as *mut u8;
            for stage in stages {
                stage.run(thread, local);
                wait_until(|| stage.shares.are_done() || pool.has_failed());
            }
        });
        if done { Ok(()) } else { Err(panicked()) }
    }

    fn profile(&mut self, vars: &[i32]) -> Result<Vec<LaunchTime>, DeviceError> {
        let threads = self.pool.threads();
        let (local, stride) = (self.local.address(), self.local_stride);
        let mut times = Vec::new();
        let begin = Instant::now();
        for (number, stage) in self.stages.iter_mut().enumerate() {
            for launch in &mut stage.launches {
                let total = launch.set(vars)?;
                let mut shares = Shares::new(threads);
                shares.deal(total);
                let launch = &*launch;
                let start = begin.elapsed();
                let done = self.pool.run(&|thread| {
                    let local = (local + stride * thread as u64) as *mut u8;
                    shares.run(thread, |programs| programs.for_each(|program| launch.program(program, local)));
                });
                if !done {
                    return Err(panicked());
                }
                let (kernel, programs, end) = (launch.kernel.name.clone(), total as u64, begin.elapsed());
                times.push(LaunchTime { kernel, stage: number, programs, start, end });
            }
        }
        Ok(times)
    }
}

fn panicked() -> DeviceError {
    DeviceError::Failed { device: "cpu".into(), reason: "a kernel's thread panicked".into() }
}
