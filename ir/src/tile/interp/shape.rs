//! Moving elements: broadcast, concatenation, slices, repetition. Tiles are row-major.

use super::super::types::{MAX_RANK, Shape};
use super::fault::FaultKind;
use crate::quant::Table;

/// Extents around an axis: the product of those before it, its own, the product of those behind it.
pub(super) fn around(shape: &Shape, axis: usize) -> [usize; 3] {
    let d = shape.dims();
    let product = |part: &[u32]| part.iter().map(|&n| n as usize).product();
    [product(&d[..axis]), d[axis] as usize, product(&d[axis + 1..])]
}

/// Axes of extent 1, or a scalar, repeated to the shape `to`.
pub(super) fn broadcast<T: Copy>(data: &[T], from: &Shape, to: &Shape) -> Vec<T> {
    let n = to.elements() as usize;
    if let [x] = data {
        return vec![*x; n];
    }
    // Extents and source strides of four axes, leading ones of extent 1.
    let (mut dims, mut strides) = ([1usize; MAX_RANK], [0usize; MAX_RANK]);
    let mut stride = 1;
    for axis in (0..to.rank()).rev() {
        let at = axis + MAX_RANK - to.rank();
        let extent = from.dims()[axis] as usize;
        dims[at] = to.dims()[axis] as usize;
        strides[at] = if extent == 1 { 0 } else { stride };
        stride *= extent;
    }
    let mut out = Vec::with_capacity(n);
    for i in 0..dims[0] {
        for j in 0..dims[1] {
            for k in 0..dims[2] {
                let at = i * strides[0] + j * strides[1] + k * strides[2];
                if strides[3] == 0 {
                    out.resize(out.len() + dims[3], data[at]);
                } else {
                    out.extend_from_slice(&data[at..at + dims[3]]);
                }
            }
        }
    }
    out
}

/// `a` and `b` behind one another along an axis.
pub(super) fn concat<T: Copy>(a: &[T], b: &[T], shapes: [&Shape; 2], axis: usize) -> Vec<T> {
    let [_, na, inner] = around(shapes[0], axis);
    let [_, nb, _] = around(shapes[1], axis);
    let rows = a.chunks_exact(na * inner).zip(b.chunks_exact(nb * inner));
    rows.flat_map(|(a, b)| a.iter().chain(b).copied()).collect()
}

/// `len` places of an axis from `start` on.
pub(super) fn slice<T: Copy>(data: &[T], shape: &Shape, axis: usize, start: u32, len: u32) -> Vec<T> {
    let [_, n, inner] = around(shape, axis);
    let part = start as usize * inner..(start + len) as usize * inner;
    data.chunks_exact(n * inner).flat_map(|row| row[part.clone()].iter().copied()).collect()
}

/// The last two axes exchanged.
pub(super) fn transpose<T: Copy>(data: &[T], shape: &Shape) -> Vec<T> {
    let [_, rows, columns] = around(shape, shape.rank() - 2);
    let matrices = data.chunks_exact(rows * columns);
    matrices.flat_map(|m| (0..columns).flat_map(|c| m[c..].iter().step_by(columns).copied())).collect()
}

/// Each element `times` in a row.
pub(super) fn repeat<T: Copy>(data: &[T], times: u32) -> Vec<T> {
    data.iter().flat_map(|&x| std::iter::repeat_n(x, times as usize)).collect()
}

/// The entries of a table at indices.
pub(super) fn lookup(index: &[i64], table: &Table) -> Result<Vec<i64>, FaultKind> {
    let mut out = Vec::with_capacity(index.len() * table.width as usize);
    for (element, &index) in index.iter().enumerate() {
        let entries = table.entries();
        match usize::try_from(index) {
            Ok(i) if i < entries as usize => out.extend(table.entry(i).iter().map(|&b| i64::from(b))),
            _ => return Err(FaultKind::OutsideTable { element, index, entries }),
        }
    }
    Ok(out)
}
