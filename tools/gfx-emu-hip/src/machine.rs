//! The emulator, with HIP's statuses.

use crate::launch::Launch;
use crate::options::Options;
use crate::state::say;
use crate::status::Status;
use gfx_emu::{Dispatch, Error, Gpu, Kernel, Kind, Module};
use hrx_compiler::target::amd::Chip;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The emulated GPU.
pub struct Machine {
    gpu: Gpu,
    /// Bytes that may be allocated, and that are.
    most: Option<u64>,
    allocated: AtomicU64,
}

/// A code object in its memory. Taken back when nothing launches from it any more.
pub struct Loaded {
    machine: Arc<Machine>,
    module: Module,
}

/// What was wrong with a launch.
pub struct Fault {
    /// In words.
    pub text: String,
    /// As HIP tells it.
    pub status: Status,
}

impl Machine {
    /// Starts the emulator.
    ///
    /// # Errors
    /// What it says if it can't be.
    pub fn new(chip: &'static Chip, options: &Options) -> Result<Machine, String> {
        let default = gfx_emu::Options::default();
        let most = options.memory;
        let options = gfx_emu::Options {
            threads: options.threads.unwrap_or(default.threads).max(1),
            seed: options.seed.unwrap_or(default.seed),
            shuffle: options.seed.is_some(),
            check: !options.unchecked,
            ..default
        };
        let machine = |gpu| Machine { gpu, most, allocated: AtomicU64::new(0) };
        Gpu::new(chip, options).map(machine).map_err(|e| e.to_string())
    }

    /// Its chip.
    pub fn chip(&self) -> &'static Chip {
        self.gpu.chip()
    }

    /// New memory.
    pub fn allocate(&self, bytes: usize) -> Result<u64, Status> {
        let after = self.allocated.load(Relaxed).saturating_add(bytes as u64);
        if self.most.is_some_and(|most| after > most) {
            return Err(Status::OUT_OF_MEMORY);
        }
        let address = self.gpu.alloc(bytes as u64).map_err(|e| told(&e, Status::OUT_OF_MEMORY))?;
        self.allocated.fetch_add(self.bytes_of(address), Relaxed);
        Ok(address)
    }

    /// Bytes of the allocation at an address.
    fn bytes_of(&self, address: u64) -> u64 {
        self.gpu.allocation(address).map_or(0, |(_, bytes)| bytes)
    }

    /// Bytes that are allocated.
    pub fn allocated(&self) -> u64 {
        self.allocated.load(Relaxed)
    }

    /// Frees memory.
    pub fn free(&self, address: u64) -> Result<(), Status> {
        let bytes = self.bytes_of(address);
        self.gpu.free(address).map_err(|e| told(&e, Status::INVALID_DEVICE_POINTER))?;
        self.allocated.fetch_sub(bytes, Relaxed);
        Ok(())
    }

    /// Whether an address is that of its memory.
    pub fn owns(&self, address: u64) -> bool {
        self.gpu.allocation(address).is_some()
    }

    /// Copies, between device and host as the addresses are.
    pub fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), Status> {
        let done = match (self.owns(to), self.owns(from)) {
            (true, true) => self.gpu.copy(to, from, bytes as u64),
            // SAFETY: the program says that there are so many bytes of its own.
            (true, false) => self.gpu.write(to, unsafe { std::slice::from_raw_parts(from as *const u8, bytes) }),
            // SAFETY: as above; nothing else uses them during the call.
            (false, true) => self.gpu.read(from, unsafe { std::slice::from_raw_parts_mut(to as *mut u8, bytes) }),
            (false, false) => {
                // SAFETY: as above. They may overlap.
                unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
                Ok(())
            }
        };
        done.map_err(|e| told(&e, Status::INVALID_DEVICE_POINTER))
    }

    /// Fills memory with so many of a pattern.
    pub fn fill(&self, to: u64, pattern: &[u8], count: usize) -> Result<(), Status> {
        let bytes = (pattern.len() * count) as u64;
        self.gpu.fill(to, bytes, pattern).map_err(|e| told(&e, Status::INVALID_DEVICE_POINTER))
    }

    /// Loads a code object.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(self: &Arc<Self>, bytes: &[u8]) -> Result<Loaded, String> {
        let module = self.gpu.load(bytes).map_err(|e| e.to_string())?;
        Ok(Loaded { machine: Arc::clone(self), module })
    }

    /// Runs a kernel to its end; what the sanitizer found.
    ///
    /// # Errors
    /// Why it can't be run, or not to its end.
    pub fn launch(&self, launch: &Launch) -> Result<Vec<Fault>, String> {
        let kernel = &launch.function.kernel;
        let dispatch = Dispatch { grid: launch.grid, block: launch.block, dynamic_lds: launch.lds };
        let mut arguments = vec![0; kernel.kernarg_size().max(launch.arguments.len())];
        arguments[..launch.arguments.len()].copy_from_slice(&launch.arguments);
        self.gpu.fill_hidden_args(kernel, &dispatch, &mut arguments);
        let run = self.gpu.launch(kernel, dispatch, &arguments).map_err(|e| e.to_string())?;
        let status = |kind| match kind {
            Kind::OutOfBounds | Kind::UseAfterFree => Status::ILLEGAL_ADDRESS,
            _ => Status::LAUNCH_FAILURE,
        };
        Ok(run.reports.iter().map(|r| Fault { text: r.to_string(), status: status(r.kind) }).collect())
    }
}

impl Loaded {
    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<Kernel> {
        self.module.kernel(name)
    }

    /// Address and bytes of the variable of that name.
    pub fn variable(&self, name: &str) -> Option<(u64, u64)> {
        self.module.global(name)
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // It was loaded, so it can be taken back once.
        let _ = self.machine.gpu.unload(&self.module);
    }
}

/// Tells what was wrong with a call; HIP has only a number for it.
fn told(e: &Error, status: Status) -> Status {
    say(&e.to_string());
    status
}
