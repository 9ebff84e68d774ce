//! Products of which registers hold lines: lanes that follow each other have rows of A, columns of B and columns of the
//! result that do. Nearly all are; no element has to be looked up then.

use super::form::{Form, Place};
use super::{Acc, Element, Field, Product, added, fractions, rounded, wholes};

/// Where lines start: of A for each k of a block, of B too, of the result for each row.
#[derive(Clone, Debug)]
pub struct Lines {
    a: Vec<Place>,
    b: Vec<Place>,
    result: Vec<Place>,
}

/// The first places of runs, each of places that follow each other; none if some do not.
fn starts(runs: impl Iterator<Item = Vec<Place>>) -> Option<Vec<Place>> {
    let first = |run: Vec<Place>| {
        let first = *run.first()?;
        let follows = |(at, place): (usize, &Place)| place.word == first.word + at as u16 && place.shift == first.shift;
        run.iter().enumerate().all(follows).then_some(first)
    };
    runs.map(first).collect()
}

impl Lines {
    /// Those of a form; none if it has other places, or sums that are not of 32 bits.
    pub fn new(form: &Form) -> Option<Lines> {
        let Form { m, n, k, .. } = *form;
        if m != n || !form.index.is_empty() || form.types[2] == Element::F64 {
            return None;
        }
        let columns =
            form.a.chunks(m * k).flat_map(|block| (0..k).map(|at| block.iter().skip(at).step_by(k).copied().collect()));
        Some(Lines {
            a: starts(columns)?,
            b: starts(form.b.chunks(n).map(<[Place]>::to_vec))?,
            result: starts(form.result.chunks(n).map(<[Place]>::to_vec))?,
        })
    }
}

/// Rows that are summed at once, so that a line of B is loaded once for them.
const ROWS: usize = 4;

/// The words of a line's elements.
#[inline(always)]
fn line<const N: usize>(file: &[u32], place: Place) -> &[u32; N] {
    file[place.word as usize..].first_chunk().expect("lines lie inside the file")
}

/// Room for the factors of all blocks, lines one after the other.
#[derive(Debug, Default)]
struct Factors<T> {
    a: Vec<T>,
    b: Vec<T>,
}

/// Room for all products.
#[derive(Debug, Default)]
pub struct Room {
    fractions: Factors<f32>,
    wholes: Factors<i32>,
}

/// Arithmetic of a product: what elements are, how they are multiplied and added, and what becomes of a sum.
trait Arithmetic: Copy {
    type Value: Copy + Default;
    /// The elements of a line of A or B.
    fn factors<const N: usize>(self, which: usize, words: &[u32; N], at: Field, to: &mut [Self::Value; N]);
    /// What sums start with, by the elements of C.
    fn start<const N: usize>(self, words: &[u32; N], at: Field, to: &mut [Self::Value; N]);
    fn multiply_add(self, a: Self::Value, b: Self::Value, sum: Self::Value) -> Self::Value;
    /// Makes results of sums, where the elements of C may still be.
    fn end<const N: usize>(self, sums: &[Self::Value; N], c: &[u32; N], to: &mut [u32; N]);
}

#[derive(Clone, Copy)]
struct Fractions<'a>(&'a Product);

impl Arithmetic for Fractions<'_> {
    type Value = f32;

    #[inline(always)]
    fn factors<const N: usize>(self, which: usize, words: &[u32; N], at: Field, to: &mut [f32; N]) {
        let Fractions(p) = self;
        fractions(words, at, p.form.types[which], p.fnuz, p.neg[which], to);
    }

    #[inline(always)]
    fn start<const N: usize>(self, words: &[u32; N], at: Field, sums: &mut [f32; N]) {
        let Fractions(p) = self;
        fractions(words, at, p.form.types[2], false, false, sums);
        if p.abs {
            sums.iter_mut().for_each(|x| *x = x.abs());
        }
        if p.neg[2] {
            sums.iter_mut().for_each(|x| *x = -*x);
        }
    }

    #[inline(always)]
    fn multiply_add(self, a: f32, b: f32, sum: f32) -> f32 {
        a.mul_add(b, sum)
    }

    #[inline(always)]
    fn end<const N: usize>(self, sums: &[f32; N], _: &[u32; N], to: &mut [u32; N]) {
        rounded(sums, self.0.form.types[2], to);
    }
}

#[derive(Clone, Copy)]
struct Wholes<'a>(&'a Product);

impl Arithmetic for Wholes<'_> {
    type Value = i32;

    #[inline(always)]
    fn factors<const N: usize>(self, which: usize, words: &[u32; N], at: Field, to: &mut [i32; N]) {
        let Wholes(p) = self;
        wholes(words, at, p.form.types[which], p.signed[which], to);
    }

    #[inline(always)]
    fn start<const N: usize>(self, _: &[u32; N], _: Field, _: &mut [i32; N]) {}

    #[inline(always)]
    fn multiply_add(self, a: i32, b: i32, sum: i32) -> i32 {
        a.wrapping_mul(b).wrapping_add(sum)
    }

    #[inline(always)]
    fn end<const N: usize>(self, sums: &[i32; N], c: &[u32; N], to: &mut [u32; N]) {
        for ((to, &sum), &c) in to.iter_mut().zip(sums).zip(c) {
            *to = added(sum, c as i32, self.0.clamp) as u32;
        }
    }
}

/// Multiplies.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn multiply(p: &Product, lines: &Lines, file: &mut [u32], room: &mut Room) {
    match (p.form.n, p.form.types[2]) {
        (4, Element::I32) => blocks::<_, 4>(Wholes(p), p, lines, file, &mut room.wholes),
        (16, Element::I32) => blocks::<_, 16>(Wholes(p), p, lines, file, &mut room.wholes),
        (_, Element::I32) => blocks::<_, 32>(Wholes(p), p, lines, file, &mut room.wholes),
        (4, _) => blocks::<_, 4>(Fractions(p), p, lines, file, &mut room.fractions),
        (16, _) => blocks::<_, 16>(Fractions(p), p, lines, file, &mut room.fractions),
        _ => blocks::<_, 32>(Fractions(p), p, lines, file, &mut room.fractions),
    }
}

/// Multiplies blocks of N x N.
#[inline(always)]
fn blocks<A: Arithmetic, const N: usize>(
    arithmetic: A,
    p: &Product,
    lines: &Lines,
    file: &mut [u32],
    room: &mut Factors<A::Value>,
) {
    let Form { k, blocks, ref types, wave, .. } = p.form;
    let part = |register: u16| register as usize * wave;
    let Factors { a, b } = room;
    for (which, (first, places, to)) in [(p.a, &lines.a, &mut *a), (p.b, &lines.b, &mut *b)].into_iter().enumerate() {
        to.resize(places.len() * N, A::Value::default());
        for (&place, to) in places.iter().zip(to.as_chunks_mut::<N>().0) {
            let at = Field::new(place.shift, types[which].bits());
            arithmetic.factors(which, line(&file[part(first)..], place), at, to);
        }
    }
    let bits = types[2].bits();
    for block in 0..blocks {
        let [a, b] = [&*a, &*b].map(|all| &all.as_chunks::<N>().0[block * k..][..k]);
        let results = &lines.result[block * N..][..N];
        for (group, places) in results.as_chunks::<ROWS>().0.iter().enumerate() {
            let mut sums = [[A::Value::default(); N]; ROWS];
            for (sums, &place) in sums.iter_mut().zip(places) {
                match p.c {
                    Acc::K(value) => arithmetic.start(&[value; N], Field::ALL, sums),
                    Acc::V(c) => arithmetic.start(line(&file[part(c)..], place), Field::new(place.shift, bits), sums),
                }
            }
            accumulate(arithmetic, a, b, group, &mut sums);
            for (sums, &place) in sums.iter().zip(places) {
                let mut out = [0; N];
                match p.c {
                    Acc::K(value) => arithmetic.end(sums, &[value; N], &mut out),
                    Acc::V(c) => arithmetic.end(sums, line(&file[part(c)..], place), &mut out),
                }
                let to =
                    file[part(p.dst)..][place.word as usize..].first_chunk_mut().expect("lines lie inside the file");
                put(to, Field::new(place.shift, bits), &out);
            }
        }
    }
}

/// Writes a line's elements.
#[inline(always)]
fn put<const N: usize>(to: &mut [u32; N], at: Field, elements: &[u32; N]) {
    if at.mask == u32::MAX {
        *to = *elements;
        return;
    }
    for (word, element) in to.iter_mut().zip(elements) {
        *word = *word & !(at.mask << at.shift) | element << at.shift;
    }
}

/// Adds the products of some rows of A and all columns of B, in the order of k.
#[inline(always)]
fn accumulate<A: Arithmetic, const N: usize>(
    arithmetic: A,
    a: &[[A::Value; N]],
    b: &[[A::Value; N]],
    group: usize,
    sums: &mut [[A::Value; N]; ROWS],
) {
    let mut all = *sums;
    for (a, b) in a.iter().zip(b) {
        let rows = &a.as_chunks::<ROWS>().0[group];
        for row in 0..ROWS {
            for column in 0..N {
                all[row][column] = arithmetic.multiply_add(rows[row], b[column], all[row][column]);
            }
        }
    }
    *sums = all;
}

#[cfg(test)]
mod tests {
    use super::super::form::Broadcast;
    use super::super::{Tiles, multiply_any};
    use super::*;
    use crate::random::Random;
    use hrx_compiler::target::amd;

    /// Every product that has lines, as other products are done: bit for bit, for finite numbers.
    #[test]
    fn lines_give_what_single_places_give() {
        let mut random = Random::new(9);
        let mut forms: Vec<Form> = Vec::new();
        for op in amd::CHIPS.iter().flat_map(|chip| chip.matrix_ops) {
            forms.push(Form::of_chip(op, op.wave, false));
        }
        let others = [
            "v_mfma_f32_4x4x1_16b_f32",
            "v_mfma_f32_32x32x4_2b_f16",
            "v_mfma_i32_16x16x4_4b_i8",
            "v_mfma_f32_16x16x8_xf32",
        ];
        forms.extend(others.iter().map(|name| Form::of_name(name, Broadcast::default()).expect("a form")));
        let mut compared = 0;
        for form in forms {
            let Some(lines) = Lines::new(&form) else { continue };
            for sum in [Acc::V(64), Acc::V(128), Acc::K(0x3f80_0000)] {
                let bit = |random: &mut Random| random.bits() & 1 != 0;
                let p = Product {
                    form: form.clone(),
                    lines: None,
                    dst: 64,
                    a: 0,
                    b: 32,
                    c: sum,
                    signed: [bit(&mut random), bit(&mut random)],
                    neg: [bit(&mut random), bit(&mut random), bit(&mut random)],
                    abs: bit(&mut random),
                    clamp: bit(&mut random),
                    // Where it is, a zero with a sign is NaN.
                    fnuz: false,
                    index: None,
                    broadcast: Broadcast::default(),
                };
                // No exponent is the largest.
                let file: Vec<u32> = (0..192 * form.wave).map(|_| random.bits() as u32 & 0xbfbf_bfbf).collect();
                let (mut one, mut other) = (file.clone(), file);
                multiply_any(&p, &mut one, &mut Tiles::default());
                // SAFETY: tests run where the emulator does.
                unsafe { multiply(&p, &lines, &mut other, &mut Room::default()) };
                assert!(one == other, "{:?} {}x{}x{}", form.types, form.m, form.n, form.k);
                compared += 1;
            }
        }
        assert!(compared > 30, "{compared}");
    }
}
