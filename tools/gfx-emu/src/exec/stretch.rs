//! Runs stretches.

use super::mode;
use super::valu::{Env, Lane, OPERANDS};
use super::vector::{permuted, place};
use crate::decode::{Inst, Prepare, Quick, Special, Stretches};
use crate::run::{Context, Wave};

/// Bits of the mode that make operations other than their rows.
const PLAIN: u32 = mode::SUBNORMALS | mode::FP16_OVFL;

/// All lanes of so many sets of 32.
const fn every(halves: usize) -> u64 {
    u64::MAX >> (64 - 32 * halves)
}

/// Whether nothing hinders the stretch that an instruction belongs to.
#[inline(always)]
pub fn is_free(w: &Wave, cx: &Context<'_>, inst: &Inst, stretches: &Stretches) -> bool {
    let loaded = || cx.check() && w.pending.touches(&stretches.named[inst.stretch.number as usize]);
    w.exec() == every(w.halves) && (w.mode ^ mode::SUBNORMALS) & PLAIN == 0 && !(w.pending.any() && loaded())
}

/// Runs operations of a stretch.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn run(w: &mut Wave, ops: &[Quick], prepares: &[Prepare]) {
    match w.halves {
        1 => all::<1>(w, ops, prepares),
        _ => all::<2>(w, ops, prepares),
    }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn all<const HALVES: usize>(w: &mut Wave, ops: &[Quick], prepares: &[Prepare]) {
    for op in ops {
        for prepare in &prepares[op.prepare.start as usize..op.prepare.end as usize] {
            bring::<HALVES>(w, prepare);
        }
        if let Some(special) = &op.special {
            masked::<HALVES>(w, op, special);
            continue;
        }
        let lost = unknown::<HALVES>(w, op);
        for half in 0..HALVES {
            let built;
            let env = if op.needs_env {
                built = Env { first: 32 * half as u32, ieee: w.mode & mode::IEEE != 0, ..op.env };
                &built
            } else {
                &op.env
            };
            let file = &mut w.v[half..];
            match op.in_place {
                // SAFETY: whoever makes a `Gpu` has looked that the CPU has the features that rows are compiled for.
                Some(f) => unsafe { f(env, file, &op.places) },
                None => {
                    through(env, file, op, &mut w.out, &mut 0);
                    for (out, &to) in w.out.iter().zip(&op.places.to[..op.words.into()]) {
                        file[to as usize] = *out;
                    }
                }
            }
        }
        for &to in &op.places.to[..op.words.into()] {
            w.unknown_v[to as usize / HALVES] = lost;
        }
    }
}

/// Lanes in which any operand is unknown.
#[inline(always)]
fn unknown<const HALVES: usize>(w: &Wave, op: &Quick) -> u64 {
    let of = |at: usize| w.unknown_v[op.places.from[at] as usize / HALVES];
    let even = of(0) | of(2) | of(4);
    if op.narrow { even } else { even | of(1) | of(3) | of(5) }
}

/// Brings an operand to a row of its own.
#[inline(always)]
fn bring<const HALVES: usize>(w: &mut Wave, prepare: &Prepare) {
    match prepare {
        &Prepare::Spread { register, row, change } => {
            let value = change.of(w.s[register as usize]);
            w.v[row as usize * HALVES..][..HALVES].fill([value; 32]);
            w.unknown_v[row as usize] = if w.is_unknown_scalar(register, 1) { u64::MAX } else { 0 };
        }
        &Prepare::Change { from, row, change } => {
            for half in 0..HALVES {
                let values = w.v[from as usize * HALVES + half];
                let to = &mut w.v[row as usize * HALVES + half];
                for (to, bits) in to.iter_mut().zip(values) {
                    *to = change.of(bits);
                }
            }
            w.unknown_v[row as usize] = w.unknown_v[from as usize];
        }
        Prepare::Gather { from, row, dpp } => {
            let mut values = [[0; 32]; HALVES];
            values.copy_from_slice(&w.v[*from as usize * HALVES..][..HALVES]);
            let values = values.as_flattened();
            let to = w.v[*row as usize * HALVES..][..HALVES].as_flattened_mut();
            for (to, from) in to.iter_mut().zip(dpp.from) {
                // Lanes without a source read zero.
                *to = values.get(from as usize).copied().unwrap_or(0);
            }
            w.unknown_v[*row as usize] = permuted(w.unknown_v[*from as usize], dpp);
        }
    }
}

/// Runs an operation to another place than its result's.
#[inline(always)]
fn through(env: &Env, file: &[Lane], op: &Quick, out: &mut [Lane; 2], mask: &mut u32) {
    const NOTHING: &Lane = &[0; 32];
    let row = |at: usize| &file[op.places.from[at] as usize];
    let mut refs: [&Lane; OPERANDS] = [row(0), NOTHING, row(2), NOTHING, row(4), NOTHING];
    if !op.narrow {
        (refs[1], refs[3], refs[5]) = (row(1), row(3), row(5));
    }
    // SAFETY: as above.
    unsafe { (op.f)(env, &refs, out, mask) };
}

/// Runs an operation with masks, or to halves of registers.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn masked<const HALVES: usize>(w: &mut Wave, op: &Quick, special: &Special) {
    let carry = special.mask_in.map_or(0, |first| w.mask(first));
    let all = unknown::<HALVES>(w, op);
    let of = |at: usize| w.unknown_v[op.places.from[at] as usize / HALVES];
    let lost = if special.select {
        let by_mask = special.mask_in.is_some_and(|m| w.is_unknown_scalar(m, HALVES as u8));
        if by_mask { u64::MAX } else { of(0) & !carry | of(2) & carry }
    } else {
        all
    };
    let low = if special.low_alone { of(0) | of(2) | of(4) } else { lost };
    let mut mask = 0;
    for half in 0..HALVES {
        let env = Env {
            mask: (carry >> (32 * half)) as u32,
            first: 32 * half as u32,
            ieee: w.mode & mode::IEEE != 0,
            ..op.env
        };
        let file = &mut w.v[half..];
        let mut bits = 0;
        through(&env, file, op, &mut w.out, &mut bits);
        mask |= u64::from(bits) << (32 * half);
        for (out, &to) in w.out.iter().zip(&op.places.to[..op.words.into()]) {
            place(&mut file[to as usize], out, u32::MAX, special.put);
        }
    }
    for (&to, lost) in op.places.to[..op.words.into()].iter().zip([low, lost]) {
        w.unknown_v[to as usize / HALVES] = lost;
    }
    if let Some(first) = special.mask_out {
        w.set_mask(first, mask);
        w.set_unknown_scalar(first, HALVES as u8, lost & every(HALVES) != 0);
    }
}
