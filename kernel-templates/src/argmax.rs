//! Index of the largest element of each row: greedy sampling.

use crate::Template;
use crate::facts::{MAX_EXTENT, RowCut, TemplateError};
use crate::row::for_pieces;
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, CmpOp, Elem, GridExpr, Kernel, ReduceOp, Type, Value, View};

/// The index of each row's largest element, the lowest one of several. NaNs are passed over; 0 where nothing is above
/// `f32::MIN`.
///
/// Slots: NTokens; X `f32 [T, k]`; Out `i32 [T, 1]`. One program a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArgMax {
    /// Elements of a row.
    pub k: u32,
    /// How rows are cut.
    pub cut: RowCut,
}

struct Args {
    n_tokens: Value,
    x: View,
    out: View,
}

const FAMILY: &str = "argmax";

impl ArgMax {
    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let t = n_tokens.into();
        Args {
            n_tokens,
            x: i.view(Slot::X, Elem::F32, &[t, self.k.into()], Access::In),
            out: i.view(Slot::Out, Elem::I32, &[t, 1.into()], Access::Out),
        }
    }
}

impl Template for ArgMax {
    fn name(&self) -> String {
        format!("{FAMILY}_k{}{}", self.k, self.cut.tag())
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        let fits = (1..=MAX_EXTENT).contains(&self.k);
        TemplateError::unless(fits, FAMILY, format!("k = {}", self.k), "a row has 1 to 2^30 elements")?;
        self.cut.check(FAMILY)?;
        let piece = self.cut.piece;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.cut.waves);
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        let (row, zero) = (b.program_id(0), b.index(0));
        // Each lane keeps its largest element and where that was first; then the lanes are compared. Lanes start with
        // their own place, so that a row without a largest element gives the place 0.
        let least = b.float(f64::from(f32::MIN), &[1, piece]);
        let lanes = b.iota(piece);
        let lanes = b.reshape(lanes, &[1, piece]);
        let best = for_pieces(&mut b, self.k, piece, &[least, lanes], |b, col, mask, best| {
            let mut x = b.load(a.x, &[row, col], &[1, piece], mask);
            if let Some(mask) = mask {
                x = b.select(mask, x, least);
            }
            let at = b.add(lanes, col);
            let larger = b.cmp(CmpOp::Gt, x, best[0]);
            vec![b.select(larger, x, best[0]), b.select(larger, at, best[1])]
        });
        let largest = b.reduce(ReduceOp::Max, best[0], 1);
        let is_largest = b.cmp(CmpOp::Eq, best[0], largest);
        let none = b.int(i64::from(i32::MAX), Type::new(Elem::I32, &[1, piece]));
        let places = b.select(is_largest, best[1], none);
        let place = b.reduce(ReduceOp::Min, places, 1);
        b.store(a.out, &[row, zero], place, None);
        Ok(b.finish())
    }
}
