//! Jumps, barriers, waits, hardware registers.

use super::scalar::{look, value};
use crate::decode::{Code, Control, Counter, SSrc, Waits, When, scalar};
use crate::report::Kind;
use crate::run::{Context, State, Wave};

/// What comes after an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The instruction after it.
    Follows,
    /// The instruction of that number.
    Jump(u32),
    /// Nothing until others have done something; the wave's state says what.
    Blocked,
    /// Nothing.
    Ended,
    /// An error, which the context has.
    Unknown,
}

/// Numbers of hardware registers.
mod hardware {
    pub const MODE: u8 = 1;
    pub const FLAT_SCRATCH_LOW: u8 = 20;
    pub const FLAT_SCRATCH_HIGH: u8 = 21;
    pub const SHADER_CYCLES: u8 = 29;
    /// Where shared and private memory are, before gfx10.
    pub const MEMORY_BASES: u8 = 15;
}

/// Runs what directs a wave.
#[inline(never)]
pub fn run(w: &mut Wave, cx: &mut Context<'_>, control: &Control) -> Next {
    match control {
        Control::Nop => Next::Follows,
        Control::Branch(when, to) => branch(w, cx, *when, *to),
        Control::End => {
            w.state = State::Ended;
            Next::Ended
        }
        Control::Barrier => {
            lanes_at_barrier(w, cx);
            w.state = State::Barrier(cx.pc);
            Next::Blocked
        }
        Control::Signal => {
            lanes_at_barrier(w, cx);
            w.signalled += 1;
            cx.signals += 1;
            Next::Follows
        }
        Control::SignalFirst(to) => {
            w.signalled += 1;
            cx.signals += 1;
            w.set_scalar(*to, 1, u64::from(cx.signals == 1));
            w.know_scalar(*to, 1);
            Next::Follows
        }
        Control::BarrierWait => {
            w.state = State::Split(cx.pc);
            Next::Blocked
        }
        Control::GetPc(to) => {
            w.set_scalar(*to, 2, address(cx, cx.pc + 1));
            w.know_scalar(*to, 2);
            Next::Follows
        }
        Control::SetPc(from) => {
            known(w, cx, *from);
            jump(cx, value(w, *from))
        }
        Control::SwapPc(to, from) => {
            known(w, cx, *from);
            let target = value(w, *from);
            w.set_scalar(*to, 2, address(cx, cx.pc + 1));
            w.know_scalar(*to, 2);
            jump(cx, target)
        }
        Control::Call(to, target) => {
            w.set_scalar(*to, 2, address(cx, cx.pc + 1));
            w.know_scalar(*to, 2);
            if *target == Code::NONE { nowhere(cx) } else { Next::Jump(*target) }
        }
        Control::GetReg(to, which, at, bits) => get_register(w, cx, *to, [*which, *at, *bits]),
        Control::SetReg(from, which, at, bits) => {
            look(w, cx, *from);
            set_register(w, cx, value(w, *from) as u32, [*which, *at, *bits])
        }
        Control::RoundMode(mode) => {
            w.mode = w.mode & !15 | mode;
            rounding(w, cx)
        }
        Control::DenormMode(mode) => {
            w.mode = w.mode & !0xf0 | mode << 4;
            Next::Follows
        }
        Control::Relative { to, from, words, source } => relative(w, cx, (*to, *words), *from, *source),
        Control::Trap => cx.unknown("the kernel traps"),
        Control::Acquire => {
            w.acquired = true;
            Next::Follows
        }
        Control::Time(to, words) => {
            w.set_scalar(*to, *words, w.executed);
            w.know_scalar(*to, *words);
            Next::Follows
        }
    }
}

/// A move of scalars, M0 added to the number of one of them.
fn relative(w: &mut Wave, cx: &mut Context<'_>, (to, words): (u16, u8), from: SSrc, source: bool) -> Next {
    cx.known_scalar(w, scalar::M0, 1, "which register");
    let by = w.s[scalar::M0 as usize];
    let moved = |register: u16| {
        let at = u64::from(register) + u64::from(by);
        (at + u64::from(words) <= scalar::VCC.into()).then_some(at as u16)
    };
    let (to, from) = match from {
        SSrc::Reg(first, words) if source => (Some(to), moved(first).map(|first| SSrc::Reg(first, words))),
        from => (moved(to), Some(from)),
    };
    let (Some(to), Some(from)) = (to, from) else {
        cx.report(Kind::RegisterCount, None, || format!("a scalar register that is {by} further"));
        return Next::Follows;
    };
    let unknown = look(w, cx, from);
    cx.waited_scalar(w, to, words.into());
    w.set_scalar(to, words, value(w, from));
    w.set_unknown_scalar(to, words, unknown);
    Next::Follows
}

fn nowhere(cx: &mut Context<'_>) -> Next {
    cx.unknown("a jump to where no instruction starts")
}

fn known(w: &Wave, cx: &mut Context<'_>, from: crate::decode::SSrc) {
    if look(w, cx, from) && cx.check() {
        cx.report(Kind::UninitialisedRegister, None, || "it decides where to jump".into());
    }
}

/// Where an instruction is in memory.
fn address(cx: &Context<'_>, index: usize) -> u64 {
    cx.launch.bias + cx.launch.code.address + cx.launch.code.offset(index)
}

fn jump(cx: &mut Context<'_>, to: u64) -> Next {
    let offset = to.wrapping_sub(cx.launch.bias + cx.launch.code.address);
    match cx.launch.code.index(offset) {
        Some(index) => Next::Jump(index as u32),
        None => nowhere(cx),
    }
}

fn branch(w: &Wave, cx: &mut Context<'_>, when: When, to: u32) -> Next {
    let taken = match when {
        When::Always => true,
        When::Scc(set) => {
            cx.known_scalar(w, scalar::SCC, 1, "a jump");
            w.scc() == set
        }
        When::VccZero(zero) => {
            cx.waited_scalar(w, scalar::VCC, w.halves as u16);
            cx.known_scalar(w, scalar::VCC, w.halves as u8, "a jump");
            (w.mask(scalar::VCC) == 0) == zero
        }
        When::ExecZero(zero) => (w.exec() == 0) == zero,
    };
    if !taken {
        Next::Follows
    } else if to == Code::NONE {
        nowhere(cx)
    } else {
        Next::Jump(to)
    }
}

fn lanes_at_barrier(w: &Wave, cx: &mut Context<'_>) {
    let missing = w.started & !w.exec();
    if missing != 0 && cx.check() {
        let message = || "the lane is not active at the barrier".into();
        cx.report(Kind::BarrierDivergence, Some(missing.trailing_zeros()), message);
    }
}

/// Waits for loads: what they cover may be used.
pub fn wait(w: &mut Wave, cx: &mut Context<'_>, waits: &Waits) {
    let mut exposed = false;
    for counter in [Counter::Load, Counter::Store, Counter::Lds, Counter::Scalar] {
        if let Some(left) = waits.left[counter as usize] {
            exposed |= w.pending.wait(counter, left);
        }
    }
    if exposed {
        cx.counters.exposed_waits += 1;
    } else {
        cx.counters.idle_waits += 1;
    }
}

fn part(value: u32, at: u8, bits: u8) -> u32 {
    value >> at & (u32::MAX >> (32 - u32::from(bits)))
}

fn get_register(w: &mut Wave, cx: &mut Context<'_>, to: u16, [which, at, bits]: [u8; 3]) -> Next {
    use crate::run::{PRIVATE_APERTURE, SHARED_APERTURE};
    let value = match which {
        hardware::MODE => w.mode,
        hardware::SHADER_CYCLES => w.executed as u32,
        hardware::MEMORY_BASES => (SHARED_APERTURE >> 16) << 16 | PRIVATE_APERTURE >> 16,
        hardware::FLAT_SCRATCH_LOW | hardware::FLAT_SCRATCH_HIGH => 0,
        other => return cx.unknown(&format!("hardware register {other}")),
    };
    w.set_scalar(to, 1, part(value, at, bits).into());
    w.know_scalar(to, 1);
    Next::Follows
}

fn set_register(w: &mut Wave, cx: &mut Context<'_>, value: u32, [which, at, bits]: [u8; 3]) -> Next {
    match which {
        hardware::MODE => {
            let mask = (u32::MAX >> (32 - u32::from(bits))) << at;
            w.mode = w.mode & !mask | value << at & mask;
            rounding(w, cx)
        }
        // Scratch memory is each lane's own here.
        hardware::FLAT_SCRATCH_LOW | hardware::FLAT_SCRATCH_HIGH => Next::Follows,
        other => cx.unknown(&format!("hardware register {other}")),
    }
}

/// Arithmetic rounds to nearest only.
fn rounding(w: &Wave, cx: &mut Context<'_>) -> Next {
    if w.mode & 15 == 0 { Next::Follows } else { cx.unknown("a rounding mode other than to nearest") }
}
