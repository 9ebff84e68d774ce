//! Accesses of lanes to memory and LDS from assembly.

use super::Result;
use super::inst::{Body, Control, Ds, Lanes, Mem, Reg, SSrc, Space, Ty};
use super::simple::SPREAD;
use super::source::{scalar_register, scalar_source, source, vector_register};
use crate::exec::LaneOp;
use crate::exec::memop::{self, MemOp};
use hrx_compiler::inspect::asm::{Base, Op, Written};

/// Spaces by the start of mnemonics.
const SPACES: &[(&str, Space)] =
    &[("buffer_", Space::Buffer), ("global_", Space::Global), ("flat_", Space::Flat), ("scratch_", Space::Scratch)];

/// Write-backs, invalidations and prefetches: those that make others' writes visible, and those that do nothing here.
const CACHES: &[(&str, bool)] = &[
    ("buffer_gl0_inv", true),
    ("buffer_gl1_inv", true),
    ("buffer_inv", true),
    ("buffer_wbinvl1", true),
    ("global_inv", true),
    ("buffer_wbl2", false),
    ("buffer_invl2", true),
    ("global_wb", false),
    ("global_prefetch", false),
    ("flat_prefetch", false),
];

/// An instruction of vector memory; none if it is something else.
pub fn memory(op: &Op) -> Result<Option<Body>> {
    let name = op.name.as_str();
    if let Some(&(_, acquires)) = CACHES.iter().find(|c| name.starts_with(c.0)) {
        return Ok(Some(Body::Control(if acquires { Control::Acquire } else { Control::Nop })));
    }
    let Some((rest, space)) = SPACES.iter().find_map(|(start, s)| Some((name.strip_prefix(start)?, *s))) else {
        return Ok(None);
    };
    if op.has("tfe") || op.has("swz") {
        return Err("accesses with status or swizzled".into());
    }
    let to_lds = op.has("lds") || rest.contains("load_lds_");
    let returns = ["glc", "sc0"].iter().any(|m| op.has(m)) || op.modifiers.iter().any(|m| m.contains("RETURN"));
    let memop = if let Some(rest) = rest.strip_prefix("load_") {
        memop::load(rest.strip_prefix("lds_").unwrap_or(rest))
    } else if to_lds {
        None
    } else if let Some(rest) = rest.strip_prefix("store_") {
        memop::store(rest)
    } else {
        rest.strip_prefix("atomic_").and_then(|rest| memop::atomic(rest, returns))
    };
    let memop = memop.ok_or_else(|| format!("no access {name}"))?;
    let access = if space == Space::Buffer { buffer(op, memop, to_lds) } else { addressed(op, memop, space, to_lds) };
    access.map(|m| Some(Body::Mem(Box::new(m))))
}

fn offset(op: &Op) -> i64 {
    op.modifier("offset").map_or(0, |n| i64::from(n as i32))
}

fn register(op: &Op, at: usize) -> Result<u16> {
    op.written.get(at).and_then(vector_register).ok_or_else(|| format!("operand {at} is no vector register"))
}

fn is_off(w: Option<&Written>) -> bool {
    w.is_some_and(|w| matches!(&w.base, Base::Name(n) if n == "off"))
}

fn buffer(op: &Op, memop: MemOp, to_lds: bool) -> Result<Mem> {
    // What goes to LDS has no register.
    let (data, at) = if to_lds { (SPREAD, 0) } else { (register(op, 0)?, 1) };
    let vaddr = if is_off(op.written.get(at)) { None } else { Some(register(op, at)?) };
    let resource = op.written.get(at + 1).and_then(scalar_register).ok_or("no resource")?.0;
    let soffset = scalar_source(op.written.get(at + 2).ok_or("no offset")?, 1, false)?;
    Ok(Mem {
        space: Space::Buffer,
        op: memop,
        dst: data,
        data,
        vaddr,
        saddr: Some(resource),
        soffset,
        offset: offset(op),
        offen: op.has("offen"),
        idxen: op.has("idxen"),
        wide: false,
        to_lds,
    })
}

fn addressed(op: &Op, memop: MemOp, space: Space, to_lds: bool) -> Result<Mem> {
    // Results come first, if there are any; then the address, data, and what is added.
    let has_result = matches!(memop, MemOp::Load { .. } | MemOp::Atomic { returns: true, .. }) && !to_lds;
    let has_data = !matches!(memop, MemOp::Load { .. });
    let mut at = 0;
    let dst = match has_result {
        true => register(op, 0)?,
        false if to_lds => SPREAD,
        false => 0,
    };
    at += usize::from(has_result);
    let vaddr = if is_off(op.written.get(at)) { None } else { Some(register(op, at)?) };
    at += 1;
    let data = if has_data { register(op, at)? } else { 0 };
    at += usize::from(has_data);
    let base = op.written.get(at);
    let saddr = match base {
        None => None,
        Some(w) if is_off(Some(w)) => None,
        Some(w) => Some(scalar_register(w).ok_or("a base that is no scalar")?.0),
    };
    let saddr = saddr.filter(|&s| s != super::inst::scalar::NULL);
    Ok(Mem {
        space,
        op: memop,
        dst,
        data,
        vaddr,
        saddr,
        soffset: SSrc::Const(0),
        offset: offset(op),
        offen: false,
        idxen: false,
        wide: space != Space::Scratch && saddr.is_none(),
        to_lds,
    })
}

/// Mnemonics of two addresses: their start, and what offsets are multiplied by, in units of the data.
const TWO: &[(&str, u32)] = &[
    ("load_2addr_stride64_", 64),
    ("load_2addr_", 1),
    ("read2st64_", 64),
    ("read2_", 1),
    ("store_2addr_stride64_", 64),
    ("store_2addr_", 1),
    ("write2st64_", 64),
    ("write2_", 1),
];

/// An instruction of LDS, whose first 32 bits are `word`; none if it is something else.
pub fn lds(op: &Op, word: u32) -> Result<Option<Body>> {
    let Some(rest) = op.name.strip_prefix("ds_") else { return Ok(None) };
    if op.has("gds") {
        return Err("GDS".into());
    }
    let imm = word & 0xffff;
    let lanes = |lane_op, sources: usize| -> Result<Option<Body>> {
        let mut src = Vec::new();
        for at in 1..=3 {
            let from = if at <= sources { at } else { 1 };
            let mut s = source(op.written.get(from).ok_or("too few operands")?, Ty::W)?;
            s.plain();
            src.push(s);
        }
        let src = <[_; 3]>::try_from(src).map_err(|_| "three sources")?;
        let dst = Reg::V(register(op, 0)?);
        Ok(Some(Body::Lanes(Box::new(Lanes { op: lane_op, dst, src, inactive: false, zero: false, imm }))))
    };
    match rest {
        "bpermute_b32" => return lanes(LaneOp::BackwardPermute, 2),
        "bpermute_fi_b32" => return lanes(LaneOp::BackwardPermuteAll, 2),
        "permute_b32" => return lanes(LaneOp::ForwardPermute, 2),
        "swizzle_b32" => return lanes(LaneOp::Swizzle, 1),
        "nop" => return Ok(Some(Body::Control(Control::Nop))),
        _ => {}
    }
    let (two, rest) = match TWO.iter().find_map(|&(start, scale)| Some((scale, rest.strip_prefix(start)?, start))) {
        Some((scale, rest, start)) => {
            let kind = if start.starts_with('l') || start.starts_with('r') { "load_" } else { "store_" };
            (Some(scale), format!("{kind}{rest}"))
        }
        None => (None, rest.replacen("read_", "load_", 1).replacen("write_", "store_", 1)),
    };
    let memop = if let Some(rest) = rest.strip_prefix("load_") {
        memop::load(rest)
    } else if let Some(rest) = rest.strip_prefix("store_") {
        memop::store(rest)
    } else {
        memop::atomic(&rest.replacen("rtn_", "", 1), rest.contains("rtn_"))
    };
    let memop = memop.ok_or_else(|| format!("no access {}", op.name))?;
    let has_result = matches!(memop, MemOp::Load { .. } | MemOp::Atomic { returns: true, .. });
    let mut at = usize::from(has_result);
    let dst = if has_result { register(op, 0)? } else { 0 };
    let addr = register(op, at)?;
    at += 1;
    let mut data = [0; 2];
    let count = match memop {
        MemOp::Load { .. } => 0,
        MemOp::Store { .. } => 1 + usize::from(two.is_some()),
        MemOp::Atomic { compares, .. } => 1 + usize::from(compares),
    };
    for slot in data.iter_mut().take(count) {
        *slot = register(op, at)?;
        at += 1;
    }
    // What is compared with comes first up to gfx10.
    if op.name.contains("cmpst_") {
        data.swap(0, 1);
    }
    let offsets = match two {
        Some(scale) => ["offset0", "offset1"].map(|o| op.modifier(o).unwrap_or(0) * scale * memop.bytes()),
        None => [op.modifier("offset").unwrap_or(0), 0],
    };
    Ok(Some(Body::Ds(Box::new(Ds { op: memop, dst, addr: Some(addr), data, offsets, two: two.is_some() }))))
}
