//! Runs operations on lanes: brings operands where rows want them, and results where instructions say.

use super::mode::{self, finish};
use super::number::half;
use super::simple;
use super::valu::{Env, Lane, OPERANDS};
use crate::decode::{Dpp, Pair, Put, Reg, Rest, Ty, VSrc, Valu};
use crate::run::{Context, Wave, each};

const SIGN: u32 = 0x8000_0000;

impl Wave {
    /// The registers of a source, not changed; constants and scalars as if all lanes had them.
    #[inline(always)]
    fn raw<'a>(
        v: &'a [Lane],
        s: &[u32],
        halves: usize,
        half: usize,
        src: &VSrc,
        word: usize,
        pad: &'a mut Lane,
    ) -> &'a Lane {
        match src.reg {
            Reg::V(register) => &v[(register as usize + word) * halves + half],
            Reg::S(register) => {
                pad.fill(s[register as usize + word]);
                pad
            }
            Reg::K => {
                pad.fill(src.bits[word]);
                pad
            }
        }
    }
}

/// What an instruction does to a source's bits.
pub fn changed(src: &VSrc, words: [&Lane; 2], word: usize, out: &mut Lane) {
    let sign = |bits: u32, at: u32| {
        let bits = if src.abs { bits & !(1 << at) } else { bits };
        if src.neg { bits ^ 1 << at } else { bits }
    };
    let halves_neg = [0x8000 * u32::from(src.neg_half[0]), 0x8000 * u32::from(src.neg_half[1])];
    for lane in 0..32 {
        let bits = words[word][lane];
        out[lane] = match src.ty {
            _ if src.select.is_some() => {
                let (at, width) = src.select.unwrap_or((0, 32));
                let part = bits >> at & ((1_u64 << width) - 1) as u32;
                let part = if src.sext { ((part << (32 - width)) as i32 >> (32 - width)) as u32 } else { part };
                match src.ty {
                    Ty::H | Ty::B => sign(part, 15),
                    Ty::F => sign(part, 31),
                    _ => part,
                }
            }
            Ty::P | Ty::PH | Ty::PB => {
                let half = |high: bool| if high { bits >> 16 } else { bits & 0xffff };
                let (low, high) = (half(src.high[0]), half(src.high[1]));
                (low ^ halves_neg[0]) | (high ^ halves_neg[1]) << 16
            }
            Ty::PW | Ty::PF => {
                let bits = words[usize::from(src.high[word])][lane];
                if src.neg_half[word] { bits ^ SIGN } else { bits }
            }
            Ty::MX if src.neg_half[1] => {
                let x = half(if src.high[0] { bits >> 16 } else { bits & 0xffff });
                sign(x.to_bits(), 31)
            }
            Ty::H | Ty::B | Ty::U16 | Ty::I16 => {
                let part = if src.high[0] { bits >> 16 } else { bits & 0xffff };
                let part = if src.sext { part as i16 as u32 } else { part };
                if matches!(src.ty, Ty::H | Ty::B) { sign(part, 15) } else { part }
            }
            Ty::FD if word == 0 => bits,
            Ty::I | Ty::D | Ty::Q if !src.abs => bits,
            _ => sign(bits, 31),
        };
    }
}

/// The lanes that a source's registers are unknown in.
#[inline(always)]
fn unknown(w: &Wave, src: &VSrc) -> u64 {
    match src.reg {
        Reg::V(first) => {
            let first = first as usize;
            (first..first + src.words as usize).fold(0, |all, r| all | w.unknown_v[r])
        }
        Reg::S(first) => {
            if w.is_unknown_scalar(first, src.words) {
                u64::MAX
            } else {
                0
            }
        }
        Reg::K => 0,
    }
}

/// The same of the low halves of all sources.
pub fn low_unknown(w: &Wave, v: &Valu) -> u64 {
    let low = |src: &VSrc| match src.reg {
        Reg::V(first) => w.unknown_v[first as usize],
        Reg::S(first) if w.is_unknown_scalar(first, 1) => u64::MAX,
        _ => 0,
    };
    v.src.iter().fold(0, |all, src| all | low(src))
}

/// Bits moved as lanes are.
pub fn permuted(mask: u64, dpp: &Dpp) -> u64 {
    if mask == 0 {
        return 0;
    }
    each(dpp.there).filter(|&l| mask >> dpp.from[l as usize] & 1 != 0).fold(0, |all, l| all | 1 << l)
}

/// What an operation knows beside its operands, for so many-th 32 lanes.
#[inline(always)]
pub fn environment(mode: u32, v: &Valu, carry: u64, half: usize) -> Env {
    Env {
        mask: (carry >> (32 * half)) as u32,
        first: 32 * half as u32,
        ieee: mode & mode::IEEE != 0,
        saturates: mode & mode::FP16_OVFL != 0,
        ..v.env
    }
}

/// Runs an operation.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, v: &Valu) {
    waits(w, cx, v);
    match &v.simple {
        Some(packed) if v.matters & (w.mode ^ mode::SUBNORMALS) == 0 => simple::run(w, cx, v, packed),
        _ => changing(w, cx, v),
    }
}

/// Runs an operation of any kind.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn changing(w: &mut Wave, cx: &mut Context<'_>, v: &Valu) {
    changing_any(w, cx, v);
}

/// The same for whatever the CPU has: closures of functions that need features would not become part of loops.
#[inline(always)]
fn changing_any(w: &mut Wave, cx: &mut Context<'_>, v: &Valu) {
    let exec = w.exec();
    let mut write = exec;
    let mut first_lanes = [[0; 32]; 2];
    if let Some(dpp) = &v.dpp {
        write = gather(w, v, dpp, exec, &mut first_lanes);
    }
    let carry = v.mask_in.map_or(0, |first| w.mask(first));
    let mut lost = track(w, cx, v, carry);
    if let Some(dpp) = &v.dpp
        && let Some(src) = v.src.first()
    {
        let rest = v.src[1..].iter().fold(0, |all, s| all | unknown(w, s));
        lost = permuted(unknown(w, src), dpp) | rest;
    }
    let low = if v.low_alone && lost != 0 { low_unknown(w, v) } else { lost };
    let mut mask = 0;
    for (half, moved) in first_lanes.iter().enumerate().take(w.halves) {
        let lanes = (write >> (32 * half)) as u32;
        let env = environment(w.mode, v, carry, half);
        let mut out = [[0; 32]; 2];
        let mut bits = 0;
        compute(w, v, half, v.dpp.as_ref().map(|_| moved), &env, &mut out, &mut bits);
        mask |= u64::from(bits) << (32 * half);
        if let Reg::V(dst) = v.dst {
            finish(w.mode, v, &mut out);
            for (word, out) in out.iter().enumerate().take(v.dst_ty.words().into()) {
                let to = &mut w.v[(dst as usize + word) * w.halves + half];
                place(to, out, lanes, v.put);
            }
        }
    }
    if let Reg::V(dst) = v.dst {
        for (word, lost) in [low, lost].into_iter().enumerate().take(v.dst_ty.words().into()) {
            let to = &mut w.unknown_v[dst as usize + word];
            *to = *to & !write | lost & write;
        }
    }
    if v.mask_out.is_some() || v.to_exec {
        masks(w, cx, v, mask & write, lost & write);
    }
}

/// Reports operands that are still loaded.
#[inline(always)]
fn waits(w: &Wave, cx: &mut Context<'_>, v: &Valu) {
    if w.pending.any() && cx.check() {
        waits_slow(w, cx, v);
    }
}

#[inline(never)]
fn waits_slow(w: &Wave, cx: &mut Context<'_>, v: &Valu) {
    for src in &v.src {
        match src.reg {
            Reg::V(first) => cx.waited(w, first, src.words.into()),
            Reg::S(first) => cx.waited_scalar(w, first, src.words.into()),
            Reg::K => {}
        }
    }
    if let Reg::V(first) = v.dst {
        cx.waited(w, first, v.dst_ty.words().into());
    }
    if let Some(first) = v.mask_in {
        cx.waited_scalar(w, first, w.halves as u16);
    }
}

/// Lanes in which the result is unknown.
#[inline(always)]
pub fn track(w: &Wave, cx: &Context<'_>, v: &Valu, carry: u64) -> u64 {
    if !cx.check() {
        return 0;
    }
    if v.select
        && let [a, b] = &v.src[..]
    {
        let by_mask = v.mask_in.is_some_and(|m| w.is_unknown_scalar(m, w.halves as u8));
        let chosen = unknown(w, a) & !carry | unknown(w, b) & carry;
        return if by_mask { u64::MAX } else { chosen };
    }
    let mut lost = 0;
    for src in &v.src {
        lost |= unknown(w, src);
    }
    lost
}

/// The first source as lanes take it from others; gives the lanes that are written.
#[inline(always)]
fn gather(w: &Wave, v: &Valu, dpp: &Dpp, exec: u64, out: &mut [Lane; 2]) -> u64 {
    let Some(src) = v.src.first() else { return exec };
    let all = if w.halves == 1 { u64::from(u32::MAX) } else { u64::MAX };
    // Lanes whose source is a lane that is read.
    let there = if dpp.inactive || exec == all { dpp.there } else { permuted(exec, dpp) };
    let out = out.as_flattened_mut();
    let count = 32 * w.halves;
    match src.reg {
        Reg::V(register) => {
            let file = &w.v.as_flattened()[register as usize * count..][..count];
            for (to, from) in out.iter_mut().zip(dpp.from).take(count) {
                *to = file[from as usize & (count - 1)];
            }
        }
        Reg::S(register) => out.fill(w.s[register as usize]),
        Reg::K => out.fill(src.bits[0]),
    }
    if there != all {
        for (lane, to) in out.iter_mut().enumerate().take(count) {
            *to = if there >> lane & 1 != 0 { *to } else { 0 };
        }
    }
    exec & dpp.enabled & if dpp.zero { all } else { there }
}

/// Brings operands together and calls the operation.
#[inline(always)]
fn compute(w: &mut Wave, v: &Valu, half: usize, moved: Option<&Lane>, env: &Env, out: &mut [Lane; 2], bits: &mut u32) {
    let (file, s, halves) = (&w.v, &w.s, w.halves);
    let mode = w.mode;
    const NOTHING: &Lane = &[0; 32];
    let mut refs: [&Lane; OPERANDS] = [NOTHING; OPERANDS];
    let pad: &mut [Lane; 8] = &mut w.pad;
    for ((at, src), pads) in v.src.iter().enumerate().zip(pad.chunks_exact_mut(2)) {
        let [low, high] = pads else { continue };
        let from = if at == 0 { moved } else { None };
        let flush = v.arithmetic && mode::flushes(mode, src);
        if src.plain && !flush {
            refs[2 * at] = match from {
                Some(moved) => moved,
                None => Wave::raw(file, s, halves, half, src, 0, low),
            };
            if src.words > 1 {
                refs[2 * at + 1] = Wave::raw(file, s, halves, half, src, 1, high);
            }
            continue;
        }
        let mut spare = [[0; 32]; 2];
        let [spare_low, spare_high] = &mut spare;
        let first = from.unwrap_or_else(|| Wave::raw(file, s, halves, half, src, 0, spare_low));
        let second = if src.words > 1 { Wave::raw(file, s, halves, half, src, 1, spare_high) } else { NOTHING };
        changed(src, [first, second], 0, low);
        if src.words > 1 {
            changed(src, [first, second], 1, high);
        }
        if flush {
            mode::flush_operand(src, low, high);
        }
        (refs[2 * at], refs[2 * at + 1]) = (low, high);
    }
    // SAFETY: whoever makes a `Gpu` has looked that the CPU has the features that rows are compiled for.
    unsafe { (v.f)(env, &refs, out, bits) };
    if v.overflows && mode & mode::FP16_OVFL != 0 {
        mode::saturate(v, &refs, &mut out[0]);
    }
}

/// Writes lanes of a result.
#[inline(always)]
pub fn place(to: &mut Lane, from: &Lane, lanes: u32, put: Put) {
    match put {
        Put::Whole if lanes == u32::MAX => *to = *from,
        Put::Whole => {
            for lane in 0..32 {
                to[lane] = if lanes >> lane & 1 != 0 { from[lane] } else { to[lane] };
            }
        }
        Put::Low => {
            for lane in 0..32 {
                let new = to[lane] & 0xffff_0000 | from[lane] & 0xffff;
                to[lane] = if lanes >> lane & 1 != 0 { new } else { to[lane] };
            }
        }
        Put::High => {
            for lane in 0..32 {
                let new = to[lane] & 0xffff | from[lane] << 16;
                to[lane] = if lanes >> lane & 1 != 0 { new } else { to[lane] };
            }
        }
        Put::Part(at, bits, rest) => {
            let mask = ((1_u64 << bits) - 1) as u32;
            for lane in (0..32).filter(|l| lanes >> l & 1 != 0) {
                let part = from[lane] & mask;
                to[lane] = match rest {
                    Rest::Keep => to[lane] & !(mask << at) | part << at,
                    Rest::Zero => part << at,
                    Rest::Sign => ((part << (32 - bits)) as i32 >> (32 - bits) << at) as u32,
                };
            }
        }
    }
}

/// Writes a mask of lanes.
fn masks(w: &mut Wave, cx: &mut Context<'_>, v: &Valu, mask: u64, lost: u64) {
    if let Some(first) = v.mask_out {
        w.set_mask(first, mask);
        w.set_unknown_scalar(first, w.halves as u8, lost != 0);
    }
    if v.to_exec {
        if lost != 0 {
            let lane = Some(lost.trailing_zeros());
            cx.report(crate::Kind::UninitialisedRegister, lane, || "it decides which lanes are active".into());
        }
        w.set_exec(mask);
    }
}

/// Runs two operations at once: both read before either writes.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn pair(w: &mut Wave, cx: &mut Context<'_>, pair: &Pair) {
    pair_any(w, cx, pair);
}

/// As `changing_any`.
#[inline(always)]
fn pair_any(w: &mut Wave, cx: &mut Context<'_>, pair: &Pair) {
    let Pair { ops: [x, y], illegal } = pair;
    for v in [x, y] {
        waits(w, cx, v);
    }
    if let Some(message) = illegal {
        cx.report(crate::Kind::VopdBanks, None, || message.to_string());
    }
    if let (Some(a), Some(b)) = (&x.simple, &y.simple)
        && (x.matters | y.matters) & (w.mode ^ mode::SUBNORMALS) == 0
        && w.halves == 1
        && !a.needs_mask
        && !b.needs_mask
    {
        simple::pair(w, pair, a, b);
        return;
    }
    let exec = w.exec();
    let mut lost = [0; 2];
    let mut results = [[[0; 32]; 2]; 2];
    for (at, v) in [x, y].into_iter().enumerate() {
        let carry = v.mask_in.map_or(0, |first| w.mask(first));
        lost[at] = track(w, cx, v, carry);
        for (half, result) in results[at].iter_mut().enumerate().take(w.halves) {
            let env = environment(w.mode, v, carry, half);
            let mut out = [[0; 32]; 2];
            compute(w, v, half, None, &env, &mut out, &mut 0);
            finish(w.mode, v, &mut out);
            *result = out[0];
        }
    }
    for (at, v) in [x, y].into_iter().enumerate() {
        let Reg::V(dst) = v.dst else { continue };
        for (half, result) in results[at].iter().enumerate().take(w.halves) {
            let lanes = (exec >> (32 * half)) as u32;
            place(&mut w.v[dst as usize * w.halves + half], result, lanes, v.put);
        }
        let to = &mut w.unknown_v[dst as usize];
        *to = *to & !exec | lost[at] & exec;
    }
}
