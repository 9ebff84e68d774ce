//! The text of the lane form.
//!
//! ```text
//! lanes @rows wave 32 waves 4 lds 1024 {
//!   r3: i32 = lane
//!   r9: f32 = fma r4, r5, r8
//!   store m1[r2 + r7 + 16] 4 bytes, r9
//! }
//! ```

use super::ir::{Address, Block, LaneKernel, Op, Space, Ty, Val};
use std::fmt::{self, Write};

impl fmt::Display for LaneKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "lanes @{} wave {} waves {} lds {} {{", self.name, self.wave, self.waves, self.lds)?;
        self.block(f, &self.body, 1)?;
        f.write_str("}\n")
    }
}

fn list(values: &[Val]) -> String {
    values.iter().map(Val::to_string).collect::<Vec<_>>().join(", ")
}

impl LaneKernel {
    fn block(&self, f: &mut fmt::Formatter<'_>, block: &Block, depth: usize) -> fmt::Result {
        for inst in block {
            write!(f, "{:1$}", "", 2 * depth)?;
            let results: Vec<String> = inst.results.iter().map(|&v| format!("{v}: {}", self.types[v].name())).collect();
            if !results.is_empty() {
                write!(f, "{} = ", results.join(", "))?;
            }
            if let Op::For { bounds: [lower, upper, step], inits, params, body, yields } = &inst.op {
                write!(f, "for {} in {lower}..{upper} step {step}", params[0])?;
                let carried: Vec<String> = params[1..].iter().zip(inits).map(|(p, i)| format!("{p} = {i}")).collect();
                writeln!(f, " carry ({}) {{", carried.join(", "))?;
                self.block(f, body, depth + 1)?;
                writeln!(f, "{:2$}yield {}", "", list(yields), 2 * depth + 2)?;
                writeln!(f, "{:1$}}}", "", 2 * depth)?;
                continue;
            }
            let mut text = String::new();
            self.op(&mut text, &inst.op, &inst.results)?;
            writeln!(f, "{text}")?;
        }
        Ok(())
    }

    fn op(&self, s: &mut String, op: &Op, results: &[Val]) -> fmt::Result {
        match op {
            Op::Const(bits) => match results.first().map(|&v| self.types[v]) {
                Some(Ty::F32) => write!(s, "const {:?}", f32::from_bits(*bits)),
                Some(Ty::B1) => write!(s, "const {}", *bits != 0),
                _ => write!(s, "const {}", *bits as i32),
            },
            Op::Lane => s.write_str("lane"),
            Op::Wave => s.write_str("wave"),
            Op::Program(axis) => write!(s, "program {axis}"),
            Op::Param(v) => write!(s, "param {v}"),
            Op::Un(op, a) => write!(s, "{} {a}", name(op)),
            Op::Bin(op, a, b) => write!(s, "{} {a}, {b}", name(op)),
            Op::Cmp(op, a, b) => write!(s, "cmp_{} {a}, {b}", name(op)),
            Op::Select(c, a, b) => write!(s, "select {c}, {a}, {b}"),
            Op::Fma(a, b, c) => write!(s, "fma {a}, {b}, {c}"),
            Op::Dot4 { signed, args } => write!(s, "dot4_{} {}", if *signed { "s" } else { "u" }, list(args)),
            Op::Lookup(table, v) => write!(s, "lookup {v} in {}", table.name),
            Op::Table(table, v) => write!(s, "table {}[{v}] {} words", table.name, results.len()),
            Op::Dot2(args) => write!(s, "dot2 {}", list(args)),
            Op::ShuffleXor(v, mask) => write!(s, "shuffle_xor {v}, {mask}"),
            Op::Load { at, bytes, mask } => {
                write!(s, "load {} {bytes} bytes{}", address(at), masked(*mask))
            }
            Op::LoadMatrices { at, count, transposed } => {
                write!(s, "load {} {count} matrices{}", address(at), if *transposed { " transposed" } else { "" })
            }
            Op::Store { at, bytes, values, mask } => {
                write!(s, "store {} {bytes} bytes, {}{}", address(at), list(values), masked(*mask))
            }
            Op::Barrier => s.write_str("barrier"),
            Op::Mma { inst, a, b, c } => {
                write!(s, "{} ({}), ({}), ({})", inst.mnemonic, list(a), list(b), list(c))
            }
            Op::For { .. } => Ok(()),
        }
    }
}

/// A variant's name in lower case, with what it holds.
fn name(v: &impl fmt::Debug) -> String {
    let text = format!("{v:?}").to_lowercase();
    text.replace('(', "_").replace(')', "")
}

fn address(a: &Address) -> String {
    let place = match a.space {
        Space::Global(v) => v.to_string(),
        Space::Lds => "lds".into(),
    };
    format!("{place}[{} + {} + {}]", a.uniform, a.lane, a.imm)
}

fn masked(mask: Option<Val>) -> String {
    mask.map_or(String::new(), |m| format!(" mask {m}"))
}
