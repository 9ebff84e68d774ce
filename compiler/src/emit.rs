//! Runs LLVM: a kernel in, an object or a readable form out.

use crate::codegen;
use crate::passes;
use crate::{CompileError, Target, lane};
use hrx_ir::tile::Kernel;
use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::module::Module;
use inkwell::passes::PassBuilderOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as LlvmTarget, TargetMachine, TargetTriple,
};
use std::cell::RefCell;
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
}

impl Emit {
    /// Each form with its name on command lines.
    pub const ALL: [(&'static str, Emit); 6] = [
        ("tile", Emit::Tile),
        ("lane", Emit::Lane),
        ("mlir", Emit::Mlir),
        ("llvm", Emit::Llvm),
        ("asm", Emit::Asm),
        ("obj", Emit::Obj),
    ];

    /// The form of that name.
    pub fn from_name(name: &str) -> Option<Emit> {
        Emit::ALL.iter().find(|(n, _)| *n == name).map(|&(_, e)| e)
    }
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// A relocatable object for [`crate::LoadedKernel::load`].
    pub object: Vec<u8>,
    /// Processor time of its compilation, which other work on the machine does not lengthen.
    pub time: Duration,
}

/// Compiles a kernel.
///
/// # Errors
/// If the kernel breaks a rule of tile IR or LLVM refuses it.
pub fn compile(kernel: &Kernel, target: &Target) -> Result<Compiled, CompileError> {
    let start = thread_time();
    let object = emit(kernel, target, Emit::Obj)?;
    Ok(Compiled { object, time: thread_time().saturating_sub(start) })
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
    let lowered = lower(kernel)?;
    match form {
        Emit::Tile => return Ok(kernel.to_string().into_bytes()),
        Emit::Lane => return Ok(lane::print(&lowered).into_bytes()),
        Emit::Mlir => return mlir_text(&lowered),
        Emit::Llvm | Emit::Asm | Emit::Obj => {}
    }
    with_machine(target, |cx, machine| {
        let module = match target {
            Target::Host(host) => codegen::module(cx, &lowered, host)?,
            Target::Amd(_) => {
                return Err(CompileError::Target {
                    target: target.name(),
                    reason: "no code is generated for it".into(),
                });
            }
        };
        run(&module, machine, kernel, form)
    })
}

/// Checks a kernel and brings it to what code generation takes.
pub(crate) fn lower(kernel: &Kernel) -> Result<Kernel, CompileError> {
    hrx_ir::tile::verify(kernel)
        .map_err(|e| CompileError::Kernel { kernel: kernel.name.clone(), reason: e.to_string() })?;
    let lowered = passes::lower(kernel.clone());
    debug_assert!(hrx_ir::tile::verify(&lowered).is_ok(), "passes keep kernels valid");
    Ok(lowered)
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

/// The parts of LLVM's targets that emitting code takes.
const PARTS: InitializationConfig = InitializationConfig {
    asm_parser: false,
    asm_printer: true,
    base: true,
    disassembler: false,
    info: true,
    machine_code: true,
};

fn machine(target: &Target) -> Result<TargetMachine, CompileError> {
    static X86: Once = Once::new();
    static AMDGPU: Once = Once::new();
    let (triple, cpu, features, level) = match target {
        Target::Host(h) => {
            X86.call_once(|| LlvmTarget::initialize_x86(&PARTS));
            (h.triple(), h.llvm_cpu(), h.llvm_features(), OptimizationLevel::Default)
        }
        Target::Amd(chip) => {
            AMDGPU.call_once(|| LlvmTarget::initialize_amd_gpu(&PARTS));
            ("amdgcn-amd-amdhsa", chip.name, String::new(), OptimizationLevel::Less)
        }
    };
    let refused = |reason: String| CompileError::Target { target: target.name(), reason };
    let triple = TargetTriple::create(triple);
    LlvmTarget::from_triple(&triple)
        .map_err(|e| refused(e.to_string()))?
        .create_target_machine(&triple, cpu, &features, level, RelocMode::PIC, CodeModel::Small)
        .ok_or_else(|| refused("LLVM makes no target machine for it".into()))
}
