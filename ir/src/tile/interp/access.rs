//! From a view and indices to bytes: bounds, strides, masks, and the checks on every byte touched.

use super::super::kernel::View;
use super::super::types::Shape;
use super::fault::FaultKind;
use super::memory::{Buffer, Memory};
use super::race::Trace;

/// A view with what it is in this launch.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    /// Index of the buffer.
    pub(super) buffer: usize,
    /// First byte of the view in it.
    pub(super) start: usize,
    /// Extents of the axes, not negative.
    pub(super) dims: Vec<i64>,
    /// Strides in bytes, not negative.
    pub(super) strides: Vec<i64>,
    /// Bytes of an element or block.
    pub(super) unit: usize,
}

/// The places a tile covers: one list an axis.
pub(super) struct Places<'a> {
    pub(super) view: View,
    pub(super) bound: &'a Bound,
    pub(super) axes: Vec<Vec<i64>>,
}

/// What is wrong with bytes that lie in their buffer.
enum Touch {
    Uninitialised,
    Race(u32),
}

/// Memory with the program that uses it.
pub(super) struct Bus<'a> {
    pub(super) memory: &'a mut Memory,
    /// Who touched what, for the buffers where that matters.
    pub(super) traces: Vec<Option<Trace>>,
    /// The program's number in the grid, from 1.
    pub(super) program: u32,
    pub(super) grid: [u32; 3],
}

impl Bus<'_> {
    fn trace(&mut self, buffer: usize) -> Option<&mut Trace> {
        self.traces.get_mut(buffer)?.as_mut()
    }

    fn read(&mut self, buffer: usize, range: std::ops::Range<usize>) -> Result<&[u8], Touch> {
        let program = self.program;
        if let Some(trace) = self.trace(buffer) {
            trace.read(range.clone(), program).map_err(Touch::Race)?;
        }
        self.memory.buffers[buffer].read(range).ok_or(Touch::Uninitialised)
    }

    fn write(&mut self, buffer: usize, at: usize, bytes: &[u8]) -> Result<(), Touch> {
        let program = self.program;
        if let Some(trace) = self.trace(buffer) {
            trace.write(at..at + bytes.len(), program).map_err(Touch::Race)?;
        }
        self.memory.buffers[buffer].write(at, bytes);
        Ok(())
    }

    /// Calls `take` with the tile's element numbers and bytes, in order, where the mask is true.
    pub(super) fn load(
        &mut self,
        places: &Places,
        mask: Option<&[i64]>,
        mut take: impl FnMut(usize, &[u8]),
    ) -> Result<(), FaultKind> {
        let Bound { buffer, unit, .. } = *places.bound;
        let (len, grid) = (self.len(buffer), self.grid);
        places.walk(mask, len, |element, at| {
            let bytes = self.read(buffer, at..at + unit).map_err(|t| places.touch(element, t, grid))?;
            take(element, bytes);
            Ok(())
        })
    }

    /// Stores for each element number, in order and where the mask is true, the little-endian bits that `give` returns.
    pub(super) fn store(
        &mut self,
        places: &Places,
        mask: Option<&[i64]>,
        give: impl Fn(usize) -> u32,
    ) -> Result<(), FaultKind> {
        let Bound { buffer, unit, .. } = *places.bound;
        let len = self.len(buffer);
        places.walk(mask, len, |element, at| {
            let bytes = give(element).to_le_bytes();
            self.write(buffer, at, &bytes[..unit]).map_err(|t| places.touch(element, t, self.grid))
        })
    }

    fn len(&self, buffer: usize) -> usize {
        self.memory.buffers.get(buffer).map_or(0, |b: &Buffer| b.bytes.len())
    }
}

impl Places<'_> {
    fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(Vec::len).collect()
    }

    /// The index in the view of an element of the tile.
    fn index(&self, element: usize) -> Vec<i64> {
        let mut rest = element;
        let mut index: Vec<i64> = Vec::with_capacity(self.axes.len());
        for places in self.axes.iter().rev() {
            index.push(places[rest % places.len()]);
            rest /= places.len();
        }
        index.reverse();
        index
    }

    fn touch(&self, element: usize, touch: Touch, grid: [u32; 3]) -> FaultKind {
        let (view, index) = (self.view, self.index(element));
        match touch {
            Touch::Uninitialised => FaultKind::Uninitialised { view, index },
            Touch::Race(other) => FaultKind::Race { view, index, other: program_ids(other - 1, grid) },
        }
    }

    fn out_of_bounds(&self, element: usize) -> FaultKind {
        let index = self.index(element);
        let dims = &self.bound.dims;
        let axis = index.iter().zip(dims).position(|(i, n)| !(0..*n).contains(i)).unwrap_or(0);
        FaultKind::OutOfBounds { view: self.view, index, axis, extent: dims.get(axis).copied().unwrap_or(0) }
    }

    /// Calls `visit` with each unmasked element's number and first byte, in row-major order.
    fn walk(
        &self,
        mask: Option<&[i64]>,
        len: usize,
        mut visit: impl FnMut(usize, usize) -> Result<(), FaultKind>,
    ) -> Result<(), FaultKind> {
        // Byte offsets of each place of each axis, none outside the bounds. They saturate well below overflow: a sum
        // with a saturated one lies in no buffer.
        let offset =
            |(i, n, stride): (i64, i64, i64)| (0..n).contains(&i).then(|| i.saturating_mul(stride).min(i64::MAX / 8));
        let zipped = self.axes.iter().zip(&self.bound.dims).zip(&self.bound.strides);
        let offsets: Vec<Vec<Option<i64>>> =
            zipped.map(|((p, &n), &s)| p.iter().map(|&i| offset((i, n, s))).collect()).collect();
        let scalar = [Some(0)];
        let (inner, outer) = match offsets.split_last() {
            Some((inner, outer)) => (&inner[..], outer),
            None => (&scalar[..], &offsets[..]),
        };
        let rows: usize = outer.iter().map(Vec::len).product();
        for row in 0..rows {
            let (mut rest, mut base) = (row, Some(self.bound.start as i64));
            for axis in outer.iter().rev() {
                base = base.zip(axis[rest % axis.len()]).map(|(b, o)| b + o);
                rest /= axis.len();
            }
            for (j, &o) in inner.iter().enumerate() {
                let element = row * inner.len() + j;
                if mask.is_some_and(|m| m[element] == 0) {
                    continue;
                }
                let Some((base, o)) = base.zip(o) else { return Err(self.out_of_bounds(element)) };
                let byte = (base + o) as u64;
                if byte + self.bound.unit as u64 > len as u64 {
                    return Err(FaultKind::OutsideBuffer { view: self.view, index: self.index(element), byte, len });
                }
                visit(element, byte as usize)?;
            }
        }
        Ok(())
    }

    /// Whether the tile has this shape.
    pub(super) fn covers(&self, shape: &Shape) -> bool {
        self.shape().into_iter().eq(shape.dims().iter().map(|&n| n as usize))
            && self.axes.len() == self.bound.dims.len()
    }
}

/// The ids of the program with this number, from 0; the first axis runs fastest.
pub(super) fn program_ids(number: u32, grid: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = grid.map(|n| n.max(1));
    [number % x, number / x % y, number / x / y]
}
