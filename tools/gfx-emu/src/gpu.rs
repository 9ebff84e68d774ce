//! The GPU: memory, code objects, launches.

use crate::decode::Registers;
use crate::memory::Memory;
use crate::module::{Kernel, Module};
use crate::run::{Entry, Job, Launch};
use crate::{Error, Run, hidden};
use hrx_compiler::hsaco::Generation;
use hrx_compiler::target::amd::Chip;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// How launches are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Threads that workgroups are spread over. Kernels with atomics on memory run on one, so that results do not depend
    /// on it.
    pub threads: usize,
    /// Where the order of waves comes from.
    pub seed: u64,
    /// Whether waves take turns of random length in a random order. If not, each goes on as long as it can.
    pub shuffle: bool,
    /// Whether the sanitizer looks at all that it knows. If not, only accesses outside of memory are reported.
    pub check: bool,
    /// Wave instructions of one workgroup after which a launch is given up.
    pub most_instructions: u64,
}

impl Default for Options {
    fn default() -> Options {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Options { threads, seed: 0, shuffle: false, check: true, most_instructions: 1 << 34 }
    }
}

/// What a launch is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dispatch {
    /// Workgroups along x, y, z.
    pub grid: [u32; 3],
    /// Work items of a workgroup along x, y, z.
    pub block: [u32; 3],
    /// Bytes of LDS beyond what the kernel has.
    pub dynamic_lds: u32,
}

/// An emulated GPU. Its device memory is memory of this process, so that an address is a pointer that host code may use;
/// what the host writes there itself has to be [marked](Gpu::mark_initialised).
#[derive(Debug)]
pub struct Gpu {
    chip: &'static Chip,
    options: Options,
    memory: Memory,
    modules: Mutex<BTreeMap<u64, Module>>,
    launches: AtomicU32,
}

/// Most work items of a workgroup.
const MOST_ITEMS: u64 = 1024;

impl Gpu {
    /// A GPU with a chip of the table.
    ///
    /// # Errors
    /// If this machine's CPU lacks what the emulator is compiled for.
    pub fn new(chip: &'static Chip, options: Options) -> Result<Gpu, Error> {
        if !["avx2", "fma", "f16c", "bmi1", "bmi2", "lzcnt", "popcnt"].iter().all(|f| has(f)) {
            return Err(Error::Host("AVX2, FMA, F16C and BMI"));
        }
        let (memory, modules) = (Memory::default(), Mutex::default());
        Ok(Gpu { chip, options, memory, modules, launches: AtomicU32::new(1) })
    }

    /// Its chip.
    pub fn chip(&self) -> &'static Chip {
        self.chip
    }

    /// How it runs launches.
    pub fn options(&self) -> Options {
        self.options
    }

    /// New memory, aligned to 4096 bytes, which nobody has written.
    ///
    /// # Errors
    /// If the operating system gives none.
    pub fn alloc(&self, bytes: u64) -> Result<u64, Error> {
        self.memory.alloc(bytes).map(|a| a.address())
    }

    /// Frees memory by the address that [`Gpu::alloc`] gave.
    ///
    /// # Errors
    /// If no memory starts there, or it was freed before.
    pub fn free(&self, address: u64) -> Result<(), Error> {
        self.memory.free(address)
    }

    /// The allocation that an address lies in: where it starts, and its bytes.
    pub fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        let (found, _) = self.memory.range("look-up", address, 0).ok()?;
        Some((found.address(), found.len()))
    }

    /// Copies bytes of the host to the device.
    ///
    /// # Errors
    /// If the range is not in one allocation.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let (found, at) = self.memory.range("write", address, bytes.len() as u64)?;
        found.write(at, bytes);
        found.written.mark(at as usize, bytes.len());
        Ok(())
    }

    /// Copies bytes of the device to the host.
    ///
    /// # Errors
    /// If the range is not in one allocation.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), Error> {
        let (found, at) = self.memory.range("read", address, to.len() as u64)?;
        found.read(at, to);
        Ok(())
    }

    /// Fills memory with a pattern, over and over.
    ///
    /// # Errors
    /// If the range is not in one allocation.
    pub fn fill(&self, address: u64, bytes: u64, pattern: &[u8]) -> Result<(), Error> {
        let (found, at) = self.memory.range("fill", address, bytes)?;
        if pattern.is_empty() {
            return Ok(());
        }
        let block = pattern.repeat(4096_usize.div_ceil(pattern.len()));
        let mut done = 0;
        while done < bytes {
            let now = (bytes - done).min(block.len() as u64);
            found.write(at + done, &block[..now as usize]);
            done += now;
        }
        found.written.mark(at as usize, bytes as usize);
        Ok(())
    }

    /// Copies on the device; ranges may overlap. What was never written stays so.
    ///
    /// # Errors
    /// If a range is not in one allocation.
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<(), Error> {
        let (source, start) = self.memory.range("copy from", from, bytes)?;
        let (target, at) = self.memory.range("copy to", to, bytes)?;
        let mut data = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        source.read(start, &mut data);
        target.write(at, &data);
        if source.written.is(start as usize, data.len()) {
            target.written.mark(at as usize, data.len());
            return Ok(());
        }
        let written: Vec<bool> = (0..data.len()).map(|i| source.written.is(start as usize + i, 1)).collect();
        for (i, written) in written.into_iter().enumerate() {
            if written {
                target.written.mark(at as usize + i, 1);
            } else {
                target.written.forget(at as usize + i, 1);
            }
        }
        Ok(())
    }

    /// Says that the host has written bytes through a pointer.
    ///
    /// # Errors
    /// If the range is not in one allocation.
    pub fn mark_initialised(&self, address: u64, bytes: u64) -> Result<(), Error> {
        let (found, at) = self.memory.range("mark", address, bytes)?;
        found.written.mark(at as usize, bytes as usize);
        Ok(())
    }

    /// Says that bytes hold nothing any more that may be read.
    ///
    /// # Errors
    /// If the range is not in one allocation.
    pub fn mark_uninitialised(&self, address: u64, bytes: u64) -> Result<(), Error> {
        let (found, at) = self.memory.range("mark", address, bytes)?;
        found.written.forget(at as usize, bytes as usize);
        Ok(())
    }

    /// Loads a code object.
    ///
    /// # Errors
    /// If it is for another chip, damaged, or has relocations that loaders don't apply.
    pub fn load(&self, hsaco: &[u8]) -> Result<Module, Error> {
        let module = Module::load(&self.memory, self.chip, hsaco)?;
        let mut modules = self.modules.lock().unwrap_or_else(|e| e.into_inner());
        modules.insert(module.address(), module.clone());
        Ok(module)
    }

    /// Takes a code object's memory back; kernels of it can't be launched any more.
    ///
    /// # Errors
    /// If it was unloaded before.
    pub fn unload(&self, module: &Module) -> Result<(), Error> {
        self.modules.lock().unwrap_or_else(|e| e.into_inner()).remove(&module.address());
        self.memory.free(module.address())
    }

    /// Writes the hidden arguments of a kernel for a launch. `kernarg` should have [`Kernel::kernarg_size`] bytes.
    pub fn fill_hidden_args(&self, kernel: &Kernel, dispatch: &Dispatch, kernarg: &mut [u8]) {
        hidden::fill(kernel, dispatch, kernarg);
    }

    /// Runs a kernel to its end. `kernarg` are all its arguments, hidden ones filled.
    ///
    /// # Errors
    /// A launch that hardware does not take, an instruction that is not known, or a kernel that does not end. Faults that
    /// the sanitizer finds are no errors but reports.
    pub fn launch(&self, kernel: &Kernel, dispatch: Dispatch, kernarg: &[u8]) -> Result<Run, Error> {
        let refused = |reason: String| Error::Launch { kernel: kernel.name.clone(), reason };
        let items = dispatch.block.iter().map(|&n| u64::from(n)).product::<u64>();
        let most = kernel.metadata.max_flat_workgroup_size.map_or(MOST_ITEMS, u64::from).min(MOST_ITEMS);
        if items == 0 || items > most {
            return Err(refused(format!("workgroups of {items} work items, where 1 to {most} are possible")));
        }
        if let Some(required) = kernel.metadata.reqd_workgroup_size.filter(|r| *r != dispatch.block) {
            return Err(refused(format!(
                "workgroups of {:?} work items, where {required:?} is required",
                dispatch.block
            )));
        }
        if dispatch.grid.contains(&0) {
            return Err(refused("a grid without workgroups".into()));
        }
        let lds = u64::from(kernel.lds()) + u64::from(dispatch.dynamic_lds);
        if lds > self.chip.lds.into() {
            return Err(refused(format!("{lds} bytes of LDS, where {} has {}", self.chip.name, self.chip.lds)));
        }
        if kernarg.len() < kernel.kernarg_size() {
            let need = kernel.kernarg_size();
            return Err(refused(format!("{} bytes of arguments, where {need} are needed", kernarg.len())));
        }
        if kernel.loaded.image.as_ref().is_none_or(|i| i.is_freed()) {
            return Err(refused("its code object was unloaded".into()));
        }
        let generation = kernel.loaded.generation.ok_or_else(|| refused("an unknown processor".into()))?;
        let code = kernel.code(self.chip)?;
        let first = code.index(kernel.entry.wrapping_sub(code.address));
        let first = first.ok_or_else(|| refused("its entry is no instruction".into()))?;
        if kernel.descriptor.rsrc1 >> 12 & 15 != 0 {
            return Err(refused("it starts with a rounding mode other than to nearest".into()));
        }
        let arguments = self.memory.alloc(kernarg.len().max(64) as u64)?;
        arguments.write(0, kernarg);
        arguments.written.mark(0, arguments.len() as usize);
        let packet = self.packet(kernel, &dispatch, arguments.address())?;
        let scratch = scratch(kernel);
        let (atomic, accumulators) = looks(&code);
        let registers = registers(kernel);
        let beyond = self.options.check && code.insts.iter().any(|i| i.needs.beyond(registers).is_some());
        let job = Job {
            launch: Launch {
                kernel: kernel.name.clone(),
                code,
                bias: kernel.loaded.bias,
                table: self.memory.table(),
                check: self.options.check,
                number: self.launches.fetch_add(1, Relaxed),
                generation,
                registers,
                beyond,
            },
            entry: Entry {
                descriptor: &kernel.descriptor,
                generation,
                wave: kernel.wave,
                block: dispatch.block,
                first,
                dispatch: packet,
                kernarg: arguments.address(),
                arguments: kernarg,
                scratch,
                accumulators,
                architected_scratch: architected(generation, kernel.loaded.processor),
            },
            grid: dispatch.grid,
            lds: lds as usize,
            options: self.options,
            alone: atomic,
        };
        let run = job.run();
        self.memory.release(arguments.address());
        self.memory.release(packet);
        run
    }

    /// The packet that a launch is put into a queue as: kernels may read sizes there (HSA's kernel dispatch packet).
    fn packet(&self, kernel: &Kernel, dispatch: &Dispatch, kernarg: u64) -> Result<u64, Error> {
        let packet = self.memory.alloc(64)?;
        let mut bytes = [0; 64];
        bytes[2..4].copy_from_slice(&3_u16.to_le_bytes());
        for axis in 0..3 {
            bytes[4 + 2 * axis..][..2].copy_from_slice(&(dispatch.block[axis] as u16).to_le_bytes());
            let items = dispatch.grid[axis].wrapping_mul(dispatch.block[axis]);
            bytes[12 + 4 * axis..][..4].copy_from_slice(&items.to_le_bytes());
        }
        bytes[24..28].copy_from_slice(&kernel.descriptor.private_segment_fixed_size.to_le_bytes());
        bytes[28..32].copy_from_slice(&(kernel.lds() + dispatch.dynamic_lds).to_le_bytes());
        bytes[40..48].copy_from_slice(&kernarg.to_le_bytes());
        packet.write(0, &bytes);
        packet.written.mark(0, 64);
        Ok(packet.address())
    }
}

/// Bytes of scratch memory of a lane: more than the kernel says where it calls functions that are not known.
fn scratch(kernel: &Kernel) -> u32 {
    const STACK: u32 = 16384;
    let fixed = kernel.descriptor.private_segment_fixed_size;
    if kernel.descriptor.uses_dynamic_stack() { fixed + STACK } else { fixed }
}

/// Registers that a kernel descriptor asks for.
fn registers(kernel: &Kernel) -> Registers {
    let descriptor = &kernel.descriptor;
    let all = descriptor.vgprs().map_or(u16::MAX, |n| n as u16);
    // One file has both, or each has one of that size.
    let vectors = descriptor.accum_offset().map_or(all, |n| all.min(n as u16));
    let accumulators = descriptor.accum_offset().map_or(all, |n| all.saturating_sub(n as u16));
    Registers { vectors, accumulators }
}

/// Whether waves find scratch memory without registers that say where it is.
fn architected(generation: Generation, processor: &str) -> bool {
    let cdna = ["gfx942", "gfx950", "gfx9-4-generic"].contains(&processor);
    generation >= Generation::Gfx11 || cdna
}

/// Whether code has atomics on memory, and whether it uses accumulators.
fn looks(code: &Arc<crate::decode::Code>) -> (bool, bool) {
    use crate::decode::{Body, Mem};
    use crate::exec::MemOp;
    let atomic = |body: &Body| matches!(body, Body::Mem(m) if matches!(**m, Mem { op: MemOp::Atomic { .. }, .. }));
    let accumulators = code.texts.iter().any(|t| t.contains(" a[") || t.split([' ', ',']).any(is_accumulator));
    (code.insts.iter().any(|i| atomic(&i.body)), accumulators)
}

fn is_accumulator(word: &str) -> bool {
    word.strip_prefix('a').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether the CPU has a feature.
fn has(feature: &str) -> bool {
    match feature {
        "avx2" => is_x86_feature_detected!("avx2"),
        "fma" => is_x86_feature_detected!("fma"),
        "f16c" => is_x86_feature_detected!("f16c"),
        "bmi1" => is_x86_feature_detected!("bmi1"),
        "bmi2" => is_x86_feature_detected!("bmi2"),
        "lzcnt" => is_x86_feature_detected!("lzcnt"),
        _ => is_x86_feature_detected!("popcnt"),
    }
}
