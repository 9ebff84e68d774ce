//! Embedding lookup: rows of a table, dequantised.

use crate::Template;
use crate::emit::{load_index, plus, scaled, shifted_right, times};
use crate::facts::{MAX_EXTENT, Real, RowCut, TemplateError, WeightType};
use crate::row::for_pieces;
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::{Access, BlockPart, Builder, Elem, GridExpr, Kernel, RunPart, Value, View};

/// Row `Ids[t]` of a table times a scale, for each token t.
///
/// Slots: NTokens; Ids `i32 [T]`, each below `rows`; Table `[rows, k]`; Out `f32 [T, k]`. One program a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Embed {
    /// Rows of the table: the vocabulary.
    pub rows: u32,
    /// Elements of a row: for a quantised table a whole number of blocks.
    pub k: u32,
    /// What the table is made of.
    pub table: WeightType,
    /// What rows are multiplied by.
    pub scale: Option<Real>,
    /// How rows are cut.
    pub cut: RowCut,
}

struct Args {
    n_tokens: Value,
    ids: View,
    table: View,
    out: View,
}

const FAMILY: &str = "embed";

impl Embed {
    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let (t, rows) = (n_tokens.into(), self.rows.into());
        Args {
            n_tokens,
            ids: i.view(Slot::Ids, Elem::I32, &[t], Access::In),
            table: match self.table {
                WeightType::Quant(f) => i.quant(Slot::Table, f, &[rows, (self.k / f.block).into()]),
                WeightType::Float(e) => i.view(Slot::Table, e, &[rows, self.k.into()], Access::In),
            },
            out: i.view(Slot::Out, Elem::F32, &[t, self.k.into()], Access::Out),
        }
    }

    /// Scales and stores a piece of the row.
    fn store(&self, b: &mut Builder, out: View, at: [Value; 2], x: Value, mask: Option<Value>) {
        let x = scaled(b, self.scale.map_or(1.0, Real::f64), x);
        b.store(out, &at, x, mask);
    }
}

impl Template for Embed {
    fn name(&self) -> String {
        let scale = self.scale.map_or(String::new(), |s| format!("_scale{}", s.tag()));
        format!("{FAMILY}_{}_v{}_k{}{scale}{}", self.table.name(), self.rows, self.k, self.cut.tag())
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.table.check(FAMILY, self.k)?;
        let some = (1..=MAX_EXTENT).contains(&self.rows);
        TemplateError::unless(some, FAMILY, format!("a table of {} rows", self.rows), "it has 1 to 2^30 rows")?;
        self.cut.check(FAMILY)?;
        let piece = self.cut.piece;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.cut.waves);
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        let token = b.program_id(0);
        let id = load_index(&mut b, a.ids, token);
        match self.table {
            // A piece is a run of chunks, whichever blocks they are in.
            WeightType::Quant(_) if self.cut != RowCut::VECTORS => {
                // Runs are aligned to what a block has of them, and at most 64 chunks.
                let piece = piece.min(64 * CHUNK);
                for_pieces(&mut b, self.k, piece, &[], |b, col, mask, _| {
                    let chunk = shifted_right(b, col, CHUNK.trailing_zeros());
                    let x = b.load_run(a.table, [id, chunk], RunPart::Values, 1, piece / CHUNK);
                    self.store(b, a.out, [token, col], x, mask);
                    vec![]
                });
            }
            WeightType::Quant(f) => {
                let bounds = [b.index(0), b.index(i64::from(self.k / f.block)), b.index(1)];
                b.for_loop(bounds, &[], |b, block, _| {
                    let first = times(b, block, f.block);
                    for c in 0..f.chunks() {
                        let x = b.load_block(a.table, [id, block], BlockPart::Values(c), 1);
                        let col = plus(b, first, c * CHUNK);
                        self.store(b, a.out, [token, col], x, None);
                    }
                    vec![]
                });
            }
            WeightType::Float(_) => {
                for_pieces(&mut b, self.k, piece, &[], |b, col, mask, _| {
                    let x = b.load(a.table, &[id, col], &[1, piece], mask);
                    let x = b.convert(x, Elem::F32);
                    self.store(b, a.out, [token, col], x, mask);
                    vec![]
                });
            }
        }
        Ok(b.finish())
    }
}
