//! The layouts of matrix products.

use super::facts::Facts;
use super::layout::{Axis, Layout, Place};
use crate::target::amd::{Bit, Fragment, MatrixOp, MatrixType};
use hrx_ir::tile::{Elem, Type};

/// The places of one instruction's fragments: bits of m, n and k, lowest first.
struct Fragments {
    /// Which instruction.
    inst: Option<&'static MatrixOp>,
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

/// The places of `count` bits of one coordinate, which `which` picks; none where registers do not count it upwards, or a
/// bit of it has no place.
fn places(f: &Fragment, count: u32, which: fn(Bit) -> Option<u8>) -> Option<Vec<Place>> {
    let mut out = vec![None; count as usize];
    for (lane, &bit) in f.lane.iter().enumerate() {
        if let Some(to) = which(bit) {
            *out.get_mut(usize::from(to))? = Some(Place::Lane(lane as u8));
        }
    }
    let mut last = None;
    for to in f.element.iter().filter_map(|&bit| which(bit)) {
        if last >= Some(to) {
            return None;
        }
        last = Some(to);
        *out.get_mut(usize::from(to))? = Some(REG);
    }
    out.into_iter().collect()
}

/// Whether registers count one coordinate to its end before they count the other, as those of a tile do.
fn in_order(f: &Fragment, first: fn(Bit) -> Option<u8>, second: fn(Bit) -> Option<u8>) -> bool {
    let behind = f.element.iter().skip_while(|&&bit| first(bit).is_some());
    behind.copied().all(|bit| second(bit).is_some())
}

/// An instruction's places, where it has the form that code generation knows: 16 by 16 results, and registers in the
/// order of a tile's, along k and n first.
fn of_instruction(op: &'static MatrixOp) -> Option<Fragments> {
    if (op.m, op.n) != (16, 16) || !op.k.is_power_of_two() {
        return None;
    }
    let (factor, result) = (&op.layout.factor, &op.layout.result);
    let outer = |b| if let Bit::Outer(i) = b { Some(i) } else { None };
    let k = |b| if let Bit::K(i) = b { Some(i) } else { None };
    let m = |b| if let Bit::M(i) = b { Some(i) } else { None };
    let n = |b| if let Bit::N(i) = b { Some(i) } else { None };
    if !in_order(factor, k, outer) || !in_order(result, n, m) {
        return None;
    }
    Some(Fragments {
        inst: Some(op),
        rows: places(factor, 4, outer)?,
        k: places(factor, op.k.trailing_zeros(), k)?,
        m: places(result, 4, m)?,
        n: places(result, 4, n)?,
    })
}

/// The instruction with most work that a chip has for factors of a type and steps of at most `k`.
fn instruction(chip: Facts, elem: Elem, k: u32) -> Option<Fragments> {
    let types: &[(MatrixType, MatrixType)] = match elem {
        Elem::F16 => &[(MatrixType::F16, MatrixType::F32)],
        Elem::BF16 => &[(MatrixType::Bf16, MatrixType::F32)],
        Elem::I8 => &[(MatrixType::I8, MatrixType::I32), (MatrixType::Iu8, MatrixType::I32)],
        _ => return None,
    };
    let fitting = types.iter().flat_map(|&(t, acc)| chip.matrix_products(t, acc));
    fitting.filter(|op| op.wave == chip.wave && op.k <= k).find_map(of_instruction)
}

/// Without an instruction: 4 by 4 results a lane, spread over the lanes.
fn without(chip: Facts, [m, n]: [u32; 2]) -> Fragments {
    let all = chip.wave.trailing_zeros() as u8;
    let of_n = (all.div_ceil(2)).min(Axis::bits_of(n).saturating_sub(2) as u8);
    let of_m = (all - of_n).min(Axis::bits_of(m).saturating_sub(2) as u8);
    let n = [vec![REG, REG], lanes(0..of_n)].concat();
    let m = [vec![REG, REG], lanes(of_n..of_n + of_m)].concat();
    Fragments { inst: None, rows: Vec::new(), k: Vec::new(), m, n }
}

/// How a matrix product is made: the instruction if there is one, and the layouts of a, b and c.
pub(super) struct Product {
    pub inst: Option<&'static MatrixOp>,
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
pub(super) fn product(chip: Facts, waves: u32, a: Type, b: Type) -> Product {
    let [m, k] = [a.shape.dims()[0], a.shape.dims()[1]];
    let n = b.shape.dims()[0];
    let f = match instruction(chip, a.elem, k) {
        Some(f) => f,
        None => without(chip, [m, n]),
    };
    let mut rest =
        [Axis::bits_of(m) - f.m.len().min(Axis::bits_of(m)), Axis::bits_of(n) - f.n.len().min(Axis::bits_of(n))];
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
