//! Scalar instructions as assembly, from the decoded form.

use crate::decode::Context;
use crate::decode::inst::{Body, Control, SSrc, Salu, Smem, Waits, When, scalar};
use hrx_compiler::hsaco::Generation;

/// Scalar registers.
pub fn register(first: u16, words: u16) -> String {
    let pair = |low: &str, high: &str, both: &str, base: u16| match (first - base, words) {
        (0, 1) => low.into(),
        (1, 1) => high.into(),
        _ => String::from(both),
    };
    let row = |name: &str, first: u16| {
        if words == 1 { format!("{name}{first}") } else { format!("{name}[{first}:{}]", first + words - 1) }
    };
    match first {
        scalar::VCC | 111 => pair("vcc_lo", "vcc_hi", "vcc", scalar::VCC),
        scalar::EXEC | 131 => pair("exec_lo", "exec_hi", "exec", scalar::EXEC),
        scalar::M0 => "m0".into(),
        scalar::NULL => "null".into(),
        scalar::SCC => "src_scc".into(),
        scalar::SHARED_BASE => "src_shared_base".into(),
        scalar::PRIVATE_BASE => "src_private_base".into(),
        scalar::SHARED_LIMIT => "src_shared_limit".into(),
        scalar::PRIVATE_LIMIT => "src_private_limit".into(),
        scalar::VCCZ => "src_vccz".into(),
        scalar::EXECZ => "src_execz".into(),
        f if (scalar::FLAT_SCRATCH..scalar::FLAT_SCRATCH + 2).contains(&f) => {
            pair("flat_scratch_lo", "flat_scratch_hi", "flat_scratch", scalar::FLAT_SCRATCH)
        }
        f if (scalar::XNACK..scalar::XNACK + 2).contains(&f) => {
            pair("xnack_mask_lo", "xnack_mask_hi", "xnack_mask", scalar::XNACK)
        }
        f if (scalar::TTMP0..scalar::TTMP0 + 16).contains(&f) => row("ttmp", f - scalar::TTMP0),
        f => row("s", f),
    }
}

/// A scalar source.
pub fn source(src: SSrc) -> String {
    match src {
        SSrc::Reg(first, words) => register(first, words.into()),
        // Whole numbers of 32 bits with their signs; the assembler makes constants of them where it can.
        SSrc::Const(n) if n as u32 as u64 == n && (-16..0).contains(&(n as u32 as i32)) => {
            (n as u32 as i32).to_string()
        }
        SSrc::Const(n) if (-16..0).contains(&(n as i64)) => (n as i64).to_string(),
        SSrc::Const(n) => format!("{n:#x}"),
    }
}

/// Constants that are fractions without a literal.
fn fraction(src: SSrc) -> Option<&'static str> {
    let SSrc::Const(n) = src else { return None };
    const TABLE: [(f64, &str); 8] = [
        (0.5, "0.5"),
        (-0.5, "-0.5"),
        (1.0, "1.0"),
        (-1.0, "-1.0"),
        (2.0, "2.0"),
        (-2.0, "-2.0"),
        (4.0, "4.0"),
        (-4.0, "-4.0"),
    ];
    let found = TABLE.iter().find(|(x, _)| n == x.to_bits() || n == u64::from((*x as f32).to_bits()));
    found.map(|f| f.1).or(match n {
        0x3fc4_5f30_6dc9_c882 => Some("0.15915494309189532"),
        0x3e22_f983 => Some("0.15915494"),
        _ => None,
    })
}

/// Ways to write a scalar instruction's operands.
pub fn candidates(mnemonic: &str, body: &Body, context: &Context<'_>, next: u32) -> Vec<String> {
    match body {
        Body::Salu(op) => operation(mnemonic, op),
        Body::Smem(m) => vec![load(m, context)],
        Body::Wait(waits) => wait(mnemonic, waits),
        Body::Control(control) => self::control(mnemonic, control, next),
        _ => Vec::new(),
    }
}

fn operation(mnemonic: &str, op: &Salu) -> Vec<String> {
    let dst = op.dst.map(|(first, words)| register(first, words.into()));
    if op.saves_exec {
        return vec![format!("{}, {}", dst.unwrap_or_default(), source(op.src[0]))];
    }
    let short =
        ["s_cmpk_", "s_movk_", "s_addk_", "s_mulk_", "s_cmovk_"].iter().any(|start| mnemonic.starts_with(start));
    let shown = |src: SSrc| match src {
        SSrc::Const(n) if short => format!("{:#x}", n as u16),
        src => fraction(src).map_or_else(|| source(src), String::from),
    };
    (1..=3)
        .map(|count| {
            dst.iter().cloned().chain(op.src[..count].iter().map(|&s| shown(s))).collect::<Vec<_>>().join(", ")
        })
        .collect()
}

fn load(m: &Smem, context: &Context<'_>) -> String {
    let dst = register(m.dst, m.words.into());
    let base = register(m.base, if m.buffer { 4 } else { 2 });
    let imm = if m.imm < 0 { format!("-{:#x}", -m.imm) } else { format!("{:#x}", m.imm) };
    let rest = match m.offset {
        SSrc::Reg(first, _) if m.imm == 0 && context.generation < Generation::Gfx12 => register(first, 1),
        SSrc::Reg(first, _) => format!("{} offset:{imm}", register(first, 1)),
        SSrc::Const(_) => imm,
    };
    format!("{dst}, {base}, {rest}")
}

fn wait(mnemonic: &str, waits: &Waits) -> Vec<String> {
    let [load, store, lds, scalar] = waits.left;
    if mnemonic == "s_waitcnt" {
        let shown = |name: &str, left: Option<u32>| left.map(|n| format!("{name}({n})"));
        return vec![[shown("vmcnt", load), shown("lgkmcnt", lds)].into_iter().flatten().collect::<Vec<_>>().join(" ")];
    }
    let pair = |high: Option<u32>| Some(high? << 8 | lds?);
    let left = match mnemonic {
        "s_wait_loadcnt_dscnt" => pair(load),
        "s_wait_storecnt_dscnt" => pair(store),
        _ => load.or(store).or(lds).or(scalar),
    };
    let left = left.map_or_else(String::new, |n| format!("{n:#x}"));
    vec![left.clone(), format!("null, {left}")]
}

/// The names of hardware registers are numbers here.
fn hardware(which: u8, at: u8, bits: u8) -> String {
    format!("hwreg({which}, {at}, {bits})")
}

fn control(mnemonic: &str, control: &Control, next: u32) -> Vec<String> {
    let words = |to: u32| (to.wrapping_sub(next) as i32 / 4).to_string();
    vec![match control {
        Control::Branch(when, to) => {
            // The condition is in the mnemonic: it must be the decoded one.
            let name = match when {
                When::Always => "s_branch",
                When::Scc(set) => ["s_cbranch_scc0", "s_cbranch_scc1"][usize::from(*set)],
                When::VccZero(zero) => ["s_cbranch_vccnz", "s_cbranch_vccz"][usize::from(*zero)],
                When::ExecZero(zero) => ["s_cbranch_execnz", "s_cbranch_execz"][usize::from(*zero)],
            };
            if name != mnemonic {
                return Vec::new();
            }
            words(*to)
        }
        Control::GetPc(to) | Control::Time(to, 2) if mnemonic != "s_sendmsg_rtn_b64" => register(*to, 2),
        Control::Relative { to, from, words, .. } => format!("{}, {}", register(*to, (*words).into()), source(*from)),
        Control::SetPc(from) => source(*from),
        Control::SwapPc(to, from) => format!("{}, {}", register(*to, 2), source(*from)),
        Control::Call(to, target) => format!("{}, {}", register(*to, 2), words(*target)),
        Control::GetReg(to, which, at, bits) => format!("{}, {}", register(*to, 1), hardware(*which, *at, *bits)),
        Control::SetReg(from, which, at, bits) => format!("{}, {}", hardware(*which, *at, *bits), source(*from)),
        Control::RoundMode(mode) | Control::DenormMode(mode) => format!("{mode:#x}"),
        Control::Signal | Control::SignalFirst(_) => "-1".into(),
        Control::BarrierWait => "-1".into(),
        _ => String::new(),
    }]
}
