//! What the build and the tests need from the system, and its installation on Debian.
//!
//! LLVM is linked as a shared library, so of LLVM's own dependencies (zlib, zstd, libxml2, z3,
//! Polly) only the run-time packages matter, and those come with `libllvm22`. The programs of `dist` are
//! linked statically and want the `-dev` packages of two of them. A C compiler was needed to build this program and is therefore there.
//!
//! MLIR is for the tests only (and for who builds with the feature `mlir`). A library that its Rust
//! bindings are generated with links LLVM statically, so there some `-dev` packages are needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{command, output, run as run_command, succeeds};

/// Something that is needed: the Debian package that has it, what it is, and how to see it.
struct Need {
    package: &'static str,
    what: &'static str,
    present: fn() -> bool,
}

const NEEDS: &[Need] = &[
    Need { package: "llvm-22-dev", what: "LLVM 22 with its headers and shared library", present: has_llvm },
    Need {
        package: "llvm-22",
        what: "llvm-readobj, llvm-nm and llvm-objdump, to which tests hold what we link",
        present: || has_llvm_programs(&["llvm-readobj", "llvm-readelf", "llvm-nm", "llvm-objdump"]),
    },
    Need { package: "lld-22", what: "the linker to which tests hold ours", present: || has_llvm_programs(&["ld.lld"]) },
    Need {
        package: "g++",
        what: "a C++ compiler and its library, which LLVM wants linked",
        present: || succeeds(command("c++").arg("--version")),
    },
    Need {
        package: "python3-pip",
        what: "pip, to download the test models",
        present: || succeeds(command("python3").args(["-m", "pip", "--version"])),
    },
];

/// What the tests need too: a compiler of HIP, and MLIR for the feature of that name.
const TEST_NEEDS: &[Need] = &[
    Need {
        package: "clang-22",
        what: "clang, which compiles the HIP programs that tests run on the emulator",
        present: || succeeds(command("clang++-22").arg("--version")),
    },
    Need { package: "libmlir-22-dev", what: "MLIR of LLVM 22 with its C API", present: has_mlir },
    Need {
        package: "mlir-22-tools",
        what: "mlir-opt, to check texts with",
        present: || succeeds(command(mlir_prefix().join("bin/mlir-opt")).arg("--version")),
    },
    Need {
        package: "libclang-22-dev",
        what: "libclang, which makes MLIR's Rust bindings",
        present: || mlir_prefix().join("lib/libclang.so").exists(),
    },
    // `llvm-config` names it among LLVM's static libraries, whoever has it.
    Need {
        package: "libpolly-22-dev",
        what: "Polly's static libraries, to link LLVM's TableGen with",
        present: || llvm_prefix().join("lib/libPolly.a").exists(),
    },
    Need { package: "zlib1g-dev", what: "zlib, to link LLVM's TableGen with", present: || links("-lz") },
    Need { package: "libzstd-dev", what: "zstd, to link LLVM's TableGen with", present: || links("-lzstd") },
];

/// What `dist` needs too: static libraries, and the packer.
const DIST_NEEDS: &[Need] = &[
    Need {
        package: "llvm-22-dev",
        what: "LLVM 22's static libraries",
        present: || llvm_prefix().join("lib/libLLVMCore.a").exists(),
    },
    Need { package: "zlib1g-dev", what: "zlib's static library", present: || links("-l:libz.a") },
    Need { package: "libzstd-dev", what: "zstd's static library", present: || links("-l:libzstd.a") },
    Need { package: "zstd", what: "zstd, to pack with", present: || succeeds(command("zstd").arg("--version")) },
];

/// Installs what the build needs and the system lacks.
///
/// # Errors
/// Not Debian, no rights to install, or the installation fails. The message says what to install.
pub fn run() -> Result<(), String> {
    install(&NEEDS.iter().collect::<Vec<_>>())
}

/// As [`run`], with what only the tests need.
///
/// # Errors
/// As for [`run`].
pub fn for_tests() -> Result<(), String> {
    install(&NEEDS.iter().chain(TEST_NEEDS).collect::<Vec<_>>())
}

/// As [`run`], with what only `dist` needs.
///
/// # Errors
/// As for [`run`].
pub fn for_dist() -> Result<(), String> {
    install(&NEEDS.iter().chain(DIST_NEEDS).collect::<Vec<_>>())
}

fn install(all: &[&Need]) -> Result<(), String> {
    let missing = || all.iter().copied().filter(|need| !(need.present)()).collect::<Vec<_>>();
    let needs = missing();
    if needs.is_empty() {
        println!("setup: everything is there");
        return Ok(());
    }
    let wanted = list(&needs);
    if !succeeds(command("apt-get").arg("--version")) {
        return Err(format!(
            "this system has no apt-get; install by its own means: {wanted}. LLVM is looked for in \
             {} (set LLVM_SYS_221_PREFIX for another place)",
            llvm_prefix().display()
        ));
    }
    println!("setup: missing: {wanted}");
    let refused = |error| format!("{error}; install as root: {wanted}");
    run_command(apt_get(&wanted)?.arg("update")).map_err(refused)?;
    let packages = needs.iter().map(|need| need.package);
    run_command(apt_get(&wanted)?.args(["install", "-y", "--no-install-recommends"]).args(packages))
        .map_err(refused)?;
    match missing().as_slice() {
        [] => Ok(()),
        needs => Err(format!("installed, but still not found: {}", list(needs))),
    }
}

fn list(needs: &[&Need]) -> String {
    let one = |need: &&Need| format!("{} ({})", need.what, need.package);
    needs.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// apt-get that asks nothing, through sudo unless we are root.
fn apt_get(wanted: &str) -> Result<Command, String> {
    const ENVIRONMENT: [&str; 2] = ["env", "DEBIAN_FRONTEND=noninteractive"];
    let is_root = output(command("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    let mut line = if is_root {
        command(ENVIRONMENT[0])
    } else if succeeds(command("sudo").arg("-V")) {
        let mut sudo = command("sudo");
        if std::env::var_os("CI").is_some() {
            sudo.arg("-n");
        }
        sudo.arg(ENVIRONMENT[0]);
        sudo
    } else {
        return Err(format!("neither root nor sudo here; let root install: {wanted}"));
    };
    line.args([ENVIRONMENT[1], "apt-get"]);
    Ok(line)
}

/// Where llvm-sys looks for LLVM: `.cargo/config.toml` sets it unless the user has.
fn llvm_prefix() -> PathBuf {
    std::env::var_os("LLVM_SYS_221_PREFIX").map_or_else(|| "/usr/lib/llvm-22".into(), PathBuf::from)
}

fn has_llvm_programs(names: &[&str]) -> bool {
    names.iter().all(|name| succeeds(command(llvm_prefix().join("bin").join(name)).arg("--version")))
}

/// Where mlir-sys looks for MLIR, set as for [`llvm_prefix`].
fn mlir_prefix() -> PathBuf {
    std::env::var_os("MLIR_SYS_220_PREFIX").map_or_else(|| "/usr/lib/llvm-22".into(), PathBuf::from)
}

fn has_mlir() -> bool {
    let parts = ["include/mlir-c/IR.h", "lib/libMLIR.so", "lib/libMLIRCAPIIR.a"];
    parts.iter().all(|part| mlir_prefix().join(part).exists())
}

/// Whether the linker finds a library.
fn links(library: &str) -> bool {
    let empty = ["-shared", "-o", "/dev/null", "-x", "c++", "/dev/null"];
    succeeds(command("c++").args(empty).arg(library))
}

fn has_llvm() -> bool {
    let prefix = llvm_prefix();
    let config = |argument: &str| output(command(prefix.join("bin/llvm-config")).arg(argument));
    let path_exists =
        |dir: Option<String>, file: &str| dir.is_some_and(|dir| Path::new(dir.trim()).join(file).exists());
    config("--version").is_some_and(|version| version.starts_with("22."))
        && path_exists(config("--includedir"), "llvm-c/Core.h")
        && path_exists(config("--libdir"), "libLLVM.so")
}
