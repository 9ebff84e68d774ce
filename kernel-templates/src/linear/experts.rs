//! Products with the matrices of chosen experts: a launch has a row for each token and each of its experts, and the rows
//! of the matrix that it reads are those of its expert. Grouped, a program has an expert and goes through the rows that
//! come to it, so that a matrix is read once for all of them. Summed, a program goes through a token's experts and adds
//! up what its routes weigh.

use super::{FAMILY, Linear, LinearCut};
use crate::facts::{Output, TemplateError};
use crate::packed::PANEL;
use crate::route::Routing;
use crate::slot::{Interface, Slot};
use hrx_ir::tile::{Access, BinaryOp, Builder, CmpOp, Elem, Value, View};

/// Which experts' matrices a product is with. Matrices lie one behind another: `[count * n, k]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Experts {
    /// How many there are.
    pub count: u32,
    /// Experts of a token.
    pub used: u32,
    /// Whether a router names them; else expert s of a token is number s, and all are used.
    pub routed: bool,
    /// Whether each of a token's experts has a row of x; else a token's experts share one.
    pub own: bool,
    /// Whether products are multiplied by a factor of the expert.
    pub scale: bool,
    /// Whether programs have the rows of one expert, as [`ExpertRows`](crate::ExpertRows) lists them.
    pub grouped: bool,
    /// Whether a token's results are multiplied by the weights of its routes and summed.
    pub summed: bool,
    /// How programs choose their token's experts by the router's logits, where no [`Route`](crate::Route) has done so. They
    /// write what that would.
    pub routing: Option<Routing>,
}

/// The parameters that experts add.
pub(super) struct ExpertArgs {
    /// What a router has written, or what the program has chosen itself, in local memory.
    routes: Option<View>,
    logits: Option<[View; 2]>,
    lists: Option<[View; 2]>,
    pub scale: Option<View>,
}

/// What a row of the launch is about.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    /// The expert.
    pub expert: Value,
    /// The first of its rows in the matrix.
    pub first: Value,
    /// The row of x.
    pub x_row: Value,
}

impl Experts {
    /// `used` of `count` experts, which a router names, for rows of x that a token's experts share, and nothing more.
    pub const fn routed(count: u32, used: u32) -> Experts {
        Experts { count, used, routed: true, own: false, scale: false, grouped: false, summed: false, routing: None }
    }

    pub(super) fn check(&self, l: &Linear) -> Result<(), TemplateError> {
        let unless = |ok, reason| TemplateError::unless(ok, FAMILY, format!("{self:?}"), reason);
        let rows = u64::from(self.count) * u64::from(l.n);
        unless(self.count > 0 && rows <= u64::from(crate::facts::MAX_EXTENT), "experts have 1 to 2^30 rows")?;
        unless((1..=self.count).contains(&self.used) && (self.routed || self.used == self.count), "experts are used")?;
        unless(
            if self.grouped { self.routed } else { l.tiling.tokens() == 1 },
            "rows of a launch have different experts, so programs have one, or groups of routed ones",
        )?;
        unless(!self.grouped || !matches!(l.tiling, LinearCut::Rows(_)), "programs for one row have no groups")?;
        unless(l.gated.is_none() || !self.scale, "gated products have no scale")?;
        let rows = matches!(l.tiling, LinearCut::Rows(_));
        let normed = l.fixed_rows() && !self.own;
        unless(l.norm.is_none() || normed, "experts read rows that are normed, but for shared ones as numbers")?;
        let routing = rows && self.routed && !self.summed && self.count <= Routing::MOST;
        unless(self.routing.is_none() || routing, "programs with rows of waves choose among up to 256 experts")?;
        let plain = l.gated.is_none() && !l.bias && !self.scale && l.scale.is_none() && l.softcap.is_none();
        let summed = rows && self.own && self.routed && plain && l.output == Output::F32;
        unless(!self.summed || summed, "what is summed are plain products of routed rows of their own, row by row")?;
        unless(self.summed || !l.residual, "single results have no residual")?;
        let panels = matches!(l.tiling, LinearCut::Panels(_));
        unless(!panels || l.n.is_multiple_of(PANEL), "packed experts have whole panels of rows")?;
        unless(l.input == Output::F32 || panels, "x is f32 but for packed matrices")
    }

    /// Declares the parameters that stand before x: the number of tokens where rows of x are theirs.
    pub(super) fn declare_rows(&self, i: &mut Interface, n_rows: Value) -> [Value; 2] {
        let n_tokens = i.index(Slot::NRows);
        [n_tokens, if self.own { n_rows } else { n_tokens }]
    }

    /// Declares the other parameters.
    pub(super) fn declare(&self, i: &mut Interface, n_tokens: Value) -> ExpertArgs {
        let pairs = self.used.saturating_mul(2).into();
        ExpertArgs {
            logits: self.routing.map(|_| {
                let of = [(Slot::Logits, self.count.into(), Access::In), (Slot::Choice, pairs, Access::Out)];
                of.map(|(slot, n, access)| i.view(slot, Elem::F32, &[n_tokens.into(), n], access))
            }),
            routes: (self.routed && !self.grouped && self.routing.is_none())
                .then(|| i.view(Slot::Routes, Elem::F32, &[n_tokens.into(), pairs], Access::In)),
            lists: self.grouped.then(|| {
                let (t, rows) = (n_tokens.into(), [self.count.into(), n_tokens.into()]);
                [
                    i.strided(Slot::ExpertRows, Elem::I32, &rows, &[t, 1.into()], Access::In),
                    i.view(Slot::Counts, Elem::I32, &[1.into(), self.count.into()], Access::In),
                ]
            }),
            scale: self.scale.then(|| i.view(Slot::ExpertScale, Elem::F32, &[1.into(), self.count.into()], Access::In)),
        }
    }

    /// Lets the program choose the experts of its row of the launch, if it is to; the first of a token writes them.
    pub(super) fn choose(&self, b: &mut Builder, a: &mut ExpertArgs, [program, row]: [Value; 2]) {
        let Some((routing, views)) = self.routing.zip(a.logits) else { return };
        let (zero, used) = (b.index(0), b.index(i64::from(self.used)));
        let token = b.div(row, used);
        let slot = b.binary(BinaryOp::Rem, row, used);
        let place = b.add(program, slot);
        let writes = b.cmp(CmpOp::Eq, place, zero);
        a.routes = Some(routing.choose(b, [self.count, self.used], views, token, writes));
    }

    /// The row of the routes that a token's are in.
    fn routes_row(&self, b: &mut Builder, token: Value) -> Value {
        if self.routing.is_some() { b.index(0) } else { token }
    }

    /// What row `row` of the launch is about, for experts of `n` rows.
    pub(super) fn chosen(&self, b: &mut Builder, a: &ExpertArgs, row: Value, n: u32) -> Chosen {
        let used = b.index(i64::from(self.used));
        let (token, slot) = match self.used {
            1 => (row, b.index(0)),
            _ => (b.div(row, used), b.binary(BinaryOp::Rem, row, used)),
        };
        self.of_token(b, a, [token, slot], row, n)
    }

    /// What a token's expert number `slot` is about, whose row of the launch is `row`.
    pub(super) fn of_token(
        &self,
        b: &mut Builder,
        a: &ExpertArgs,
        [token, slot]: [Value; 2],
        row: Value,
        n: u32,
    ) -> Chosen {
        let expert = match a.routes {
            Some(routes) => {
                let of = self.routes_row(b, token);
                let number = b.load(routes, &[of, slot], &[1, 1], None);
                let number = b.convert(number, Elem::I32);
                b.reshape(number, &[])
            }
            None => slot,
        };
        let first = crate::emit::times(b, expert, n);
        Chosen { expert, first, x_row: if self.own { row } else { token } }
    }

    /// What a token's routes weigh its expert number `slot` with, `[1, 1]`.
    pub(super) fn weight(&self, b: &mut Builder, a: &ExpertArgs, [token, slot]: [Value; 2]) -> Option<Value> {
        let used = b.index(i64::from(self.used));
        let at = b.add(slot, used);
        let of = self.routes_row(b, token);
        Some(b.load(a.routes?, &[of, at], &[1, 1], None))
    }

    /// The rows that go to an expert: the list, and how many there are.
    pub(super) fn group(&self, b: &mut Builder, a: &ExpertArgs, expert: Value) -> Option<(View, Value)> {
        let [rows, counts] = a.lists?;
        let zero = b.index(0);
        let count = b.load(counts, &[zero, expert], &[1, 1], None);
        Some((rows, b.reshape(count, &[])))
    }

    /// The rows of x of some rows of the launch, scalars or tiles.
    pub(super) fn x_rows(&self, b: &mut Builder, rows: Value) -> Value {
        if self.own || self.used == 1 {
            return rows;
        }
        let ty = b.ty(rows);
        let used = b.int(i64::from(self.used), ty);
        b.div(rows, used)
    }

    pub(super) fn tag(&self) -> String {
        let routed = if self.routed { "" } else { "all" };
        let own = if self.own { "own" } else { "" };
        let scale = if self.scale { "s" } else { "" };
        let grouped = if self.grouped { "g" } else { "" };
        let summed = if self.summed { "sum" } else { "" };
        let routing = self.routing.map_or(String::new(), |r| r.tag());
        format!("_e{}u{}{routed}{own}{scale}{grouped}{summed}{routing}", self.count, self.used)
    }
}
