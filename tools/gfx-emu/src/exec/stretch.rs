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

#[inline(always)]
fn all<const HALVES: usize>(w: &mut Wave, ops: &[Quick], prepares: &[Prepare]) {
    for op in ops {
        if !op.prepare.is_empty() {
            for prepare in &prepares[op.prepare.start as usize..op.prepare.end as usize] {
                bring::<HALVES>(w, prepare);
            }
        }
        let Some(f) = op.direct else {
            // SAFETY: whoever makes a `Gpu` has looked that the CPU has the features that it is compiled for.
            unsafe { indirect::<HALVES>(w, op) };
            continue;
        };
        let [a, _, b, _, c, _] = op.places.from.map(|row| row as usize / HALVES);
        let (file, unknown) = (&mut *w.v, &mut *w.unknown_v);
        unknown[op.places.to[0] as usize / HALVES] = unknown[a] | unknown[b] | unknown[c];
        for half in 0..HALVES {
            // SAFETY: as above, of the features that rows are compiled for.
            unsafe { f(&op.env, &mut file[half..], &op.places) };
        }
    }
}

/// Runs an operation that is not done in place, has operands of several words, or asks for more than the others.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
fn indirect<const HALVES: usize>(w: &mut Wave, op: &Quick) {
    match &op.special {
        Some(special) => masked::<HALVES>(w, op, special),
        None => whole::<HALVES>(w, op),
    }
}

/// Runs an operation to whole registers.
#[inline(always)]
fn whole<const HALVES: usize>(w: &mut Wave, op: &Quick) {
    let lost = unknown::<HALVES>(w, op);
    for half in 0..HALVES {
        let env = Env { first: 32 * half as u32, ieee: w.mode & mode::IEEE != 0, ..op.env };
        let file = &mut w.v[half..];
        match op.in_place {
            // SAFETY: whoever makes a `Gpu` has looked that the CPU has the features that rows are compiled for.
            Some(f) => unsafe { f(&env, file, &op.places) },
            None => {
                through(&env, file, op, &mut w.out, &mut 0);
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
#[inline(always)]
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

#[cfg(test)]
mod tests {
    use super::super::valu::{OPERANDS, Places, TABLE};
    use super::*;
    use crate::decode::{Change, Reg, Ty, VSrc};
    use crate::exec::vector::changed;
    use crate::random::Random;

    /// Random bits, among them those of infinities, subnormals and small numbers.
    fn lanes(random: &mut Random) -> Lane {
        std::array::from_fn(|lane| match lane % 4 {
            0 => {
                [0, 0x8000_0000, 0x7f80_0000, 0xff80_0001, 0x3f80_0000, 0x7c00_fc01, 1, 31][random.bits() as usize % 8]
            }
            1 => random.bits() as u32 & 0xff,
            _ => random.bits() as u32,
        })
    }

    #[test]
    fn changes_are_what_instructions_do_to_bits() {
        const TYPES: [Ty; 17] = [
            Ty::W,
            Ty::I,
            Ty::F,
            Ty::U16,
            Ty::I16,
            Ty::H,
            Ty::B,
            Ty::D,
            Ty::Q,
            Ty::FD,
            Ty::P,
            Ty::PH,
            Ty::PB,
            Ty::PW,
            Ty::PF,
            Ty::MX,
            Ty::M,
        ];
        let mut random = Random::new(7);
        let mut compared = 0;
        for ty in TYPES {
            for flags in 0..256_u32 {
                let flag = |at: u32| flags >> at & 1 != 0;
                let packed = matches!(ty, Ty::P | Ty::PH | Ty::PB | Ty::PW | Ty::PF);
                let mut src = VSrc::new(Reg::V(0), ty, [0; 2]);
                // Packed sources have no marks of a whole.
                (src.neg, src.abs) = (flag(0) && !packed, flag(1) && !packed);
                src.high = [flag(2), flag(3)];
                src.neg_half = [flag(4), flag(5)];
                src.sext = flag(6) && !packed;
                src.select = (flag(7) && !packed).then_some((8, 8));
                src.plain();
                let words = [lanes(&mut random), lanes(&mut random)];
                for word in 0..usize::from(src.words) {
                    let Some(change) = Change::new(&src, word) else { continue };
                    let mut out = words[word];
                    if !src.plain {
                        changed(&src, [&words[0], &words[1]], word, &mut out);
                    }
                    assert_eq!(words[word].map(|bits| change.of(bits)), out, "{src:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 1000, "{compared}");
    }

    /// Two results, which may be different NaNs.
    fn alike(ty: Ty, a: u32, b: u32) -> bool {
        let is_nan = |bits: u32| match ty {
            Ty::F | Ty::PF => f32::from_bits(bits).is_nan(),
            Ty::PH | Ty::H | Ty::FD => true,
            _ => false,
        };
        a == b || (is_nan(a) && is_nan(b))
    }

    #[test]
    fn operations_in_place_do_what_they_do_elsewhere() {
        let mut random = Random::new(8);
        let mut count = 0;
        for (name, row) in TABLE.iter() {
            let Some(in_place) = row.in_place else { continue };
            count += 1;
            for to in 0..=6 {
                let mut file: Vec<Lane> = (0..8).map(|_| lanes(&mut random)).collect();
                let env = Env { clamp: random.bits() & 1 != 0, signed: [true, false, true], ..Env::default() };
                let refs: [&Lane; OPERANDS] = std::array::from_fn(|at| &file[at]);
                let mut out = [[0; 32]; 2];
                // SAFETY: tests run where the emulator does.
                unsafe { (row.f)(&env, &refs, &mut out, &mut 0) };
                let places = Places { from: std::array::from_fn(|at| at as u16), to: [to, to + 1] };
                let before = file.clone();
                // SAFETY: as above.
                unsafe { in_place(&env, &mut file, &places) };
                for (at, (row_after, row_before)) in file.iter().zip(&before).enumerate() {
                    let word = at.wrapping_sub(to as usize);
                    let written = word < usize::from(row.dst.words());
                    let expected = if written { &out[word] } else { row_before };
                    let same =
                        row_after.iter().zip(expected).all(|(&a, &b)| a == b || (written && alike(row.dst, a, b)));
                    assert!(same, "{name} to {to}, row {at}: {row_after:x?}, {expected:x?}");
                }
            }
        }
        assert!(count > 100, "{count}");
    }
}
