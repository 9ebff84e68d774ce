//! What the crate links beside Rust's own: LLVM always, MLIR's C API with the feature `mlir`.

mod llvm;
mod mlir;

fn main() {
    println!("cargo::rerun-if-changed=build");
    for linked in [llvm::link(), mlir::link()] {
        if let Err(error) = linked {
            println!("cargo::error={error}");
        }
    }
}
