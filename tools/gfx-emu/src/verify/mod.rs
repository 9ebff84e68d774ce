//! Kernels of tile IR as the bytes that a GPU would run, held to the tile interpreter.
//!
//! A kernel is compiled for a chip, its code object run in the emulator over its whole grid, with waves in a shuffled
//! order and all checks on, and what it wrote compared with what the interpreter, which computes in `f64`, makes of the
//! same bytes. Of large grids the interpreter runs some programs, evenly spread, and what those write is compared.

mod cases;
mod compare;
mod inputs;
mod launch;

pub use cases::{Case, cases};
pub use compare::{Difference, Worst};
pub use inputs::inputs;
pub use launch::launch;

use crate::{Counters, Gpu, Options, Report, Run};
use hrx_compiler::target::amd::Chip;
use hrx_compiler::{Target, compile};
use hrx_ir::tile::Kernel;
use hrx_ir::tile::interp::{self, Buffers, Input, Interpreted};

/// Programs that the interpreter runs at most: the emulator runs all.
const MOST_PROGRAMS: u32 = 12;

/// What came of one launch.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What the sanitizer found, and how much of it.
    pub reports: Vec<Report>,
    /// The largest error relative to the largest element of its buffer, with where it is.
    pub worst: Option<Worst>,
    /// The first element that is too far from what it should be.
    pub difference: Option<Difference>,
    /// What was counted.
    pub counters: Counters,
}

impl Verdict {
    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.reports.is_empty() && self.difference.is_none()
    }
}

/// A kernel's code object on an emulated chip.
pub struct Verifier<'k> {
    kernel: &'k Kernel,
    object: Vec<u8>,
    gpu: Gpu,
    code: crate::Kernel,
}

impl<'k> Verifier<'k> {
    /// Compiles a kernel for a chip and loads it.
    ///
    /// # Errors
    /// What the compiler or the emulator refuses.
    pub fn new(kernel: &'k Kernel, chip: &'static Chip, seed: u64) -> Result<Verifier<'k>, String> {
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", chip.name);
        let object = compile(kernel, &Target::Amd(chip)).map_err(|e| said(&e))?.object;
        let gpu = Gpu::new(chip, Options { shuffle: true, seed, ..Options::default() }).map_err(|e| said(&e))?;
        let module = gpu.load(&object).map_err(|e| said(&e))?;
        let code = module.kernel(&kernel.name).ok_or_else(|| said(&"the kernel is not in its code object"))?;
        Ok(Verifier { kernel, object, gpu, code })
    }

    /// The code object that runs.
    pub fn object(&self) -> &[u8] {
        &self.object
    }

    /// Runs the kernel in the emulator: the bytes of each slot's buffer, and what was found and counted.
    ///
    /// # Errors
    /// Inputs that do not go with the kernel, and a launch that the emulator refuses or gives up.
    pub fn run(&self, inputs: &[Input]) -> Result<(Buffers, Run), String> {
        launch(&self.gpu, &self.code, self.kernel, inputs)
    }

    /// Runs the kernel here and there on the same inputs.
    ///
    /// # Errors
    /// What the interpreter does not run, and a launch that the emulator refuses or gives up.
    pub fn verify(&self, inputs: &[Input]) -> Result<Verdict, String> {
        let options = interp::Options { most_programs: MOST_PROGRAMS, fuel: u64::MAX, ..interp::Options::default() };
        let want = Interpreted::run(self.kernel, inputs, &options).map_err(|e| e.to_string())?;
        let (got, run) = self.run(inputs)?;
        let (worst, difference) = compare::compare(self.kernel, &want, &got);
        Ok(Verdict { reports: run.reports, worst, difference, counters: run.counters })
    }
}
