//! What every kernel that is generated for AMD GPUs holds to, read from the finished HSACO: it is one kernel of the right
//! name for the right chip, all of its code is instructions of that chip, it needs no scratch memory, nothing is
//! spilled, and its LDS is no more than a workgroup can have.

use crate::disasm::{Line, LineKind, disassemble};
use crate::hsaco::{Hsaco, Kernel};
use crate::target::amd::Chip;

/// What is wrong with a kernel's code.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The file can't be read.
    #[error("{0}")]
    Unreadable(String),
    /// The file is for another chip.
    #[error("the code is for {0}")]
    Chip(String),
    /// The file does not hold the kernel and nothing else.
    #[error("the kernels of the file are: {0}")]
    Kernels(String),
    /// The kernel's waves are not those that the code generator counts on.
    #[error("its waves have {0} lanes")]
    Wave(u32),
    /// The file does not say something that a launch or these checks have to know.
    #[error("the file does not say {0}")]
    Unsaid(&'static str),
    /// Bytes that are no instruction of the chip.
    #[error("no instruction at {offset:#x}: {text}")]
    Unknown {
        /// Where, from the kernel's first instruction.
        offset: usize,
        /// The bytes as a directive.
        text: String,
    },
    /// The code does not end where a program ends.
    #[error("the last instruction is {0:?}")]
    End(String),
    /// Lanes have memory of their own.
    #[error("{0} bytes of scratch memory a lane")]
    Scratch(u64),
    /// How much memory of their own lanes have is not fixed.
    #[error("scratch memory of no fixed size")]
    DynamicStack,
    /// An instruction that accesses scratch memory.
    #[error("scratch memory is accessed at {offset:#x}: {text}")]
    ScratchAccess {
        /// Where, from the kernel's first instruction.
        offset: usize,
        /// The instruction.
        text: String,
    },
    /// Registers were spilled.
    #[error("{count} {registers}s spilled")]
    Spilled {
        /// Of which kind: SGPR or VGPR.
        registers: &'static str,
        /// How many.
        count: u32,
    },
    /// More LDS than a workgroup of the chip can have.
    #[error("{bytes} bytes of LDS, {limit} are to be had")]
    Lds {
        /// Bytes of a workgroup.
        bytes: u64,
        /// The most that the chip allows.
        limit: u32,
    },
}

/// Looks an HSACO over that was compiled from one kernel for a chip: everything that is wrong with it.
pub fn audit(hsaco: &[u8], kernel: &str, chip: &Chip) -> Vec<Fault> {
    let hsaco = match Hsaco::read(hsaco) {
        Ok(hsaco) => hsaco,
        Err(e) => return vec![Fault::Unreadable(e.to_string())],
    };
    let mut faults = Vec::new();
    if hsaco.identity.processor.is_none_or(|p| p.name != chip.name) {
        faults.push(Fault::Chip(hsaco.identity.to_string()));
    }
    match &hsaco.kernels[..] {
        [one] if one.name == kernel => {
            faults.extend(resources(one, chip));
            faults.extend(code(one, chip));
        }
        others => faults.push(Fault::Kernels(others.iter().map(|k| k.name).collect::<Vec<_>>().join(", "))),
    }
    faults
}

/// What descriptor and metadata say.
fn resources(kernel: &Kernel<'_>, chip: &Chip) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Some(said) = &kernel.metadata else { return vec![Fault::Unsaid("its metadata")] };
    match kernel.descriptor.wavefront_size() {
        Some(wave) if wave == chip.wave && said.wavefront_size == Some(wave) => {}
        Some(wave) => faults.push(Fault::Wave(wave)),
        None => faults.push(Fault::Unsaid("the size of waves")),
    }
    match said.private_segment_fixed_size {
        Some(0) if kernel.descriptor.has_scratch() => faults.push(Fault::Scratch(0)),
        Some(0) => {}
        Some(bytes) => faults.push(Fault::Scratch(bytes)),
        None => faults.push(Fault::Unsaid("its scratch memory")),
    }
    if kernel.descriptor.uses_dynamic_stack() || said.uses_dynamic_stack == Some(true) {
        faults.push(Fault::DynamicStack);
    }
    for (registers, count) in [("SGPR", said.sgpr_spill_count), ("VGPR", said.vgpr_spill_count)] {
        match count {
            Some(0) => {}
            Some(count) => faults.push(Fault::Spilled { registers, count }),
            None => faults.push(Fault::Unsaid("what was spilled")),
        }
    }
    match said.group_segment_fixed_size {
        Some(bytes) if bytes <= u64::from(chip.lds) => {}
        Some(bytes) => faults.push(Fault::Lds { bytes, limit: chip.lds }),
        None => faults.push(Fault::Unsaid("its LDS")),
    }
    faults
}

/// What the instructions are.
fn code(kernel: &Kernel<'_>, chip: &Chip) -> Vec<Fault> {
    let lines = match disassemble(chip.name, chip.wave, kernel.code) {
        Ok(lines) => lines,
        Err(e) => return vec![Fault::Unreadable(e.to_string())],
    };
    let fault = |line: &Line<'_>| match line.kind {
        LineKind::Unknown => Some(Fault::Unknown { offset: line.offset, text: line.text.clone() }),
        LineKind::Instruction if line.text.starts_with("scratch_") => {
            Some(Fault::ScratchAccess { offset: line.offset, text: line.text.clone() })
        }
        LineKind::Instruction | LineKind::Padding => None,
    };
    let mut faults: Vec<Fault> = lines.iter().filter_map(fault).collect();
    let last = lines.iter().rfind(|l| l.kind != LineKind::Padding).map_or("", |l| l.text.as_str());
    if last != "s_endpgm" {
        faults.push(Fault::End(last.into()));
    }
    faults
}
