//! Matrix products: fragments gathered to whole tiles, multiplied, and scattered again.

use super::number::{bf16, from_f8, half, to_bf16, to_half};
use crate::decode::{Reg, VSrc};
use hrx_compiler::target::amd::{MatrixOp, MatrixType};

/// A matrix instruction.
#[derive(Clone, Debug)]
pub struct Product {
    pub op: &'static MatrixOp,
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
    /// Where elements are.
    pub places: Places,
}

/// What the sum starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acc {
    /// Registers.
    V(u16),
    /// The same for all elements.
    K(u32),
}

/// A part of a wave's register file, counted in lanes from a first register on: which word, and its lowest bit.
#[derive(Clone, Copy, Default, Debug)]
pub struct Place {
    pub word: u16,
    pub shift: u8,
}

/// Where elements of tiles are.
#[derive(Clone, Debug)]
pub struct Places {
    /// Of A: row times K plus k.
    pub a: Vec<Place>,
    /// Of B: k times N plus column.
    pub b: Vec<Place>,
    /// Of C and D: row times N plus column.
    pub result: Vec<Place>,
}

/// The place of a lane's element of so many bits.
fn place(lane: u32, element: u32, bits: u32, wave: u32) -> Place {
    let bit = element * bits;
    Place { word: (bit / 32 * wave + lane) as u16, shift: (bit % 32) as u8 }
}

impl Places {
    /// Of an instruction; results of 16 bits may be in high halves.
    pub fn new(op: &MatrixOp, high: bool) -> Places {
        let (m, n, k) = (op.m as usize, op.n as usize, op.k as usize);
        let mut places = Places {
            a: vec![Place::default(); m * k],
            b: vec![Place::default(); k * n],
            result: vec![Place::default(); m * n],
        };
        for lane in 0..op.wave {
            for element in 0..op.factor_elements() {
                let (row, at) = op.a_at(lane, element);
                places.a[row as usize * k + at as usize] = place(lane, element, op.a.bits(), op.wave);
                let (at, column) = op.b_at(lane, element);
                places.b[at as usize * n + column as usize] = place(lane, element, op.b.bits(), op.wave);
            }
            for element in 0..op.result_elements() {
                if let Some((row, column)) = op.d_at(lane, element) {
                    let element = element + u32::from(high);
                    places.result[row as usize * n + column as usize] = place(lane, element, op.acc.bits(), op.wave);
                }
            }
        }
        places
    }
}

impl Product {
    /// Registers of a factor, and of the sum.
    pub fn registers(&self) -> [u16; 2] {
        let factor = self.op.factor_elements() * self.op.a.bits() / 32;
        let result = (self.op.result_elements() * self.op.acc.bits()).div_ceil(32);
        [factor.max(1) as u16, result as u16]
    }
}

/// Elements of so many bits, one for each place.
#[inline(always)]
fn gather(file: &[u32], places: &[Place], bits: u32, to: &mut Vec<u32>) {
    let mask = u32::MAX >> (32 - bits);
    to.clear();
    to.extend(places.iter().map(|p| file[p.word as usize] >> p.shift & mask));
}

/// The values of elements.
#[inline(always)]
fn floats(bits: &[u32], ty: MatrixType, fnuz: bool, neg: bool, to: &mut Vec<f32>) {
    to.clear();
    match ty {
        MatrixType::F16 => to.extend(bits.iter().map(|&b| half(b))),
        MatrixType::Bf16 => to.extend(bits.iter().map(|&b| bf16(b))),
        MatrixType::Fp8 => to.extend(bits.iter().map(|&b| from_f8(b, 4, fnuz))),
        MatrixType::Bf8 => to.extend(bits.iter().map(|&b| from_f8(b, 5, fnuz))),
        _ => to.extend(bits.iter().map(|&b| f32::from_bits(b))),
    }
    if neg {
        to.iter_mut().for_each(|x| *x = -*x);
    }
}

fn wholes(bits: &[u32], ty: MatrixType, signed: bool, to: &mut Vec<i32>) {
    let shift = 32 - ty.bits();
    let signed = signed || ty == MatrixType::I8;
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
    let op = p.op;
    let dims = [op.m as usize, op.n as usize, op.k as usize];
    let part = |first: u16| first as usize * op.wave as usize;
    let places = &p.places;
    let count = places.result.len();
    let Tiles { bits, a, b, sums, whole, results } = tiles;
    let start = |to: &mut Vec<u32>| match p.c {
        Acc::K(value) => {
            to.clear();
            to.resize(count, value);
        }
        Acc::V(first) => gather(&file[part(first)..], &places.result, op.acc.bits(), to),
    };
    results.clear();
    if op.acc == MatrixType::I32 {
        let [x, y, sums] = whole;
        gather(&file[part(p.a)..], &places.a, op.a.bits(), bits);
        wholes(bits, op.a, p.signed[0], x);
        gather(&file[part(p.b)..], &places.b, op.b.bits(), bits);
        wholes(bits, op.b, p.signed[1], y);
        sums.clear();
        sums.resize(count, 0);
        accumulate(x, y, sums, dims, |x, y, sum| x.wrapping_mul(y).wrapping_add(sum));
        start(bits);
        let add = if p.clamp { i32::saturating_add } else { i32::wrapping_add };
        results.extend(sums.iter().zip(&*bits).map(|(&sum, &c)| add(sum, c as i32) as u32));
    } else {
        gather(&file[part(p.a)..], &places.a, op.a.bits(), bits);
        floats(bits, op.a, p.fnuz, p.neg[0], a);
        gather(&file[part(p.b)..], &places.b, op.b.bits(), bits);
        floats(bits, op.b, p.fnuz, p.neg[1], b);
        start(bits);
        floats(bits, op.acc, false, false, sums);
        if p.abs {
            sums.iter_mut().for_each(|x| *x = x.abs());
        }
        if p.neg[2] {
            sums.iter_mut().for_each(|x| *x = -*x);
        }
        accumulate(a, b, sums, dims, |x, y, sum| x.mul_add(y, sum));
        match op.acc {
            MatrixType::F16 => results.extend(sums.iter().map(|&x| to_half(x))),
            MatrixType::Bf16 => results.extend(sums.iter().map(|&x| to_bf16(x))),
            _ => results.extend(sums.iter().map(|x| x.to_bits())),
        }
    }
    let to = &mut file[part(p.dst)..];
    let mask = u32::MAX >> (32 - op.acc.bits());
    for (place, &value) in places.result.iter().zip(&*results) {
        let word = &mut to[place.word as usize];
        *word = *word & !(mask << place.shift) | value << place.shift;
    }
}

/// Adds the products of rows of A and of B to sums, in the order of k.
#[inline(always)]
fn accumulate<T: Copy + Default>(
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
