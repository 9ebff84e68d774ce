//! NVIDIA's assembler of PTX, where the variable `HRX_PTXAS` has its path. It is no part of hrx: drivers have their own.
//! It comes with the wheel `nvidia-cuda-nvcc-cu12` of PyPI:
//!
//! ```sh
//! pip download --no-deps nvidia-cuda-nvcc-cu12 && unzip nvidia_cuda_nvcc_cu12-*.whl
//! HRX_PTXAS=$PWD/nvidia/cuda_nvcc/bin/ptxas cargo test -p hrx-tests --test nvidia_targets
//! ```

use std::path::PathBuf;
use std::process::Command;

/// What the assembler says of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Assembled {
    /// Registers of a lane.
    pub registers: u32,
    /// Bytes of a lane's own memory.
    pub stack: u32,
    /// Bytes stored because registers did not suffice.
    pub spilled: u32,
}

/// The assembler, if there is one.
pub fn path() -> Option<PathBuf> {
    std::env::var_os("HRX_PTXAS").filter(|p| !p.is_empty()).map(PathBuf::from)
}

/// Assembles a module of one kernel for its target.
///
/// # Errors
/// What the assembler does not take, in its words.
///
/// # Panics
/// If the assembler can't be run.
pub fn assemble(ptxas: &std::path::Path, target: &str, text: &[u8]) -> Result<Assembled, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let (from, to) = (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
    std::fs::write(&from, text.strip_suffix(&[0]).unwrap_or(text)).expect("a file");
    let output = Command::new(ptxas).arg("-v").arg(format!("-arch={target}")).arg(&from).arg("-o").arg(&to).output();
    let output = output.unwrap_or_else(|e| panic!("{}: {e}", ptxas.display()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(said);
    }
    let before = |words: &str| {
        let (head, _) = said.split_once(words)?;
        head.split([' ', ',', '\n']).rfind(|w| !w.is_empty())?.parse().ok()
    };
    let missing = || format!("it does not say what the kernel takes: {said}");
    Ok(Assembled {
        registers: before(" registers").ok_or_else(missing)?,
        stack: before(" bytes stack frame").unwrap_or(0),
        spilled: before(" bytes spill stores").unwrap_or(0),
    })
}
