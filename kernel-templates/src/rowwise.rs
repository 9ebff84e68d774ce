//! Elementwise work on rows, for where it is not part of another kernel.

use crate::Template;
use crate::emit::{activation, gated, load_index, scaled, softcap};
use crate::facts::{Activation, Limit, Output, Real, RowCut, TemplateError};
use crate::row::{RowSink, check_output, declare_rows, for_pieces};
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, Elem, GridExpr, Kernel, Value, View};

/// What is done to each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowOp {
    /// x: a copy, or with Q8 output the quantisation of rows.
    Copy,
    /// x times a constant.
    Scale(Real),
    /// cap * tanh(x / cap).
    Softcap(Real),
    /// x + y.
    Add,
    /// x * y.
    Mul,
    /// act(x) * y with its bounds: x is the gate.
    Glu(Activation, Limit),
    /// act(x).
    Act(Activation),
}

impl RowOp {
    /// Whether there are second rows y.
    fn binary(self) -> bool {
        matches!(self, RowOp::Add | RowOp::Mul | RowOp::Glu(..))
    }

    fn tag(self) -> String {
        match self {
            RowOp::Copy => "copy".into(),
            RowOp::Scale(s) => format!("scale{}", s.tag()),
            RowOp::Softcap(c) => format!("cap{}", c.tag()),
            RowOp::Add => "add".into(),
            RowOp::Mul => "mul".into(),
            RowOp::Glu(a, limit) => format!("{}_glu{}", a.tag(), limit.tag()),
            RowOp::Act(a) => a.tag().into(),
        }
    }
}

/// One operation on each element of rows.
///
/// Slots: NTokens; with `indexed` NRows; X `f32 [T, k]` (`[NRows, k]`); with `indexed` Rows `i32 [T]`; for Add, Mul and Glu Y
/// `f32 [T, k]`; Out, or OutCodes and OutScales. One program
/// a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rowwise {
    /// Elements of a row: any number for `f32` output, a multiple of 32 for Q8.
    pub k: u32,
    /// What is done.
    pub op: RowOp,
    /// Whether row t of the result is made of row `Rows[t]` of X; not with second rows.
    pub indexed: bool,
    /// The form of the result.
    pub output: Output,
    /// How rows are cut.
    pub cut: RowCut,
}

struct Args {
    n_tokens: Value,
    x: View,
    rows: Option<View>,
    y: Option<View>,
    out: RowSink,
}

const FAMILY: &str = "rows";

impl Rowwise {
    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let (x, rows) = declare_rows(i, n_tokens, self.k, self.indexed);
        let row = [n_tokens.into(), self.k.into()];
        Args {
            n_tokens,
            x,
            rows,
            y: self.op.binary().then(|| i.view(Slot::Y, Elem::F32, &row, Access::In)),
            out: RowSink::declare(i, self.output, row[0], self.k),
        }
    }

    fn apply(&self, b: &mut Builder, x: Value, y: Option<Value>) -> Value {
        match (self.op, y) {
            (RowOp::Scale(s), _) => scaled(b, s.f64(), x),
            (RowOp::Softcap(c), _) => softcap(b, c.f64(), x),
            (RowOp::Act(act), _) => activation(b, act, x),
            (RowOp::Add, Some(y)) => b.add(x, y),
            (RowOp::Mul, Some(y)) => b.mul(x, y),
            (RowOp::Glu(act, limit), Some(y)) => gated(b, act, limit, x, y),
            (RowOp::Copy | RowOp::Add | RowOp::Mul | RowOp::Glu(..), _) => x,
        }
    }
}

impl Template for Rowwise {
    fn name(&self) -> String {
        let rows = if self.indexed { "_rows" } else { "" };
        format!("{FAMILY}_{}_k{}{rows}{}{}", self.op.tag(), self.k, self.output.tag(), self.cut.tag())
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        check_output(FAMILY, self.output, self.k)?;
        self.cut.check(FAMILY)?;
        let plain = !self.indexed || !self.op.binary();
        TemplateError::unless(plain, FAMILY, format!("indexed {:?}", self.op), "second rows are not indexed")?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.cut.waves);
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        let row = b.program_id(0);
        let from = match a.rows {
            Some(rows) => load_index(&mut b, rows, row),
            None => row,
        };
        let piece = self.cut.piece;
        for_pieces(&mut b, self.k, piece, &[], |b, col, mask, _| {
            let x = b.load(a.x, &[from, col], &[1, piece], mask);
            let y = a.y.map(|y| b.load(y, &[row, col], &[1, piece], mask));
            let z = self.apply(b, x, y);
            a.out.store(b, [row, col], z, mask, self.k);
            vec![]
        });
        Ok(b.finish())
    }
}
