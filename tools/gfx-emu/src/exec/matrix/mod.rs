//! Matrix products: fragments gathered to whole tiles, multiplied, and scattered again.

pub mod form;
pub mod step;

pub use form::{Broadcast, Element, Form, Place};

use super::number::{bf16, from_f8, half, to_bf16, to_half};
use crate::decode::{Reg, VSrc};

/// A matrix instruction.
#[derive(Clone, Debug)]
pub struct Product {
    pub form: Form,
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

/// The values of elements.
#[inline(always)]
fn floats(bits: &[u32], ty: Element, fnuz: bool, neg: bool, to: &mut Vec<f32>) {
    to.clear();
    match ty {
        Element::F16 => to.extend(bits.iter().map(|&b| half(b))),
        Element::Bf16 => to.extend(bits.iter().map(|&b| bf16(b))),
        Element::Fp8 => to.extend(bits.iter().map(|&b| from_f8(b, 4, fnuz))),
        Element::Bf8 => to.extend(bits.iter().map(|&b| from_f8(b, 5, fnuz))),
        Element::Xf32 => to.extend(bits.iter().map(|&b| short(f32::from_bits(b)))),
        _ => to.extend(bits.iter().map(|&b| f32::from_bits(b))),
    }
    if neg {
        to.iter_mut().for_each(|x| *x = -*x);
    }
}

fn wholes(bits: &[u32], ty: Element, signed: bool, to: &mut Vec<i32>) {
    let shift = 32 - ty.bits();
    let signed = signed || ty == Element::I8;
    to.clear();
    to.extend(bits.iter().map(|&b| if signed { (b << shift) as i32 >> shift } else { b as i32 }));
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
}

/// Multiplies on a wave's registers, all of them in one slice.
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn multiply(p: &Product, file: &mut [u32], tiles: &mut Tiles) {
    let form = &p.form;
    let [ta, tb, acc] = form.types;
    if acc == Element::F64 {
        multiply_wide(p, file);
        return;
    }
    let part = |first: u16| first as usize * form.wave;
    let count = form.result.len();
    let Tiles { bits, a, b, sums, whole, results } = tiles;
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
        wholes(bits, ta, p.signed[0], x);
        spread(p, file, x);
        gather(&file[part(p.b)..], &form.b, tb.bits(), bits);
        wholes(bits, tb, p.signed[1], y);
        sums.clear();
        sums.resize(count, 0);
        accumulate(x, y, sums, form, |x, y, sum| x.wrapping_mul(y).wrapping_add(sum));
        start(bits);
        let add = if p.clamp { i32::saturating_add } else { i32::wrapping_add };
        results.extend(sums.iter().zip(&*bits).map(|(&sum, &c)| add(sum, c as i32) as u32));
    } else {
        gather(&file[part(p.a)..], &form.a, ta.bits(), bits);
        floats(bits, ta, p.fnuz, p.neg[0], a);
        spread(p, file, a);
        gather(&file[part(p.b)..], &form.b, tb.bits(), bits);
        floats(bits, tb, p.fnuz, p.neg[1], b);
        start(bits);
        floats(bits, acc, false, false, sums);
        if p.abs {
            sums.iter_mut().for_each(|x| *x = x.abs());
        }
        if p.neg[2] {
            sums.iter_mut().for_each(|x| *x = -*x);
        }
        accumulate(a, b, sums, form, |x, y, sum| x.mul_add(y, sum));
        match acc {
            Element::F16 => results.extend(sums.iter().map(|&x| to_half(x))),
            Element::Bf16 => results.extend(sums.iter().map(|&x| to_bf16(x))),
            _ => results.extend(sums.iter().map(|x| x.to_bits())),
        }
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
#[inline(always)]
fn accumulate<T: Copy + Default>(a: &[T], b: &[T], sums: &mut [T], form: &Form, fma: impl Fn(T, T, T) -> T + Copy) {
    let Form { m, n, k, .. } = *form;
    let blocks = a.chunks_exact(m * k).zip(b.chunks_exact(k * n)).zip(sums.chunks_exact_mut(m * n));
    for ((a, b), sums) in blocks {
        accumulate_block(a, b, sums, [m, n, k], fma);
    }
}

#[inline(always)]
fn accumulate_block<T: Copy + Default>(
    a: &[T],
    b: &[T],
    sums: &mut [T],
    [m, n, k]: [usize; 3],
    fma: impl Fn(T, T, T) -> T + Copy,
) {
    match n {
        16 => accumulate_wide::<T, 16>(a, b, sums, [m, k], fma),
        32 => accumulate_wide::<T, 32>(a, b, sums, [m, k], fma),
        _ => {
            for (row, sums) in sums.chunks_exact_mut(n).enumerate().take(m) {
                for at in 0..k {
                    for (sum, &y) in sums.iter_mut().zip(&b[at * n..][..n]) {
                        *sum = fma(a[row * k + at], y, *sum);
                    }
                }
            }
        }
    }
}

/// As [`accumulate`], for so many columns: a row of sums stays in registers.
#[inline(always)]
fn accumulate_wide<T: Copy + Default, const N: usize>(
    a: &[T],
    b: &[T],
    sums: &mut [T],
    [m, k]: [usize; 2],
    fma: impl Fn(T, T, T) -> T,
) {
    for (row, sums) in sums.chunks_exact_mut(N).enumerate().take(m) {
        let mut all = [T::default(); N];
        all.copy_from_slice(sums);
        for (x, y) in a[row * k..][..k].iter().zip(b.chunks_exact(N)) {
            for column in 0..N {
                all[column] = fma(*x, y[column], all[column]);
            }
        }
        sums.copy_from_slice(&all);
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
