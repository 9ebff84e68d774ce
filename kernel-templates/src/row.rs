//! Rows of activations: walking along them and storing them in the form that the consumer reads.

use crate::emit::{below, shifted_right};
use crate::facts::{MAX_EXTENT, Output, TemplateError, WHOLE_BLOCKS};
use crate::fixed;
use crate::slot::{Interface, Slot};
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::{Access, Builder, CmpOp, Elem, Extent, ReduceOp, UnaryOp, Value, View};

/// Elements of a row that a processor's vectors work on at once.
pub(crate) const PIECE: u32 = CHUNK;

/// Declares X `f32`, rows of `k` elements: the kernel's own, or if `indexed` those of another number of rows that Rows
/// names. Call it behind the number of tokens.
pub(crate) fn declare_rows(i: &mut Interface, n_tokens: Value, k: u32, indexed: bool) -> (View, Option<View>) {
    let n_rows = if indexed { i.index(Slot::NRows) } else { n_tokens };
    let x = i.view(Slot::X, Elem::F32, &[n_rows.into(), k.into()], Access::In);
    (x, indexed.then(|| i.view(Slot::Rows, Elem::I32, &[n_tokens.into()], Access::In)))
}

/// Walks along a row of `k` elements in pieces, carrying values. `body` gets the first column, a mask
/// `[1, piece]` where the row ends inside the piece, and the carried values; it returns their next values.
pub(crate) fn for_pieces(
    b: &mut Builder,
    k: u32,
    piece: u32,
    inits: &[Value],
    mut body: impl FnMut(&mut Builder, Value, Option<Value>, &[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let whole = k / piece * piece;
    let mut carried = inits.to_vec();
    if whole > 0 {
        let bounds = [b.index(0), b.index(i64::from(whole)), b.index(i64::from(piece))];
        carried = b.for_loop(bounds, &carried, |b, col, c| body(b, col, None, c));
    }
    if whole < k {
        let col = b.index(i64::from(whole));
        let mask = below(b, col, piece, k);
        carried = body(b, col, Some(mask), &carried);
    }
    carried
}

/// Quantises `x f32 [R, 32]`: codes `i8 [R, 32]` and scales `f32 [R, 1]`.
pub(crate) fn quantize(b: &mut Builder, x: Value) -> [Value; 2] {
    let rows = b.ty(x).shape.dims()[0];
    let limit = b.float(127.0, &[rows, 1]);
    let zero = b.float(0.0, &[rows, 1]);
    let magnitude = b.unary(UnaryOp::Abs, x);
    let absmax = b.reduce(ReduceOp::Max, magnitude, 1);
    let scale = b.div(absmax, limit);
    let inverse = b.div(limit, absmax);
    let some = b.cmp(CmpOp::Gt, absmax, zero);
    let inverse = b.select(some, inverse, zero);
    let scaled = b.mul(x, inverse);
    let rounded = b.unary(UnaryOp::Round, scaled);
    // By way of i32: the values lie within ±127, so both steps are exact, and targets have this pair of instructions.
    let wide = b.convert(rounded, Elem::I32);
    [b.convert(wide, Elem::I8), scale]
}

/// Where rows are stored, in either form. Views have rank 2, bytes of Q15 rank 3.
#[derive(Clone, Copy)]
pub(crate) enum RowSink {
    F32(View),
    Q8 { codes: View, scales: View },
    Q15 { codes: View, scales: View },
}

impl RowSink {
    /// Declares the parameters for `rows` rows of `k` elements.
    pub fn declare(i: &mut Interface, output: Output, rows: Extent, k: u32) -> RowSink {
        let chunks = (k / CHUNK).into();
        let mut out = |slot, elem, dims: &[Extent]| i.view(slot, elem, dims, Access::Out);
        match output {
            Output::F32 => RowSink::F32(out(Slot::Out, Elem::F32, &[rows, k.into()])),
            Output::Q8 => RowSink::Q8 {
                codes: out(Slot::OutCodes, Elem::I8, &[rows, k.into()]),
                scales: out(Slot::OutScales, Elem::F32, &[rows, chunks]),
            },
            Output::Q15 => RowSink::Q15 {
                codes: out(Slot::OutCodes, Elem::I8, &[rows, chunks, (2 * CHUNK).into()]),
                scales: out(Slot::OutScales, Elem::F32, &[rows, chunks]),
            },
        }
    }

    /// Local memory for one row of `k` elements.
    pub fn local(b: &mut Builder, output: Output, k: u32) -> RowSink {
        let chunks = k / CHUNK;
        match output {
            Output::F32 => RowSink::F32(b.local(Elem::F32, &[1, k])),
            Output::Q8 => RowSink::Q8 { codes: b.local(Elem::I8, &[1, k]), scales: b.local(Elem::F32, &[1, chunks]) },
            Output::Q15 => RowSink::Q15 {
                codes: b.local(Elem::I8, &[1, chunks, 2 * CHUNK]),
                scales: b.local(Elem::F32, &[1, chunks]),
            },
        }
    }

    /// Stores `x f32 [1, n]`, whole chunks, at a row from a column on. Of blocks the mask is that of `end`, the row's.
    pub fn store(&self, b: &mut Builder, [row, col]: [Value; 2], x: Value, mask: Option<Value>, end: u32) {
        match *self {
            RowSink::F32(out) => b.store(out, &[row, col], x, mask),
            RowSink::Q8 { codes, scales } => {
                let n = b.ty(x).shape.last();
                let blocks = b.reshape(x, &[n / CHUNK, CHUNK]);
                let [c, s] = quantize(b, blocks);
                let (c, s) = (b.reshape(c, &[1, n]), b.reshape(s, &[1, n / CHUNK]));
                b.store(codes, &[row, col], c, mask);
                let block = shifted_right(b, col, CHUNK.trailing_zeros());
                let mask = mask.map(|_| below(b, block, n / CHUNK, end / CHUNK));
                b.store(scales, &[row, block], s, mask);
            }
            RowSink::Q15 { codes, scales } => {
                let chunks = b.ty(x).shape.last() / CHUNK;
                let blocks = b.reshape(x, &[chunks, CHUNK]);
                let magnitude = b.unary(UnaryOp::Abs, blocks);
                let most = b.reduce(ReduceOp::Max, magnitude, 1);
                let [inverse, unit] = fixed::scales(b, most);
                let [high, low] = fixed::parts(b, blocks, inverse);
                let block = shifted_right(b, col, CHUNK.trailing_zeros());
                let of_codes = mask.map(|m| b.reshape(m, &[1, chunks, CHUNK]));
                for (part, at) in [(high, 0), (low, CHUNK)] {
                    let (part, at) = (b.reshape(part, &[1, chunks, CHUNK]), b.index(at.into()));
                    b.store(codes, &[row, block, at], part, of_codes);
                }
                let unit = b.reshape(unit, &[1, chunks]);
                let mask = mask.map(|_| below(b, block, chunks, end / CHUNK));
                b.store(scales, &[row, block], unit, mask);
            }
        }
    }
}

/// Checks that rows of `k` elements can be stored as `output`.
pub(crate) fn check_output(family: &'static str, output: Output, k: u32) -> Result<(), TemplateError> {
    let some = (1..=MAX_EXTENT).contains(&k);
    TemplateError::unless(some, family, format!("a row of {k} elements"), "rows have 1 to 2^30 elements")?;
    let whole = output == Output::F32 || k.is_multiple_of(CHUNK);
    TemplateError::unless(whole, family, format!("{output:?} output of {k} elements"), WHOLE_BLOCKS)
}
