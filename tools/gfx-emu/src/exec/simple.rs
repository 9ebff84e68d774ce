//! Runs the vector operations that most are: operands as they are, results to whole registers.

use super::valu::{Lane, OPERANDS};
use super::vector::{environment, low_unknown, place, track};
use crate::decode::{Pair, Put, Simple, Valu};
use crate::run::{Context, Wave};

/// Brings scalar operands to their rows; whether any was never written.
#[inline(always)]
fn spread(w: &mut Wave, simple: &Simple) -> bool {
    match simple.scalar {
        Some(first) if simple.scalars.is_empty() => spread_one(w, first),
        Some(first) => {
            spread_one(w, first) | simple.scalars.iter().fold(false, |lost, &next| spread_one(w, next) | lost)
        }
        None => false,
    }
}

#[inline(always)]
fn spread_one(w: &mut Wave, (register, row): (u16, u16)) -> bool {
    let value = w.s[register as usize];
    w.v[row as usize * w.halves..][..w.halves].fill([value; 32]);
    w.is_unknown_scalar(register, 1)
}

/// The registers of all operands for one set of 32 lanes.
#[inline(always)]
fn operands<'a, const HALVES: usize>(simple: &Simple, file: &'a [Lane], half: usize) -> [&'a Lane; OPERANDS] {
    const NOTHING: &Lane = &[0; 32];
    let row = |at: usize| &file[simple.rows[at] as usize * HALVES + half];
    if simple.narrow {
        [row(0), NOTHING, row(2), NOTHING, row(4), NOTHING]
    } else {
        [row(0), row(1), row(2), row(3), row(4), row(5)]
    }
}

/// Lanes that any operand is unknown in.
#[inline(always)]
fn unknown(w: &Wave, simple: &Simple) -> u64 {
    let of = |at: usize| w.unknown_v[simple.rows[at] as usize];
    let even = of(0) | of(2) | of(4);
    if simple.narrow { even } else { even | of(1) | of(3) | of(5) }
}

/// Writes a result to active lanes.
#[inline(always)]
fn write(to: &mut Lane, out: &Lane, lanes: u32) {
    if lanes == u32::MAX {
        *to = *out;
    } else {
        // SAFETY: whoever makes a `Gpu` has looked that the CPU has the features that it is compiled for.
        unsafe { some(to, out, lanes) };
    }
}

#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn some(to: &mut Lane, out: &Lane, lanes: u32) {
    place(to, out, lanes, Put::Whole);
}

/// Runs an operation.
#[inline(always)]
pub fn run(w: &mut Wave, cx: &Context<'_>, v: &Valu, simple: &Simple) {
    if simple.needs_mask {
        masked(w, cx, v, simple);
        return;
    }
    let lost = if spread(w, simple) { u64::MAX } else { unknown(w, simple) };
    if w.halves == 1 {
        compute::<1>(w, v, simple, 0, [lost; 2]);
    } else {
        compute::<2>(w, v, simple, 0, [lost; 2]);
    }
}

/// Runs an operation that reads a mask, or of which a part may be known.
#[inline(never)]
fn masked(w: &mut Wave, cx: &Context<'_>, v: &Valu, simple: &Simple) {
    spread(w, simple);
    let carry = v.mask_in.map_or(0, |first| w.mask(first));
    let lost = track(w, cx, v, carry);
    let low = if v.low_alone && lost != 0 { low_unknown(w, v) } else { lost };
    if w.halves == 1 {
        compute::<1>(w, v, simple, carry, [low, lost]);
    } else {
        compute::<2>(w, v, simple, carry, [low, lost]);
    }
}

#[inline(always)]
fn compute<const HALVES: usize>(w: &mut Wave, v: &Valu, simple: &Simple, carry: u64, lost: [u64; 2]) {
    let exec = w.exec();
    let dst = simple.dst as usize;
    let Wave { v: file, out, mode, unknown_v, .. } = w;
    for half in 0..HALVES {
        let refs = operands::<HALVES>(simple, file, half);
        let built;
        let env = if v.needs_env {
            built = environment(*mode, v, carry, half);
            &built
        } else {
            &v.env
        };
        // SAFETY: whoever makes a `Gpu` has looked that the CPU has the features that rows are compiled for.
        unsafe { (v.f)(env, &refs, out, &mut 0) };
        let lanes = (exec >> (32 * half)) as u32;
        write(&mut file[dst * HALVES + half], &out[0], lanes);
        if simple.words > 1 {
            write(&mut file[(dst + 1) * HALVES + half], &out[1], lanes);
        }
    }
    let to = &mut unknown_v[dst];
    *to = *to & !exec | lost[0] & exec;
    if simple.words > 1 {
        let to = &mut unknown_v[dst + 1];
        *to = *to & !exec | lost[1] & exec;
    }
}

/// Runs two operations of one word each at once: both read before either writes. Waves have 32 lanes.
#[inline(always)]
pub fn pair(w: &mut Wave, pair: &Pair, x: &Simple, y: &Simple) {
    let exec = w.exec();
    let lost = [x, y].map(|simple| if spread(w, simple) { u64::MAX } else { unknown(w, simple) });
    let Wave { v: file, out, second, mode, unknown_v, .. } = w;
    for (v, simple, out) in [(&pair.ops[0], x, &mut *out), (&pair.ops[1], y, &mut *second)] {
        let refs = operands::<1>(simple, file, 0);
        // SAFETY: whoever makes a `Gpu` has looked that the CPU has the features that rows are compiled for.
        unsafe { (v.f)(&environment(*mode, v, 0, 0), &refs, out, &mut 0) };
    }
    for (simple, out, lost) in [(x, &out[0], lost[0]), (y, &second[0], lost[1])] {
        write(&mut file[simple.dst as usize], out, exec as u32);
        let to = &mut unknown_v[simple.dst as usize];
        *to = *to & !exec | lost & exec;
    }
}
