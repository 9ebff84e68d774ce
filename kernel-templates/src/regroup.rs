//! Parts of rows put together anew: columns of each group taken out, or two rows' groups one behind the other.

use crate::Template;
use crate::facts::{MAX_EXTENT, RowCut, TemplateError};
use crate::row::for_pieces;
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, Elem, GridExpr, Kernel, Value, View};

/// What is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parts {
    /// Of groups of `of` elements of X the `len` from `start` on.
    Columns {
        /// Elements of a group of X.
        of: u32,
        /// The first one taken.
        start: u32,
        /// How many.
        len: u32,
    },
    /// A group of `first` elements of X, then one of `second` elements of Y.
    Both {
        /// Elements of a group of X.
        first: u32,
        /// Elements of a group of Y.
        second: u32,
    },
}

/// Rows of `groups` groups made of parts of other rows.
///
/// Slots: NTokens; X `f32 [T, groups * of]` (or `first`); for both Y `f32 [T, groups * second]`; Out
/// `f32 [T, groups * len]` (or `first + second`). One program a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regroup {
    /// Groups of a row.
    pub groups: u32,
    /// What a group is made of.
    pub parts: Parts,
    /// How groups are cut.
    pub cut: RowCut,
}

struct Args {
    n_tokens: Value,
    x: View,
    y: Option<View>,
    out: View,
}

const FAMILY: &str = "regroup";

impl Regroup {
    /// Elements of a group of X, of Y and of Out.
    fn sizes(&self) -> [u32; 3] {
        match self.parts {
            Parts::Columns { of, len, .. } => [of, 0, len],
            Parts::Both { first, second } => [first, second, first.saturating_add(second)],
        }
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let [x, y, out] = self.sizes();
        let rows = |n: u32| [n_tokens.into(), self.groups.into(), n.into()];
        Args {
            n_tokens,
            x: i.view(Slot::X, Elem::F32, &rows(x), Access::In),
            y: (y > 0).then(|| i.view(Slot::Y, Elem::F32, &rows(y), Access::In)),
            out: i.view(Slot::Out, Elem::F32, &rows(out), Access::Out),
        }
    }
}

impl Template for Regroup {
    fn name(&self) -> String {
        let parts = match self.parts {
            Parts::Columns { of, start, len } => format!("columns{of}_from{start}_n{len}"),
            Parts::Both { first, second } => format!("both{first}_{second}"),
        };
        format!("{FAMILY}_{parts}_g{}{}", self.groups, self.cut.tag())
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        let unless = |ok, reason| TemplateError::unless(ok, FAMILY, format!("{self:?}"), reason);
        let [x, y, out] = self.sizes();
        let largest = u64::from(x.max(y).max(out)) * u64::from(self.groups);
        unless(x > 0 && out > 0 && (1..=u64::from(MAX_EXTENT)).contains(&largest), "a row has 1 to 2^30 elements")?;
        if let Parts::Columns { of, start, len } = self.parts {
            unless(start.checked_add(len).is_some_and(|end| end <= of), "columns are inside their group")?;
        }
        self.cut.check(FAMILY)?;
        let piece = self.cut.piece;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.cut.waves);
        b.grid(0, GridExpr::Extent(a.n_tokens.into()));
        b.grid(1, GridExpr::constant(self.groups));
        let (row, group) = (b.program_id(0), b.program_id(1));
        let copies = match self.parts {
            Parts::Columns { start, len, .. } => vec![(a.x, start, 0, len)],
            Parts::Both { first, second } => [(Some(a.x), 0, first), (a.y, first, second)]
                .into_iter()
                .filter_map(|(v, to, n)| Some((v?, 0, to, n)))
                .collect(),
        };
        for (view, from, to, n) in copies {
            for_pieces(&mut b, n, piece, &[], |b, col, mask, _| {
                let mask = mask.map(|m| b.reshape(m, &[1, 1, piece]));
                let at = crate::emit::plus(b, col, from);
                let v = b.load(view, &[row, group, at], &[1, 1, piece], mask);
                let at = crate::emit::plus(b, col, to);
                b.store(a.out, &[row, group, at], v, mask);
                vec![]
            });
        }
        Ok(b.finish())
    }
}
