//! Moves between lanes, and between lanes and scalars.

use super::scalar::look;
use super::valu;
use crate::decode::{ACCUMULATORS, Counter, Lanes, Reg, SSrc, VSrc, scalar};
use crate::run::{Context, Wave, each};

/// Which move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneOp {
    ReadFirst,
    Read,
    Write,
    /// Within rows of 16 lanes, or from the other row of a pair.
    Permute16 {
        across: bool,
    },
    Permute16Var {
        across: bool,
    },
    /// Between the halves of 64 lanes.
    Halves,
    /// Of two registers.
    Swap,
    Swap16,
    Swap32,
    /// ds_bpermute, and with lanes that are not active.
    BackwardPermute,
    BackwardPermuteAll,
    /// ds_permute.
    ForwardPermute,
    /// ds_swizzle.
    Swizzle,
    /// A move in which M0 is added to the number of the source, of the result or of both; of the last, each has an own
    /// half of M0.
    Relative {
        from: bool,
        to: bool,
        apart: bool,
    },
    /// An operation of vectors on scalars.
    Special(&'static str),
}

/// All lanes' values of a source, and in which of them it was never written.
fn lanes(w: &Wave, src: &VSrc) -> ([u32; 64], u64) {
    let all = |value: u32, unknown: bool| ([value; 64], if unknown { u64::MAX } else { 0 });
    match src.reg {
        Reg::V(register) => {
            let values = std::array::from_fn(|l| if l < w.lanes() as usize { w.lane(register, l as u32) } else { 0 });
            (values, w.unknown_v[register as usize])
        }
        Reg::S(register) => all(w.scalar(register, 1) as u32, w.is_unknown_scalar(register, 1)),
        Reg::K => all(src.bits[0], false),
    }
}

fn waits(w: &Wave, cx: &mut Context<'_>, l: &Lanes) {
    for src in &l.src {
        match src.reg {
            Reg::V(first) => cx.waited(w, first, 1),
            Reg::S(first) => {
                look(w, cx, SSrc::Reg(first, 1));
            }
            Reg::K => {}
        }
    }
    match l.dst {
        Reg::V(first) => cx.waited(w, first, 1),
        Reg::S(first) => cx.waited_scalar(w, first, 1),
        Reg::K => {}
    }
}

/// Runs a move.
#[inline(never)]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, l: &Lanes) {
    if cx.check() && !matches!(l.op, LaneOp::Relative { .. }) {
        waits(w, cx, l);
    }
    let (a, lost) = lanes(w, &l.src[0]);
    let (b, lost_b) = lanes(w, &l.src[1]);
    let exec = w.exec();
    let count = w.lanes();
    match (l.op, l.dst) {
        (LaneOp::ReadFirst | LaneOp::Read, Reg::S(to)) => {
            let lane = match l.op {
                LaneOp::ReadFirst => exec.trailing_zeros() % 64,
                _ => b[0] % count,
            };
            // A scalar source is the same for all.
            w.set_scalar(to, 1, a[(lane % count) as usize].into());
            w.set_unknown_scalar(to, 1, lost >> lane & 1 != 0);
        }
        (LaneOp::Write, Reg::V(to)) => {
            let lane = b[0] % count;
            w.set_lane(to, lane, a[0]);
            if lost & 1 != 0 {
                w.unknown_v[to as usize] |= 1 << lane;
            }
        }
        (LaneOp::Special(name), Reg::S(to)) => {
            if let Some(row) = valu::TABLE.get(name) {
                let (x, nothing) = ([a[0]; 32], [0; 32]);
                let mut out = [[0; 32]; 2];
                let refs = [&x, &nothing, &nothing, &nothing, &nothing, &nothing];
                // SAFETY: whoever makes a `Gpu` has looked that the CPU has the features that rows are compiled for.
                unsafe { (row.f)(&valu::Env::default(), &refs, &mut out, &mut 0) };
                w.set_scalar(to, 1, out[0][0].into());
                w.set_unknown_scalar(to, 1, lost & 1 != 0);
            }
        }
        (LaneOp::Swap | LaneOp::Swap16 | LaneOp::Swap32, Reg::V(to)) => swap(w, l, to, exec),
        (LaneOp::Relative { from, to: moved, apart }, Reg::V(to)) => {
            let m0 = w.s[scalar::M0 as usize];
            cx.known_scalar(w, scalar::M0, 1, "which register");
            let (source, result) = if apart { (m0 & 0x3ff, m0 >> 16 & 0x3ff) } else { (m0, m0) };
            relative(w, cx, l, [if from { source } else { 0 }, if moved { result } else { 0 }], to);
        }
        (_, Reg::V(to)) => {
            let sources = Sources { a, b, c: lanes(w, &l.src[2]).0, lost, lost_b, exec };
            permute(w, l, to, &sources);
        }
        _ => {}
    }
    if matches!(l.op, LaneOp::BackwardPermute | LaneOp::BackwardPermuteAll | LaneOp::ForwardPermute | LaneOp::Swizzle)
        && let Reg::V(to) = l.dst
    {
        let operation = w.pending.issue(Counter::Lds);
        w.pending.load_vector(to, 1, operation);
    }
}

/// A move between registers whose numbers have something added.
fn relative(w: &mut Wave, cx: &mut Context<'_>, l: &Lanes, [from, to]: [u32; 2], first: u16) {
    let there = cx.launch.registers.vectors.min(ACCUMULATORS);
    let moved = |register: u16, by: u32| {
        let at = u64::from(register) + u64::from(by);
        if at < there.into() { Ok(at as u16) } else { Err(at) }
    };
    let source = match l.src[0].reg {
        Reg::V(register) => moved(register, from).map(|register| VSrc { reg: Reg::V(register), ..l.src[0].clone() }),
        _ => Ok(l.src[0].clone()),
    };
    let (source, to) = match (source, moved(first, to)) {
        (Ok(source), Ok(to)) => (source, to),
        (Err(at), _) | (_, Err(at)) => {
            let message = || format!("v{at} by M0, where there are {there}");
            cx.report(crate::Kind::RegisterCount, None, message);
            return;
        }
    };
    if cx.check() {
        waits(
            w,
            cx,
            &Lanes { dst: Reg::V(to), src: [source.clone(), l.src[1].clone(), l.src[2].clone()], ..l.clone() },
        );
    }
    let (values, lost) = lanes(w, &source);
    for lane in each(w.exec()) {
        w.set_lane(to, lane, values[lane as usize]);
        w.unknown_v[to as usize] |= (lost >> lane & 1) << lane;
    }
}

struct Sources {
    a: [u32; 64],
    b: [u32; 64],
    c: [u32; 64],
    lost: u64,
    lost_b: u64,
    exec: u64,
}

/// Permutations: for each lane, the one that it reads.
fn permute(w: &mut Wave, l: &Lanes, to: u16, s: &Sources) {
    let count = w.lanes();
    if l.op == LaneOp::ForwardPermute {
        let mut out = [0; 64];
        let mut lost = 0;
        for lane in each(s.exec) {
            let target = (s.a[lane as usize] / 4 + l.imm / 4) % count;
            out[target as usize] = s.b[lane as usize];
            lost = lost & !(1 << target) | (s.lost_b >> lane & 1) << target;
        }
        for lane in each(s.exec) {
            w.set_lane(to, lane, out[lane as usize]);
        }
        w.unknown_v[to as usize] |= lost & s.exec;
        return;
    }
    for lane in each(s.exec) {
        let row = lane & !15;
        let nibble = |which: u32| {
            let selector = if which < 8 { s.b[0] } else { s.c[0] };
            selector >> (4 * (which % 8)) & 15
        };
        let (from, values, unknown, even_inactive) = match l.op {
            LaneOp::BackwardPermute => ((s.a[lane as usize].wrapping_add(l.imm)) / 4 % count, &s.b, s.lost_b, false),
            LaneOp::BackwardPermuteAll => ((s.a[lane as usize].wrapping_add(l.imm)) / 4 % count, &s.b, s.lost_b, true),
            LaneOp::Permute16 { across } => {
                ((row ^ if across { 16 } else { 0 }) + nibble(lane & 15), &s.a, s.lost, l.inactive)
            }
            LaneOp::Permute16Var { across } => {
                ((row ^ if across { 16 } else { 0 }) + (s.b[lane as usize] & 15), &s.a, s.lost, l.inactive)
            }
            LaneOp::Halves => (lane ^ 32, &s.a, s.lost, true),
            LaneOp::Swizzle => (swizzled(lane, l.imm), &s.a, s.lost, false),
            _ => (lane, &s.a, s.lost, true),
        };
        if from >= count {
            continue;
        }
        if s.exec >> from & 1 != 0 || even_inactive {
            w.set_lane(to, lane, values[from as usize]);
            w.unknown_v[to as usize] |= (unknown >> from & 1) << lane;
        } else if l.zero || !matches!(l.op, LaneOp::Permute16 { .. } | LaneOp::Permute16Var { .. }) {
            w.set_lane(to, lane, 0);
        }
    }
}

/// The lane that ds_swizzle's pattern takes.
fn swizzled(lane: u32, pattern: u32) -> u32 {
    match pattern >> 13 {
        // A rotation of 32 lanes, by bits 9:5, where bit 10 is the direction.
        0b110 => {
            let (by, right) = (pattern >> 5 & 31, pattern >> 10 & 1 == 0);
            let keep = pattern & 31;
            let moved = if right { lane + by } else { lane + 32 - by };
            lane & !31 | lane & keep | moved & 31 & !keep
        }
        // Four lanes.
        0b100 => lane & !3 | pattern >> (2 * (lane & 3)) & 3,
        // AND, OR and XOR of the lane's number in 32.
        _ => {
            let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
            lane & !31 | ((lane & 31 & and | or) ^ xor)
        }
    }
}

/// Two registers change places, in whole or in rows of 16 or 32 lanes.
fn swap(w: &mut Wave, l: &Lanes, first: u16, exec: u64) {
    let Reg::V(second) = l.src[0].reg else { return };
    let (x, y) = (lanes(w, &VSrc { reg: Reg::V(first), ..l.src[0].clone() }), lanes(w, &l.src[0]));
    for lane in each(exec) {
        // Rows of the first that are odd, and of the second that are even.
        let (to_first, to_second) = match l.op {
            LaneOp::Swap => (Some(lane), Some(lane)),
            LaneOp::Swap16 => ((lane & 16 != 0).then(|| lane - 16), (lane & 16 == 0).then(|| lane + 16)),
            _ => ((lane & 32 != 0).then(|| lane - 32), (lane & 32 == 0).then(|| lane + 32)),
        };
        if let Some(from) = to_first {
            w.set_lane(first, lane, y.0[from as usize]);
            w.unknown_v[first as usize] |= (y.1 >> from & 1) << lane;
        }
        if let Some(from) = to_second {
            w.set_lane(second, lane, x.0[from as usize]);
            w.unknown_v[second as usize] |= (x.1 >> from & 1) << lane;
        }
    }
}
