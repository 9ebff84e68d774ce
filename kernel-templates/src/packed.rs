//! Matrices packed for a processor's vectors: what packs them, and the views that products read them by.
//!
//! Rows lie in panels of [`PANEL`] (see [`hrx_ir::quant::Packed`] for quantised ones; of floats a panel has for each column
//! its rows' elements), filled up with the last one. A vector of fewer lanes takes a part of a panel.

use crate::emit::{plus, shifted_right, times};
use crate::facts::{MAX_EXTENT, TargetShape, TemplateError, WeightType};
use crate::row::PIECE;
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use crate::{Output, Template};
use hrx_ir::quant::{CHUNK, FOURS, Packed, PackedScales, Plane};
use hrx_ir::tile::{Access, BinaryOp, BlockPart, Builder, Elem, Extent, GridExpr, Kernel, Type, UnaryOp, Value, View};

/// Rows of a panel: those of the longest vectors, twice, as reading one stream of memory goes faster than reading two.
pub(crate) const PANEL: u32 = PIECE;

/// How a target's vectors want matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Panels {
    /// Whether dot products take any unsigned bytes as their first factor. Signed codes are moved up by 128 then; else they
    /// stay signed.
    pub unsigned: bool,
}

impl Panels {
    /// Rows of a panel.
    pub const ROWS: u32 = PANEL;

    /// The form that a target's vectors want; none where matrices are read as they are stored.
    pub fn of(shape: &TargetShape) -> Option<Panels> {
        shape.packs.then_some(Panels { unsigned: shape.byte_dot })
    }

    /// Bytes of a packed matrix `[n, k]`; none where weights of that type are not packed.
    pub fn bytes(&self, weight: WeightType, [n, k]: [u32; 2]) -> Option<u64> {
        let rows = u64::from(n.next_multiple_of(PANEL));
        match weight {
            WeightType::Quant(f) => {
                let packed = Packed::of(f)?;
                k.is_multiple_of(f.block).then(|| rows * u64::from(k / f.block) * u64::from(packed.row_bytes))
            }
            WeightType::Float(e) => {
                let fits = matches!(e, Elem::F16 | Elem::BF16) && k.is_multiple_of(CHUNK);
                fits.then(|| rows * u64::from(k) * u64::from(e.bytes()))
            }
        }
    }

    /// The form in which products with packed weights of a type read activations that others would read as `otherwise`;
    /// none where they are not packed. Of `f32` it is Q15: products of bytes, of which there are two each, are still faster.
    pub fn input(weight: WeightType, otherwise: Output) -> Option<Output> {
        let blocks = if otherwise == Output::F32 { Output::Q15 } else { otherwise };
        match weight {
            WeightType::Quant(f) => Packed::of(f).map(|_| blocks),
            WeightType::Float(Elem::F16 | Elem::BF16) => Some(Output::F32),
            WeightType::Float(_) => None,
        }
    }

    pub(crate) fn check(&self, family: &'static str, weight: WeightType, nk: [u32; 2]) -> Result<(), TemplateError> {
        let whole = self.bytes(weight, nk).is_some();
        let fact = format!("packed {} of {} columns", weight.name(), nk[1]);
        TemplateError::unless(whole, family, fact, "weights of this kind are not packed")
    }

    /// Part of a name.
    pub(crate) fn tag(&self) -> String {
        if self.unsigned { "u" } else { "s" }.into()
    }
}

/// Some rows of a record: the record, the chunk of its block, the first row's place in the panel, how many.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub record: Value,
    pub chunk: Value,
    pub row: Value,
    pub rows: u32,
}

/// The views of a packed matrix of blocks: all of one memory. The first axis is the record.
#[derive(Clone)]
pub(crate) struct Records {
    pub packed: Packed,
    pub panels: Panels,
    /// Records of a panel.
    pub blocks: u32,
    /// Codes: chunk of the block, vector of the chunk, four bytes for each row, behind the bytes before the first.
    codes: View,
    /// Numbers: the place among a row's, the row.
    numbers: View,
    /// Bytes likewise, for formats with factors.
    bytes: Option<View>,
}

impl Records {
    pub fn declare(i: &mut Interface, slot: Slot, packed: Packed, panels: Panels, [n, k]: [u32; 2]) -> Records {
        let p = PANEL;
        let blocks = k / packed.format.block;
        let records = n.div_ceil(p).saturating_mul(blocks);
        let vectors = packed.vectors();
        let size = packed.scales.elem.bytes();
        let (record, codes) = (packed.row_bytes * p, packed.codes_at * p);
        let (dims, strides) =
            ([records, packed.format.chunks(), vectors, codes + 4 * p], [record, packed.chunk_bytes * p, 4 * p, 1]);
        let codes = i.strided(slot, Elem::U8, &dims.map(Extent::from), &strides.map(Extent::from), Access::In);
        let mut columns = |elem: Elem, size: u32| {
            let (dims, strides) = ([records, packed.row_bytes / size, p], [record / size, p, 1]);
            i.strided(slot, elem, &dims.map(Extent::from), &strides.map(Extent::from), Access::In)
        };
        let numbers = columns(packed.scales.elem, size);
        let bytes = has_factors(&packed).then(|| columns(Elem::U8, 1));
        Records { packed, panels, blocks, codes, numbers, bytes }
    }

    /// The code that stands for zero in what [`Records::code`] gives.
    pub fn zero(&self) -> i32 {
        let f = self.packed.format;
        if f.signed && self.panels.unsigned { 128 } else { f.zero }
    }

    /// The block of a chunk of the row, and its number there.
    pub fn block(&self, b: &mut Builder, chunk: Value) -> [Value; 2] {
        let chunks = self.packed.format.chunks();
        if chunks == 1 {
            return [chunk, b.index(0)];
        }
        let mask = b.index(i64::from(chunks) - 1);
        [shifted_right(b, chunk, chunks.trailing_zeros()), b.binary(BinaryOp::And, chunk, mask)]
    }

    /// A vector of codes' bits: `u8 [1, 4 * rows]`.
    fn vector(&self, b: &mut Builder, at: Place, vector: u32) -> Value {
        let (vector, row) = (b.index(vector.into()), times(b, at.row, 4));
        let row = plus(b, row, self.packed.codes_at * PANEL);
        let v = b.load(self.codes, &[at.record, at.chunk, vector, row], &[1, 1, 1, 4 * at.rows], None);
        b.reshape(v, &[1, 4 * at.rows])
    }

    /// Four neighbours' codes of each row, `[1, 4 * rows]`: the `four`th of the chunk. `u8`, or `i8` where codes stay signed.
    /// Vectors that were loaded for the chunk are in `seen`.
    pub fn code(&self, b: &mut Builder, at: Place, four: u32, seen: &mut Vec<(u32, Value)>) -> Value {
        let mut code = None;
        for plane in &self.packed.planes {
            let vector = plane.vector + four / plane.fours();
            let found = seen.iter().find(|(v, _)| *v == vector).map(|(_, value)| *value);
            let v = found.unwrap_or_else(|| {
                let v = self.vector(b, at, vector);
                seen.push((vector, v));
                v
            });
            let bits = field(b, v, plane, four % plane.fours());
            code = Some(code.map_or(bits, |c| b.binary(BinaryOp::Or, c, bits)));
        }
        let mut code = code.expect("a code has bits");
        if let Some(table) = self.packed.table {
            code = b.lookup(table, code);
            if self.packed.format.signed && self.panels.unsigned {
                code = flipped(b, code);
            }
        }
        if self.packed.format.signed && !self.panels.unsigned { b.bitcast(code, Elem::I8) } else { code }
    }

    /// The scales of a group of a chunk, or its minima, `f32 [1, rows]`.
    pub fn scale(&self, b: &mut Builder, s: &PackedScales, place: Place, group: u32) -> Value {
        let p = place.rows;
        let row = |b: &mut Builder, view, at: Value| {
            let v = b.load(view, &[place.record, at, place.row], &[1, 1, p], None);
            b.reshape(v, &[1, p])
        };
        // Of the block's groups.
        let first = times(b, place.chunk, CHUNK / self.packed.format.group);
        let mut at = b.index(i64::from(s.at / s.elem.bytes()));
        if s.count > 1 {
            at = b.add(at, first);
            at = plus(b, at, group);
        }
        let number = row(b, self.numbers, at);
        let number = b.convert(number, Elem::F32);
        let Some((factors, bytes)) = s.factors.zip(self.bytes) else { return number };
        let at = times(b, place.chunk, self.packed.chunk_bytes);
        let at = plus(b, at, factors.at + group);
        let mut by = row(b, bytes, at);
        if factors.signed {
            by = b.bitcast(by, Elem::I8);
        }
        let mut by = b.convert(by, Elem::F32);
        if factors.times != 1.0 {
            let times = b.float(f64::from(factors.times), &[1, p]);
            by = b.mul(by, times);
        }
        if factors.plus != 0.0 {
            let plus = b.float(f64::from(factors.plus), &[1, p]);
            by = b.add(by, plus);
        }
        b.mul(number, by)
    }
}

fn has_factors(packed: &Packed) -> bool {
    packed.scales.factors.is_some() || packed.minima.is_some_and(|m| m.factors.is_some())
}

/// The bits of a plane that the `i`th of a vector's fours has, where the code has them.
fn field(b: &mut Builder, v: Value, plane: &Plane, i: u32) -> Value {
    if plane.width == 8 {
        return v;
    }
    let ty = b.ty(v);
    let (from, to) = (i * plane.width, plane.bit);
    let moved =
        if from >= to { shifted(b, v, BinaryOp::Shr, from - to) } else { shifted(b, v, BinaryOp::Shl, to - from) };
    let mask = b.int(((1 << plane.width) - 1) << to, ty);
    b.binary(BinaryOp::And, moved, mask)
}

fn shifted(b: &mut Builder, v: Value, op: BinaryOp, by: u32) -> Value {
    if by == 0 {
        return v;
    }
    let ty = b.ty(v);
    let by = b.int(i64::from(by), ty);
    b.binary(op, v, by)
}

/// Signed bytes as unsigned ones that are larger by 128.
fn flipped(b: &mut Builder, v: Value) -> Value {
    let ty = b.ty(v);
    let top = b.int(128, ty);
    b.binary(BinaryOp::Xor, v, top)
}

/// Packs a matrix.
///
/// Slots: Weight(0) `[n, k]`; Out, as bytes, numbers and whatever else the packed form has, all of one memory of
/// [`Panels::bytes`]. One program a panel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pack {
    /// Rows.
    pub n: u32,
    /// Elements of a row.
    pub k: u32,
    /// What the matrix is made of.
    pub weight: WeightType,
    /// The form it gets.
    pub panels: Panels,
}

const FAMILY: &str = "pack";

/// Rows that are read together.
const ROWS: u32 = 4;

struct Args {
    weight: View,
    to: To,
}

/// Where packed weights are written.
enum To {
    /// Record, row, vector of the record, byte; record, row, number; record, row, byte.
    Records { packed: Packed, fours: View, numbers: View, bytes: Option<View> },
    /// Chunk of a panel, row, column.
    Floats(View),
}

impl Pack {
    fn declare(&self, i: &mut Interface) -> Args {
        let (n, k, p) = (self.n, self.k, PANEL);
        let all = n.div_ceil(p);
        let out = |elem, dims: &[u32], strides: &[u32]| {
            let extents = |list: &[u32]| list.iter().map(|&n| n.into()).collect::<Vec<Extent>>();
            (elem, extents(dims), extents(strides))
        };
        match self.weight {
            WeightType::Quant(f) => {
                let weight = i.quant(Slot::Weight(0), f, &[n.into(), (k / f.block).into()]);
                let packed = Packed::of(f).unwrap_or_else(|| unreachable!("the facts were checked"));
                let (records, bytes) = (all.saturating_mul(k / f.block), packed.row_bytes);
                let size = packed.scales.elem.bytes();
                let mut declare = |(elem, dims, strides): (Elem, Vec<Extent>, Vec<Extent>)| {
                    i.strided(Slot::Out, elem, &dims, &strides, Access::Out)
                };
                let (fours, last) = (packed.vectors(), bytes * p);
                let fours = declare(out(Elem::U8, &[records, p, fours, last], &[bytes * p, 4, 4 * p, 1]));
                let numbers = declare(out(packed.scales.elem, &[records, p, bytes / size], &[bytes * p / size, 1, p]));
                let bytes =
                    has_factors(&packed).then(|| declare(out(Elem::U8, &[records, p, bytes], &[bytes * p, 1, p])));
                Args { weight, to: To::Records { packed, fours, numbers, bytes } }
            }
            WeightType::Float(e) => {
                let weight = i.view(Slot::Weight(0), e, &[n.into(), k.into()], Access::In);
                let (elem, dims, strides) = out(e, &[all * (k / CHUNK), p, CHUNK], &[CHUNK * p, 1, p]);
                Args { weight, to: To::Floats(i.strided(Slot::Out, elem, &dims, &strides, Access::Out)) }
            }
        }
    }
}

impl Template for Pack {
    fn name(&self) -> String {
        format!("{FAMILY}_{}_n{}_k{}_p{}", self.weight.name(), self.n, self.k, self.panels.tag())
    }

    fn signature(&self) -> Signature {
        signature_of(|i| {
            self.declare(i);
        })
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.weight.check(FAMILY, self.k)?;
        let some = (1..=MAX_EXTENT).contains(&self.n);
        TemplateError::unless(some, FAMILY, format!("n = {}", self.n), "a matrix has 1 to 2^30 rows")?;
        self.panels.check(FAMILY, self.weight, [self.n, self.k])?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        let p = PANEL;
        b.grid(0, GridExpr::constant(self.n.div_ceil(p)));
        let panel = b.program_id(0);
        let first = times(&mut b, panel, p);
        let bounds = [0, p, ROWS].map(|n| b.index(n.into()));
        b.for_loop(bounds, &[], |b, row, _| {
            // Rows behind the last one are what it is.
            let (iota, last) = (b.iota(ROWS), b.index(i64::from(self.n) - 1));
            let at = b.add(first, row);
            let at = b.add(iota, at);
            let rows = b.min(at, last);
            match &a.to {
                To::Records { packed, .. } => self.blocks(b, &a, packed, [panel, row, rows]),
                To::Floats(to) => self.floats(b, a.weight, *to, [panel, row, rows]),
            }
            vec![]
        });
        Ok(b.finish())
    }
}

impl Pack {
    fn floats(&self, b: &mut Builder, from: View, to: View, [panel, row, rows]: [Value; 3]) {
        let chunks = self.k / CHUNK;
        let base = times(b, panel, chunks);
        let bounds = [0, chunks, 1].map(|n| b.index(n.into()));
        b.for_loop(bounds, &[], |b, chunk, _| {
            let col = times(b, chunk, CHUNK);
            let (x, zero) = (b.load(from, &[rows, col], &[ROWS, CHUNK], None), b.index(0));
            let x = b.reshape(x, &[1, ROWS, CHUNK]);
            let record = b.add(base, chunk);
            b.store(to, &[record, row, zero], x, None);
            vec![]
        });
    }

    fn blocks(&self, b: &mut Builder, a: &Args, packed: &Packed, [panel, row, rows]: [Value; 3]) {
        let blocks = self.k / packed.format.block;
        let base = times(b, panel, blocks);
        let bounds = [0, blocks, 1].map(|n| b.index(n.into()));
        b.for_loop(bounds, &[], |b, block, _| {
            let record = b.add(base, block);
            for chunk in 0..packed.format.chunks() {
                self.codes(b, a, packed, [rows, block], [record, row], chunk);
            }
            for (scales, minima) in [(Some(packed.scales), false), (packed.minima, true)] {
                if let Some(scales) = scales {
                    self.scales(b, a, packed, (&scales, minima), [rows, block], [record, row]);
                }
            }
            vec![]
        });
    }

    /// The codes of a chunk.
    fn codes(&self, b: &mut Builder, a: &Args, packed: &Packed, from: [Value; 2], to: [Value; 2], chunk: u32) {
        let To::Records { fours, .. } = &a.to else { return };
        let part = if packed.table.is_some() { BlockPart::Indices(chunk) } else { BlockPart::Codes(chunk) };
        let mut codes = b.load_block(a.weight, from, part, ROWS);
        codes = b.bitcast(codes, Elem::U8);
        if packed.format.signed && packed.table.is_none() && self.panels.unsigned {
            codes = flipped(b, codes);
        }
        for plane in &packed.planes {
            let n = plane.fours();
            let mut bits = shifted(b, codes, BinaryOp::Shr, plane.bit);
            if plane.width < 8 {
                let mask = b.int((1 << plane.width) - 1, Type::new(Elem::U8, &[ROWS, CHUNK]));
                bits = b.binary(BinaryOp::And, bits, mask);
            }
            // The fours of a vector are neighbours.
            let bits = b.reshape(bits, &[ROWS, FOURS / n, n, 4]);
            let mut all = None;
            for i in 0..n {
                let four = b.slice(bits, 2, i, 1);
                let four = shifted(b, four, BinaryOp::Shl, i * plane.width);
                all = Some(all.map_or(four, |a| b.binary(BinaryOp::Or, a, four)));
            }
            let all = b.reshape(all.expect("a vector has fours"), &[1, ROWS, plane.width, 4]);
            let at = b.index(i64::from(plane.vector));
            let first = b.index(i64::from((packed.codes_at + chunk * packed.chunk_bytes) * PANEL));
            b.store(*fours, &[to[0], to[1], at, first], all, None);
        }
    }

    /// Scales or minima of a block.
    fn scales(
        &self,
        b: &mut Builder,
        a: &Args,
        packed: &Packed,
        (scales, minima): (&PackedScales, bool),
        from: [Value; 2],
        [record, row]: [Value; 2],
    ) {
        let To::Records { numbers, bytes, .. } = &a.to else { return };
        let number = match (scales.factors, self.number_at(packed, minima)) {
            (Some(_), Some(at)) => b.load_block_raw(a.weight, from, at, Type::new(scales.elem, &[ROWS, 1])),
            // What there is no factor beside is the scale itself.
            _ => {
                let part = if minima { BlockPart::Offsets } else { BlockPart::Scales };
                let all = b.load_block(a.weight, from, part, ROWS);
                let some = b.slice(all, 1, 0, scales.count);
                b.convert(some, scales.elem)
            }
        };
        let number = b.reshape(number, &[1, ROWS, scales.count]);
        let at = b.index(i64::from(scales.at / scales.elem.bytes()));
        b.store(*numbers, &[record, row, at], number, None);
        if let Some((factors, bytes)) = scales.factors.zip(*bytes) {
            let part = if minima { BlockPart::MinFactors } else { BlockPart::Factors };
            let by = b.load_block(a.weight, from, part, ROWS);
            let by = b.bitcast(by, Elem::U8);
            let groups = CHUNK / packed.format.group;
            for chunk in 0..packed.format.chunks() {
                let by = b.slice(by, 1, chunk * groups, groups);
                let by = b.reshape(by, &[1, ROWS, groups]);
                let at = b.index(i64::from(factors.at + chunk * packed.chunk_bytes));
                b.store(bytes, &[record, row, at], by, None);
            }
        }
    }

    /// Where in a block the number is that factors are beside.
    fn number_at(&self, packed: &Packed, minima: bool) -> Option<u32> {
        use hrx_ir::quant::{Number, Scales};
        let scales = if minima { (packed.format.mins?)() } else { (packed.format.scales)() };
        match scales {
            Scales::Scaled { d: Number::F16(at) | Number::F32(at), .. } => Some(at),
            _ => None,
        }
    }
}

/// The negative of a tile of floats.
pub(crate) fn negative(b: &mut Builder, v: Value) -> Value {
    b.unary(UnaryOp::Neg, v)
}

/// A view of floats packed in panels: panel, step of `step` columns, column of the step, row.
pub(crate) fn declare_floats(i: &mut Interface, slot: Slot, elem: Elem, [n, k]: [u32; 2], step: u32) -> View {
    let p = PANEL;
    let dims = [n.div_ceil(p), k / step, step, p];
    let strides = [k.saturating_mul(p), step * p, p, 1];
    i.strided(slot, elem, &dims.map(Extent::from), &strides.map(Extent::from), Access::In)
}
