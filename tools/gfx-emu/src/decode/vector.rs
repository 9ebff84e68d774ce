//! Vector operations, moves between lanes, and matrix products from assembly.

use super::dpp::{destination, dpp, select};
use super::inst::{Body, Lanes, Put, Reg, Ty, VSrc, Valu, scalar};
use super::names::canonical;
use super::simple::{Simple, needs_env};
use super::source::{scalar_register, source, vector_register};
use super::{Context, Result};
use crate::exec::matrix::form::{self, Broadcast, Element, Form};
use crate::exec::matrix::{self, Lines, Product};
use crate::exec::{LaneOp, mode, valu};
use hrx_compiler::hsaco::Generation;
use hrx_compiler::inspect::asm::{Op, Written};
use hrx_compiler::target::amd::MatrixOp;

/// Any vector instruction.
pub fn vector(op: &Op, context: &Context<'_>) -> Result<Body> {
    if ["v_mfma_", "v_smfmac_", "v_wmma_", "v_swmmac_"].iter().any(|start| op.name.starts_with(start)) {
        return product(op, context).map(|p| Body::Matrix(Box::new(p)));
    }
    if let Some(lanes) = lanes(op)? {
        return Ok(Body::Lanes(Box::new(lanes)));
    }
    operation(op, context).map(|v| Body::Valu(Box::new(v)))
}

/// Operations of 64 bits whose low half depends on low halves alone.
const LOW_ALONE: &[&str] = &[
    "v_mad_u64_u32",
    "v_mad_i64_i32",
    "v_mad_nc_",
    "v_add_u64",
    "v_sub_u64",
    "v_lshlrev_b64",
    "v_lshl_add_u64",
    "v_mov_b64",
];

/// Arithmetic on whole numbers that hardware saturates and rows do not.
const UNSATURATED: &[&str] = &[
    "v_mad_",
    "v_mul_",
    "v_sad_",
    "v_msad_",
    "v_pk_mad_",
    "v_pk_mul_lo_",
    "v_add_co_",
    "v_sub_co_",
    "v_subrev_co_",
    "v_add3_",
    "v_lshl_add_",
    "v_add_lshl_",
    "v_xad_",
];

/// An operation on each lane.
pub fn operation(op: &Op, context: &Context<'_>) -> Result<Valu> {
    let name = canonical(&op.name);
    let (name, to_exec) = match name.strip_prefix("v_cmpx_") {
        Some(rest) => (format!("v_cmp_{rest}"), true),
        None => (name, false),
    };
    let row = valu::TABLE.get(&name).ok_or_else(|| format!("no operation {}", op.name))?;
    let mut operands = op.written.iter();
    let mut next = |what: &str| operands.next().ok_or_else(|| format!("no {what}"));
    let mut dst = Reg::K;
    let mut put = Put::Whole;
    let mut mask_out = None;
    let scalar_mask = |w: &Written| scalar_register(w).map(|r| r.0).ok_or("a mask of lanes is no scalar");
    if row.dst == Ty::M {
        // Those that write EXEC alone have no destination since gfx10.
        if op.written.len() > row.src.len() {
            mask_out = Some(scalar_mask(next("result")?)?);
        }
    } else {
        let result = next("result")?;
        dst = match vector_register(result) {
            Some(register) => Reg::V(register),
            None => return Err("a result that is no vector register".into()),
        };
        put = put_half(op, row, result, context);
        if row.mask_out {
            mask_out = Some(scalar_mask(next("carry")?)?);
        }
    }
    let mut src = Vec::with_capacity(row.src.len());
    let explicit = row.src.len() - usize::from(row.accumulates);
    for (at, &ty) in row.src.iter().enumerate() {
        let mut source = if at < explicit { source(next("source")?, ty)? } else { source(&op.written[0], ty)? };
        source.select = select(op, at);
        src.push(source.selected(op, at));
    }
    packed(&mut src)?;
    let mut mask_in = row.vcc_in.then_some(scalar::VCC);
    if row.mask_in {
        mask_in = Some(match operands.next() {
            Some(w) => scalar_mask(w)?,
            None => scalar::VCC,
        });
    }
    if name.starts_with("v_pk_fmac") || row.accumulates {
        // The destination is read as it is.
        if let Some(last) = src.last_mut() {
            last.neg = false;
            last.abs = false;
            last.plain();
        }
    }
    let omod = match (op.setting("mul"), op.setting("div")) {
        (Some("2"), _) => 1,
        (Some("4"), _) => 2,
        (_, Some("2")) => -1,
        _ => 0,
    };
    let dpp = dpp(op, context.wave)?;
    let clamp = op.has("clamp");
    let whole = !matches!(row.dst, Ty::F | Ty::PF | Ty::H | Ty::PH | Ty::FD);
    if clamp && whole && UNSATURATED.iter().any(|start| name.starts_with(start)) {
        return Err(format!("saturation of {}", op.name));
    }
    let straight = src.iter().all(|s| s.plain) && dpp.is_none() && put == Put::Whole;
    let chosen = name.starts_with("v_cndmask");
    let low_alone = LOW_ALONE.iter().any(|start| name.starts_with(start));
    let signed = std::array::from_fn(|i| src.get(i).is_some_and(|s: &VSrc| s.neg_half[0]));
    let simple = match dst {
        Reg::V(to) if straight && mask_out.is_none() && omod == 0 && (!clamp || whole) => {
            Simple::new(to, row.dst.words(), &src, mask_in.is_some() || chosen || low_alone)
        }
        _ => None,
    };
    let half = matches!(row.dst, Ty::H | Ty::PH);
    let overflows = half && !["v_rcp_f16", "v_rsq_f16", "v_log_f16"].contains(&name.as_str());
    let valu = Valu {
        needs_env: mask_in.is_some() || needs_env(&name),
        env: valu::Env { clamp, signed, fnuz: context.fnuz, ..valu::Env::default() },
        simple,
        f: row.f,
        in_place: row.in_place,
        src,
        dst,
        dst_ty: row.dst,
        put,
        mask_out,
        mask_in,
        to_exec,
        clamp,
        omod,
        dpp,
        arithmetic: row.arithmetic,
        overflows,
        matters: 0,
        low_alone,
        select: chosen,
    };
    Ok(Valu { matters: mode::matters(&valu), ..valu })
}

/// The marks of packed sources, and of the sum beside them: a sum of one value is negated by both marks.
fn packed(src: &mut [VSrc]) -> Result<()> {
    let is_packed = |s: &VSrc| matches!(s.ty, Ty::P | Ty::PH | Ty::PB | Ty::PW | Ty::PF);
    if src.iter().any(|s| is_packed(s) && (s.abs || s.neg || s.select.is_some())) {
        return Err("a change of a packed source".into());
    }
    if !src.iter().any(is_packed) {
        return Ok(());
    }
    for sum in src.iter_mut().filter(|s| matches!(s.ty, Ty::F | Ty::H | Ty::B)) {
        if sum.neg_half[0] != sum.neg_half[1] {
            return Err("half of a negation of a sum".into());
        }
        sum.neg ^= std::mem::take(&mut sum.neg_half)[0];
        sum.plain();
    }
    Ok(())
}

/// Where a result of 16 bits goes.
fn put_half(op: &Op, row: &valu::Row, result: &Written, context: &Context<'_>) -> Put {
    if let Some(put) = destination(op) {
        return put;
    }
    if !row.dst.is_half() {
        return Put::Whole;
    }
    let selectors = op.list("op_sel").unwrap_or_default();
    let selected = selectors.get(row.src.len() - usize::from(row.accumulates)).is_some_and(|&n| n != 0);
    if result.half == Some(true) || selected || op.name.contains("mixhi") {
        return Put::High;
    }
    // Results of gfx9's older operations clear the rest of the register.
    let gfx9 = matches!(context.generation, Generation::Gfx9 | Generation::Gfx90a);
    if row.clears && gfx9 && selectors.is_empty() { Put::Whole } else { Put::Low }
}

/// Operations that move values between lanes, by name: how many sources.
const LANE_OPS: &[(&str, LaneOp, usize)] = &[
    ("v_readfirstlane_b32", LaneOp::ReadFirst, 1),
    ("v_readlane_b32", LaneOp::Read, 2),
    ("v_writelane_b32", LaneOp::Write, 2),
    ("v_permlane16_b32", LaneOp::Permute16 { across: false }, 3),
    ("v_permlanex16_b32", LaneOp::Permute16 { across: true }, 3),
    ("v_permlane16_var_b32", LaneOp::Permute16Var { across: false }, 2),
    ("v_permlanex16_var_b32", LaneOp::Permute16Var { across: true }, 2),
    ("v_permlane64_b32", LaneOp::Halves, 1),
    ("v_permlane32_swap_b32", LaneOp::Swap32, 1),
    ("v_permlane16_swap_b32", LaneOp::Swap16, 1),
    ("v_swap_b32", LaneOp::Swap, 1),
    ("v_movrels_b32", LaneOp::Relative { from: true, to: false, apart: false }, 1),
    ("v_movreld_b32", LaneOp::Relative { from: false, to: true, apart: false }, 1),
    ("v_movrelsd_b32", LaneOp::Relative { from: true, to: true, apart: false }, 1),
    ("v_movrelsd_2_b32", LaneOp::Relative { from: true, to: true, apart: true }, 1),
    ("v_s_rcp_f16", LaneOp::Special("v_rcp_f16"), 1),
    ("v_s_rsq_f16", LaneOp::Special("v_rsq_f16"), 1),
    ("v_s_sqrt_f16", LaneOp::Special("v_sqrt_f16"), 1),
    ("v_s_exp_f16", LaneOp::Special("v_exp_f16"), 1),
    ("v_s_log_f16", LaneOp::Special("v_log_f16"), 1),
    ("v_s_rcp_f32", LaneOp::Special("v_rcp_f32"), 1),
    ("v_s_rsq_f32", LaneOp::Special("v_rsq_f32"), 1),
    ("v_s_sqrt_f32", LaneOp::Special("v_sqrt_f32"), 1),
    ("v_s_exp_f32", LaneOp::Special("v_exp_f32"), 1),
    ("v_s_log_f32", LaneOp::Special("v_log_f32"), 1),
];

fn lanes(op: &Op) -> Result<Option<Lanes>> {
    let Some(&(_, lane_op, sources)) = LANE_OPS.iter().find(|o| o.0 == op.name) else { return Ok(None) };
    let to = op.written.first().ok_or("no result")?;
    let dst = match (vector_register(to), scalar_register(to)) {
        (Some(v), _) => Reg::V(v),
        (None, Some((s, _))) => Reg::S(s),
        _ => return Err("a result that is no register".into()),
    };
    let mut src = [(); 3].map(|()| VSrc::new(Reg::K, Ty::W, [0; 2]));
    for (at, src) in src.iter_mut().enumerate().take(sources) {
        *src = source(op.written.get(at + 1).ok_or("too few operands")?, Ty::W)?;
        src.plain();
        if !src.plain || op.encoding.contains("dpp") || op.encoding.contains("sdwa") {
            return Err("a changed operand of a move between lanes".into());
        }
    }
    if ["clamp", "mul", "div"].iter().any(|m| op.has(m) || op.setting(m).is_some()) {
        return Err("a changed result of a scalar".into());
    }
    let flags = op.list("op_sel").unwrap_or_default();
    let flag = |at: usize| flags.get(at).is_some_and(|&n| n != 0);
    Ok(Some(Lanes { op: lane_op, dst, src, inactive: flag(0), zero: flag(1), imm: 0 }))
}

fn product(op: &Op, context: &Context<'_>) -> Result<Product> {
    let register =
        |at: usize| op.written.get(at).and_then(vector_register).ok_or("a factor that is no vector register");
    if op.modifiers.iter().any(|m| m.contains("scale")) {
        return Err("scales of a matrix product".into());
    }
    let bit = |name: &str, at: usize| op.list(name).and_then(|l| l.get(at).copied()).is_some_and(|n| n != 0);
    let number = |name: &str| op.modifier(name).unwrap_or(0);
    let broadcast = Broadcast { cbsz: number("cbsz"), abid: number("abid"), blgp: number("blgp") };
    let is_chips = |m: &&MatrixOp| m.mnemonic == op.name && form::is_for(m, context.wave, context.generation);
    let form = match context.chip.matrix_ops.iter().find(is_chips) {
        Some(matrix) => {
            if broadcast != Broadcast::default() {
                return Err("lanes of a matrix product from others".into());
            }
            let high = matrix.acc.bits() == 16 && context.generation == Generation::Gfx11 && bit("op_sel", 2);
            Form::of_chip(matrix, context.wave, high)
        }
        None => Form::of_name(&op.name, broadcast).ok_or_else(|| format!("no product {}", op.name))?,
    };
    let [_, _, acc] = form.types;
    let sparse = !form.index.is_empty();
    if sparse && broadcast.blgp != 0 {
        return Err("lanes of a sparse product from others".into());
    }
    // A sparse product adds to its result, and has indices in the last operand.
    let (at, index) = if sparse { (0, Some(register(3)?)) } else { (3, None) };
    let written = op.written.get(at).ok_or("no sum")?;
    let c = source(written, Ty::W)?;
    let mut sum = matrix::acc(&c).ok_or("a sum in scalar registers")?;
    if let (matrix::Acc::K(bits), 16) = (&mut sum, acc.bits()) {
        *bits = source(written, Ty::H)?.bits[0];
    }
    let integer = acc == Element::I32;
    let signed = [bit("neg_lo", 0), bit("neg_lo", 1)];
    if !integer && (0..2).any(|i| bit("neg_lo", i) != bit("neg_hi", i)) && acc != Element::F64 {
        return Err("factors of which one half is negated".into());
    }
    let neg = [signed[0], signed[1], bit("neg_lo", 2)];
    let neg = match acc {
        _ if integer => [false; 3],
        // Lists of other names.
        Element::F64 => [bit("neg", 0), bit("neg", 1), bit("neg", 2)],
        _ => neg,
    };
    let dst = register(0)?;
    // A row is written when it and those before it have been read of the sum.
    let count = form.registers[2];
    let apart = |c: u16| c == dst || c + count <= dst || dst + count <= c;
    let in_turn = if let matrix::Acc::V(c) = sum { apart(c) } else { true };
    Ok(Product {
        dst,
        a: register(1)?,
        b: register(2)?,
        c: sum,
        signed,
        neg,
        abs: !integer && bit("neg_hi", 2),
        clamp: op.has("clamp"),
        fnuz: context.fnuz,
        index,
        broadcast,
        lines: Lines::new(&form).filter(|_| in_turn),
        form,
    })
}
