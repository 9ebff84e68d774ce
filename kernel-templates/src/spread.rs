//! Rows combined with fewer numbers than they have elements: a factor for each head, a weight for all rows.

use crate::Template;
use crate::facts::{MAX_EXTENT, RowCut, TemplateError};
use crate::row::for_pieces;
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, Elem, GridExpr, Kernel, Value, View};

/// What two numbers become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    /// x + y.
    Add,
    /// x * y.
    Mul,
}

/// x + y or x * y for rows x of `groups` times `group` elements and y of `groups` elements, each for one group.
///
/// Slots: NTokens; X `f32 [T, groups * group]`; Y `f32 [T, groups]`, or for `weight` Weight(0) `f32 [1, groups]`; Out
/// `f32 [T, groups * group]`. One program a row, or with groups of a piece and more one a
/// group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// What is done.
    pub combine: Combine,
    /// Elements of y.
    pub groups: u32,
    /// Elements of x for each of y.
    pub group: u32,
    /// Whether y is one row for all.
    pub weight: bool,
    /// How rows are cut: whole ones for groups of one, else groups.
    pub cut: RowCut,
}

struct Args {
    n_tokens: Value,
    x: View,
    y: View,
    out: View,
}

const FAMILY: &str = "spread";

impl Spread {
    /// The cut of such rows on a target.
    pub fn cut(shape: &crate::TargetShape, groups: u32, group: u32) -> RowCut {
        RowCut::choose(shape, if group == 1 { groups } else { group })
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let (t, groups) = (n_tokens.into(), self.groups.into());
        let rows = [t, groups, self.group.into()];
        Args {
            n_tokens,
            x: i.view(Slot::X, Elem::F32, &rows, Access::In),
            y: match self.weight {
                true => i.view(Slot::Weight(0), Elem::F32, &[1.into(), groups], Access::In),
                false => i.view(Slot::Y, Elem::F32, &[t, groups], Access::In),
            },
            out: i.view(Slot::Out, Elem::F32, &rows, Access::Out),
        }
    }

    fn combine(&self, b: &mut Builder, x: Value, y: Value) -> Value {
        match self.combine {
            Combine::Add => b.add(x, y),
            Combine::Mul => b.mul(x, y),
        }
    }
}

impl Template for Spread {
    fn name(&self) -> String {
        let combine = match self.combine {
            Combine::Add => "add",
            Combine::Mul => "mul",
        };
        let weight = if self.weight { "_weight" } else { "" };
        format!("{FAMILY}_{combine}_n{}_g{}{weight}{}", self.groups, self.group, self.cut.tag())
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
        let piece = self.cut.piece;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.cut.waves);
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        let (row, zero) = (b.program_id(0), b.index(0));
        let y_row = if self.weight { zero } else { row };
        if self.group == 1 {
            for_pieces(&mut b, self.groups, piece, &[], |b, col, mask, _| {
                let of_rows = mask.map(|m| b.reshape(m, &[1, piece, 1]));
                let x = b.load(a.x, &[row, col, zero], &[1, piece, 1], of_rows);
                let y = b.load(a.y, &[y_row, col], &[1, piece], mask);
                let y = b.reshape(y, &[1, piece, 1]);
                let z = self.combine(b, x, y);
                b.store(a.out, &[row, col, zero], z, of_rows);
                vec![]
            });
            return Ok(b.finish());
        }
        b.grid(1, GridExpr::constant(self.groups));
        let group = b.program_id(1);
        let y = b.load(a.y, &[y_row, group], &[1, 1], None);
        let y = b.reshape(y, &[1, 1, 1]);
        for_pieces(&mut b, self.group, piece, &[], |b, col, mask, _| {
            let mask = mask.map(|m| b.reshape(m, &[1, 1, piece]));
            let x = b.load(a.x, &[row, group, col], &[1, 1, piece], mask);
            let z = self.combine(b, x, y);
            b.store(a.out, &[row, group, col], z, mask);
            vec![]
        });
        Ok(b.finish())
    }
}
