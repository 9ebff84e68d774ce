//! Objects from LLVM IR, and LLVM's own tools to compare with.

use inkwell::OptimizationLevel;
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetTriple};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

/// Chips of each generation, and a generic one, for which code objects are of version 6.
pub const CHIPS: [&str; 7] = ["gfx906", "gfx942", "gfx1030", "gfx1100", "gfx1151", "gfx1201", "gfx11-generic"];

pub const ONE: &str = include_str!("ir/one.ll");
pub const SEVERAL: &str = include_str!("ir/several.ll");
pub const TABLE: &str = include_str!("ir/table.ll");
pub const CALL: &str = include_str!("ir/call.ll");
pub const VISIBLE: &str = include_str!("ir/visible.ll");
pub const MODES: &str = include_str!("ir/modes.ll");

/// Each module with its name and its kernels.
pub const MODULES: [(&str, &str, &[&str]); 6] = [
    ("one", ONE, &["scale"]),
    ("several", SEVERAL, &["first", "with_lds", "with_scratch", "nothing"]),
    ("table", TABLE, &["lookup", "indirect"]),
    ("call", CALL, &["calls", "calls_through_table"]),
    ("visible", VISIBLE, &["visible"]),
    ("modes", MODES, &["flushes", "wide", "many_registers", "preloads"]),
];

/// Every module for every chip.
pub fn each(mut check: impl FnMut(&str, &[&str], &[u8])) {
    for chip in CHIPS {
        for (name, ir, kernels) in MODULES {
            check(&format!("{name} for {chip}"), kernels, &object(ir, chip));
        }
    }
}

/// The code object version that a chip's objects have.
pub fn version(chip: &str) -> u32 {
    if chip.ends_with("-generic") { 6 } else { 5 }
}

/// A relocatable object.
pub fn object(ir: &str, chip: &str) -> Vec<u8> {
    object_with(ir, chip, "", version(chip))
}

/// A relocatable object for a chip with features switched on or off, of another code object version.
pub fn object_with(ir: &str, chip: &str, features: &str, version: u32) -> Vec<u8> {
    static AMDGPU: Once = Once::new();
    AMDGPU.call_once(|| Target::initialize_amd_gpu(&InitializationConfig::default()));
    let triple = TargetTriple::create("amdgcn-amd-amdhsa");
    let machine = Target::from_triple(&triple)
        .expect("LLVM has the target")
        .create_target_machine(&triple, chip, features, OptimizationLevel::Less, RelocMode::PIC, CodeModel::Small)
        .expect("a target machine");
    let flags = format!(
        "\n!llvm.module.flags = !{{!0}}\n!0 = !{{i32 1, !\"amdhsa_code_object_version\", i32 {}}}\n",
        100 * version
    );
    let context = Context::create();
    let text = MemoryBuffer::create_from_memory_range_copy((ir.to_owned() + &flags + "\0").as_bytes(), "ir");
    let module = context.create_module_from_ir(text).unwrap_or_else(|e| panic!("{e}\n{ir}"));
    module.set_triple(&triple);
    module.set_data_layout(&machine.get_target_data().get_data_layout());
    let object = machine.write_to_memory_buffer(&module, FileType::Object).expect("an object");
    object.as_slice().to_vec()
}

/// One of LLVM's programs.
pub fn tool(name: &str) -> PathBuf {
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX").map_or_else(|| "/usr/lib/llvm-22".into(), PathBuf::from);
    let path = prefix.join("bin").join(name);
    assert!(path.exists(), "{} is missing: cargo xtask setup installs it", path.display());
    path
}

/// What one of LLVM's programs prints about a file. It must succeed and complain of nothing.
pub fn report(name: &str, arguments: &[&str], file: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, file).expect("the file");
    run(Command::new(tool(name)).args(arguments).arg(&path))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let [text, complaints] = [&output.stdout, &output.stderr].map(|s| String::from_utf8_lossy(s).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{complaints}", output.status);
    assert_eq!(complaints, "", "{command:?}");
    text
}

/// A file without its symbol table, but for that of the dynamic section.
pub fn stripped(file: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, file).expect("the file");
    run(Command::new(tool("llvm-strip")).arg("--strip-all").arg(&path));
    std::fs::read(path).expect("what is left")
}

/// What `ld.lld -shared` makes of an object.
pub fn lld(object: &[u8], arguments: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("in.o"), object).expect("the object");
    let files = ["in.o".as_ref(), "-o".as_ref(), "out.hsaco".as_ref()] as [&Path; 3];
    run(Command::new(tool("ld.lld")).arg("-shared").args(arguments).args(files).current_dir(folder.path()));
    std::fs::read(path("out.hsaco")).expect("what it linked")
}
