//! LLVM in this process, which gives assembly with its comments, and LLVM's tools as processes, for what may be
//! refused: a failing selection ends the process it is in.

use hrx_compiler::target::amd::Chip;
use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A machine for a chip, with waves of so many lanes or of what LLVM takes.
pub fn machine(chip: &Chip, wave: Option<u32>) -> TargetMachine {
    let features = match wave {
        Some(lanes) if chip.vgprs.len() > 1 => format!("+wavefrontsize{lanes}"),
        _ => String::new(),
    };
    machine_of("amdgcn-amd-amdhsa", chip, &features)
}

/// A machine for a chip and a system.
pub fn machine_of(triple: &str, chip: &Chip, features: &str) -> TargetMachine {
    static INITIALISED: Once = Once::new();
    INITIALISED.call_once(|| Target::initialize_amd_gpu(&InitializationConfig::default()));
    let triple = TargetTriple::create(triple);
    let machine = Target::from_triple(&triple)
        .expect("LLVM was built with the target")
        .create_target_machine(&triple, chip.name, features, OptimizationLevel::Less, RelocMode::PIC, CodeModel::Small)
        .expect("LLVM knows the chip");
    machine.set_asm_verbosity(true);
    machine
}

/// Assembly of a module.
pub fn assembly(module: &Module<'_>, machine: &TargetMachine) -> String {
    module.set_triple(&machine.get_triple());
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    module.verify().expect("the module is valid");
    let buffer = machine.write_to_memory_buffer(module, FileType::Assembly).expect("LLVM compiles it");
    String::from_utf8_lossy(buffer.as_slice()).into_owned()
}

/// Assembly of LLVM IR as text.
pub fn assembly_of(ir: &str, machine: &TargetMachine) -> String {
    let cx = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(format!("{ir}\0").as_bytes(), "test");
    let module = cx.create_module_from_ir(buffer).expect("the IR can be read");
    assembly(&module, machine)
}

/// The numbers that LLVM writes behind a comment's key, one a kernel, in the kernels' order.
pub fn comments(assembly: &str, key: &str) -> Vec<u32> {
    let key = format!("; {key}: ");
    let numbers = assembly.lines().filter_map(|line| line.strip_prefix(&key));
    numbers.map(|n| n.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")).collect()
}

/// A tool of the LLVM that this crate links.
fn tool(name: &str) -> PathBuf {
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX").map_or_else(|| "/usr/lib/llvm-22".into(), PathBuf::from);
    let path = prefix.join("bin").join(name);
    assert!(path.exists(), "{} is needed; set LLVM_SYS_221_PREFIX to where LLVM 22 is", path.display());
    path
}

/// Runs a tool for a chip on a text: what it says, or what it refuses with.
pub fn run(name: &str, chip: &str, args: &[&str], text: &str) -> Result<String, String> {
    let mut child = Command::new(tool(name))
        .args(["-mtriple=amdgcn-amd-amdhsa", &format!("-mcpu={chip}")])
        .args(args)
        // Saves the time of looking up the names in the trace of a failed selection.
        .env("LLVM_DISABLE_SYMBOLIZATION", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool starts");
    let mut stdin = child.stdin.take().expect("stdin is piped");
    // A tool that has already given up doesn't read on; its status says so.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("the tool ends");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(out.into_owned()) } else { Err(err.into_owned()) }
}

/// Compiles LLVM IR for a chip in a process of its own.
pub fn llc(chip: &str, args: &[&str], ir: &str) -> Result<String, String> {
    run("llc", chip, &[&["-O1", "-o", "-"], args].concat(), ir)
}

/// Does something with each item, on all processors.
pub fn in_parallel<T: Sync>(items: &[T], each: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            each(item);
        }
    };
    std::thread::scope(|s| {
        (0..std::thread::available_parallelism().map_or(1, |n| n.get())).for_each(|_| {
            s.spawn(work);
        });
    });
}
