//! Inspection of code objects: what a kernel takes of a chip, what it executes, and how it uses memory.
//!
//! Everything is read off the code object's bytes, ours or another compiler's, and the table of chips. What can't be
//! known from them is left out of the report.
//!
//! ```text
//! HSACO ──hsaco──▶ kernels ──disasm──▶ text ──asm──▶ instructions ──flow──▶ blocks, loops ──▶ report ──▶ text
//! ```

pub mod asm;
mod banks;
pub mod class;
mod diff;
mod flow;
mod follow;
mod html;
mod lines;
mod mix;
mod reach;
mod report;
mod resources;
mod roofline;
mod svg;
mod text;
mod waits;

pub use class::Class;
pub use diff::{Change, Diff, KernelDiff, Quantity, diff};
pub use report::*;

use crate::CompileError;
use crate::disasm::{self, LineKind};
use crate::hsaco::{Generation, Hsaco, Kernel, Processor};
use crate::target::Chip;
use crate::target::amd::{self, Board, CHIPS};
use asm::Inst;
use flow::Flow;
use std::collections::HashMap;

/// What to inspect, and for which board.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options<'a> {
    /// The only kernel; all of them without.
    pub kernel: Option<&'a str>,
    /// The board whose roofs are drawn; the chip's typical one without.
    pub board: Option<&'static Board>,
    /// Work items of a workgroup in x, y and z, for kernels that don't say.
    pub workgroup: Option<[u32; 3]>,
}

/// Inspects a code object.
///
/// # Errors
/// If it is no code object or a damaged one, is for a processor that is not known, or has no such kernel; if a kernel
/// takes more of something than the chip has, or can't be launched with such workgroups; if the board has another chip.
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
    options: &Options<'_>,
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
    let workgroup = resources::workgroup(kernel, wave, options.workgroup).map_err(refused)?;
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
    let uses_lds = insts.iter().any(|i| class::class(i.name()).is_lds());
    let adds = said.and_then(|m| m.args.as_ref()).is_some_and(|args| args.iter().any(adds_lds));
    if adds || uses_lds && resources.lds_bytes == 0 {
        notes.push("launches add LDS to what the kernel says; occupancy is without it".into());
    }
    if flow.too_large {
        notes.push("there are too many jumps to look for loops".into());
    }
    let followed = follow::follow(&insts, &flow, kernel, processor.generation, wave, workgroup.as_ref());
    let trips = followed.as_ref().map_or(vec![], |f| f.trips.clone());
    let mut report = KernelReport {
        name: kernel.name.into(),
        code_bytes: insts.last().map_or(0, |i| i.offset + i.size),
        wave,
        workgroup,
        resources,
        occupancy,
        regions: mix::regions(&insts, &flow, chip, &trips),
        global: Vec::new(),
        groups: Vec::new(),
        reaches: Vec::new(),
        lds: Vec::new(),
        waits: waits::waits(&insts, &flow, processor.generation),
        roofline: None,
        notes,
        listing: Vec::new(),
    };
    if let (Some(chip), Some(followed)) = (chip, &followed) {
        memory(&mut report, &insts, &flow, kernel, (chip, processor.generation), followed);
    }
    if let Some(chip) = chip {
        let counted = roofline::Counted {
            insts: &insts,
            flow: &flow,
            regions: &report.regions,
            global: &report.global,
            groups: &report.groups,
            wave,
            generation: processor.generation,
            chip,
        };
        match options.board.map_or_else(|| chip.board(), Ok) {
            Ok(board) => {
                report.roofline = counted.roofline(board);
                if report.roofline.is_none() && board.bandwidth.or(board.measured).is_none() {
                    report.notes.push(format!("no roofline: the bandwidth of {} is not known", board.name));
                }
            }
            Err(e) => report.notes.push(format!("no roofline: {e}")),
        }
    }
    report.listing = listing(&lines, &insts, &flow, chip, &report);
    Ok(report)
}

/// Accesses of memory and of LDS.
fn memory(
    report: &mut KernelReport,
    insts: &[Inst],
    flow: &Flow,
    kernel: &Kernel<'_>,
    (chip, generation): (&Chip, Generation),
    followed: &follow::Followed,
) {
    let (line, of) = match (chip.vector_line, chip.l2_line) {
        (Some(line), _) => (Some(line.value), "the vector cache's"),
        (None, line) => (line.map(|l| l.value), "L2's, as the vector cache's are not known"),
    };
    match line {
        Some(line) => {
            (report.global, report.groups) = lines::lines(insts, flow, kernel, followed, line);
            if let Some(workgroup) = report.workgroup.as_ref().filter(|w| !w.at_most) {
                let all = reach::Reaching { flow, kernel, followed, workgroup, line, generation };
                report.reaches = all.reaches();
            }
            if !report.global.is_empty() {
                report.notes.push(format!("lines of {line} bytes are {of}"));
                report.notes.push("pointers among the arguments are taken to be aligned to 256 bytes".into());
            }
        }
        None => report.notes.push(format!("the size of cache lines of {} is not known", chip.name)),
    }
    match chip.lds_bank_count() {
        Ok(count) => report.lds = banks::banks(insts, flow, followed, count, report.wave),
        Err(e) => report.notes.push(e.to_string()),
    }
    if followed.assumes_full_tiles {
        report.notes.push("lanes are taken not to reach bounds that are not known, as in full tiles".into());
    }
    let total = |is: fn(Class) -> bool| insts.iter().filter(|i| is(class::class(i.name()))).count();
    let missing = [
        ("memory", total(Class::is_vmem) - report.global.len(), line.is_some()),
        ("LDS", total(Class::is_lds) - report.lds.len(), chip.lds_banks.is_some()),
    ];
    for (what, missing, _) in missing.into_iter().filter(|&(_, n, looked)| n > 0 && looked) {
        report.notes.push(format!("addresses of {missing} accesses of {what} could not be followed"));
    }
}

/// All lines of the code, with what is to be said of them.
fn listing(
    lines: &[disasm::Line<'_>],
    insts: &[Inst],
    flow: &Flow,
    chip: Option<&Chip>,
    report: &KernelReport,
) -> Vec<Line> {
    let mut remarks: HashMap<usize, String> = HashMap::new();
    let waits = report.waits.iter().map(|w| (w.offset, text::wait_meaning(w)));
    let global = report.global.iter().map(|a| {
        let of = a.resource.as_ref().map_or(String::new(), |r| format!("{r}: "));
        (a.offset, of + &text::global_meaning(a))
    });
    let lds = report.lds.iter().map(|a| (a.offset, text::lds_meaning(a)));
    let counted = insts.iter().filter_map(|i| Some((i.offset, counts(i, chip)?)));
    // What is known of addresses says more than counts.
    remarks.extend(counted.chain(waits).chain(global).chain(lds));
    let mut at = 0;
    lines
        .iter()
        .filter(|l| l.kind != LineKind::Padding)
        .map(|l| {
            let inst = insts.get(at).filter(|i| i.offset == l.offset);
            let line = Line {
                offset: l.offset,
                text: l.text.clone(),
                class: inst.map(|i| class::class(i.name())),
                region: mix::region_of(flow, at),
                depth: flow.depth(at),
                remark: remarks.remove(&l.offset),
            };
            at += usize::from(inst.is_some());
            line
        })
        .collect()
}

/// What an instruction moves or computes, by its mnemonic alone.
fn counts(inst: &Inst, chip: Option<&Chip>) -> Option<String> {
    let name = inst.name();
    match class::class(name) {
        Class::Matrix => Some(text::count(class::matrix_ops(name, chip)? as i64, "operation")),
        Class::Smem => Some(text::count(class::bytes(name)?, "byte")),
        _ => Some(format!("{} a lane", text::count(class::bytes(name)?, "byte"))),
    }
}

/// Whether a launch says by an argument how much LDS it adds.
fn adds_lds(argument: &crate::hsaco::Argument) -> bool {
    argument.address_space.as_deref() == Some("local")
        || ["dynamic_shared_pointer", "hidden_dynamic_lds_size"]
            .iter()
            .any(|k| argument.value_kind.as_deref() == Some(k))
}
