//! Loads and stores. Addresses need no alignment, as for all host code.

use super::lower::{Lower, Val, not_expanded};
use super::ops::Named;
use super::{Result, Stop};
use hrx_ir::tile::{BlockPart, Elem, Extent, Op, Shape, Type, Value, View};

/// Which elements of a row are accessed.
#[derive(Clone, Copy)]
enum Mask<'c, 'a> {
    All,
    /// All or none, by a scalar.
    Row(Val<'c, 'a>),
    /// Those of a vector.
    Lanes(Val<'c, 'a>),
}

/// A row of a tile: where it lies in the tile and in the view.
struct Row<'c, 'a> {
    /// Along the tile's leading axes.
    place: Vec<u32>,
    /// Along the view's leading axes.
    index: Vec<Val<'c, 'a>>,
    mask: Mask<'c, 'a>,
}

impl<'c, 'a> Lower<'c, 'a, '_> {
    fn alignment(&self) -> Named<'c> {
        ("alignment", self.i64_attribute(1))
    }

    fn to_index(&self, i: Val<'c, 'a>) -> Result<Val<'c, 'a>> {
        self.value("arith.index_cast", &[i], self.index_type(), &[])
    }

    /// The places along an axis: those from a scalar on, or the elements of an index tile.
    fn places(&mut self, index: Value, n: u32) -> Result<Vec<Val<'c, 'a>>> {
        let i = self.get(index)?;
        if self.k.ty(index).shape.rank() > 0 {
            return (0..n).map(|at| self.to_index(self.extract(i, Elem::I32, &[at], &[])?)).collect();
        }
        let first = match self.k.as_const_int(index).and_then(|n| u32::try_from(n).ok()) {
            Some(first) => self.index(first)?,
            None => self.to_index(i)?,
        };
        let further = (1..n).map(|at| {
            let at = self.index(at)?;
            self.apply("arith.addi", &[first, at])
        });
        std::iter::once(Ok(first)).chain(further).collect()
    }

    /// The rows of a tile of a shape, in order.
    fn rows(&mut self, index: &[Value], shape: Shape, mask: Option<Value>) -> Result<Vec<Row<'c, 'a>>> {
        let mut rows = vec![(Vec::new(), Vec::new())];
        for (axis, &i) in index[..index.len() - 1].iter().enumerate() {
            let places = self.places(i, shape.dims()[axis])?;
            let below = |(place, index): (Vec<u32>, Vec<Val<'c, 'a>>)| {
                let with = |(n, &at)| ([&place[..], &[n]].concat(), [&index[..], &[at]].concat());
                (0..).zip(&places).map(with).collect::<Vec<_>>()
            };
            rows = rows.into_iter().flat_map(below).collect();
        }
        let row = |(place, index): (Vec<u32>, Vec<Val<'c, 'a>>)| {
            let mask = self.mask(mask, &place, shape.last())?;
            Ok(Row { place, index, mask })
        };
        rows.into_iter().map(row).collect()
    }

    /// The part of a mask that belongs to the row at a place.
    fn mask(&self, mask: Option<Value>, place: &[u32], n: u32) -> Result<Mask<'c, 'a>> {
        let Some(v) = mask else { return Ok(Mask::All) };
        let (m, shape) = (self.get(v)?, self.k.ty(v).shape);
        let Some((&last, lead)) = shape.dims().split_last() else { return Ok(Mask::Row(m)) };
        let mut at: Vec<u32> = place.iter().zip(lead).map(|(&i, &d)| if d == 1 { 0 } else { i }).collect();
        if last == 1 {
            at.push(0);
            return Ok(Mask::Row(self.extract(m, Elem::B1, &at, &[])?));
        }
        Ok(Mask::Lanes(if at.is_empty() { m } else { self.extract(m, Elem::B1, &at, &[n])? }))
    }

    /// Whether a row's elements are neighbours in memory.
    fn is_run(&self, view: View, index: Value, n: u32) -> bool {
        let neighbours = self.k.views[view].strides.last() == Some(&Extent::Const(1));
        neighbours && n > 1 && self.k.ty(index).shape.rank() == 0
    }

    pub(super) fn load(&mut self, view: View, index: &[Value], mask: Option<Value>, ty: Type) -> Result<Val<'c, 'a>> {
        let last = *index.last().ok_or_else(|| Stop(format!("{view} has no axis")))?;
        let n = ty.shape.last();
        let along = if self.is_run(view, last, n) { 1 } else { n };
        let places = self.places(last, along)?;
        let mut tile = None;
        for row in self.rows(index, ty.shape, mask)? {
            let loaded = if along == n {
                self.load_each(view, &row, &places, ty.elem)?
            } else {
                self.load_run(view, &row, places[0], ty.elem, n)?
            };
            if row.place.is_empty() {
                return Ok(loaded);
            }
            let whole = match tile {
                Some(tile) => tile,
                None => self.zero(ty.elem, ty.shape.dims())?,
            };
            tile = Some(self.insert(whole, &row.place, loaded)?);
        }
        tile.ok_or_else(|| Stop(format!("a load of no rows of {view}")))
    }

    /// The view, then the indices of an element.
    fn address(&self, view: View, row: &Row<'c, 'a>, last: Val<'c, 'a>) -> Result<Vec<Val<'c, 'a>>> {
        Ok([&[self.view(view)?], &row.index[..], &[last]].concat())
    }

    fn load_run(
        &mut self,
        view: View,
        row: &Row<'c, 'a>,
        first: Val<'c, 'a>,
        elem: Elem,
        n: u32,
    ) -> Result<Val<'c, 'a>> {
        let mut operands = self.address(view, row, first)?;
        let ty = self.vector(elem, &[n]);
        let load = |l: &Self, operands: &[_]| l.value("vector.load", operands, ty, &[l.alignment()]);
        match row.mask {
            Mask::All => load(self, &operands),
            Mask::Row(m) => self.guarded_load(m, elem, &[n], |l| load(l, &operands)),
            Mask::Lanes(m) => {
                operands.extend([m, self.zero(elem, &[n])?]);
                self.value("vector.maskedload", &operands, ty, &[self.alignment()])
            }
        }
    }

    /// A row whose elements lie anywhere, as a vector.
    fn load_each(&mut self, view: View, row: &Row<'c, 'a>, places: &[Val<'c, 'a>], elem: Elem) -> Result<Val<'c, 'a>> {
        let mut elements = Vec::with_capacity(places.len());
        for (lane, &place) in (0..).zip(places) {
            let operands = self.address(view, row, place)?;
            let load = |l: &Self| l.value("memref.load", &operands, l.element(elem), &[l.alignment()]);
            elements.push(match self.lane(row.mask, lane)? {
                None => load(self)?,
                Some(m) => self.guarded_load(m, elem, &[], load)?,
            });
        }
        self.value("vector.from_elements", &elements, self.vector(elem, &[places.len() as u32]), &[])
    }

    /// The mask of one element.
    fn lane(&self, mask: Mask<'c, 'a>, lane: u32) -> Result<Option<Val<'c, 'a>>> {
        Ok(match mask {
            Mask::All => None,
            Mask::Row(m) => Some(m),
            Mask::Lanes(m) => Some(self.extract(m, Elem::B1, &[lane], &[])?),
        })
    }

    /// A load that happens only where the scalar condition holds, else zero.
    fn guarded_load(
        &mut self,
        condition: Val<'c, 'a>,
        elem: Elem,
        dims: &[u32],
        load: impl FnOnce(&Self) -> Result<Val<'c, 'a>>,
    ) -> Result<Val<'c, 'a>> {
        let zero = self.zero(elem, dims)?;
        let (op, blocks) =
            self.structured("scf.if", &[condition], &[self.vector(elem, dims)], &[], (2, &[&[], &[]]))?;
        self.inside(blocks[0], |l| Ok(vec![load(l)?]))?;
        self.inside(blocks[1], |_| Ok(vec![zero]))?;
        Ok(op.result(0)?.into())
    }

    pub(super) fn store(&mut self, view: View, index: &[Value], value: Value, mask: Option<Value>) -> Result<()> {
        let Type { elem, shape } = self.k.ty(value);
        let last = *index.last().ok_or_else(|| Stop(format!("{view} has no axis")))?;
        let (tile, n) = (self.get(value)?, shape.last());
        let run = self.is_run(view, last, n);
        let places = self.places(last, if run { 1 } else { n })?;
        for row in self.rows(index, shape, mask)? {
            if run {
                let x = if row.place.is_empty() { tile } else { self.extract(tile, elem, &row.place, &[n])? };
                self.store_run(view, &row, places[0], x)?;
                continue;
            }
            for (lane, &place) in (0..).zip(&places) {
                let x = self.extract(tile, elem, &[&row.place[..], &[lane]].concat(), &[])?;
                let operands = [&[x], &self.address(view, &row, place)?[..]].concat();
                let mask = self.lane(row.mask, lane)?;
                self.guarded_store(mask, "memref.store", &operands)?;
            }
        }
        Ok(())
    }

    fn store_run(&mut self, view: View, row: &Row<'c, 'a>, first: Val<'c, 'a>, x: Val<'c, 'a>) -> Result<()> {
        let address = self.address(view, row, first)?;
        let unguarded = [&[x], &address[..]].concat();
        match row.mask {
            Mask::All => self.guarded_store(None, "vector.store", &unguarded),
            Mask::Row(m) => self.guarded_store(Some(m), "vector.store", &unguarded),
            Mask::Lanes(m) => {
                let operands = [&address[..], &[m, x]].concat();
                self.guarded_store(None, "vector.maskedstore", &operands)
            }
        }
    }

    /// A store that happens only where the scalar condition, if there is one, holds.
    fn guarded_store(&mut self, condition: Option<Val<'c, 'a>>, name: &str, operands: &[Val<'c, 'a>]) -> Result<()> {
        let Some(condition) = condition else {
            self.op(name, operands, &[], &[self.alignment()])?;
            return Ok(());
        };
        let (_, blocks) = self.structured("scf.if", &[condition], &[], &[], (2, &[&[]]))?;
        self.inside(blocks[0], |l| {
            l.op(name, operands, &[], &[l.alignment()])?;
            Ok(Vec::new())
        })
    }

    /// Raw fields of a block for each of several rows: bytes of the view's last axis, cast to the fields' type.
    pub(super) fn load_block(
        &mut self,
        view: View,
        index: [Value; 2],
        part: BlockPart,
        ty: Type,
    ) -> Result<Val<'c, 'a>> {
        let BlockPart::Raw(at) = part else {
            let name = Op::LoadBlock { view, index, part, ty }.name();
            return Err(Stop(not_expanded(name)));
        };
        let [rows, n] = *ty.shape.dims() else { return Err(Stop(format!("block_raw of {ty}"))) };
        let bytes = n * ty.elem.bytes();
        let block = self.places(index[1], 1)?[0];
        let at = self.index(at)?;
        let mut tile = self.zero(ty.elem, ty.shape.dims())?;
        for (i, row) in (0..rows).zip(self.places(index[0], rows)?) {
            let operands = [self.view(view)?, row, block, at];
            let mut x = self.value("vector.load", &operands, self.vector(Elem::U8, &[bytes]), &[self.alignment()])?;
            if self.element(ty.elem) != self.element(Elem::U8) {
                x = self.value("vector.bitcast", &[x], self.vector(ty.elem, &[n]), &[])?;
            }
            tile = self.insert(tile, &[i], x)?;
        }
        Ok(tile)
    }
}
