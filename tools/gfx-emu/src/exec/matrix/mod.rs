//! Matrix products: fragments gathered to whole tiles, multiplied, and scattered again.

pub mod form;
mod lined;
pub mod step;

pub use form::{Broadcast, Element, Form, Place};
pub use lined::Lines;

use super::number::{bf16, from_f8, half, to_bf16, to_half};
use crate::decode::{Reg, VSrc};

/// A matrix instruction.
#[derive(Clone, Debug)]
pub struct Product {
    pub form: Form,
    /// Where its registers hold lines of elements.
    pub lines: Option<Lines>,
    pub dst: u16,
    pub a: u16,
    pub b: u16,
    pub c: Acc,
    /// Whether factors are signed, of whole numbers.
    pub signed: [bool; 2],
    /// Whether factors and the sum are negated, and whether signs of the sum are dropped.
    pub neg: [bool; 3],
    pub abs: bool,
    pub clamp: bool,
    /// Whether 8-bit floats are FNUZ.
    pub fnuz: bool,
    /// The register with indices of a sparse A.
    pub index: Option<u16>,
    /// What the form has taken into it, to write the instruction again.
    #[cfg_attr(not(test), allow(dead_code))]
    pub broadcast: Broadcast,
}

/// What the sum starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acc {
    /// Registers.
    V(u16),
    /// The same for all elements.
    K(u32),
}

/// Elements of so many bits, one for each place.
#[inline(always)]
fn gather(file: &[u32], places: &[Place], bits: u32, to: &mut Vec<u32>) {
    let mask = u32::MAX >> (32 - bits);
    to.clear();
    to.extend(places.iter().map(|p| file[p.word as usize] >> p.shift & mask));
}

/// binary32 with ten bits of mantissa, to nearest, ties to even.
fn short(x: f32) -> f32 {
    if !x.is_finite() {
        return x;
    }
    let bits = x.to_bits();
    f32::from_bits(bits.wrapping_add(0xfff + (bits >> 13 & 1)) & !0x1fff)
}

/// Where elements are in their words.
#[derive(Clone, Copy)]
struct Field {
    shift: u32,
    mask: u32,
}

impl Field {
    /// Whole words, or what was taken out of them.
    const ALL: Field = Field { shift: 0, mask: u32::MAX };

    fn new(shift: u8, bits: u32) -> Field {
        Field { shift: shift.into(), mask: u32::MAX >> (32 - bits) }
    }

    #[inline(always)]
    fn of(self, word: u32) -> u32 {
        word >> (self.shift & 31) & self.mask
    }
}

/// The values of elements.
#[inline(always)]
fn fractions(words: &[u32], at: Field, ty: Element, fnuz: bool, neg: bool, to: &mut [f32]) {
    match ty {
        Element::F16 => set(words, to, |w| half(at.of(w))),
        Element::Bf16 => set(words, to, |w| bf16(at.of(w))),
        Element::Fp8 => set(words, to, |w| from_f8(at.of(w), 4, fnuz)),
        Element::Bf8 => set(words, to, |w| from_f8(at.of(w), 5, fnuz)),
        Element::Xf32 => set(words, to, |w| short(f32::from_bits(w))),
        _ => set(words, to, f32::from_bits),
    }
    if neg {
        to.iter_mut().for_each(|x| *x = -*x);
    }
}

/// The same of whole numbers.
#[inline(always)]
fn wholes(words: &[u32], at: Field, ty: Element, signed: bool, to: &mut [i32]) {
    let shift = 32 - ty.bits();
    if signed || ty == Element::I8 {
        set(words, to, |w| (at.of(w) << shift) as i32 >> shift);
    } else {
        set(words, to, |w| at.of(w) as i32);
    }
}

/// The bits of sums.
#[inline(always)]
fn rounded(sums: &[f32], ty: Element, to: &mut [u32]) {
    match ty {
        Element::F16 => set(sums, to, to_half),
        Element::Bf16 => set(sums, to, to_bf16),
        _ => set(sums, to, f32::to_bits),
    }
}

/// A sum of whole numbers and what it is added to.
#[inline(always)]
fn added(sum: i32, c: i32, clamp: bool) -> i32 {
    if clamp { sum.saturating_add(c) } else { sum.wrapping_add(c) }
}

/// Applies something to each element; the compiler makes vector code of eight at a time, which may not be where others are.
#[inline(always)]
fn set<T: Copy, U: Copy + Default>(from: &[T], to: &mut [U], f: impl Fn(T) -> U) {
    let (eights, rest) = from.as_chunks::<8>();
    let (to_eights, to_rest) = to.as_chunks_mut::<8>();
    for (to, &from) in to_eights.iter_mut().zip(eights) {
        let mut all = [U::default(); 8];
        for (to, from) in all.iter_mut().zip(from) {
            *to = f(from);
        }
        *to = all;
    }
    for (to, &from) in to_rest.iter_mut().zip(rest) {
        *to = f(from);
    }
}

/// Room for tiles, kept from one product to the next.
#[derive(Debug, Default)]
pub struct Tiles {
    bits: Vec<u32>,
    a: Vec<f32>,
    b: Vec<f32>,
    sums: Vec<f32>,
    whole: [Vec<i32>; 3],
    results: Vec<u32>,
    lined: lined::Room,
}

/// Multiplies on a wave's registers, all of them in one slice.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn multiply(p: &Product, file: &mut [u32], tiles: &mut Tiles) {
    match &p.lines {
        Some(lines) => lined::multiply(p, lines, file, &mut tiles.lined),
        None => multiply_any(p, file, tiles),
    }
}

/// The same wherever elements are.
fn multiply_any(p: &Product, file: &mut [u32], tiles: &mut Tiles) {
    let form = &p.form;
    let [ta, tb, acc] = form.types;
    if acc == Element::F64 {
        multiply_wide(p, file);
        return;
    }
    let part = |first: u16| first as usize * form.wave;
    let count = form.result.len();
    let Tiles { bits, a, b, sums, whole, results, .. } = tiles;
    let start = |to: &mut Vec<u32>| match p.c {
        Acc::K(value) => {
            to.clear();
            to.resize(count, value);
        }
        Acc::V(first) => gather(&file[part(first)..], &form.result, acc.bits(), to),
    };
    results.clear();
    if acc == Element::I32 {
        let [x, y, sums] = whole;
        gather(&file[part(p.a)..], &form.a, ta.bits(), bits);
        x.resize(bits.len(), 0);
        wholes(bits, Field::ALL, ta, p.signed[0], x);
        spread(p, file, x);
        gather(&file[part(p.b)..], &form.b, tb.bits(), bits);
        y.resize(bits.len(), 0);
        wholes(bits, Field::ALL, tb, p.signed[1], y);
        sums.clear();
        sums.resize(count, 0);
        accumulate(x, y, sums, form, |x, y, sum| x.wrapping_mul(y).wrapping_add(sum));
        start(bits);
        results.extend(sums.iter().zip(&*bits).map(|(&sum, &c)| added(sum, c as i32, p.clamp) as u32));
    } else {
        gather(&file[part(p.a)..], &form.a, ta.bits(), bits);
        a.resize(bits.len(), 0.0);
        fractions(bits, Field::ALL, ta, p.fnuz, p.neg[0], a);
        spread(p, file, a);
        gather(&file[part(p.b)..], &form.b, tb.bits(), bits);
        b.resize(bits.len(), 0.0);
        fractions(bits, Field::ALL, tb, p.fnuz, p.neg[1], b);
        start(bits);
        sums.resize(bits.len(), 0.0);
        fractions(bits, Field::ALL, acc, false, false, sums);
        if p.abs {
            sums.iter_mut().for_each(|x| *x = x.abs());
        }
        if p.neg[2] {
            sums.iter_mut().for_each(|x| *x = -*x);
        }
        accumulate(a, b, sums, form, |x, y, sum| x.mul_add(y, sum));
        results.resize(sums.len(), 0);
        rounded(sums, acc, results);
    }
    let to = &mut file[part(p.dst)..];
    let mask = u32::MAX >> (32 - acc.bits());
    for (place, &value) in form.result.iter().zip(&*results) {
        let word = &mut to[place.word as usize];
        *word = *word & !(mask << place.shift) | value << place.shift;
    }
}

/// Elements of a sparse A go to where they are among four, with zeros between.
fn spread<T: Copy + Default>(p: &Product, file: &[u32], a: &mut Vec<T>) {
    let (Some(register), false) = (p.index, p.form.index.is_empty()) else { return };
    let file = &file[register as usize * p.form.wave..];
    let mut dense = vec![T::default(); 2 * a.len()];
    for ((at, &x), place) in a.iter().enumerate().zip(&p.form.index) {
        let which = file[place.word as usize] >> place.shift & 3;
        dense[at / 2 * 4 + which as usize] = x;
    }
    *a = dense;
}

/// The same of binary64.
fn multiply_wide(p: &Product, file: &mut [u32]) {
    let form = &p.form;
    let values = |first: u16, places: &[Place]| -> Vec<f64> {
        let file = &file[first as usize * form.wave..];
        let word = |at: usize| u64::from(file[at]);
        let of = |p: &Place| f64::from_bits(word(p.word as usize) | word(p.word as usize + form.wave) << 32);
        places.iter().map(of).collect()
    };
    let (mut a, mut b) = (values(p.a, &form.a), values(p.b, &form.b));
    let mut sums = match p.c {
        Acc::V(first) => values(first, &form.result),
        Acc::K(bits) => vec![f64::from(f32::from_bits(bits)); form.result.len()],
    };
    for (values, neg) in [(&mut a, p.neg[0]), (&mut b, p.neg[1]), (&mut sums, p.neg[2])] {
        if neg {
            values.iter_mut().for_each(|x| *x = -*x);
        }
    }
    accumulate(&a, &b, &mut sums, form, f64::mul_add);
    let to = &mut file[p.dst as usize * form.wave..];
    for (place, x) in form.result.iter().zip(sums) {
        to[place.word as usize] = x.to_bits() as u32;
        to[place.word as usize + form.wave] = (x.to_bits() >> 32) as u32;
    }
}

/// Adds the products of rows of A and of B to sums, in the order of k.
fn accumulate<T: Copy>(a: &[T], b: &[T], sums: &mut [T], form: &Form, fma: impl Fn(T, T, T) -> T) {
    let Form { m, n, k, .. } = *form;
    let blocks = a.chunks_exact(m * k).zip(b.chunks_exact(k * n)).zip(sums.chunks_exact_mut(m * n));
    for ((a, b), sums) in blocks {
        for (a, sums) in a.chunks_exact(k).zip(sums.chunks_exact_mut(n)) {
            for (&x, b) in a.iter().zip(b.chunks_exact(n)) {
                for (sum, &y) in sums.iter_mut().zip(b) {
                    *sum = fma(x, y, *sum);
                }
            }
        }
    }
}

/// What a sum starts with, from a decoded source.
pub fn acc(source: &VSrc) -> Option<Acc> {
    match source.reg {
        Reg::V(first) => Some(Acc::V(first)),
        Reg::K => Some(Acc::K(source.bits[0])),
        Reg::S(_) => None,
    }
}
