//! Norms of groups of a row: root mean square (Zhang & Sennrich 2019) or with the mean taken off (Ba et al. 2016), with
//! or without weight and bias.

use crate::Template;
use crate::facts::{MAX_EXTENT, Real, RowCut, TemplateError};
use crate::norm::inverse_of_squares;
use crate::row::for_pieces;
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, Elem, GridExpr, Kernel, ReduceOp, Value, View};

/// (x - m) / sqrt(mean((x - m)²) + eps) * weight + bias for each group of a row; m is the group's mean, or 0.
///
/// Slots: NTokens; X `f32 [T, groups * group]`; with `weight` NormWeight and with `bias` Bias, `f32 [groups * group]`; Out
/// `f32 [T, groups * group]`. One program a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupNorm {
    /// Groups of a row.
    pub groups: u32,
    /// Elements of a group.
    pub group: u32,
    /// Whether the mean is taken off.
    pub centred: bool,
    /// What is added to the mean of squares.
    pub eps: Real,
    /// Whether there is a weight.
    pub weight: bool,
    /// Whether there is a bias.
    pub bias: bool,
    /// How groups are cut.
    pub cut: RowCut,
}

struct Args {
    n_tokens: Value,
    x: View,
    weight: Option<View>,
    bias: Option<View>,
    out: View,
}

const FAMILY: &str = "group_norm";

impl GroupNorm {
    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let (groups, group) = (self.groups.into(), self.group.into());
        let rows = [n_tokens.into(), groups, group];
        Args {
            n_tokens,
            x: i.view(Slot::X, Elem::F32, &rows, Access::In),
            weight: self.weight.then(|| i.view(Slot::NormWeight, Elem::F32, &[1.into(), groups, group], Access::In)),
            bias: self.bias.then(|| i.view(Slot::Bias, Elem::F32, &[1.into(), groups, group], Access::In)),
            out: i.view(Slot::Out, Elem::F32, &rows, Access::Out),
        }
    }
}

impl Template for GroupNorm {
    fn name(&self) -> String {
        let kind = if self.centred { "layer" } else { "rms" };
        let weight = if self.weight { "_weight" } else { "" };
        let bias = if self.bias { "_bias" } else { "" };
        let (eps, cut) = (self.eps.tag(), self.cut.tag());
        format!("{FAMILY}_{kind}_n{}_g{}_eps{eps}{weight}{bias}{cut}", self.groups, self.group)
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        let size = u64::from(self.groups) * u64::from(self.group);
        let fact = format!("{} groups of {}", self.groups, self.group);
        TemplateError::unless(
            (1..=u64::from(MAX_EXTENT)).contains(&size),
            FAMILY,
            fact,
            "a row has 1 to 2^30 elements",
        )?;
        self.cut.check(FAMILY)?;
        let (k, piece) = (self.group, self.cut.piece);
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.cut.waves);
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        b.grid(1, GridExpr::constant(self.groups));
        let (row, group, zero) = (b.program_id(0), b.program_id(1), b.index(0));
        // A piece of the group, of a view whose first index is `of`.
        let load = |b: &mut Builder, view: View, of: Value, col: Value, mask: Option<Value>| {
            let mask = mask.map(|m| b.reshape(m, &[1, 1, piece]));
            let v = b.load(view, &[of, group, col], &[1, 1, piece], mask);
            b.reshape(v, &[1, piece])
        };
        let nothing = b.float(0.0, &[1, piece]);
        let mean = self.centred.then(|| {
            let sums = for_pieces(&mut b, k, piece, &[nothing], |b, col, mask, acc| {
                let x = load(b, a.x, row, col, mask);
                vec![b.add(acc[0], x)]
            });
            let sum = b.reduce(ReduceOp::Sum, sums[0], 1);
            let n = b.float(f64::from(k), &[1, 1]);
            b.div(sum, n)
        });
        let centred = |b: &mut Builder, x: Value| mean.map_or(x, |m| b.sub(x, m));
        let squares = for_pieces(&mut b, k, piece, &[nothing], |b, col, mask, acc| {
            let x = load(b, a.x, row, col, mask);
            let mut x = centred(b, x);
            // What lies beyond the group's end is not at the mean.
            if let (Some(mask), true) = (mask, self.centred) {
                x = b.select(mask, x, nothing);
            }
            vec![b.fma(x, x, acc[0])]
        });
        let inverse = inverse_of_squares(&mut b, squares[0], k, self.eps.f64());
        for_pieces(&mut b, k, piece, &[], |b, col, mask, _| {
            let x = load(b, a.x, row, col, mask);
            let x = centred(b, x);
            let mut y = b.mul(x, inverse);
            if let Some(weight) = a.weight {
                let w = load(b, weight, zero, col, mask);
                y = b.mul(y, w);
            }
            if let Some(bias) = a.bias {
                let v = load(b, bias, zero, col, mask);
                y = b.add(y, v);
            }
            let y = b.reshape(y, &[1, 1, piece]);
            let mask = mask.map(|m| b.reshape(m, &[1, 1, piece]));
            b.store(a.out, &[row, group, col], y, mask);
            vec![]
        });
        Ok(b.finish())
    }
}
