//! What functions of objects for x86-64 execute, for people and for scripts.
//!
//! It is said of the final bytes, which LLVM disassembles. Which stack memory is a spilled register's and which a local
//! view's the bytes don't tell; templates for vectors keep what is worth it in registers, so accesses to the stack in an
//! innermost loop are most often spills.

mod class;
mod code;

pub use class::{Class, Memory, memory};

use crate::CompileError;
use crate::counts;
use crate::loops::{innermost, nested};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What is said of an object.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Its functions.
    pub functions: Vec<FunctionReport>,
}

/// What is said of a function.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FunctionReport {
    /// Its name.
    pub name: String,
    /// Bytes of code.
    pub bytes: usize,
    /// Vector registers that it names, whatever their width.
    pub vector_registers: usize,
    /// Bits of the widest.
    pub vector_bits: u32,
    /// What is not in loops.
    pub outside: Mix,
    /// Its loops, outer ones before those in them.
    pub loops: Vec<Loop>,
}

/// A loop: what lies between where jumps go back to and the last of them.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Loop {
    /// Where it starts in the function.
    pub offset: usize,
    /// How many loops it is in, itself one of them.
    pub depth: usize,
    /// Whether there is none in it.
    pub innermost: bool,
    /// What it executes each time, without loops in it.
    pub mix: Mix,
    /// The share of that which is dot products or fused multiply-adds.
    pub product_share: f64,
    /// Its instructions in AT&T's syntax, those of loops in it among them.
    pub code: Vec<String>,
    /// What llvm-mca says of a pass through an innermost loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mca: Option<Mca>,
}

/// A processor model's account of a loop.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Mca {
    /// The processor, as LLVM calls it.
    pub cpu: String,
    /// Cycles of a pass, of many in a row.
    pub cycles: f64,
    /// Cycles of a pass by the units it takes alone.
    pub throughput: f64,
}

/// Counts of instructions.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Mix {
    /// How many instructions.
    pub instructions: u32,
    /// How many of each class.
    pub classes: BTreeMap<Class, u32>,
    /// How many read memory other than the stack.
    pub loads: u32,
    /// How many write it.
    pub stores: u32,
    /// How many read the stack.
    pub stack_loads: u32,
    /// How many write it.
    pub stack_stores: u32,
}

/// Whether bytes are an object for x86-64, of which a program is made.
pub fn is_object(bytes: &[u8]) -> bool {
    code::is(bytes)
}

/// Names of an object's functions.
///
/// # Errors
/// If it can't be read.
pub fn names(bytes: &[u8]) -> Result<Vec<String>, CompileError> {
    Ok(code::functions(bytes)?.into_iter().map(|f| f.name).collect())
}

/// Reads an object and says what its functions execute; of one function where a name is given.
///
/// # Errors
/// If it can't be read, or there is no such function in it.
pub fn report(bytes: &[u8], function: Option<&str>) -> Result<Report, CompileError> {
    let refused = |reason: String| CompileError::CodeObject { reason };
    let mut functions = code::functions(bytes)?;
    if let Some(name) = function {
        functions.retain(|f| f.name == name);
        if functions.is_empty() {
            return Err(refused(format!("no function {name:?} in it")));
        }
    }
    if functions.is_empty() {
        return Err(refused("there is no function in it".into()));
    }
    Ok(Report { functions: functions.iter().map(of_function).collect() })
}

fn of_function(f: &code::Function) -> FunctionReport {
    let at = |offset: usize| f.instructions.binary_search_by_key(&offset, |i| i.offset).ok();
    let jumps = f.instructions.iter().enumerate().filter_map(|(from, i)| Some((from, at(i.jump()?)?)));
    let found = nested(jumps);
    let mut outside = Mix::default();
    let mut mixes = vec![Mix::default(); found.len()];
    let mut registers = BTreeSet::new();
    let mut vector_bits = 0;
    for (at, inst) in f.instructions.iter().enumerate() {
        innermost(&found, at).map_or(&mut outside, |l| &mut mixes[l]).add(&inst.text);
        for (bits, number) in vectors(&inst.text) {
            registers.insert(number);
            vector_bits = vector_bits.max(bits);
        }
    }
    let loops = found.iter().zip(mixes).map(|(l, mix)| Loop {
        offset: f.instructions[l.range.start].offset,
        depth: l.depth,
        innermost: !found.iter().any(|m| m != l && l.range.start <= m.range.start && m.range.end <= l.range.end),
        product_share: f64::from(mix.count(Class::Dot) + mix.count(Class::Fma)) / f64::from(mix.instructions.max(1)),
        mix,
        code: f.instructions[l.range.clone()].iter().map(|i| i.text.clone()).collect(),
        mca: None,
    });
    FunctionReport {
        name: f.name.clone(),
        bytes: f.instructions.last().map_or(0, |i| i.offset + i.bytes),
        vector_registers: registers.len(),
        vector_bits,
        outside,
        loops: loops.collect(),
    }
}

/// The vector registers that an instruction names: their bits and numbers.
fn vectors(text: &str) -> impl Iterator<Item = (u32, u32)> + '_ {
    text.split('%').skip(1).filter_map(|operand| {
        let bits = [("xmm", 128), ("ymm", 256), ("zmm", 512)];
        let (number, bits) = bits.iter().find_map(|&(name, bits)| Some((operand.strip_prefix(name)?, bits)))?;
        let digits = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        Some((bits, number[..digits].parse().ok()?))
    })
}

impl Mix {
    fn add(&mut self, text: &str) {
        self.instructions += 1;
        *self.classes.entry(Class::of(text)).or_default() += 1;
        let name = text.split(' ').next().unwrap_or_default();
        // These only compute an address, or hint at one.
        let Some(m) = memory(text).filter(|_| !name.starts_with("lea") && !name.starts_with("prefetch")) else {
            return;
        };
        // A comparison writes nothing, though its memory stands last.
        let written = m.written && !name.starts_with("cmp") && !name.starts_with("test");
        let count = match (m.stack, written) {
            (false, false) => &mut self.loads,
            (false, true) => &mut self.stores,
            (true, false) => &mut self.stack_loads,
            (true, true) => &mut self.stack_stores,
        };
        *count += 1;
    }

    /// How many of a class there are.
    pub fn count(&self, class: Class) -> u32 {
        self.classes.get(&class).copied().unwrap_or(0)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.functions.iter().enumerate().try_for_each(|(i, function)| {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{function}")
        })
    }
}

impl fmt::Display for FunctionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "function {}", self.name)?;
        writeln!(f, "  {:15} {} bytes", "code", self.bytes)?;
        writeln!(f, "  {:15} {}, up to {} bits", "vector registers", self.vector_registers, self.vector_bits)?;
        writeln!(f, "  executes, each pass")?;
        mix(f, "outside of loops", 0, &self.outside)?;
        for l in &self.loops {
            mix(f, &format!("loop at {:#x}", l.offset), l.depth, &l.mix)?;
            let indent = " ".repeat(6 + 2 * l.depth);
            if l.innermost {
                writeln!(f, "{indent}{:.1} % are dot products or multiply-adds", 100.0 * l.product_share)?;
            }
            if let Some(Mca { cpu, cycles, throughput }) = &l.mca {
                writeln!(f, "{indent}llvm-mca, {cpu}: {cycles:.1} cycles a pass; {throughput:.1} by its units alone")?;
            }
        }
        Ok(())
    }
}

fn mix(f: &mut fmt::Formatter<'_>, what: &str, depth: usize, m: &Mix) -> fmt::Result {
    let classes = m.classes.iter().map(|(c, &n)| (c.name(), n));
    let indent = counts::write(f, what, depth, m.instructions, classes)?;
    writeln!(
        f,
        "{indent}  {} load, {} store; the stack: {} load, {} store",
        m.loads, m.stores, m.stack_loads, m.stack_stores
    )
}
