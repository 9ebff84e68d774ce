//! Elementwise work on rows, for where it is not part of another kernel.

use crate::Template;
use crate::emit::{activation, scaled, softcap};
use crate::facts::{Activation, Output, Real, TemplateError};
use crate::row::{PIECE, RowSink, check_output, for_pieces};
use crate::slot::{Interface, Slot, declare, slots_of};
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
    /// act(x) * y: x is the gate.
    Glu(Activation),
}

impl RowOp {
    /// Whether there are second rows y.
    fn binary(self) -> bool {
        matches!(self, RowOp::Add | RowOp::Glu(_))
    }

    fn tag(self) -> String {
        match self {
            RowOp::Copy => "copy".into(),
            RowOp::Scale(s) => format!("scale{}", s.tag()),
            RowOp::Softcap(c) => format!("cap{}", c.tag()),
            RowOp::Add => "add".into(),
            RowOp::Glu(a) => format!("{}_glu", a.tag()),
        }
    }
}

/// One operation on each element of rows.
///
/// Slots: NTokens; X `f32 [T, k]`; for Add and Glu Y `f32 [T, k]`; Out, or OutCodes and OutScales. Out may be the same
/// memory as X or Y. One program a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rowwise {
    /// Elements of a row: any number for `f32` output, a multiple of 32 for Q8.
    pub k: u32,
    /// What is done.
    pub op: RowOp,
    /// The form of the result.
    pub output: Output,
}

struct Args {
    n_tokens: Value,
    x: View,
    y: Option<View>,
    out: RowSink,
}

const FAMILY: &str = "rows";

impl Rowwise {
    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let row = [n_tokens.into(), self.k.into()];
        Args {
            n_tokens,
            x: i.view(Slot::X, Elem::F32, &row, Access::In),
            y: self.op.binary().then(|| i.view(Slot::Y, Elem::F32, &row, Access::In)),
            out: RowSink::declare(i, self.output, row[0], self.k),
        }
    }

    fn apply(&self, b: &mut Builder, x: Value, y: Option<Value>) -> Value {
        match (self.op, y) {
            (RowOp::Scale(s), _) => scaled(b, s.f64(), x),
            (RowOp::Softcap(c), _) => softcap(b, c.f64(), x),
            (RowOp::Add, Some(y)) => b.add(x, y),
            (RowOp::Glu(act), Some(y)) => {
                let gate = activation(b, act, x);
                b.mul(gate, y)
            }
            (RowOp::Copy | RowOp::Add | RowOp::Glu(_), _) => x,
        }
    }
}

impl Template for Rowwise {
    fn name(&self) -> String {
        format!("{FAMILY}_{}_k{}{}", self.op.tag(), self.k, self.output.tag())
    }

    fn slots(&self) -> Vec<Slot> {
        slots_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        check_output(FAMILY, self.output, self.k)?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        let row = b.program_id(0);
        for_pieces(&mut b, self.k, &[], |b, col, mask, _| {
            let x = b.load(a.x, &[row, col], &[1, PIECE], mask);
            let y = a.y.map(|y| b.load(y, &[row, col], &[1, PIECE], mask));
            let z = self.apply(b, x, y);
            a.out.store(b, [row, col], z, mask);
            vec![]
        });
        Ok(b.finish())
    }
}
