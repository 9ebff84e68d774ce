//! Scalar operations, loads, waits and control from assembly.

use super::inst::{Body, Control, Counter, SSrc, Salu, Smem, Waits, When, scalar};
use super::names::canonical;
use super::source::{scalar_register, scalar_source};
use super::{Context, Result};
use crate::exec::memop::{self, MemOp};
use crate::exec::salu;
use hrx_compiler::inspect::asm::{Base, Op, Written};

/// An instruction whose mnemonic starts with `s_`. `word` is its first 32 bits, `next` where the one after it starts.
pub fn uniform(op: &Op, context: &Context<'_>, word: u32, next: u32) -> Result<Body> {
    let name = op.name.as_str();
    if let Some(control) = control(op, word, next)? {
        return Ok(Body::Control(control));
    }
    if name.starts_with("s_wait") {
        return wait(op);
    }
    if let Some(rest) = name.strip_prefix("s_load_") {
        return load(op, rest, false).map(Body::Smem);
    }
    if let Some(rest) = name.strip_prefix("s_buffer_load_") {
        return load(op, rest, true).map(Body::Smem);
    }
    operation(op, context)
}

fn operation(op: &Op, context: &Context<'_>) -> Result<Body> {
    let name = canonical(&op.name);
    let row = salu::TABLE.get(&name).ok_or_else(|| format!("no operation {}", op.name))?;
    let mut operands = op.written.iter();
    let mut dst = None;
    if row.dst > 0 {
        let to = operands.next().ok_or("no result")?;
        let (first, _) = scalar_register(to).ok_or("a result that is no scalar register")?;
        dst = Some((first, row.dst));
    }
    let mut src = [SSrc::Const(0); 3];
    for (at, &words) in row.src.iter().enumerate() {
        let w = operands.next().ok_or("too few operands")?;
        let (w, changed) = plain(w);
        if changed {
            return Err("a changed scalar operand".into());
        }
        src[at] = scalar_source(&w, words, row.float)?;
    }
    if row.reads_dst {
        src[2] = dst.map_or(SSrc::Const(0), |(first, words)| SSrc::Reg(first, words));
    }
    if row.saves_exec {
        let words = row.dst;
        if (words == 1) != (context.wave == 32) {
            return Err("EXEC of another wave size".into());
        }
        let saving = Salu {
            f: row.f,
            // EXEC is the result; what it was, or is, goes to the register, which the third source names.
            dst,
            src: [src[0], SSrc::Reg(scalar::EXEC, words), SSrc::Const(1 + u64::from(name.contains("wrexec")))],
            reads_scc: false,
            writes_scc: true,
            saves_exec: true,
            reads: [0; 3],
            writes: [0; 3],
        };
        return Ok(Body::Salu(saving.noted()));
    }
    let Row { f, reads_scc, writes_scc } = Row { f: row.f, reads_scc: row.reads_scc, writes_scc: row.writes_scc };
    let op = Salu { f, dst, src, reads_scc, writes_scc, saves_exec: false, reads: [0; 3], writes: [0; 3] };
    Ok(Body::Salu(op.noted()))
}

struct Row {
    f: salu::SaluFn,
    reads_scc: bool,
    writes_scc: bool,
}

/// A constant with a sign taken into it; whether a register is changed.
fn plain(w: &Written) -> (Written, bool) {
    (w.clone(), w.neg || w.abs)
}

fn number(op: &Op, at: usize) -> Option<u64> {
    match op.written.get(at)?.base {
        Base::Whole(n) => Some(n),
        _ => None,
    }
}

/// Where a jump goes.
fn target(op: &Op, at: usize, next: u32) -> Result<u32> {
    let words = number(op, at).ok_or("a jump to nowhere")? as u16 as i16;
    Ok(next.wrapping_add_signed(4 * i32::from(words)))
}

fn control(op: &Op, word: u32, next: u32) -> Result<Option<Control>> {
    // Which hardware register, first bit, bits.
    let hwreg = || (word as u8 & 63, (word >> 6) as u8 & 31, (word >> 11) as u8 & 31);
    let pair = |at: usize| op.written.get(at).and_then(scalar_register).map(|r| r.0).ok_or("no scalar registers");
    let source = |at: usize, words: u8| scalar_source(op.written.get(at).ok_or("too few operands")?, words, false);
    let branch = |when| Ok(Some(Control::Branch(when, target(op, 0, next)?)));
    Ok(Some(match op.name.as_str() {
        "s_branch" => return branch(When::Always),
        "s_cbranch_scc0" => return branch(When::Scc(false)),
        "s_cbranch_scc1" => return branch(When::Scc(true)),
        "s_cbranch_vccz" => return branch(When::VccZero(true)),
        "s_cbranch_vccnz" => return branch(When::VccZero(false)),
        "s_cbranch_execz" => return branch(When::ExecZero(true)),
        "s_cbranch_execnz" => return branch(When::ExecZero(false)),
        "s_endpgm" | "s_endpgm_saved" => Control::End,
        "s_barrier" => Control::Barrier,
        "s_barrier_signal" if number(op, 0) == Some(u64::MAX) => Control::Signal,
        "s_barrier_signal_isfirst" if number(op, 0) == Some(u64::MAX) => Control::SignalFirst(scalar::SCC),
        "s_barrier_wait" => match number(op, 0).map(|n| n as u16) {
            Some(u16::MAX) => Control::BarrierWait,
            _ => return Err("a barrier that is not the workgroup's".into()),
        },
        "s_movrels_b32" | "s_movrels_b64" | "s_movreld_b32" | "s_movreld_b64" => {
            let words = if op.name.ends_with("64") { 2 } else { 1 };
            Control::Relative { to: pair(0)?, from: source(1, words)?, words, source: op.name.contains("rels") }
        }
        "s_getpc_b64" => Control::GetPc(pair(0)?),
        "s_setpc_b64" => Control::SetPc(source(0, 2)?),
        "s_swappc_b64" => Control::SwapPc(pair(0)?, source(1, 2)?),
        "s_call_b64" => Control::Call(pair(0)?, target(op, 1, next)?),
        "s_getreg_b32" => {
            let (which, at, bits) = hwreg();
            Control::GetReg(pair(0)?, which, at, bits + 1)
        }
        "s_setreg_b32" => {
            let (which, at, bits) = hwreg();
            let from = op.written.last().ok_or("no source")?;
            let from = match from.base {
                Base::Name(_) => last_word(op)?,
                _ => scalar_source(from, 1, false)?,
            };
            Control::SetReg(from, which, at, bits + 1)
        }
        "s_setreg_imm32_b32" => {
            let (which, at, bits) = hwreg();
            let from = op.written.last().ok_or("no source")?;
            Control::SetReg(scalar_source(from, 1, false)?, which, at, bits + 1)
        }
        "s_round_mode" => Control::RoundMode(word & 15),
        "s_denorm_mode" => Control::DenormMode(word & 15),
        "s_trap" => Control::Trap,
        "s_memtime" | "s_memrealtime" => Control::Time(pair(0)?, 2),
        "s_sendmsg_rtn_b64" => Control::Time(pair(0)?, 2),
        "s_sendmsg_rtn_b32" => Control::Time(pair(0)?, 1),
        "s_nop"
        | "s_clause"
        | "s_delay_alu"
        | "s_sleep"
        | "s_sleep_var"
        | "s_setprio"
        | "s_sendmsg"
        | "s_icache_inv"
        | "s_dcache_inv"
        | "s_dcache_wb"
        | "s_gl1_inv"
        | "s_inst_prefetch"
        | "s_set_inst_prefetch_distance"
        | "s_code_end"
        | "s_wait_alu"
        | "s_waitcnt_depctr"
        | "s_wait_event"
        | "s_wait_idle"
        | "s_ttracedata"
        | "s_ttracedata_imm"
        | "s_prefetch_inst"
        | "s_prefetch_data"
        | "s_prefetch_inst_pc_rel"
        | "s_prefetch_data_pc_rel"
        | "s_buffer_prefetch_data"
        | "s_setkill"
        | "s_sethalt"
        | "s_incperflevel"
        | "s_decperflevel"
        | "s_version" => Control::Nop,
        _ => return Ok(None),
    }))
}

fn last_word(op: &Op) -> Result<SSrc> {
    Err(format!("the source of {}", op.name))
}

/// Counters by their names.
fn counters(name: &str) -> Option<&'static [Counter]> {
    Some(match name {
        "vmcnt" | "loadcnt" => &[Counter::Load],
        "vscnt" | "storecnt" => &[Counter::Store],
        "lgkmcnt" => &[Counter::Lds, Counter::Scalar],
        "dscnt" => &[Counter::Lds],
        "kmcnt" => &[Counter::Scalar],
        "expcnt" | "samplecnt" | "bvhcnt" => &[],
        _ => return None,
    })
}

fn wait(op: &Op) -> Result<Body> {
    let mut waits = Waits { left: [None; 4] };
    let mut set = |name: &str, left: u32| -> Result<()> {
        for &counter in counters(name).ok_or_else(|| format!("counter {name}"))? {
            waits.left[counter as usize] = Some(left);
        }
        Ok(())
    };
    let last = op.written.iter().rev().find_map(|w| if let Base::Whole(n) = w.base { Some(n as u32) } else { None });
    match op.name.as_str() {
        "s_waitcnt" => {
            let first = op.written.iter().filter_map(|w| if let Base::Name(n) = &w.base { Some(n) } else { None });
            for word in first.chain(&op.modifiers) {
                let (name, left) = word.trim_end_matches(')').split_once('(').ok_or("an unknown wait")?;
                set(name, left.parse().map_err(|_| "an unknown count")?)?;
            }
        }
        "s_wait_loadcnt_dscnt" | "s_wait_storecnt_dscnt" => {
            let n = last.ok_or("no count")?;
            set(if op.name.contains("load") { "loadcnt" } else { "storecnt" }, n >> 8 & 63)?;
            set("dscnt", n & 63)?;
        }
        name => {
            let counter = name.strip_prefix("s_waitcnt_").or_else(|| name.strip_prefix("s_wait_"));
            set(counter.ok_or("an unknown wait")?, last.ok_or("no count")?)?;
        }
    }
    Ok(Body::Wait(waits))
}

fn load(op: &Op, rest: &str, buffer: bool) -> Result<Smem> {
    let register = |at: usize| op.written.get(at).and_then(scalar_register).map(|r| r.0);
    let dst = register(0).ok_or("no result")?;
    let base = register(1).ok_or("no base")?;
    let (words, narrow) = match memop::load(rest) {
        Some(MemOp::Load { bytes: bytes @ (1 | 2), signed, .. }) => (1, Some((bytes, signed))),
        Some(MemOp::Load { bytes, .. }) => (bytes / 4, None),
        _ => match rest {
            "b256" | "dwordx8" => (8, None),
            "b512" | "dwordx16" => (16, None),
            _ => return Err(format!("no load {rest}")),
        },
    };
    let offset = match op.written.get(2) {
        Some(w) => scalar_source(w, 1, false)?,
        None => SSrc::Const(0),
    };
    // A constant is the offset itself, with its sign.
    let (offset, first) = match (offset, op.written.get(2).map(|w| &w.base)) {
        (SSrc::Const(_), Some(Base::Whole(n))) => (SSrc::Const(0), *n as i64),
        (offset, _) => (offset, 0),
    };
    let more = op.modifier("offset").map_or(0, |n| i64::from(n as i32));
    Ok(Smem { dst, words, narrow, base, buffer, offset, imm: first + more })
}
