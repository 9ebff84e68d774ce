//! Runs LLVM: a kernel in, an object or a readable form out.

use crate::amdgpu::Amd;
use crate::hsaco::Hsaco;
use crate::nvptx::Nvptx;
use crate::ptx::DYNAMIC;
use crate::target::Chip;
use crate::target::nvidia::DECLARED_SHARED;
use crate::{CompileError, Target, codegen, generators, host_lane, lanes, link, memory, passes, simt};
use hrx_ir::tile::Kernel;
use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{CodeModel, FileType, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple};
use std::cell::RefCell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;

/// The mid-level pipeline. Code generation leaves nothing to fold, unroll or vectorise.
const PASSES: &str = "function(early-cse<memssa>,loop-mssa(licm),simplifycfg)";

/// A form of a kernel on its way to machine code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emit {
    /// Tile IR as the template made it.
    Tile,
    /// Tile IR after all passes, with the registers that each value takes.
    Lane,
    /// MLIR, after all passes on tile IR and before any of MLIR's. Needs the feature `mlir`.
    Mlir,
    /// LLVM IR after the mid-level passes.
    Llvm,
    /// Assembly.
    Asm,
    /// A relocatable object.
    Obj,
    /// A linked code object for AMD's driver.
    Hsaco,
}

impl Emit {
    /// Each form with its name on command lines.
    pub const ALL: [(&'static str, Emit); 7] = [
        ("tile", Emit::Tile),
        ("lane", Emit::Lane),
        ("mlir", Emit::Mlir),
        ("llvm", Emit::Llvm),
        ("asm", Emit::Asm),
        ("obj", Emit::Obj),
        ("hsaco", Emit::Hsaco),
    ];

    /// Whether the form is bytes rather than text.
    pub fn is_binary(self) -> bool {
        matches!(self, Emit::Obj | Emit::Hsaco)
    }

    /// The form of that name.
    pub fn from_name(name: &str) -> Option<Emit> {
        Emit::ALL.iter().find(|(n, _)| *n == name).map(|&(_, e)| e)
    }
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// A relocatable object for [`crate::LoadedKernel::load`], for an AMD GPU a linked HSACO, for an NVIDIA GPU PTX as
    /// drivers take it: text with a 0 behind.
    pub object: Vec<u8>,
    /// Processor time of its compilation, which other work on the machine does not lengthen.
    pub time: Duration,
}

/// Compiles a kernel.
///
/// # Errors
/// If the kernel breaks a rule of tile IR, asks for more than the target has, or LLVM refuses it.
pub fn compile(kernel: &Kernel, target: &Target) -> Result<Compiled, CompileError> {
    let start = thread_time();
    let form = match target {
        Target::Host(_) => Emit::Obj,
        Target::Amd(_) => Emit::Hsaco,
        Target::Nvidia(_) => Emit::Asm,
    };
    let mut object = emit(kernel, target, form)?;
    // Drivers take text that ends in 0.
    if let Target::Nvidia(_) = target {
        object.push(0);
    }
    if let Target::Amd(chip) = target {
        fits(kernel, &object, chip)?;
    }
    Ok(Compiled { object, time: thread_time().saturating_sub(start) })
}

/// Checks that a code object has its values in registers: what would go to scratch memory is the template's fault, and
/// slow.
fn fits(kernel: &Kernel, object: &[u8], chip: &Chip) -> Result<(), CompileError> {
    let hsaco = Hsaco::read(object)?;
    let scratch = hsaco.kernels.iter().map(|k| k.descriptor.private_segment_fixed_size).max().unwrap_or(0);
    if scratch > 0 {
        let reason = format!("it needs more registers than a lane of {} has ({scratch} bytes beyond)", chip.name);
        return Err(CompileError::Kernel { kernel: kernel.name.clone(), reason });
    }
    Ok(())
}

/// Processor time that this thread has used.
fn thread_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the struct it is given and nothing else.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
    // Linux has this clock for every thread.
    debug_assert_eq!(rc, 0, "no clock of the thread");
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Compiles kernels on as many threads as there are processors, results in the order of the kernels.
pub fn compile_all(kernels: &[&Kernel], target: &Target) -> Vec<Result<Compiled, CompileError>> {
    // Where all are in the cache there is no memory to give back either.
    if kernels.is_empty() {
        return Vec::new();
    }
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(kernels.len());
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<Result<Compiled, CompileError>>> = kernels.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(kernel) = kernels.get(at) else { break };
            // Each index is handed out once, so the cell is empty.
            let _ = results[at].set(compile(kernel, target));
        }
    };
    std::thread::scope(|s| {
        (1..threads).for_each(|_| {
            s.spawn(work);
        });
        work();
    });
    memory::give_back();
    let unfilled = |k: &Kernel| CompileError::Llvm { kernel: k.name.clone(), reason: "was not compiled".into() };
    results.into_iter().zip(kernels).map(|(r, k)| r.into_inner().unwrap_or_else(|| Err(unfilled(k)))).collect()
}

thread_local! {
    /// One context and target machine a thread: making them takes longer than a small kernel.
    static MACHINE: RefCell<Option<(Target, Context, TargetMachine)>> = const { RefCell::new(None) };
}

/// Brings a kernel to one of its forms.
///
/// # Errors
/// If the kernel breaks a rule of tile IR or LLVM refuses it.
pub fn emit(kernel: &Kernel, target: &Target, form: Emit) -> Result<Vec<u8>, CompileError> {
    hrx_ir::tile::verify(kernel)
        .map_err(|e| CompileError::Kernel { kernel: kernel.name.clone(), reason: e.to_string() })?;
    match (form, target) {
        (Emit::Tile, _) => Ok(kernel.to_string().into_bytes()),
        (Emit::Hsaco, Target::Host(_) | Target::Nvidia(_)) => Err(CompileError::Target {
            target: target.name(),
            reason: "only code for AMD GPUs has the form hsaco".into(),
        }),
        (Emit::Obj, Target::Nvidia(_)) => Err(CompileError::Target {
            target: target.name(),
            reason: "code for NVIDIA GPUs has no form obj: its assembly, PTX, is what the driver takes".into(),
        }),
        (Emit::Mlir, Target::Amd(_) | Target::Nvidia(_)) => Err(CompileError::Target {
            target: target.name(),
            reason: "MLIR is a second way to the host: only its kernels have the form mlir".into(),
        }),
        (_, Target::Host(host)) => {
            let lowered = lowered(passes::lower_host, kernel);
            match form {
                Emit::Lane => Ok(host_lane::print(&lowered).into_bytes()),
                Emit::Mlir => mlir_text(&lowered),
                _ => with_machine(target, |cx, machine| {
                    run(&codegen::module(cx, &lowered, host)?, machine, kernel, form)
                }),
            }
        }
        (_, Target::Amd(chip)) => {
            let lowered = lowered(passes::lower_lanes, kernel);
            let lanes = lanes::build(&lowered, *chip)?;
            if form == Emit::Lane {
                return Ok(lanes.to_string().into_bytes());
            }
            with_machine(target, |cx, machine| {
                let module = simt::module(Amd(chip), cx, &lowered, &lanes)?;
                let bytes = run(&module, machine, kernel, form)?;
                if form == Emit::Hsaco { link(&bytes, &kernel.name) } else { Ok(bytes) }
            })
        }
        (_, Target::Nvidia(chip)) => {
            let lowered = lowered(passes::lower_lanes, kernel);
            let lanes = lanes::build(&lowered, *chip)?;
            if form == Emit::Lane {
                return Ok(lanes.to_string().into_bytes());
            }
            with_machine(target, |cx, machine| {
                let module = simt::module(Nvptx::new(chip, &lowered, &lanes), cx, &lowered, &lanes)?;
                let mut bytes = run(&module, machine, kernel, form)?;
                if form == Emit::Asm && lanes.lds > DECLARED_SHARED.value {
                    bytes.extend(format!("{DYNAMIC} {} {}\n", kernel.name, lanes.lds).into_bytes());
                }
                Ok(bytes)
            })
        }
    }
}

/// A verified kernel after a target's passes.
fn lowered(passes: fn(Kernel) -> Kernel, kernel: &Kernel) -> Kernel {
    let lowered = passes(kernel.clone());
    debug_assert!(hrx_ir::tile::verify(&lowered).is_ok(), "passes keep kernels valid");
    lowered
}

/// Checks a kernel and brings it to what the host's code generation takes.
#[cfg(feature = "mlir")]
pub(crate) fn lower(kernel: &Kernel) -> Result<Kernel, CompileError> {
    hrx_ir::tile::verify(kernel)
        .map_err(|e| CompileError::Kernel { kernel: kernel.name.clone(), reason: e.to_string() })?;
    Ok(lowered(passes::lower_host, kernel))
}

#[cfg(feature = "mlir")]
fn mlir_text(lowered: &Kernel) -> Result<Vec<u8>, CompileError> {
    crate::mlir::text(lowered).map(String::into_bytes)
}

#[cfg(not(feature = "mlir"))]
fn mlir_text(lowered: &Kernel) -> Result<Vec<u8>, CompileError> {
    let reason =
        "left out of this build; `cargo xtask setup-tests` installs what it needs, `--features mlir` builds it";
    Err(CompileError::Mlir { kernel: lowered.name.clone(), reason: reason.into() })
}

/// Gives this thread's context and its machine for a target.
pub(crate) fn with_machine<T>(
    target: &Target,
    f: impl FnOnce(&Context, &TargetMachine) -> Result<T, CompileError>,
) -> Result<T, CompileError> {
    MACHINE.with(|slot| {
        let mut slot = slot.borrow_mut();
        if slot.as_ref().is_none_or(|(t, _, _)| t != target) {
            *slot = Some((target.clone(), Context::create(), machine(target)?));
        }
        let Some((_, cx, machine)) = slot.as_ref() else { unreachable!("just filled") };
        f(cx, machine)
    })
}

/// Runs LLVM's passes on a module and brings it to a form: LLVM IR, assembly, or else an object.
pub(crate) fn run(
    module: &Module<'_>,
    machine: &TargetMachine,
    kernel: &Kernel,
    form: Emit,
) -> Result<Vec<u8>, CompileError> {
    let llvm = |reason: String| CompileError::Llvm { kernel: kernel.name.clone(), reason };
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    if cfg!(debug_assertions) {
        module.verify().map_err(|e| llvm(e.to_string()))?;
    }
    module.run_passes(PASSES, machine, PassBuilderOptions::create()).map_err(|e| llvm(e.to_string()))?;
    let buffer = match form {
        Emit::Llvm => return Ok(module.print_to_string().to_string().into_bytes()),
        Emit::Asm => machine.write_to_memory_buffer(module, FileType::Assembly),
        _ => machine.write_to_memory_buffer(module, FileType::Object),
    };
    let bytes = buffer.map_err(|e| llvm(e.to_string()))?.as_slice().to_vec();
    Ok(if form == Emit::Asm { bytes.into_iter().filter(|&b| b != 0).collect() } else { bytes })
}

/// Options of LLVM's AMDGPU backend, which other targets' code does not depend on. Lanes come with addresses split and
/// accesses as wide as they can be: what the IR passes would do takes longer than the rest and finds nothing. A second
/// scheduling, of allocated registers, takes a tenth of the time and moves little.
const AMDGPU_OPTIONS: &[&CStr] =
    &[c"hrx", c"-amdgpu-load-store-vectorizer=0", c"-amdgpu-scalar-ir-passes=0", c"-enable-post-misched=0"];

/// Sets options of LLVM for the whole process, as on a command line whose first word is the program's name.
fn set_options(options: &[&CStr]) {
    let words: Vec<*const std::ffi::c_char> = options.iter().map(|o| o.as_ptr()).collect();
    // SAFETY: the words are strings that end in zero, as many as is said, and LLVM keeps nothing of them.
    unsafe {
        inkwell::llvm_sys::support::LLVMParseCommandLineOptions(words.len() as i32, words.as_ptr(), std::ptr::null());
    }
}

fn machine(target: &Target) -> Result<TargetMachine, CompileError> {
    static AMDGPU: Once = Once::new();
    generators::register();
    memory::keep();
    let (triple, cpu, features, level) = match target {
        Target::Host(h) => (h.triple(), h.llvm_cpu(), h.llvm_features(), OptimizationLevel::Default),
        Target::Amd(chip) => {
            AMDGPU.call_once(|| set_options(AMDGPU_OPTIONS));
            ("amdgcn-amd-amdhsa", chip.name, String::new(), OptimizationLevel::Less)
        }
        Target::Nvidia(chip) => ("nvptx64-nvidia-cuda", chip.name, String::new(), OptimizationLevel::Less),
    };
    let refused = |reason: String| CompileError::Target { target: target.name(), reason };
    let triple = TargetTriple::create(triple);
    LlvmTarget::from_triple(&triple)
        .map_err(|e| refused(e.to_string()))?
        .create_target_machine(&triple, cpu, &features, level, RelocMode::PIC, CodeModel::Small)
        .ok_or_else(|| refused("LLVM makes no target machine for it".into()))
}
