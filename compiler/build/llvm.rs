//! Links LLVM: Debian's shared library as a rule, the static archives of the three code generators with the feature
//! `static-llvm`.
//!
//! `llvm-sys` could do it, but its ways of linking are features that exclude each other, so that no feature of ours could
//! choose one; and its static way links every target, and what LLVM itself depends on as shared libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Where LLVM is, for whoever builds; `llvm-sys` looks at the same variable.
const PREFIX: &str = "LLVM_SYS_221_PREFIX";

/// What of LLVM is used: three targets, the pass builder, and what `inkwell` drops a module with. The names are
/// llvm-config's.
const COMPONENTS: [&str; 5] = ["x86", "amdgpu", "nvptx", "passes", "executionengine"];

/// What the objects of [`COMPONENTS`] refer to outside LLVM and the C library. Of what `llvm-config --system-libs` lists
/// in addition, z3 is used by Clang's analyzer alone, and libxml2 by the reader of Windows manifests.
const SYSTEM: [&str; 4] = ["zstd", "z", "stdc++", "gcc_eh"];

/// Tells cargo what to link.
pub fn link() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed={PREFIX}");
    let config = Config::find()?;
    println!("cargo::rustc-link-search=native={}", config.ask(&["--libdir"])?);
    if std::env::var_os("CARGO_FEATURE_STATIC_LLVM").is_none() {
        for name in library_names(&config.ask(&["--link-shared", "--libnames"])?, ".so")? {
            println!("cargo::rustc-link-lib=dylib={name}");
        }
        return Ok(());
    }
    let libraries = config.ask(&[&["--link-static", "--libnames"], &COMPONENTS[..]].concat())?;
    let libraries = library_names(&libraries, ".a")?;
    // Bundled, as is the default, the archives would be copied into the crate's own.
    for name in libraries.into_iter().chain(SYSTEM) {
        println!("cargo::rustc-link-lib=static:-bundle={name}");
    }
    // The C++ compiler knows where its library is, and the others are in the system's directory for libraries.
    for name in SYSTEM {
        println!("cargo::rustc-link-search=native={}", archive_dir(name)?.display());
    }
    Ok(())
}

/// The program llvm-config of LLVM 22.
struct Config(PathBuf);

impl Config {
    fn find() -> Result<Config, String> {
        let places = match std::env::var_os(PREFIX) {
            Some(prefix) => vec![Path::new(&prefix).join("bin/llvm-config")],
            None => vec!["llvm-config-22".into(), "llvm-config".into()],
        };
        let is_ours = |config: &Config| config.ask(&["--version"]).is_ok_and(|version| version.starts_with("22.1."));
        let tried: Vec<String> = places.iter().map(|place| place.display().to_string()).collect();
        places.into_iter().map(Config).find(is_ours).ok_or_else(|| {
            format!(
                "LLVM 22.1 is wanted, and none of {} is its llvm-config; {PREFIX} says where it is",
                tried.join(", ")
            )
        })
    }

    fn ask(&self, arguments: &[&str]) -> Result<String, String> {
        output(&self.0, arguments)
    }
}

/// The directory of a static library that the C++ compiler finds.
fn archive_dir(name: &str) -> Result<PathBuf, String> {
    let file = format!("lib{name}.a");
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    // What it can't find, it gives back as it is.
    let path = PathBuf::from(output(Path::new(&compiler), &[&format!("-print-file-name={file}")])?);
    match path.parent() {
        Some(dir) if path.is_absolute() => Ok(dir.to_path_buf()),
        _ => Err(format!("{file} is not there, which static LLVM is linked with")),
    }
}

fn output(program: &Path, arguments: &[&str]) -> Result<String, String> {
    let line = || format!("`{} {}`", program.display(), arguments.join(" "));
    let output = Command::new(program).args(arguments).output().map_err(|e| format!("{}: {e}", line()))?;
    if !output.status.success() {
        return Err(format!("{}: {}", line(), String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The names by which a linker is asked for these files.
fn library_names<'a>(files: &'a str, suffix: &str) -> Result<Vec<&'a str>, String> {
    let name = |file: &'a str| {
        let name = file.strip_prefix("lib").and_then(|name| name.strip_suffix(suffix));
        name.ok_or_else(|| format!("llvm-config names {file}, which is no library with the suffix {suffix}"))
    };
    files.split_whitespace().map(name).collect()
}
