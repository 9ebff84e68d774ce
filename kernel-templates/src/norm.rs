//! RMS normalisation: x / sqrt(mean(x²) + eps) * w (Zhang & Sennrich 2019).

use crate::Template;
use crate::emit::load_index;
use crate::facts::{Output, Real, RowCut, TemplateError};
use crate::row::{RowSink, check_output, declare_rows, for_pieces};
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, Elem, GridExpr, Kernel, ReduceOp, UnaryOp, Value, View};

/// RMS norm of each row.
///
/// Slots: NTokens; with `indexed` NRows; X `f32 [T, k]` (`[NRows, k]`); with `indexed` Rows; NormWeight `f32 [k]`; with
/// `residual` Residual `f32 [T, k]`; Out, or OutCodes and OutScales.
///
/// One program a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RmsNorm {
    /// Elements of a row: any number for `f32` output, a multiple of 32 for Q8.
    pub k: u32,
    /// What is added to the mean of squares.
    pub eps: Real,
    /// Whether the result is residual + norm(x); `f32` output only.
    pub residual: bool,
    /// Whether row t of the result is made of row `Rows[t]` of X.
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
    weight: View,
    residual: Option<View>,
    out: RowSink,
}

const FAMILY: &str = "rms_norm";

impl RmsNorm {
    fn declare(&self, i: &mut Interface) -> Args {
        let k = self.k.into();
        let n_tokens = i.index(Slot::NTokens);
        let (x, rows) = declare_rows(i, n_tokens, self.k, self.indexed);
        let t = n_tokens.into();
        Args {
            n_tokens,
            x,
            rows,
            weight: i.view(Slot::NormWeight, Elem::F32, &[1.into(), k], Access::In),
            residual: self.residual.then(|| i.view(Slot::Residual, Elem::F32, &[t, k], Access::In)),
            out: RowSink::declare(i, self.output, t, self.k),
        }
    }
}

impl Template for RmsNorm {
    fn name(&self) -> String {
        let res = if self.residual { "_res" } else { "" };
        let rows = if self.indexed { "_rows" } else { "" };
        format!("{FAMILY}_k{}_eps{}{res}{rows}{}{}", self.k, self.eps.tag(), self.output.tag(), self.cut.tag())
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        check_output(FAMILY, self.output, self.k)?;
        self.cut.check(FAMILY)?;
        let plain = !self.residual || self.output == Output::F32;
        TemplateError::unless(plain, FAMILY, "Q8 output with a residual", "the sum is needed in f32")?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.cut.waves);
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        let row = b.program_id(0);
        let from = match a.rows {
            Some(rows) => load_index(&mut b, rows, row),
            None => row,
        };
        let inverse = inverse_rms(&mut b, a.x, from, [self.k, self.cut.piece], self.eps.f64());
        for_pieces(&mut b, self.k, self.cut.piece, &[], |b, col, mask, _| {
            let mut y = normed(b, [a.x, a.weight], [from, col], inverse, self.cut.piece, mask);
            if let Some(residual) = a.residual {
                let r = b.load(residual, &[row, col], &[1, self.cut.piece], mask);
                y = b.add(r, y);
            }
            a.out.store(b, [row, col], y, mask, self.k);
            vec![]
        });
        Ok(b.finish())
    }
}

/// 1 / sqrt(mean(x²) + eps) of a row of `x f32 [_, k]`, as `[1, 1]`.
pub(crate) fn inverse_rms(b: &mut Builder, x: View, row: Value, [k, piece]: [u32; 2], eps: f64) -> Value {
    let zero = b.float(0.0, &[1, piece]);
    let squares = for_pieces(b, k, piece, &[zero], |b, col, mask, acc| {
        let v = b.load(x, &[row, col], &[1, piece], mask);
        vec![b.fma(v, v, acc[0])]
    });
    inverse_of_squares(b, squares[0], k, eps)
}

/// 1 / sqrt(sum of `squares [1, _]` / k + eps), as `[1, 1]`.
pub(crate) fn inverse_of_squares(b: &mut Builder, squares: Value, k: u32, eps: f64) -> Value {
    let sum = b.reduce(ReduceOp::Sum, squares, 1);
    let (k, eps) = (b.float(f64::from(k), &[1, 1]), b.float(eps, &[1, 1]));
    let mean = b.div(sum, k);
    let mean = b.add(mean, eps);
    b.unary(UnaryOp::Rsqrt, mean)
}

/// One piece of the normalised row: `x * inverse * w`, from views x and w.
pub(crate) fn normed(
    b: &mut Builder,
    [x, weight]: [View; 2],
    [row, col]: [Value; 2],
    inverse: Value,
    piece: u32,
    mask: Option<Value>,
) -> Value {
    let zero = b.index(0);
    let v = b.load(x, &[row, col], &[1, piece], mask);
    let w = b.load(weight, &[zero, col], &[1, piece], mask);
    let scaled = b.mul(v, inverse);
    b.mul(scaled, w)
}
