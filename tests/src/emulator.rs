//! Kernels as the bytes that a GPU would run, in the emulator of GPUs.

use crate::host::{Buffers, Input};
use gfx_emu::Run;
use gfx_emu::verify::Verifier;
use hrx_compiler::target::amd::{self, Chip};
use hrx_ir::tile::Kernel;

/// A chip of each kind that the emulator knows.
pub fn chips() -> Vec<&'static Chip> {
    ["gfx1100", "gfx1201", "gfx942", "gfx1151", "gfx1030", "gfx906"].into_iter().filter_map(amd::find).collect()
}

/// The chip to run a kernel for, which its name and size pick, so that the kernels of a test spread over chips.
pub fn chip_for(kernel: &Kernel) -> &'static Chip {
    let all = chips();
    all[crate::draw(kernel) as usize % all.len()]
}

/// The buffers of a kernel's slots after its whole grid has run, and what the emulator counted.
///
/// With the variable `HRX_KEEP`, code objects that are reported are kept in that folder.
///
/// # Errors
/// What the compiler or the emulator says, and the first faults that the sanitizer found.
pub fn run(kernel: &Kernel, inputs: &[Input], chip: &'static Chip) -> Result<(Buffers, Run), String> {
    let verifier = Verifier::new(kernel, chip, kernel.insts.len() as u64)?;
    let (out, done) = verifier.run(inputs).map_err(|e| format!("{}: {e}", chip.name))?;
    if !done.reports.is_empty() {
        if let Some(folder) = std::env::var_os("HRX_KEEP") {
            let path = std::path::Path::new(&folder).join(format!("{}-{}.hsaco", kernel.name, chip.name));
            std::fs::write(path, verifier.object()).map_err(|e| e.to_string())?;
        }
        let lines: Vec<String> = done.reports.iter().take(5).map(ToString::to_string).collect();
        return Err(format!("{}: {} reports\n{}", chip.name, done.reports.len(), lines.join("\n")));
    }
    Ok((out, done))
}
