//! Vector instructions as assembly, from the decoded form.

use super::{access, scalar};
use crate::decode::Context;
use crate::decode::inst::{ACCUMULATORS, Body, Dpp, Lanes, Pair, Put, Reg, Rest, Select, Ty, VSrc, Valu};
use crate::exec::LaneOp;
use crate::exec::matrix::{Acc, Broadcast, Element, Product};
use hrx_compiler::hsaco::Generation;

/// Ways to write an instruction, given its mnemonics (two of a pair).
pub fn candidates(mnemonics: &[&str], body: &Body, context: &Context<'_>, next: u32) -> Vec<String> {
    let one = mnemonics[0];
    let texts = match body {
        Body::Valu(v) => valu(v, context),
        Body::Pair(pair) => {
            let [x, y] = mnemonics else { return Vec::new() };
            return pairs(x, y, pair, context);
        }
        Body::Lanes(l) => lanes(l),
        Body::Matrix(p) => vec![product(p, context)],
        Body::Mem(m) => vec![access::memory(m, context)],
        Body::Ds(d) => vec![access::lds(one, d)],
        uniform => scalar::candidates(one, uniform, context, next),
    };
    texts.into_iter().map(|t| format!("{one} {t}")).collect()
}

/// Instructions with selectors of halves for operands that are whole registers, or with bits beyond those they use.
const FREE: &[&str] = &[
    "v_pk_mov_b32",
    "v_alignbit_b32",
    "v_alignbyte_b32",
    "v_mad_u32_u16",
    "v_mad_i32_i16",
    "v_pack_b32_f16",
    "v_cvt_pk_norm_",
    "v_cvt_pknorm_",
    "v_dot2_",
    "v_wmma_",
    "s_round_mode",
    "s_denorm_mode",
    "s_wait_",
];

/// Whether an instruction has fields that decide nothing, so that bytes may differ with the same meaning.
pub fn has_free_choice(text: &str, body: &Body) -> bool {
    // What becomes of the rest of a result that is a whole register; which mask disables all lanes; an offset of zero
    // that may be there or not; a literal that is inline.
    if FREE.iter().any(|start| text.starts_with(start)) || text.contains("offset:0x0") || text.contains("lit(") {
        return true;
    }
    let nothing = matches!(body, Body::Valu(v) if v.dpp.as_ref().is_some_and(|d| d.enabled == 0));
    text.contains("dst_sel:DWORD") || nothing
}

fn range(letter: &str, first: u16, words: u16) -> String {
    if words == 1 { format!("{letter}{first}") } else { format!("{letter}[{first}:{}]", first + words - 1) }
}

/// A vector register or accumulator.
pub fn vector(register: u16, words: u16) -> String {
    match register.checked_sub(ACCUMULATORS) {
        Some(a) => range("a", a, words),
        None => range("v", register, words),
    }
}

/// Fractions that need no literal, and their bits as binary32.
const FRACTIONS: [(&str, f64); 9] = [
    ("0.5", 0.5),
    ("-0.5", -0.5),
    ("1.0", 1.0),
    ("-1.0", -1.0),
    ("2.0", 2.0),
    ("-2.0", -2.0),
    ("4.0", 4.0),
    ("-4.0", -4.0),
    ("0.15915494309189532", 0.159_154_943_091_895_32),
];

/// A constant of a type.
fn constant(bits: [u32; 2], ty: Ty) -> String {
    let wide = u64::from(bits[0]) | u64::from(bits[1]) << 32;
    let double = matches!(ty, Ty::D | Ty::Q | Ty::FD);
    let whole = if double { wide as i64 } else { i64::from(bits[0] as i32) };
    if (-16..=64).contains(&whole) {
        return whole.to_string();
    }
    let short = ty.is_half() || matches!(ty, Ty::P | Ty::PH);
    for (text, x) in FRACTIONS {
        let same = match ty {
            _ if double => wide == x.to_bits(),
            // 1/(2 pi), which is cut off, the assembler knows by its bits alone.
            Ty::B | Ty::PB => text.len() <= 4 && bits[0] == (x as f32).to_bits() >> 16,
            _ if short => bits[0] == half::f16::from_f64(x).to_bits().into(),
            _ => bits[0] == (x as f32).to_bits(),
        };
        if same {
            return text.into();
        }
    }
    match ty {
        // A literal is the high half.
        Ty::FD => format!("{:#x}", bits[1]),
        Ty::D | Ty::Q => format!("{wide:#x}"),
        _ => format!("{:#x}", bits[0]),
    }
}

/// A source; whether halves have names.
fn source(src: &VSrc, named: bool, packed: bool) -> String {
    let half = |text: String| {
        if named && src.ty.is_half() && src.select.is_none() {
            format!("{text}.{}", if src.high[0] { 'h' } else { 'l' })
        } else {
            text
        }
    };
    let mut text = match src.reg {
        Reg::V(first) => half(vector(first, src.words.into())),
        Reg::S(first) => scalar::register(first, src.words.into()),
        Reg::K => constant(src.bits, src.ty),
    };
    if src.sext {
        text = format!("sext({text})");
    }
    let constant = src.reg == Reg::K;
    if src.abs {
        text = if constant { format!("abs({text})") } else { format!("|{text}|") };
    }
    // Of packed operations, lists of marks say it.
    if src.neg && !packed {
        text = if constant { format!("neg({text})") } else { format!("-{text}") };
    }
    text
}

fn list(name: &str, bits: &[bool]) -> String {
    let bits: Vec<&str> = bits.iter().map(|&b| if b { "1" } else { "0" }).collect();
    format!(" {name}:[{}]", bits.join(","))
}

fn part((at, bits): Select) -> &'static str {
    match (at, bits) {
        (0, 8) => "BYTE_0",
        (8, 8) => "BYTE_1",
        (16, 8) => "BYTE_2",
        (24, 8) => "BYTE_3",
        (0, 16) => "WORD_0",
        _ => "WORD_1",
    }
}

fn is_packed(v: &Valu) -> bool {
    v.src.iter().any(|s| matches!(s.ty, Ty::P | Ty::PH | Ty::PB | Ty::PW | Ty::PF))
}

/// What follows the operands of a vector operation.
fn modifiers(v: &Valu, explicit: usize, named: bool, sdwa: Option<bool>) -> String {
    let src = &v.src[..explicit];
    let mut text = String::new();
    let packed = is_packed(v);
    let mixed = v.src.iter().any(|s| s.ty == Ty::MX);
    if packed || mixed {
        let selects = |s: &VSrc| matches!(s.ty, Ty::P | Ty::PH | Ty::PB | Ty::PW | Ty::PF | Ty::MX) || s.ty.is_half();
        let mut low: Vec<bool> = src.iter().map(|s| selects(s) && s.high[0]).collect();
        if v.put == Put::High && packed {
            low.push(true);
        }
        let high: Vec<bool> = src
            .iter()
            .map(|s| {
                if mixed {
                    s.neg_half[1]
                } else if s.ty.is_half() || !selects(s) {
                    true
                } else {
                    s.high[1]
                }
            })
            .collect();
        if low.contains(&true) {
            text += &list("op_sel", &low);
        }
        if high.contains(&mixed) {
            text += &list("op_sel_hi", &high);
        }
    } else if !named || src.iter().any(|s| !matches!(s.reg, Reg::V(_)) && s.ty.is_half() && s.high[0]) {
        let mut selected: Vec<bool> = src.iter().map(|s| s.ty.is_half() && s.select.is_none() && s.high[0]).collect();
        selected.push(v.put == Put::High);
        if selected.contains(&true) {
            text += &list("op_sel", &selected);
        }
    }
    if !mixed && sdwa.is_none() {
        for (name, at) in [("neg_lo", 0), ("neg_hi", 1)] {
            let bits: Vec<bool> =
                src.iter().map(|s| s.neg_half[at] || packed && !v.dst_ty.is_half() && s.neg).collect();
            if bits.contains(&true) {
                text += &list(name, &bits);
            }
        }
    }
    if v.clamp {
        text += " clamp";
    }
    text += match v.omod {
        1 => " mul:2",
        2 => " mul:4",
        -1 => " div:2",
        _ => "",
    };
    if let Some(result) = sdwa {
        if v.dst != Reg::K && result {
            text += &match v.put {
                Put::Part(at, bits, rest) => {
                    let rest = match rest {
                        Rest::Zero => "PAD",
                        Rest::Sign => "SEXT",
                        Rest::Keep => "PRESERVE",
                    };
                    format!(" dst_sel:{} dst_unused:UNUSED_{rest}", part((at, bits)))
                }
                _ => " dst_sel:DWORD dst_unused:UNUSED_PAD".into(),
            };
        }
        for (at, s) in src.iter().enumerate().take(2) {
            text += &format!(" src{at}_sel:{}", s.select.map_or("DWORD", part));
        }
    }
    text
}

/// DPP's controls: the lane that each takes from, worked out apart from the decoder.
fn controls(wave: usize) -> Vec<(String, Vec<Option<usize>>)> {
    let mut all = Vec::new();
    let mut add = |name: String, f: &dyn Fn(usize) -> Option<usize>| all.push((name, (0..wave).map(f).collect()));
    for p in 0..256 {
        let lanes = [p & 3, p >> 2 & 3, p >> 4 & 3, p >> 6];
        add(format!("quad_perm:{lanes:?}"), &|l| Some(l / 4 * 4 + lanes[l % 4]));
    }
    for n in 1..16 {
        add(format!("row_shl:{n}"), &|l| (l % 16 + n <= 15).then(|| l + n));
        add(format!("row_shr:{n}"), &|l| (l % 16 >= n).then(|| l - n));
        add(format!("row_ror:{n}"), &|l| Some(l / 16 * 16 + (l % 16 + 16 - n) % 16));
    }
    for n in 0..16 {
        for name in ["row_share", "row_newbcast"] {
            add(format!("{name}:{n}"), &|l| Some(l / 16 * 16 + n));
        }
        add(format!("row_xmask:{n}"), &|l| Some(l ^ n));
    }
    add("row_mirror".into(), &|l| Some(l ^ 15));
    add("row_half_mirror".into(), &|l| Some(l ^ 7));
    add("wave_shl:1".into(), &|l| (l + 1 < wave).then_some(l + 1));
    add("wave_shr:1".into(), &|l| l.checked_sub(1));
    add("wave_rol:1".into(), &|l| Some((l + 1) % wave));
    add("wave_ror:1".into(), &|l| Some((l + wave - 1) % wave));
    add("row_bcast:15".into(), &|l| (l >= 16).then(|| l / 16 * 16 - 1));
    add("row_bcast:31".into(), &|l| (l >= 32).then(|| l / 32 * 32 - 1));
    all
}

/// The ways to write a DPP control with its masks.
fn dpp(d: &Dpp, wave: usize) -> Vec<String> {
    let from: Vec<Option<usize>> = (0..wave).map(|l| (d.there >> l & 1 != 0).then(|| usize::from(d.from[l]))).collect();
    let rows = (0..wave.min(64) / 16).filter(|r| d.enabled >> (16 * r) & 0xffff != 0).fold(0, |m, r| m | 1 << r);
    let banks =
        (0..4).filter(|b| (0..wave / 16).any(|r| d.enabled >> (16 * r + 4 * b) & 15 != 0)).fold(0, |m, b| m | 1 << b);
    // Rows beyond the wave: any.
    let mut texts = Vec::new();
    let rest = format!("{}{}", if d.zero { " bound_ctrl:1" } else { "" }, if d.inactive { " fi:1" } else { "" });
    let beyond = if wave == 32 { vec![0, 4, 8, 12] } else { vec![0] };
    for (name, lanes) in controls(wave) {
        if lanes == from {
            for more in &beyond {
                texts.push(format!("{name} row_mask:{:#x} bank_mask:{banks:#x}{rest}", rows | more));
                if rows == 0 || banks == 0 {
                    // No lane is written: which mask says so is not kept.
                    for (r, b) in [(0, 15), (15, 0)] {
                        texts.push(format!("{name} row_mask:{r:#x} bank_mask:{b:#x}{rest}"));
                    }
                }
            }
        }
    }
    let eight: Option<Vec<usize>> = from.iter().take(8).copied().collect();
    if let Some(eight) = eight
        && d.zero
    {
        let fi = if d.inactive { " fi:1" } else { "" };
        texts.push(format!("dpp8:{eight:?}{fi}"));
    }
    texts
}

/// Operands and modifiers of a vector operation, without its mnemonic.
fn valu(v: &Valu, context: &Context<'_>) -> Vec<String> {
    let sdwa = v.src.iter().any(|s| s.select.is_some()) || matches!(v.put, Put::Part(..));
    let halves = v.dst_ty.is_half() || v.src.iter().any(|s| s.ty.is_half());
    let names = if halves && context.generation >= Generation::Gfx11 { vec![true, false] } else { vec![false] };
    let same = |s: &VSrc| s.reg == v.dst && !s.neg && !s.abs && (!s.ty.is_half() || s.high[0] == (v.put == Put::High));
    let accumulates = v.src.len() > 1 && v.src.last().is_some_and(same);
    let counts = if accumulates { vec![v.src.len() - 1, v.src.len()] } else { vec![v.src.len()] };
    let masks = if v.mask_in.is_some() { vec![true, false] } else { vec![false] };
    let ends = match &v.dpp {
        Some(d) => dpp(d, context.wave as usize),
        None => vec![String::new()],
    };
    let lanes = context.wave as u16 / 32;
    // Those with halves as results have marks at their operands.
    let packed = is_packed(v) && !v.dst_ty.is_half();
    let mut texts = Vec::new();
    for &named in &names {
        for &count in &counts {
            for &mask in &masks {
                let mut operands = Vec::new();
                if let Reg::V(dst) = v.dst {
                    let mut text = vector(dst, v.dst_ty.words().into());
                    if named && v.dst_ty.is_half() && !matches!(v.put, Put::Part(..)) {
                        text += if v.put == Put::High { ".h" } else { ".l" };
                    }
                    operands.push(text);
                }
                if let Some(first) = v.mask_out {
                    operands.push(scalar::register(first, lanes));
                }
                operands.extend(v.src[..count].iter().map(|s| source(s, named, packed)));
                if let Some(first) = v.mask_in.filter(|_| mask) {
                    operands.push(scalar::register(first, lanes));
                }
                // SDWA, with a selector of the result or without; or another encoding.
                let part = if sdwa { vec![Some(true), Some(false)] } else { vec![None, Some(true), Some(false)] };
                for sdwa in part {
                    if sdwa.is_some() && !matches!(context.generation, Generation::Gfx9 | Generation::Gfx90a) {
                        continue;
                    }
                    for end in &ends {
                        texts.push(format!("{}{} {end}", operands.join(", "), modifiers(v, count, named, sdwa)));
                    }
                }
            }
        }
    }
    texts
}

fn pairs(x: &str, y: &str, Pair { ops, .. }: &Pair, context: &Context<'_>) -> Vec<String> {
    let [first, second] = [&ops[0], &ops[1]].map(|v| valu(v, context));
    let all = first.iter().flat_map(|a| second.iter().map(move |b| (a, b)));
    all.map(|(a, b)| format!("{x} {a} :: {y} {b}")).collect()
}

fn lanes(l: &Lanes) -> Vec<String> {
    let count = match l.op {
        LaneOp::ReadFirst | LaneOp::Halves | LaneOp::Swap | LaneOp::Swap16 | LaneOp::Swap32 | LaneOp::Swizzle => 1,
        LaneOp::Special(_) | LaneOp::Relative { .. } => 1,
        LaneOp::Permute16 { .. } => 3,
        _ => 2,
    };
    let dst = match l.dst {
        Reg::V(v) => vector(v, 1),
        Reg::S(s) => scalar::register(s, 1),
        Reg::K => String::new(),
    };
    let operands: Vec<String> =
        std::iter::once(dst).chain(l.src[..count].iter().map(|s| source(s, false, false))).collect();
    let mut text = operands.join(", ");
    if l.inactive || l.zero {
        text += &list("op_sel", &[l.inactive, l.zero]);
    }
    if l.imm != 0 {
        text += &format!(" offset:{:#x}", l.imm);
    }
    vec![text]
}

fn product(p: &Product, context: &Context<'_>) -> String {
    let [a, b, result] = p.form.registers;
    let [_, _, acc] = p.form.types;
    let c = match (p.index, p.c) {
        (Some(index), _) => vector(index, 1),
        (None, Acc::V(first)) => vector(first, result),
        (None, Acc::K(bits)) => constant([bits; 2], if acc.bits() == 16 { Ty::H } else { Ty::F }),
    };
    let mut text = [vector(p.dst, result), vector(p.a, a), vector(p.b, b), c].join(", ");
    let mfma = matches!(context.generation, Generation::Gfx9 | Generation::Gfx90a);
    if acc.bits() == 16 && p.form.result.iter().all(|place| place.shift != 0) {
        text += &list("op_sel", &[false, false, true]);
    }
    let Broadcast { cbsz, abid, blgp } = p.broadcast;
    for (name, n) in [("cbsz", cbsz), ("abid", abid), ("blgp", blgp)] {
        if n != 0 {
            text += &format!(" {name}:{n}");
        }
    }
    if mfma && acc == Element::F64 && p.neg != [false; 3] {
        text += &list("neg", &p.neg);
    } else if acc == Element::I32 {
        if p.signed != [false; 2] && !mfma {
            text += &list("neg_lo", &[p.signed[0], p.signed[1], false]);
        }
    } else if !mfma {
        if p.neg != [false; 3] {
            text += &list("neg_lo", &p.neg);
        }
        if p.neg[0] || p.neg[1] || p.abs {
            text += &list("neg_hi", &[p.neg[0], p.neg[1], p.abs]);
        }
    }
    if p.clamp {
        text += " clamp";
    }
    text
}
