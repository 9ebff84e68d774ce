//! Products.

use super::lower::{Lower, Val};
use super::{Result, Stop};
use hrx_ir::tile::{Elem, Shape, Type, Value};
use melior::ir::attribute::DenseI32ArrayAttribute;
use melior::ir::r#type::MemRefType;
use melior::ir::{BlockLike, BlockRef, ValueLike};

impl<'c, 'a> Lower<'c, 'a, '_> {
    /// Matrix product, one fused multiply-add for each step along the inner axis, in rising order.
    pub(super) fn dot(&self, [a, b, c]: [Value; 3]) -> Result<Val<'c, 'a>> {
        let (ta, tb, tc) = (self.k.ty(a), self.k.ty(b), self.k.ty(c));
        let [m, inner] = *ta.shape.dims() else { return Err(Stop(format!("dot of {ta}"))) };
        let to = tc.shape.dims();
        let n = tc.shape.last();
        let (a, b, mut sum) = (self.get(a)?, self.get(b)?, self.get(c)?);
        for k in 0..inner {
            let column = self.part(a, ta, 1, k, 1)?;
            let column = self.spread(column, Elem::F32, Shape::new(&[m, 1]), to)?;
            let row = self.part(b, tb, 0, k, 1)?;
            let row = self.spread(row, Elem::F32, Shape::new(&[1, n]), to)?;
            sum = self.fma(column, row, sum)?;
        }
        Ok(sum)
    }

    /// Products in 32 bit, of which twice each second one is added to the one before it.
    pub(super) fn dot4(&self, [a, b, c]: [Value; 3]) -> Result<Val<'c, 'a>> {
        let Type { elem, shape } = self.k.ty(a);
        let wide = self.ty(Elem::I32, shape);
        let widen = if elem.is_signed() { "arith.extsi" } else { "arith.extui" };
        let x = self.value(widen, &[self.get(a)?], wide, &[])?;
        let y = self.value("arith.extsi", &[self.get(b)?], wide, &[])?;
        let mut sums = self.apply("arith.muli", &[x, y])?;
        let last = shape.rank() - 1;
        for part in [2, 4] {
            let half = self.ty(Elem::I32, shape.with_dim(last, shape.last() / part));
            let op = self.op("vector.deinterleave", &[sums], &[half, half], &[])?;
            sums = self.apply("arith.addi", &[op.result(0)?.into(), op.result(1)?.into()])?;
        }
        self.apply("arith.addi", &[sums, self.get(c)?])
    }

    /// The matrix unit's product as loops over memory: tiles are large, and unrolled it would be thousands of operations.
    pub(super) fn mma(&mut self, [a, b, c]: [Value; 3]) -> Result<Val<'c, 'a>> {
        let (ta, tb, tc) = (self.k.ty(a), self.k.ty(b), self.k.ty(c));
        let ([m, n], k) = (self.matrix(tc)?, ta.shape.last());
        let elem = tc.elem;
        let mut spilled = |v: Value, ty: Type| {
            let x = self.get(v)?;
            let x = self.convert_value(x, ty.elem, elem, ty.shape)?;
            self.spill(x, ty.with_elem(elem))
        };
        let (a, b, c) = (spilled(a, ta)?, spilled(b, tb)?, spilled(c, tc)?);
        self.counted(m, &[], |l, row, _| {
            l.counted(n, &[], |l, column, _| {
                let element = l.element(elem);
                let first = l.value("memref.load", &[c, row, column], element, &[])?;
                let sum = l.counted(k, &[first], |l, at, sum| {
                    let x = l.value("memref.load", &[a, row, at], element, &[])?;
                    let y = l.value("memref.load", &[b, column, at], element, &[])?;
                    if elem.is_float() {
                        return Ok(vec![l.fma(x, y, sum[0])?]);
                    }
                    let xy = l.apply("arith.muli", &[x, y])?;
                    Ok(vec![l.apply("arith.addi", &[sum[0], xy])?])
                })?;
                l.op("memref.store", &[sum[0], c, row, column], &[], &[])?;
                Ok(Vec::new())
            })
        })?;
        self.reload(c, tc)
    }

    fn matrix(&self, ty: Type) -> Result<[u32; 2]> {
        let dims = <[u32; 2]>::try_from(ty.shape.dims());
        dims.map_err(|_| Stop(format!("{ty} is no matrix")))
    }

    /// Puts a matrix into memory of the function's frame.
    fn spill(&mut self, x: Val<'c, 'a>, ty: Type) -> Result<Val<'c, 'a>> {
        let [rows, n] = self.matrix(ty)?;
        let of = MemRefType::new(self.element(ty.elem), &[i64::from(rows), i64::from(n)], None, None).into();
        // In the function's first block, as memory that is taken in a loop is given back when the function ends.
        let place = self.constants.len();
        let segments = DenseI32ArrayAttribute::new(self.cx, &[0, 0]).into();
        let op = self.unplaced("memref.alloca", &[], &[of], &[("operandSegmentSizes", segments)], Vec::new())?;
        let memory = self.entry.insert_operation(place, op).result(0)?.into();
        let zero = self.index(0)?;
        for row in 0..rows {
            let part = self.extract(x, ty.elem, &[row], &[n])?;
            let row = self.index(row)?;
            self.op("vector.store", &[part, memory, row, zero], &[], &[])?;
        }
        Ok(memory)
    }

    fn reload(&mut self, memory: Val<'c, 'a>, ty: Type) -> Result<Val<'c, 'a>> {
        let [rows, n] = self.matrix(ty)?;
        let (mut x, zero) = (self.zero(ty.elem, ty.shape.dims())?, self.index(0)?);
        for row in 0..rows {
            let at = self.index(row)?;
            let part = self.value("vector.load", &[memory, at, zero], self.vector(ty.elem, &[n]), &[])?;
            x = self.insert(x, &[row], part)?;
        }
        Ok(x)
    }

    /// A loop of `n` steps that carries values; `f` is given the step's number and what is carried, and returns what goes on.
    fn counted(
        &mut self,
        n: u32,
        inits: &[Val<'c, 'a>],
        f: impl FnOnce(&mut Self, Val<'c, 'a>, &[Val<'c, 'a>]) -> Result<Vec<Val<'c, 'a>>>,
    ) -> Result<Vec<Val<'c, 'a>>> {
        let bounds = [self.index(0)?, self.index(n)?, self.index(1)?];
        let operands = [&bounds[..], inits].concat();
        let types: Vec<_> = inits.iter().map(|v| v.r#type()).collect();
        let params = [&[self.index_type()], &types[..]].concat();
        let (op, blocks) = self.structured("scf.for", &operands, &types, &[], (1, &[&params]))?;
        let argument = |block: &BlockRef<'c, 'a>, i| Ok::<_, Stop>(block.argument(i)?.into());
        let at = argument(&blocks[0], 0)?;
        let carried: Vec<_> = (1..params.len()).map(|i| argument(&blocks[0], i)).collect::<Result<_>>()?;
        self.inside(blocks[0], |l| f(l, at, &carried))?;
        (0..inits.len()).map(|i| Ok(op.result(i)?.into())).collect()
    }
}
