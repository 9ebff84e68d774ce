//! Operations that move elements, and reductions.

use super::Result;
use super::lower::{Lower, Val};
use hrx_ir::tile::{Elem, ReduceOp, Shape, Type, Value};

impl<'c, 'a> Lower<'c, 'a, '_> {
    pub(super) fn broadcast(&self, arg: Value, shape: Shape) -> Result<Val<'c, 'a>> {
        let Type { elem, shape: from } = self.k.ty(arg);
        self.spread(self.get(arg)?, elem, from, shape.dims())
    }

    /// Axes of extent 1, or a scalar, repeated.
    pub(super) fn spread(&self, x: Val<'c, 'a>, elem: Elem, from: Shape, to: &[u32]) -> Result<Val<'c, 'a>> {
        if from.dims() == to { Ok(x) } else { self.value("vector.broadcast", &[x], self.vector(elem, to), &[]) }
    }

    pub(super) fn reshape(&self, arg: Value, shape: Shape) -> Result<Val<'c, 'a>> {
        let Type { elem, shape: from } = self.k.ty(arg);
        let x = self.get(arg)?;
        match (from.rank(), shape.rank()) {
            _ if from == shape => Ok(x),
            (0, _) => self.value("vector.broadcast", &[x], self.ty(elem, shape), &[]),
            (_, 0) => self.extract(x, elem, &vec![0; from.rank()], &[]),
            _ => self.shape_cast(x, elem, shape.dims()),
        }
    }

    fn shape_cast(&self, x: Val<'c, 'a>, elem: Elem, to: &[u32]) -> Result<Val<'c, 'a>> {
        self.value("vector.shape_cast", &[x], self.vector(elem, to), &[])
    }

    /// The part of a vector, of extents `rest`, at a place along its leading axes.
    pub(super) fn extract(&self, x: Val<'c, 'a>, elem: Elem, place: &[u32], rest: &[u32]) -> Result<Val<'c, 'a>> {
        self.value("vector.extract", &[x], self.vector(elem, rest), &[self.position(place)])
    }

    /// A vector with the part at a place along its leading axes replaced.
    pub(super) fn insert(&self, x: Val<'c, 'a>, place: &[u32], part: Val<'c, 'a>) -> Result<Val<'c, 'a>> {
        let ty = melior::ir::ValueLike::r#type(&x);
        self.value("vector.insert", &[part, x], ty, &[self.position(place)])
    }

    pub(super) fn transpose(&self, arg: Value) -> Result<Val<'c, 'a>> {
        let Type { elem, shape } = self.k.ty(arg);
        let mut order: Vec<u32> = (0..shape.rank() as u32).collect();
        order.swap(shape.rank() - 2, shape.rank() - 1);
        let order = self.dense(&order);
        self.value("vector.transpose", &[self.get(arg)?], self.ty(elem, shape.transposed()), &[("permutation", order)])
    }

    pub(super) fn concat(&mut self, [a, b]: [Value; 2], axis: usize) -> Result<Val<'c, 'a>> {
        let (ta, tb) = (self.k.ty(a), self.k.ty(b));
        self.join(self.get(a)?, self.get(b)?, ta.elem, [ta.shape, tb.shape], axis)
    }

    /// Two tiles behind one another.
    fn join(
        &mut self,
        a: Val<'c, 'a>,
        b: Val<'c, 'a>,
        elem: Elem,
        [sa, sb]: [Shape; 2],
        axis: usize,
    ) -> Result<Val<'c, 'a>> {
        let to = sa.with_dim(axis, sa.dims()[axis] + sb.dims()[axis]);
        let mut out = self.zero(elem, to.dims())?;
        let mut at = vec![0; sa.rank()];
        let strides = self.i64_list(&vec![1; sa.rank()]);
        for (part, shape) in [(a, sa), (b, sb)] {
            let offsets = self.i64_list(&at);
            let attributes = [("offsets", offsets), ("strides", strides)];
            out = self.value("vector.insert_strided_slice", &[part, out], self.ty(elem, to), &attributes)?;
            at[axis] += shape.dims()[axis];
        }
        Ok(out)
    }

    pub(super) fn slice(&self, arg: Value, axis: usize, start: u32, len: u32) -> Result<Val<'c, 'a>> {
        let ty = self.k.ty(arg);
        self.part(self.get(arg)?, ty, axis, start, len)
    }

    /// A part of a tile along an axis.
    pub(super) fn part(&self, x: Val<'c, 'a>, ty: Type, axis: usize, start: u32, len: u32) -> Result<Val<'c, 'a>> {
        let to = ty.shape.with_dim(axis, len);
        if to == ty.shape {
            return Ok(x);
        }
        let mut offsets = vec![0; to.rank()];
        offsets[axis] = start;
        let attributes = [
            ("offsets", self.i64_list(&offsets)),
            ("sizes", self.i64_list(to.dims())),
            ("strides", self.i64_list(&vec![1; to.rank()])),
        ];
        self.value("vector.extract_strided_slice", &[x], self.ty(ty.elem, to), &attributes)
    }

    /// By way of one more axis, along which elements are repeated.
    pub(super) fn repeat(&self, arg: Value, times: u32) -> Result<Val<'c, 'a>> {
        let Type { elem, shape } = self.k.ty(arg);
        let mut dims = shape.dims().to_vec();
        dims.push(1);
        let column = self.shape_cast(self.get(arg)?, elem, &dims)?;
        dims[shape.rank()] = times;
        let copies = self.value("vector.broadcast", &[column], self.vector(elem, &dims), &[])?;
        self.shape_cast(copies, elem, shape.with_dim(shape.rank() - 1, shape.last() * times).dims())
    }

    /// Halves the axis until one is left: the upper half, counted from the next power of two, onto the lower.
    pub(super) fn reduce(&mut self, op: ReduceOp, arg: Value, axis: usize) -> Result<Val<'c, 'a>> {
        let mut ty = self.k.ty(arg);
        let mut x = self.get(arg)?;
        loop {
            let n = ty.shape.dims()[axis];
            if n <= 1 {
                return Ok(x);
            }
            let half = n.next_power_of_two() / 2;
            let pairs = n - half;
            let (low, high) = (self.part(x, ty, axis, 0, pairs)?, self.part(x, ty, axis, half, pairs)?);
            let of_pairs = ty.shape.with_dim(axis, pairs);
            let sum = match op {
                ReduceOp::Sum if ty.elem.is_float() => self.apply("arith.addf", &[low, high])?,
                ReduceOp::Sum => self.apply("arith.addi", &[low, high])?,
                ReduceOp::Max | ReduceOp::Min => self.min_max(op == ReduceOp::Max, ty.elem, of_pairs, low, high)?,
            };
            x = if pairs == half {
                sum
            } else {
                let alone = self.part(x, ty, axis, pairs, half - pairs)?;
                let of_alone = ty.shape.with_dim(axis, half - pairs);
                self.join(sum, alone, ty.elem, [of_pairs, of_alone], axis)?
            };
            ty.shape = ty.shape.with_dim(axis, half);
        }
    }
}
