//! Accesses to memory and LDS as assembly, from the decoded form.

use super::print::vector;
use super::scalar;
use crate::decode::Context;
use crate::decode::inst::{Ds, Mem, Space};
use crate::exec::MemOp;
use hrx_compiler::hsaco::Generation;

fn offset(n: i64) -> String {
    if n == 0 { String::new() } else { format!(" offset:{n}") }
}

/// Operands and modifiers of an access to memory.
pub fn memory(m: &Mem, context: &Context<'_>) -> String {
    let words = m.op.words();
    let old = context.generation < Generation::Gfx11;
    let atomic_data = |compares: bool| if compares { 2 * words } else { words };
    let vaddr = |count: u16| m.vaddr.map_or_else(|| "off".into(), |v| vector(v, count));
    let mut operands = Vec::new();
    let mut returns = false;
    let data = match m.op {
        MemOp::Load { .. } => None,
        MemOp::Store { .. } => Some(vector(m.data, words)),
        MemOp::Atomic { compares, returns: r, .. } => {
            returns = r;
            Some(vector(m.data, atomic_data(compares)))
        }
    };
    let loads = matches!(m.op, MemOp::Load { .. });
    let mut text;
    if m.space == Space::Buffer {
        if !m.to_lds {
            operands.push(data.unwrap_or_else(|| vector(m.dst, words)));
        }
        operands.push(vaddr(1 + u16::from(m.offen && m.idxen)));
        operands.push(scalar::register(m.saddr.unwrap_or(0), 4));
        operands.push(scalar::source(m.soffset));
        text = operands.join(", ");
        text += if m.idxen { " idxen" } else { "" };
        text += if m.offen { " offen" } else { "" };
    } else {
        if (loads || returns) && !m.to_lds {
            operands.push(vector(m.dst, words));
        }
        operands.push(vaddr(1 + u16::from(m.wide)));
        operands.extend(data);
        if m.space != Space::Flat {
            let base = m.saddr.map(|s| scalar::register(s, if m.space == Space::Scratch { 1 } else { 2 }));
            operands.push(base.unwrap_or_else(|| "off".into()));
        } else if let Some(s) = m.saddr {
            operands.push(scalar::register(s, 2));
        }
        text = operands.join(", ");
    }
    text += &offset(m.offset);
    if m.to_lds && m.space == Space::Buffer {
        text += " lds";
    }
    if returns {
        text += match context.generation {
            Generation::Gfx12 => " th:TH_ATOMIC_RETURN",
            _ if old => " sc0",
            _ => " glc",
        };
    }
    text
}

/// Those of an access to LDS.
pub fn lds(mnemonic: &str, d: &Ds) -> String {
    let words = d.op.words();
    let places = if d.two { 2 } else { 1 };
    let mut operands = Vec::new();
    if matches!(d.op, MemOp::Load { .. } | MemOp::Atomic { returns: true, .. }) {
        operands.push(vector(d.dst, words * places));
    }
    operands.extend(d.addr.map(|a| vector(a, 1)));
    let count = match d.op {
        MemOp::Load { .. } => 0,
        MemOp::Store { .. } => places as usize,
        MemOp::Atomic { compares, .. } => 1 + usize::from(compares),
    };
    let mut data: Vec<String> = d.data[..count].iter().map(|&r| vector(r, words)).collect();
    // The older mnemonic has what is compared with first.
    if mnemonic.contains("cmpst_") {
        data.reverse();
    }
    operands.extend(data);
    let mut text = operands.join(", ");
    if d.two {
        let scale = if mnemonic.contains("st64") || mnemonic.contains("stride64") { 64 } else { 1 } * d.op.bytes();
        text += &format!(" offset0:{} offset1:{}", d.offsets[0] / scale, d.offsets[1] / scale);
    } else {
        text += &offset(d.offsets[0].into());
    }
    text
}
