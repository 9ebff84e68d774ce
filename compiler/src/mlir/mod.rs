//! A kernel as MLIR, and a second lowering of it to LLVM, through MLIR's own passes.
//!
//! A tile `f32[4, 8]` is a `vector<4x8xf32>` (a scalar where it has no axes), a view is a strided `memref`, and the
//! operations are those of the dialects `func`, `scf`, `arith`, `math`, `vector` and `memref`: most operations of tile
//! IR are one of theirs. The function takes the kernel's parameters in order, the three program ids, then the local
//! views.
//!
//! [`PIPELINE`] takes that to the `llvm` dialect, MLIR translates it to LLVM IR, and `abi` puts the entry point around
//! it that all host code has. The rest (LLVM's passes and back end, the loader) is the same as for
//! [`codegen`](crate::codegen), which shares no code with this lowering, so that one checks the other. Results are the
//! same bits.
//!
//! This is for people who live in MLIR, and for tests; it is not tuned, and the cache and the runtime know nothing of
//! it.

mod abi;
mod convert;
mod elementwise;
mod lookup;
mod lower;
mod memory;
mod ops;
mod product;
mod shape;

use crate::emit::{self, Emit};
use crate::{CompileError, Target};
use hrx_ir::tile::Kernel;
use melior::Context;
use melior::dialect::DialectRegistry;
use melior::ir::operation::OperationLike;
use melior::ir::{Location, Module};
use melior::pass::PassManager;
use melior::utility::{
    parse_pass_pipeline, register_all_dialects, register_all_llvm_translations, register_all_passes,
};
use std::cell::RefCell;
use std::rc::Rc;

/// MLIR's passes from the text form to the `llvm` dialect, in the words of `mlir-opt --pass-pipeline`.
pub const PIPELINE: &str = "builtin.module(convert-scf-to-cf,convert-vector-to-llvm,finalize-memref-to-llvm,\
    convert-math-to-llvm,convert-arith-to-llvm,convert-ub-to-llvm,convert-cf-to-llvm,convert-func-to-llvm,\
    reconcile-unrealized-casts)";

/// The dialects that kernels are written in.
const DIALECTS: [&str; 7] = ["func", "scf", "arith", "math", "vector", "memref", "ub"];

/// Why a kernel was not lowered, in words.
struct Stop(String);

impl From<melior::Error> for Stop {
    fn from(e: melior::Error) -> Stop {
        Stop(e.to_string())
    }
}

type Result<T> = std::result::Result<T, Stop>;

/// Brings a kernel to one of its forms through MLIR: its text ([`Emit::Mlir`]), which MLIR's verifier has accepted, or
/// what LLVM makes of it. The object's function is called as [`crate::compile`]'s.
///
/// # Errors
/// If the kernel breaks a rule of tile IR, the target is not the host, or MLIR or LLVM refuses it.
pub fn emit(kernel: &Kernel, target: &Target, form: Emit) -> std::result::Result<Vec<u8>, CompileError> {
    match form {
        Emit::Tile | Emit::Lane | Emit::Mlir | Emit::Hsaco => return emit::emit(kernel, target, form),
        Emit::Llvm | Emit::Asm | Emit::Obj => {}
    }
    if !matches!(target, Target::Host(_)) {
        let reason = "the lowering through MLIR is for the host only".into();
        return Err(CompileError::Target { target: target.name(), reason });
    }
    let lowered = emit::lower(kernel)?;
    let refused = |reason| CompileError::Mlir { kernel: kernel.name.clone(), reason };
    emit::with_machine(target, |llvm, machine| {
        let module = with_context(|cx| {
            let mut module = module(cx, &lowered)?;
            let passes = PassManager::new(cx);
            parse_pass_pipeline(passes.as_operation_pass_manager(), PIPELINE)?;
            passes.run(&mut module)?;
            abi::translate(llvm, &module, &lowered)
        });
        emit::run(&module.map_err(refused)?, machine, kernel, form)
    })
}

/// The text of a kernel, with the head of its tile IR in comments: what the arguments are, and the grid. Reads of
/// quantised blocks must have been expanded, as [`crate::passes::lower_host`] does.
///
/// # Errors
/// If the kernel breaks a rule of tile IR, has an operation that is not lowered, or MLIR refuses it.
pub fn text(kernel: &Kernel) -> std::result::Result<String, CompileError> {
    hrx_ir::tile::verify(kernel)
        .map_err(|e| CompileError::Kernel { kernel: kernel.name.clone(), reason: e.to_string() })?;
    let module = with_context(|cx| Ok(module(cx, kernel)?.as_operation().to_string()))
        .map_err(|reason| CompileError::Mlir { kernel: kernel.name.clone(), reason })?;
    let tile = kernel.to_string();
    let head = tile.lines().scan(true, |in_head, line| {
        let keep = *in_head || line.starts_with("  local ");
        *in_head &= !line.ends_with('{');
        keep.then_some(line)
    });
    let comments: String = head.map(|line| format!("// {}\n", line.trim_end_matches(" {"))).collect();
    Ok(comments + &module)
}

/// Lets MLIR parse and verify a text.
///
/// # Errors
/// MLIR's first message, in one line.
pub fn verify(text: &str) -> std::result::Result<(), String> {
    // The parser verifies what it has read.
    with_context(|cx| Module::parse(cx, text).map(|_| ()).ok_or_else(|| Stop("it does not parse".into())))
}

/// The verified module of a lowered kernel.
fn module<'c>(cx: &'c Context, lowered: &Kernel) -> Result<Module<'c>> {
    let module = Module::new(Location::unknown(cx));
    lower::function(cx, &module, lowered)?;
    if module.as_operation().verify() { Ok(module) } else { Err(Stop("its verifier refuses the module".into())) }
}

thread_local! {
    /// One context a thread: making it takes longer than a kernel.
    static CONTEXT: Context = context();
}

fn context() -> Context {
    register_all_passes();
    let registry = DialectRegistry::new();
    register_all_dialects(&registry);
    let cx = Context::new_with_threading(false);
    cx.append_dialect_registry(&registry);
    register_all_llvm_translations(&cx);
    for dialect in DIALECTS {
        cx.get_or_load_dialect(dialect);
    }
    cx
}

/// Runs `f` with this thread's context. Its error is MLIR's own first message, if there was one.
fn with_context<T>(f: impl FnOnce(&Context) -> Result<T>) -> std::result::Result<T, String> {
    CONTEXT.with(|cx| {
        let messages = Rc::new(RefCell::new(Vec::new()));
        let heard = Rc::clone(&messages);
        let handler = cx.attach_diagnostic_handler(move |diagnostic| {
            heard.borrow_mut().push(diagnostic.to_string());
            true
        });
        let result = f(cx);
        cx.detach_diagnostic_handler(handler);
        result.map_err(|Stop(reason)| {
            let first = messages.borrow().first().cloned().unwrap_or(reason);
            // A message may quote a whole operation.
            first.split_whitespace().collect::<Vec<_>>().join(" ")
        })
    })
}
