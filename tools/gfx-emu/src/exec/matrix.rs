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
    /// Of results of 16 bits on gfx11, whether they are in high halves.
    pub high: bool,
    /// Whether 8-bit floats are FNUZ.
    pub fnuz: bool,
    /// Lanes and elements of A and of B in the order of rows and k, and of C; where they are.
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

/// Where elements of tiles are: lane and element.
#[derive(Clone, Debug)]
pub struct Places {
    /// Of A: row times K plus k. Of B: column times K plus k.
    pub factor: Vec<(u8, u8)>,
    /// Of D: row times N plus column.
    pub result: Vec<(u8, u8)>,
}

impl Places {
    /// Of an instruction.
    pub fn new(op: &MatrixOp) -> Places {
        let lanes = op.wave;
        let (m, n, k) = (op.m as usize, op.n as usize, op.k as usize);
        let mut factor = vec![(0, 0); m.max(n) * k];
        for lane in 0..lanes {
            for element in 0..op.factor_elements() {
                let (row, at) = op.a_at(lane, element);
                factor[row as usize * k + at as usize] = (lane as u8, element as u8);
            }
        }
        let mut result = vec![(0, 0); m * n];
        for lane in 0..lanes {
            for element in 0..op.result_elements() {
                if let Some((row, column)) = op.d_at(lane, element) {
                    result[row as usize * n + column as usize] = (lane as u8, element as u8);
                }
            }
        }
        Places { factor, result }
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

/// An element of a register file.
type Read<'a> = &'a dyn Fn(u16, u8) -> u32;

/// Bits of an element: of so many bits each, from a first register on.
fn element(read: Read<'_>, first: u16, (lane, element): (u8, u8), bits: u32) -> u32 {
    let bit = u32::from(element) * bits;
    let word = read(first + (bit / 32) as u16, lane);
    if bits == 32 { word } else { word >> (bit % 32) & ((1 << bits) - 1) }
}

fn float(bits: u32, ty: MatrixType, fnuz: bool) -> f32 {
    match ty {
        MatrixType::F16 => half(bits),
        MatrixType::Bf16 => bf16(bits),
        MatrixType::Fp8 => from_f8(bits, 4, fnuz),
        MatrixType::Bf8 => from_f8(bits, 5, fnuz),
        _ => f32::from_bits(bits),
    }
}

fn whole(bits: u32, ty: MatrixType, signed: bool) -> i32 {
    let shift = 32 - ty.bits();
    if signed || ty == MatrixType::I8 { (bits << shift) as i32 >> shift } else { bits as i32 }
}

/// Multiplies. `write` gets register, lane, and the bits of the register that are the result's, with its value there.
pub fn multiply(p: &Product, read: Read<'_>, write: &mut dyn FnMut(u16, u8, u32, u32)) {
    let op = p.op;
    let (m, n, k) = (op.m as usize, op.n as usize, op.k as usize);
    let acc_bits = op.acc.bits();
    let start = |place: (u8, u8)| match p.c {
        Acc::K(bits) => bits,
        Acc::V(first) if acc_bits == 16 && p.high => element(read, first, (place.0, place.1 + 1), acc_bits),
        Acc::V(first) => element(read, first, place, acc_bits),
    };
    let mut results = vec![0_u32; m * n];
    if op.acc == MatrixType::I32 {
        let tile = |first: u16, rows: usize, ty: MatrixType, signed: bool| -> Vec<i32> {
            p.places.factor[..rows * k]
                .iter()
                .map(|&at| whole(element(read, first, at, ty.bits()), ty, signed))
                .collect()
        };
        let (a, b) = (tile(p.a, m, op.a, p.signed[0]), tile(p.b, n, op.b, p.signed[1]));
        for row in 0..m {
            for column in 0..n {
                let (x, y) = (&a[row * k..][..k], &b[column * k..][..k]);
                let sum: i32 = x.iter().zip(y).map(|(x, y)| x.wrapping_mul(*y)).fold(0, i32::wrapping_add);
                let c = start(p.places.result[row * n + column]) as i32;
                let all = if p.clamp { c.saturating_add(sum) } else { c.wrapping_add(sum) };
                results[row * n + column] = all as u32;
            }
        }
    } else {
        let tile = |first: u16, rows: usize, ty: MatrixType, neg: bool| -> Vec<f32> {
            let value = |&at: &(u8, u8)| {
                let x = float(element(read, first, at, ty.bits()), ty, p.fnuz);
                if neg { -x } else { x }
            };
            p.places.factor[..rows * k].iter().map(value).collect()
        };
        let a = tile(p.a, m, op.a, p.neg[0]);
        let by_column = tile(p.b, n, op.b, p.neg[1]);
        // Rows of B, so that the innermost loop goes over columns.
        let b: Vec<f32> = (0..k * n).map(|i| by_column[i % n * k + i / n]).collect();
        let begin: Vec<f32> = p
            .places
            .result
            .iter()
            .map(|&at| {
                let c = float(start(at), op.acc, false);
                let c = if p.abs { c.abs() } else { c };
                if p.neg[2] { -c } else { c }
            })
            .collect();
        let mut sums = begin;
        // SAFETY: whoever makes a `Gpu` has looked that the CPU has these features.
        unsafe { accumulate(&a, &b, &mut sums, [m, n, k]) };
        for (result, sum) in results.iter_mut().zip(sums) {
            *result = match op.acc {
                MatrixType::F16 => to_half(sum),
                MatrixType::Bf16 => to_bf16(sum),
                _ => sum.to_bits(),
            };
        }
    }
    for (&(lane, element), &value) in p.places.result.iter().zip(&results) {
        let element = u32::from(element) + u32::from(acc_bits == 16 && p.high);
        let bit = element * acc_bits;
        let mask = if acc_bits == 32 { u32::MAX } else { 0xffff << (bit % 32) };
        write(p.dst + (bit / 32) as u16, lane, mask, value << (bit % 32));
    }
}

/// Adds the products of rows of A and of B to sums, in the order of k.
#[target_feature(enable = "avx2,fma")]
fn accumulate(a: &[f32], b: &[f32], sums: &mut [f32], [m, n, k]: [usize; 3]) {
    for row in 0..m {
        let sums = &mut sums[row * n..][..n];
        for at in 0..k {
            let x = a[row * k + at];
            for (sum, y) in sums.iter_mut().zip(&b[at * n..][..n]) {
                *sum = x.mul_add(*y, *sum);
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
