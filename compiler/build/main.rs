//! Links LLVM, and MLIR with the feature `mlir`.

mod llvm;
mod mlir;

use std::process::ExitCode;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build");
    let has = |feature: &str| std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    match link(has("STATIC_LLVM"), has("MLIR")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            println!("cargo::error={reason}");
            ExitCode::FAILURE
        }
    }
}

fn link(static_llvm: bool, mlir: bool) -> Result<(), String> {
    if static_llvm && mlir {
        return Err(
            "features mlir and static-llvm exclude each other: MLIR brings LLVM as a shared library, and modules \
                    pass between MLIR's and ours, so both must be that one"
                .to_owned(),
        );
    }
    llvm::link(static_llvm)?;
    if mlir {
        mlir::link().map_err(|reason| format!("feature mlir: {reason}"))?;
    }
    Ok(())
}
