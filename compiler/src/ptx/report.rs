//! What kernels in PTX take and execute, for people and for scripts.
//!
//! PTX is not what runs: the driver's assembler allocates registers, and schedules, joins and drops instructions. So there
//! are no registers of the hardware here, and what they allow; the most workgroups of a multiprocessor are by LDS and
//! threads alone.

use super::class::{Class, bytes};
use super::{Ptx, PtxKernel, Registers};
use crate::CompileError;
use crate::counts;
use crate::loops::{innermost, nested};
use crate::target::nvidia;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What is said of a module.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// What it is for.
    pub target: String,
    /// The version of PTX, as in `8.0`.
    pub version: String,
    /// Its kernels.
    pub kernels: Vec<KernelReport>,
}

/// What is said of a kernel.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KernelReport {
    /// Its name.
    pub name: String,
    /// Threads of a workgroup.
    pub threads: u32,
    /// Waves of a workgroup.
    pub waves: u32,
    /// Bytes of arguments.
    pub argument_bytes: u32,
    /// Bytes of LDS that the code declares.
    pub static_lds_bytes: u32,
    /// Bytes of LDS that launches add.
    pub dynamic_lds_bytes: u32,
    /// Virtual registers that it declares.
    pub virtual_registers: Registers,
    /// Most workgroups of a multiprocessor, by LDS, threads and places for workgroups; none for a target that is not in
    /// the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workgroups: Option<u32>,
    /// What is not in loops.
    pub outside: Mix,
    /// Its loops, in order of their starts.
    pub loops: Vec<Loop>,
}

/// A loop: what lies between a label and the last jump back to it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Loop {
    /// The label.
    pub label: String,
    /// How many loops it is in, itself one of them.
    pub depth: usize,
    /// What it executes each time, without loops in it.
    pub mix: Mix,
}

/// Counts of instructions, and what they move.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Mix {
    /// How many instructions.
    pub instructions: u32,
    /// How many of each class.
    pub classes: BTreeMap<Class, u32>,
    /// Bytes of device memory that a lane loads.
    pub global_read: u32,
    /// Bytes of device memory that a lane stores.
    pub global_written: u32,
    /// Bytes of LDS that a lane reads.
    pub lds_read: u32,
    /// Bytes of LDS that a lane writes.
    pub lds_written: u32,
    /// How many loads of device memory there are of each size in bytes.
    pub global_loads: BTreeMap<u32, u32>,
}

/// Reads a module of PTX and says what its kernels take and execute; of one kernel where a name is given.
///
/// # Errors
/// If it can't be read, or there is no such kernel in it.
pub fn report(text: &[u8], kernel: Option<&str>) -> Result<Report, CompileError> {
    let ptx = Ptx::read(text)?;
    let refused = |reason: String| CompileError::CodeObject { reason };
    let kernels: Vec<&PtxKernel> = match kernel {
        None => ptx.kernels.iter().collect(),
        Some(name) => vec![ptx.kernel(name).ok_or_else(|| refused(format!("no kernel {name:?} in it")))?],
    };
    if kernels.is_empty() {
        return Err(refused("there is no kernel in it".into()));
    }
    let [major, minor] = ptx.version;
    Ok(Report {
        target: ptx.target.clone(),
        version: format!("{major}.{minor}"),
        kernels: kernels.into_iter().map(|k| of_kernel(k, nvidia::find(&ptx.target))).collect(),
    })
}

fn of_kernel(k: &PtxKernel, chip: Option<&nvidia::Chip>) -> KernelReport {
    let jumps = k.instructions.iter().enumerate().filter_map(|(at, inst)| {
        let to = inst.text.split_whitespace().last().filter(|_| Class::of(inst.name()) == Class::Branch)?;
        k.labels.iter().find(|(label, _)| label == to).map(|&(_, start)| (at, start))
    });
    let loops = nested(jumps);
    let label = |start: usize| k.labels.iter().find(|(_, at)| *at == start).map_or("", |(label, _)| label);
    let mut outside = Mix::default();
    let mut found: Vec<Loop> = (loops.iter())
        .map(|l| Loop { label: label(l.range.start).into(), depth: l.depth, mix: Mix::default() })
        .collect();
    for (at, inst) in k.instructions.iter().enumerate() {
        innermost(&loops, at).map_or(&mut outside, |l| &mut found[l].mix).add(inst.name());
    }
    let lds = k.static_shared.saturating_add(k.dynamic_shared);
    KernelReport {
        name: k.name.clone(),
        threads: k.threads,
        waves: k.threads.div_ceil(nvidia::WARP),
        argument_bytes: k.params.iter().fold(0, |at, p| at.next_multiple_of(p.bytes) + p.bytes),
        static_lds_bytes: k.static_shared,
        dynamic_lds_bytes: k.dynamic_shared,
        virtual_registers: k.registers,
        workgroups: chip.map(|c| c.workgroups(k.threads, lds)),
        outside,
        loops: found,
    }
}

impl Mix {
    fn add(&mut self, name: &str) {
        let class = Class::of(name);
        self.instructions += 1;
        *self.classes.entry(class).or_default() += 1;
        let Some(bytes) = bytes(name) else { return };
        match class {
            Class::GlobalLoad => {
                self.global_read += bytes;
                *self.global_loads.entry(bytes).or_default() += 1;
            }
            Class::GlobalStore => self.global_written += bytes,
            Class::SharedLoad => self.lds_read += bytes,
            Class::SharedStore => self.lds_written += bytes,
            _ => {}
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, PTX {}", self.target, self.version)?;
        self.kernels.iter().try_for_each(|k| write!(f, "\n{k}"))
    }
}

impl fmt::Display for KernelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {}", self.name)?;
        let mut row = |label: &str, value: String| writeln!(f, "  {label:15} {value}");
        row("workgroup", format!("{} threads, {} waves", self.threads, self.waves))?;
        row("LDS", format!("{} bytes declared, {} added by launches", self.static_lds_bytes, self.dynamic_lds_bytes))?;
        row("arguments", format!("{} bytes", self.argument_bytes))?;
        let Registers { words, doubles, halves, predicates } = self.virtual_registers;
        let registers = format!("{words} of 32 bits, {doubles} of 64, {halves} of 16, {predicates} predicates");
        row("virtual", format!("{registers}; the driver's assembler allocates"))?;
        if let Some(n) = self.workgroups {
            row("workgroups", format!("at most {n} a multiprocessor, by LDS and threads"))?;
        }
        writeln!(f, "  executes, each lane and pass")?;
        mix(f, "outside of loops", 0, &self.outside)?;
        self.loops.iter().try_for_each(|l| mix(f, &format!("loop {}", l.label), l.depth, &l.mix))
    }
}

fn mix(f: &mut fmt::Formatter<'_>, what: &str, depth: usize, m: &Mix) -> fmt::Result {
    let classes = m.classes.iter().map(|(c, &n)| (c.name(), n));
    let indent = counts::write(f, what, depth, m.instructions, classes)?;
    let moved = [
        (m.global_read, "device memory read"),
        (m.global_written, "device memory written"),
        (m.lds_read, "LDS read"),
        (m.lds_written, "LDS written"),
    ];
    for (bytes, what) in moved.into_iter().filter(|&(n, _)| n > 0) {
        writeln!(f, "{indent}  {bytes} bytes of {what}")?;
    }
    if !m.global_loads.is_empty() {
        let loads: Vec<String> = m.global_loads.iter().map(|(size, n)| format!("{n} of {size} bytes")).collect();
        writeln!(f, "{indent}  loads of device memory: {}", loads.join(", "))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 8.0
.target sm_90
.visible .entry k(
.param .u32 k_param_0,
.param .u64 .ptr .global .align 16 k_param_1
)
.reqntid 128
{
ld.param.b64 %rd1, [k_param_1];
$outer:
ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];
$inner:
fma.rn.f32 %r1, %r1, %r2, %r3;
@%p1 bra $inner;
st.shared.b32 [%r5], %r1;
@%p2 bra.uni $outer;
ret;
}
";

    #[test]
    fn loops_have_what_is_in_them_and_not_in_inner_ones() {
        let found = report(TEXT.as_bytes(), None).expect("a report");
        let k = &found.kernels[0];
        assert_eq!((k.waves, k.argument_bytes, k.workgroups), (4, 16, Some(16)));
        assert_eq!(k.outside.instructions, 2);
        let loops: Vec<_> = k.loops.iter().map(|l| (l.label.as_str(), l.depth, l.mix.instructions)).collect();
        assert_eq!(loops, [("$outer", 1, 3), ("$inner", 2, 2)]);
        assert_eq!((k.loops[0].mix.global_read, k.loops[0].mix.lds_written), (16, 4));
        assert_eq!(k.loops[1].mix.classes, BTreeMap::from([(Class::F32, 1), (Class::Branch, 1)]));
        assert!(found.to_string().contains("loop $inner: 2 instructions"), "{found}");
        assert!(report(TEXT.as_bytes(), Some("other")).is_err());
    }
}
