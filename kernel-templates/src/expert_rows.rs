//! Routes turned round: for each expert the rows that go to it.

use crate::Template;
use crate::facts::{MAX_EXTENT, TemplateError};
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, CmpOp, Elem, GridExpr, Kernel, ReduceOp, Type, Value, View};

/// For each expert the numbers `t * used + s` of the rows whose expert s of token t it is, rising, and how many they are.
///
/// Slots: NTokens; Routes `f32 [T, 2 * used]`, no expert twice in a row; Out `i32 [experts, T]`, of which the first ones
/// of a row are written; Counts `i32 [experts]`. One program an expert.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExpertRows {
    /// How many experts there are.
    pub experts: u32,
    /// Experts of a token.
    pub used: u32,
}

struct Args {
    n_tokens: Value,
    routes: View,
    out: View,
    counts: View,
}

const FAMILY: &str = "expert_rows";

/// Tokens that are looked at together.
const TOKENS: u32 = 32;

impl ExpertRows {
    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let (t, experts) = (n_tokens.into(), self.experts.into());
        Args {
            n_tokens,
            routes: i.view(Slot::Routes, Elem::F32, &[t, self.used.saturating_mul(2).into()], Access::In),
            out: i.strided(Slot::Out, Elem::I32, &[experts, t], &[t, 1.into()], Access::Out),
            counts: i.view(Slot::Counts, Elem::I32, &[1.into(), experts], Access::Out),
        }
    }
}

impl Template for ExpertRows {
    fn name(&self) -> String {
        format!("{FAMILY}_n{}_u{}", self.experts, self.used)
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        let fits = (1..=64).contains(&self.used) && (self.used..=MAX_EXTENT / 2).contains(&self.experts);
        TemplateError::unless(fits, FAMILY, format!("{self:?}"), "1 to 64 of the experts are used")?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.grid(0, GridExpr::constant(self.experts));
        let (expert, zero, used) = (b.program_id(0), b.index(0), self.used);
        let number = b.broadcast(expert, Type::new(Elem::I32, &[TOKENS, used]).shape);
        let number = b.convert(number, Elem::F32);
        let slots = b.iota(used);
        let slots = b.reshape(slots, &[1, used]);
        let slots = b.broadcast(slots, Type::new(Elem::I32, &[TOKENS, used]).shape);
        let none = b.int(0, Type::new(Elem::I32, &[TOKENS, used]));
        let iota = b.iota(TOKENS);
        let (line, column) = (b.reshape(iota, &[1, TOKENS]), b.reshape(iota, &[TOKENS, 1]));
        let before = b.cmp(CmpOp::Lt, line, column);
        let nothing = b.int(0, Type::new(Elem::I32, &[TOKENS, TOKENS]));
        let step = b.index(i64::from(TOKENS));
        let found = b.for_loop([zero, a.n_tokens, step], &[zero], |b, first, found| {
            let token = b.add(iota, first);
            let end = b.broadcast(a.n_tokens, Type::new(Elem::I32, &[TOKENS]).shape);
            let inside = b.cmp(CmpOp::Lt, token, end);
            let inside = b.reshape(inside, &[TOKENS, 1]);
            let experts = b.load(a.routes, &[first, zero], &[TOKENS, used], Some(inside));
            let is_it = b.cmp(CmpOp::Eq, experts, number);
            let all = b.broadcast(inside, Type::new(Elem::I32, &[TOKENS, used]).shape);
            let is_it = b.binary(hrx_ir::tile::BinaryOp::And, is_it, all);
            let ones = b.convert(is_it, Elem::I32);
            let has = b.reduce(ReduceOp::Sum, ones, 1);
            let slot = b.select(is_it, slots, none);
            let slot = b.reduce(ReduceOp::Sum, slot, 1);
            // How many tokens before each one of these are the expert's too.
            let has_line = b.reshape(has, &[1, TOKENS]);
            let each = b.broadcast(has_line, Type::new(Elem::I32, &[TOKENS, TOKENS]).shape);
            let each = b.select(before, each, nothing);
            let rank = b.reduce(ReduceOp::Sum, each, 1);
            let place = b.reshape(rank, &[TOKENS]);
            let place = b.add(place, found[0]);
            let token = b.reshape(token, &[TOKENS, 1]);
            let by = b.int(i64::from(used), Type::new(Elem::I32, &[TOKENS, 1]));
            let row = b.mul(token, by);
            let row = b.add(row, slot);
            let row = b.reshape(row, &[1, TOKENS]);
            let one = b.int(0, Type::new(Elem::I32, &[1, TOKENS]));
            let has_line = b.cmp(CmpOp::Gt, has_line, one);
            b.store(a.out, &[expert, place], row, Some(has_line));
            let more = b.reduce(ReduceOp::Sum, has, 0);
            let more = b.reshape(more, &[]);
            vec![b.add(found[0], more)]
        });
        let count = b.reshape(found[0], &[1, 1]);
        b.store(a.counts, &[zero, expert], count, None);
        Ok(b.finish())
    }
}
