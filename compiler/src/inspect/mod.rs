//! Inspection of code objects: what a kernel takes of a chip, what it executes, and how it uses memory.
//!
//! Everything is read off the code object's bytes, ours or another compiler's, and the table of chips. What can't be
//! known from them is left out of the report.
//!
//! ```text
//! HSACO ──hsaco──▶ kernels ──disasm──▶ text ──asm──▶ instructions ──flow──▶ blocks, loops ──▶ report ──▶ text
//! ```

mod asm;
mod class;
mod flow;
mod mix;
mod report;
mod resources;
mod text;
mod waits;

pub use class::Class;
pub use report::*;

use crate::CompileError;
use crate::disasm::{self, LineKind};
use crate::hsaco::{Hsaco, Kernel, Processor};
use crate::target::Chip;
use crate::target::amd::{self, Board, CHIPS};
use asm::Inst;
use flow::Flow;

/// What to inspect, and for which board.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options<'a> {
    /// The only kernel; all of them without.
    pub kernel: Option<&'a str>,
    /// The board whose roofs are drawn; the chip's typical one without.
    pub board: Option<&'static Board>,
}

/// Inspects a code object.
///
/// # Errors
/// If it is no code object or a damaged one, is for a processor that is not known, or has no such kernel; if a kernel
/// takes more of something than the chip has; if the board has another chip.
pub fn inspect(bytes: &[u8], options: &Options<'_>) -> Result<Inspection, CompileError> {
    let hsaco = Hsaco::read(bytes)?;
    let refused = |reason: String| CompileError::CodeObject { reason };
    let processor = hsaco.identity.processor.ok_or_else(|| {
        refused(format!("for a processor that is not known, number {:#x}", hsaco.identity.flags & 0xff))
    })?;
    let chip = chip(processor);
    if let Some(board) = options.board {
        let of_chip = |c: &Chip| c.name == board.chip || c.members.contains(&board.chip);
        if board.chip != processor.name && !chip.is_some_and(of_chip) {
            return Err(refused(format!("for {}, but {} has {}", processor.name, board.name, board.chip)));
        }
    }
    let kernels: Vec<&Kernel<'_>> = match options.kernel {
        None => hsaco.kernels.iter().collect(),
        Some(name) => vec![hsaco.kernel(name).ok_or_else(|| refused(format!("no kernel {name:?} in it")))?],
    };
    if kernels.is_empty() {
        return Err(refused("there is no kernel in it".into()));
    }
    Ok(Inspection {
        target: hsaco.identity.to_string(),
        processor: processor.name.into(),
        generation: chip.map(|c| c.generation.into()),
        code_object_version: hsaco.identity.version,
        kernels: kernels.into_iter().map(|k| kernel(k, processor, chip, options)).collect::<Result<_, _>>()?,
    })
}

/// The row of the table for a processor, or that of the generic target whose member it is.
fn chip(processor: &Processor) -> Option<&'static Chip> {
    amd::find(processor.name).or_else(|| CHIPS.iter().find(|c| c.members.contains(&processor.name)))
}

fn kernel(
    kernel: &Kernel<'_>,
    processor: &'static Processor,
    chip: Option<&'static Chip>,
    _options: &Options<'_>,
) -> Result<KernelReport, CompileError> {
    let mut notes = Vec::new();
    let refused = |reason: String| CompileError::Kernel { kernel: kernel.name.into(), reason };
    let said = kernel.metadata.as_ref();
    let wave = kernel.descriptor.wavefront_size().or_else(|| said.and_then(|m| m.wavefront_size));
    let wave = wave.ok_or_else(|| refused("it is not said how many lanes a wave has".into()))?;
    let lines = disasm::disassemble(processor.name, wave, kernel.code)?;
    let insts: Vec<Inst> = lines
        .iter()
        .filter(|l| l.kind == LineKind::Instruction)
        .map(|l| Inst::parse(l.offset, l.bytes.len(), &l.text))
        .collect();
    let flow = Flow::new(&insts);
    match chip {
        None => notes.push(format!(
            "{} is not in the table of chips: occupancy, cache lines, banks and roofline are left out",
            processor.name
        )),
        Some(chip) if chip.name != processor.name => {
            notes.push(format!("facts are those of {}, of which {} is one", chip.name, processor.name));
        }
        Some(_) => {}
    }
    let resources = resources::resources(kernel, chip, wave);
    let workgroup = resources::workgroup(kernel, wave);
    let occupancy = match (chip, &workgroup) {
        (Some(chip), Some(workgroup)) => {
            let found = resources::occupancy(chip, kernel, &resources, workgroup, wave);
            let single = Workgroup { waves: 1, ..workgroup.clone() };
            match found {
                Err(e)
                    if workgroup.at_most && resources::occupancy(chip, kernel, &resources, &single, wave).is_ok() =>
                {
                    notes.push(format!(
                        "occupancy is left out: workgroups have to be smaller than {}: {e}",
                        workgroup.work_items
                    ));
                    None
                }
                found => found.map_err(|e| refused(e.to_string()))?,
            }
        }
        _ => None,
    };
    if flow.unknown_jumps {
        notes.push("there are jumps to where is not known: loops may be missing".into());
    }
    if flow.calls {
        notes.push("functions are called, which are not part of the counts".into());
    }
    let unknown = lines.iter().filter(|l| l.kind == LineKind::Unknown).count();
    if unknown > 0 {
        notes.push(format!("{unknown} words are no instructions that LLVM knows of {}", processor.name));
    }
    if said.and_then(|m| m.args.as_ref()).is_some_and(|args| args.iter().any(adds_lds)) {
        notes.push("launches may add LDS to what the kernel says".into());
    }
    let trips = vec![None; flow.loops.len()];
    let waits = waits::waits(&insts, &flow, processor.generation);
    let mut at = 0;
    let listing = lines.iter().filter(|l| l.kind != LineKind::Padding).map(|l| {
        let inst = insts.get(at).filter(|i| i.offset == l.offset);
        let line = Line {
            offset: l.offset,
            text: l.text.clone(),
            class: inst.map(|i| class::class(i.name())),
            region: mix::region_of(&flow, at),
            depth: flow.depth(at),
            remark: None,
        };
        at += usize::from(inst.is_some());
        line
    });
    Ok(KernelReport {
        name: kernel.name.into(),
        code_bytes: insts.last().map_or(0, |i| i.offset + i.size),
        wave,
        workgroup,
        resources,
        occupancy,
        regions: mix::regions(&insts, &flow, chip, &trips),
        global: Vec::new(),
        groups: Vec::new(),
        lds: Vec::new(),
        waits,
        roofline: None,
        notes,
        listing: listing.collect(),
    })
}

/// Whether a launch says by an argument how much LDS it adds.
fn adds_lds(argument: &crate::hsaco::Argument) -> bool {
    argument.address_space.as_deref() == Some("local")
        || ["dynamic_shared_pointer", "hidden_dynamic_lds_size"]
            .iter()
            .any(|k| argument.value_kind.as_deref() == Some(k))
}
