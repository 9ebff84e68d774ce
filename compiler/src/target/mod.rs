//! Targets and their facts.

pub mod amd;
pub(crate) mod fact;
mod host;
pub mod nvidia;

pub use amd::Chip;
pub use host::HostTarget;

use crate::CompileError;

/// A target that kernels are compiled for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// An x86-64 processor with certain vector extensions.
    Host(HostTarget),
    /// An AMD GPU.
    Amd(&'static Chip),
    /// An NVIDIA GPU.
    Nvidia(&'static nvidia::Chip),
}

impl Target {
    /// This machine's processor, by CPUID.
    ///
    /// # Errors
    /// If the processor lacks what the code generator needs (AVX2, FMA, F16C, BMI).
    pub fn host() -> Result<Target, CompileError> {
        HostTarget::detect().map(Target::Host)
    }

    /// The least x86-64 that host code is generated for: AVX2 without AVX-512 or VNNI.
    pub fn x86_64_v3() -> Target {
        Target::Host(HostTarget::x86_64_v3())
    }

    /// The target of that name: `host`, `x86-64-v3`, or a GPU's as LLVM calls it, as `gfx1100` and `sm_90`.
    ///
    /// # Errors
    /// An unknown name, with the list of those that exist.
    pub fn from_name(name: &str) -> Result<Target, CompileError> {
        match name {
            "host" | "cpu" => Target::host(),
            "x86-64-v3" => Ok(Target::x86_64_v3()),
            _ => {
                let found = amd::find(name).map(Target::Amd).or_else(|| nvidia::find(name).map(Target::Nvidia));
                found.ok_or_else(|| CompileError::Target {
                    target: name.into(),
                    reason: format!("unknown target; there are: {}", Target::names().join(", ")),
                })
            }
        }
    }

    /// The names of all targets.
    pub fn names() -> Vec<&'static str> {
        let gpus = amd::CHIPS.iter().map(|c| c.name).chain(nvidia::CHIPS.iter().map(|c| c.name));
        ["host", "x86-64-v3"].into_iter().chain(gpus).collect()
    }

    /// A name that says all that code generation depends on: equal names, equal code.
    pub fn name(&self) -> String {
        match self {
            Target::Host(h) => h.name(),
            Target::Amd(chip) => chip.name.into(),
            Target::Nvidia(chip) => chip.name.into(),
        }
    }

    /// 32-bit lanes that one vector instruction works on.
    pub fn vector_lanes(&self) -> u32 {
        match self {
            Target::Host(h) => h.vector_lanes(),
            Target::Amd(chip) => chip.wave,
            Target::Nvidia(_) => nvidia::WARP,
        }
    }

    /// Vector registers that a program can use.
    pub fn vector_registers(&self) -> u32 {
        match self {
            Target::Host(h) => h.vector_registers(),
            Target::Amd(_) => 256,
            Target::Nvidia(_) => nvidia::THREAD_REGISTERS.value,
        }
    }
}
