//! With the feature `mlir`: makes the libMLIR-C.so that mlir-sys links.
//!
//! Debian ships MLIR's C API as static archives only (libMLIRCAPI*.a), which need libMLIR.so and libLLVM.so beneath
//! them. Linked here into one shared library, whose name is its path and which knows where libMLIR.so is, they take
//! neither an installation nor an environment variable to run; and MLIR's LLVM is the very library that inkwell uses,
//! so modules can pass from one to the other.

use std::path::{Path, PathBuf};
use std::process::Command;

/// With the feature, makes the library and tells cargo where it is.
pub fn link() -> Result<(), String> {
    if std::env::var_os("CARGO_FEATURE_MLIR").is_none() {
        return Ok(());
    }
    if std::env::var_os("CARGO_FEATURE_STATIC_LLVM").is_some() {
        return Err("features mlir and static-llvm: MLIR brings LLVM as a shared library, and modules pass between \
                    MLIR's and ours, so both must be that one"
            .into());
    }
    let dir = c_api().map_err(|reason| format!("feature mlir: {reason}"))?;
    println!("cargo::rustc-link-search=native={}", dir.display());
    Ok(())
}

/// Links the archives; returns the folder of the result.
fn c_api() -> Result<PathBuf, String> {
    const PREFIX: &str = "MLIR_SYS_220_PREFIX";
    println!("cargo::rerun-if-env-changed={PREFIX}");
    println!("cargo::rerun-if-env-changed=CXX");
    let prefix = std::env::var_os(PREFIX).map_or_else(|| "/usr/lib/llvm-22".into(), PathBuf::from);
    let lib = prefix.join("lib");
    let archives = archives(&lib)?;
    if archives.is_empty() {
        let lib = lib.display();
        return Err(format!("no libMLIRCAPI*.a in {lib}: install libmlir-22-dev, or set {PREFIX}"));
    }
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).ok_or("cargo sets no OUT_DIR")?;
    let library = out.join("libMLIR-C.so");
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let mut link = Command::new(&compiler);
    link.arg("-shared").arg("-o").arg(&library);
    // A path goes to the linker as an argument of its own: `-Wl,` would take it apart at commas.
    for (option, path) in [("-soname", &library), ("-rpath", &lib)] {
        link.args(["-Xlinker", option, "-Xlinker"]).arg(path);
    }
    link.arg("-Wl,-z,defs");
    link.arg("-Wl,--whole-archive").args(&archives).arg("-Wl,--no-whole-archive");
    link.arg("-L").arg(&lib).args(["-lMLIR", "-lLLVM"]);
    let status = link.status().map_err(|e| format!("{} can't be run: {e}", compiler.display()))?;
    if status.success() { Ok(out) } else { Err(format!("{} can't link {}", compiler.display(), library.display())) }
}

/// MLIR's C API archives in a folder, in the order of their names.
fn archives(lib: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(lib).map_err(|e| format!("can't read {}: {e}", lib.display()))?;
    let is_c_api = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str());
        name.is_some_and(|n| n.starts_with("libMLIRCAPI") && n.ends_with(".a"))
    };
    let mut archives: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).filter(is_c_api).collect();
    archives.sort();
    Ok(archives)
}
