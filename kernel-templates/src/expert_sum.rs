//! The results of a row's experts, weighed and summed.

use crate::Template;
use crate::facts::{MAX_EXTENT, RowCut, TemplateError};
use crate::row::for_pieces;
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, Elem, GridExpr, Kernel, Value, View};

/// `y[t] = sum over s < used of Routes[t, used + s] * X[t, s]`, s rising, plus Residual.
///
/// Slots: NTokens; X `f32 [T, used * k]`; Routes `f32 [T, 2 * used]`; with `residual` Residual `f32 [T, k]`; Out
/// `f32 [T, k]`. One program a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExpertSum {
    /// Elements of a result.
    pub k: u32,
    /// Experts of a row.
    pub used: u32,
    /// Whether rows are added to the result.
    pub residual: bool,
    /// How rows are cut.
    pub cut: RowCut,
}

struct Args {
    n_tokens: Value,
    x: View,
    routes: View,
    residual: Option<View>,
    out: View,
}

const FAMILY: &str = "expert_sum";

impl ExpertSum {
    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let (t, k, used) = (n_tokens.into(), self.k.into(), self.used.into());
        Args {
            n_tokens,
            x: i.view(Slot::X, Elem::F32, &[t, used, k], Access::In),
            routes: i.view(Slot::Routes, Elem::F32, &[t, self.used.saturating_mul(2).into()], Access::In),
            residual: self.residual.then(|| i.view(Slot::Residual, Elem::F32, &[t, k], Access::In)),
            out: i.view(Slot::Out, Elem::F32, &[t, k], Access::Out),
        }
    }
}

impl Template for ExpertSum {
    fn name(&self) -> String {
        let res = if self.residual { "_res" } else { "" };
        format!("{FAMILY}_k{}_u{}{res}{}", self.k, self.used, self.cut.tag())
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        let size = u64::from(self.k) * u64::from(self.used);
        let fact = format!("{} of {}", self.used, self.k);
        let fits = (1..=u64::from(MAX_EXTENT)).contains(&size) && self.used <= 64;
        TemplateError::unless(fits, FAMILY, fact, "up to 64 experts, and 1 to 2^30 elements of a row")?;
        self.cut.check(FAMILY)?;
        let piece = self.cut.piece;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.cut.waves);
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        let row = b.program_id(0);
        let weights: Vec<Value> = (0..self.used)
            .map(|s| {
                let at = b.index(i64::from(self.used + s));
                b.load(a.routes, &[row, at], &[1, 1], None)
            })
            .collect();
        for_pieces(&mut b, self.k, piece, &[], |b, col, mask, _| {
            let of_parts = mask.map(|m| b.reshape(m, &[1, 1, piece]));
            let mut sum = b.float(0.0, &[1, piece]);
            for (s, &weight) in weights.iter().enumerate() {
                let s = b.index(s as i64);
                let x = b.load(a.x, &[row, s, col], &[1, 1, piece], of_parts);
                let x = b.reshape(x, &[1, piece]);
                sum = b.fma(x, weight, sum);
            }
            if let Some(residual) = a.residual {
                let r = b.load(residual, &[row, col], &[1, piece], mask);
                sum = b.add(sum, r);
            }
            b.store(a.out, &[row, col], sum, mask);
            vec![]
        });
        Ok(b.finish())
    }
}
