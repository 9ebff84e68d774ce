//! Building operations: types, constants, attributes.

use super::lower::{Lower, Val};
use super::{Result, Stop};
use hrx_ir::tile::{Elem, Shape};
use melior::ir::attribute::{
    ArrayAttribute, DenseElementsAttribute, DenseI64ArrayAttribute, FloatAttribute, IntegerAttribute,
};
use melior::ir::operation::{OperationBuilder, OperationRef};
use melior::ir::r#type::IntegerType;
use melior::ir::{Attribute, Block, BlockLike, BlockRef, Identifier, Operation, Region, RegionLike, Type, ValueLike};

/// An attribute with its name.
pub(super) type Named<'c> = (&'static str, Attribute<'c>);

impl<'c, 'a> Lower<'c, 'a, '_> {
    pub(super) fn integer(&self, bits: u32) -> Type<'c> {
        IntegerType::new(self.cx, bits).into()
    }

    pub(super) fn index_type(&self) -> Type<'c> {
        Type::index(self.cx)
    }

    /// MLIR's type of one element. Its integers have no sign: operations do. bfloat16 is carried as its bits, because for
    /// a target without the type LLVM keeps such values as f32 and calls a library to shorten them.
    pub(super) fn element(&self, elem: Elem) -> Type<'c> {
        match elem {
            Elem::B1 => self.integer(1),
            Elem::F16 => Type::float16(self.cx),
            Elem::F32 => Type::float32(self.cx),
            _ => self.integer(8 * elem.bytes()),
        }
    }

    /// MLIR's type of a tile: a vector, or a scalar where it has no axes.
    pub(super) fn ty(&self, elem: Elem, shape: Shape) -> Type<'c> {
        self.vector(elem, shape.dims())
    }

    /// A vector of these extents. They may be more than a tile can have.
    pub(super) fn vector(&self, elem: Elem, dims: &[u32]) -> Type<'c> {
        let dims: Vec<u64> = dims.iter().map(|&d| u64::from(d)).collect();
        if dims.is_empty() { self.element(elem) } else { Type::vector(&dims, self.element(elem)) }
    }

    /// Appends an operation.
    pub(super) fn op(
        &self,
        name: &str,
        operands: &[Val<'c, 'a>],
        results: &[Type<'c>],
        attributes: &[Named<'c>],
    ) -> Result<OperationRef<'c, 'a>> {
        self.op_with(name, operands, results, attributes, Vec::new())
    }

    fn op_with(
        &self,
        name: &str,
        operands: &[Val<'c, 'a>],
        results: &[Type<'c>],
        attributes: &[Named<'c>],
        regions: Vec<Region<'c>>,
    ) -> Result<OperationRef<'c, 'a>> {
        Ok(self.at.append_operation(self.unplaced(name, operands, results, attributes, regions)?))
    }

    /// Builds an operation that is in no block yet.
    pub(super) fn unplaced(
        &self,
        name: &str,
        operands: &[Val<'c, 'a>],
        results: &[Type<'c>],
        attributes: &[Named<'c>],
        regions: Vec<Region<'c>>,
    ) -> Result<Operation<'c>> {
        let attributes: Vec<_> = attributes.iter().map(|&(n, a)| (Identifier::new(self.cx, n), a)).collect();
        OperationBuilder::new(name, self.location)
            .add_operands(operands)
            .add_results(results)
            .add_attributes(&attributes)
            .add_regions_vec(regions)
            .build()
            .map_err(|_| Stop(format!("can't build {name}")))
    }

    /// Appends an operation with so many regions. The first ones get a block each, whose parameters have the given types;
    /// the rest stay without. Returns the operation and the blocks, which are still empty.
    pub(super) fn structured(
        &self,
        name: &str,
        operands: &[Val<'c, 'a>],
        results: &[Type<'c>],
        attributes: &[Named<'c>],
        (count, blocks): (usize, &[&[Type<'c>]]),
    ) -> Result<(OperationRef<'c, 'a>, Vec<BlockRef<'c, 'a>>)> {
        let regions: Vec<Region> = (0..count).map(|_| Region::new()).collect();
        let fill = |(region, types): (&Region<'c>, &&[Type<'c>])| {
            let params: Vec<_> = types.iter().map(|&t| (t, self.location)).collect();
            region.append_block(Block::new(&params))
        };
        let entries = regions.iter().zip(blocks).map(fill).collect();
        Ok((self.op_with(name, operands, results, attributes, regions)?, entries))
    }

    /// Appends an operation of one result.
    pub(super) fn value(
        &self,
        name: &str,
        operands: &[Val<'c, 'a>],
        result: Type<'c>,
        attributes: &[Named<'c>],
    ) -> Result<Val<'c, 'a>> {
        Ok(self.op(name, operands, &[result], attributes)?.result(0)?.into())
    }

    /// Appends an operation whose result has the type of its first operand.
    pub(super) fn apply(&self, name: &str, operands: &[Val<'c, 'a>]) -> Result<Val<'c, 'a>> {
        self.value(name, operands, operands[0].r#type(), &[])
    }

    pub(super) fn i64_attribute(&self, n: i64) -> Attribute<'c> {
        IntegerAttribute::new(self.integer(64), n).into()
    }

    /// An array of integers as attributes, which the slicing operations take.
    pub(super) fn i64_list(&self, list: &[u32]) -> Attribute<'c> {
        let list: Vec<Attribute> = list.iter().map(|&n| self.i64_attribute(i64::from(n))).collect();
        ArrayAttribute::new(self.cx, &list).into()
    }

    /// A static position in a vector.
    pub(super) fn position(&self, place: &[u32]) -> Named<'c> {
        ("static_position", self.dense(place))
    }

    /// A dense array of 64-bit integers.
    pub(super) fn dense(&self, list: &[u32]) -> Attribute<'c> {
        let list: Vec<i64> = list.iter().map(|&n| i64::from(n)).collect();
        DenseI64ArrayAttribute::new(self.cx, &list).into()
    }

    /// A constant, made once a function, in its first block.
    fn constant(&mut self, value: Attribute<'c>, ty: Type<'c>) -> Result<Val<'c, 'a>> {
        if let Some(&(_, v)) = self.constants.iter().find(|(a, _)| *a == value) {
            return Ok(v);
        }
        let op = self.unplaced("arith.constant", &[], &[ty], &[("value", value)], Vec::new())?;
        let v = self.entry.insert_operation(self.constants.len(), op).result(0)?.into();
        self.constants.push((value, v));
        Ok(v)
    }

    /// The attribute of one element: the integer's low bits.
    fn int_attribute(&self, n: i64, elem: Elem) -> Attribute<'c> {
        let n = match elem {
            Elem::B1 => n & 1,
            Elem::I8 | Elem::U8 => i64::from(n as i8),
            Elem::I16 | Elem::U16 | Elem::BF16 => i64::from(n as i16),
            _ => i64::from(n as i32),
        };
        IntegerAttribute::new(self.element(elem), n).into()
    }

    fn splat(&mut self, element: Attribute<'c>, elem: Elem, dims: &[u32]) -> Result<Val<'c, 'a>> {
        let ty = self.vector(elem, dims);
        let value = if dims.is_empty() { element } else { DenseElementsAttribute::new(ty, &[element])?.into() };
        self.constant(value, ty)
    }

    /// An integer in each element.
    pub(super) fn int(&mut self, n: i64, elem: Elem, dims: &[u32]) -> Result<Val<'c, 'a>> {
        let element = self.int_attribute(n, elem);
        self.splat(element, elem, dims)
    }

    /// A float in each element, rounded to the type.
    pub(super) fn float(&mut self, x: f64, elem: Elem, dims: &[u32]) -> Result<Val<'c, 'a>> {
        if elem == Elem::BF16 {
            return self.int(i64::from(half::bf16::from_f64(x).to_bits()), elem, dims);
        }
        let element = FloatAttribute::new(self.cx, self.element(elem), x).into();
        self.splat(element, elem, dims)
    }

    /// Zero in each element, whatever its type.
    pub(super) fn zero(&mut self, elem: Elem, dims: &[u32]) -> Result<Val<'c, 'a>> {
        if elem.is_float() { self.float(0.0, elem, dims) } else { self.int(0, elem, dims) }
    }

    /// 0, 1, 2, … along the only axis.
    pub(super) fn iota(&mut self, elem: Elem, n: u32) -> Result<Val<'c, 'a>> {
        let ty = self.vector(elem, &[n]);
        let elements: Vec<Attribute> = (0..n).map(|i| self.int_attribute(i64::from(i), elem)).collect();
        let value = DenseElementsAttribute::new(ty, &elements)?.into();
        self.constant(value, ty)
    }

    /// An `index`.
    pub(super) fn index(&mut self, n: u32) -> Result<Val<'c, 'a>> {
        let ty = self.index_type();
        self.constant(IntegerAttribute::new(ty, i64::from(n)).into(), ty)
    }
}
