//! The layouts of matrix products.

use super::ir::{MmaElem, MmaInst};
use super::layout::{Axis, Layout, Place};
use crate::target::amd::{Chip, Matrix};
use hrx_ir::tile::{Elem, Type};

/// The places of one instruction's fragments: bits of m, n and k, lowest first.
struct Fragments {
    /// Which instruction.
    inst: Option<MmaInst>,
    /// Of a: m and k. Of b: n and k alike.
    rows: Vec<Place>,
    k: Vec<Place>,
    /// Of c.
    m: Vec<Place>,
    n: Vec<Place>,
}

const REG: Place = Place::Reg;

fn lanes(range: std::ops::Range<u8>) -> Vec<Place> {
    range.map(Place::Lane).collect()
}

fn elem_of(elem: Elem) -> Option<MmaElem> {
    match elem {
        Elem::F16 => Some(MmaElem::F16),
        Elem::BF16 => Some(MmaElem::BF16),
        Elem::I8 => Some(MmaElem::I8),
        _ => None,
    }
}

/// The instruction that a chip has for factors of a type.
fn instruction(chip: &Chip, elem: Elem) -> Option<Fragments> {
    let elem = elem_of(elem)?;
    let (k, k_places, m) = match (chip.matrix, elem) {
        (Matrix::Wmma11, _) => (16, vec![REG; 4], vec![Place::Lane(4), REG, REG, REG]),
        (Matrix::Wmma12, _) => (16, vec![REG, REG, REG, Place::Lane(4)], vec![REG, REG, REG, Place::Lane(4)]),
        (Matrix::MfmaA, MmaElem::BF16) => return None,
        (Matrix::MfmaA, _) | (Matrix::MfmaB, MmaElem::F16 | MmaElem::BF16) => {
            (16, vec![REG, REG, Place::Lane(4), Place::Lane(5)], vec![REG, REG, Place::Lane(4), Place::Lane(5)])
        }
        (Matrix::MfmaB, MmaElem::I8) | (Matrix::MfmaC, MmaElem::F16 | MmaElem::BF16) => (
            32,
            vec![REG, REG, REG, Place::Lane(4), Place::Lane(5)],
            vec![REG, REG, Place::Lane(4), Place::Lane(5)],
        ),
        (Matrix::MfmaC, MmaElem::I8) => (
            64,
            vec![REG, REG, REG, REG, Place::Lane(4), Place::Lane(5)],
            vec![REG, REG, Place::Lane(4), Place::Lane(5)],
        ),
        (Matrix::None, _) => return None,
    };
    let inst = Some(MmaInst { elem, k, matrix: chip.matrix });
    Some(Fragments { inst, rows: lanes(0..4), k: k_places, m, n: lanes(0..4) })
}

/// Without an instruction: 4 by 4 results a lane, spread over the lanes.
fn without(chip: &Chip, [m, n]: [u32; 2]) -> Fragments {
    let all = chip.wave.trailing_zeros() as u8;
    let of_n = (all.div_ceil(2)).min(Axis::bits_of(n).saturating_sub(2) as u8);
    let of_m = (all - of_n).min(Axis::bits_of(m).saturating_sub(2) as u8);
    let n = [vec![REG, REG], lanes(0..of_n)].concat();
    let m = [vec![REG, REG], lanes(of_n..of_n + of_m)].concat();
    Fragments { inst: None, rows: Vec::new(), k: Vec::new(), m, n }
}

/// How a matrix product is made: the instruction if there is one, and the layouts of a, b and c.
pub(super) struct Product {
    pub inst: Option<MmaInst>,
    pub a: Layout,
    pub b: Layout,
    pub c: Layout,
}

/// Places of an axis: those given, then registers and, at the top, waves.
fn axis(extent: u32, low: &[Place], waves: &[u8]) -> Axis {
    let mut axis = Axis::registers(extent);
    let total = axis.bits.len();
    for (bit, place) in axis.bits.iter_mut().enumerate() {
        *place = match low.get(bit) {
            Some(&p) => p,
            None if total - bit <= waves.len() => Place::Wave(waves[waves.len() - (total - bit)]),
            None => REG,
        };
    }
    axis
}

/// The layouts of `c [M, N] + a [M, K] · b [N, K]ᵀ` for a workgroup of some waves. The waves share the longer side first,
/// and of each factor only what they need.
pub(super) fn product(chip: &Chip, waves: u32, a: Type, b: Type) -> Product {
    let [m, k] = [a.shape.dims()[0], a.shape.dims()[1]];
    let n = b.shape.dims()[0];
    let f = match instruction(chip, a.elem).filter(|f| k >= f.inst.map_or(0, |i| i.k)) {
        Some(f) => f,
        None => without(chip, [m, n]),
    };
    let mut rest = [Axis::bits_of(m) - f.m.len().min(Axis::bits_of(m)), Axis::bits_of(n) - f.n.len().min(Axis::bits_of(n))];
    let mut split: [Vec<u8>; 2] = [Vec::new(), Vec::new()];
    for wave in 0..waves.trailing_zeros() as u8 {
        let side = usize::from(rest[1] > rest[0]);
        if rest[side] > 0 {
            rest[side] -= 1;
            split[side].push(wave);
        }
    }
    let c_m = axis(m, &f.m, &split[0]);
    let c_n = axis(n, &f.n, &split[1]);
    let (a_rows, b_rows) = match f.inst {
        Some(_) => (axis(m, &f.rows, &split[0]), axis(n, &f.rows, &split[1])),
        None => (c_m.clone(), c_n.clone()),
    };
    let k = axis(k, &f.k, &[]);
    Product {
        inst: f.inst,
        a: Layout { axes: vec![a_rows, k.clone()] },
        b: Layout { axes: vec![b_rows, k] },
        c: Layout { axes: vec![c_m, c_n] },
    }
}
