//! What the parts of a token's positions come to.

use super::cut::JOINED;
use super::parts::Sums;
use super::{Attention, AttentionCut, part_views, with_sink};
use crate::Template;
use crate::emit::times;
use crate::facts::{Output, TargetShape, TemplateError};
use crate::row::{PIECE, RowSink, check_output};
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, CmpOp, Elem, GridExpr, Kernel, ReduceOp, UnaryOp, Value, View};

/// Brings together what an [`Attention`] whose positions are cut into parts has written: all at once, or, of a cut for
/// vectors, in order, as a program that has all parts does.
///
/// Slots: NTokens; PartSums `f32 [T, heads * parts, value_dim]`; PartTotals `f32 [T, heads * parts, 2]`; with `sinks` Sinks
/// `f32 [heads]`; Out `f32 [T, heads * value_dim]`, or OutCodes and OutScales. One program a token and head.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionJoin {
    /// Query heads.
    pub heads: u32,
    /// Elements of a value.
    pub value_dim: u32,
    /// Parts of a token's positions: a power of two.
    pub parts: u32,
    /// Whether they are added in order. Sums of a part whose total is 0 are not read.
    pub in_order: bool,
    /// Whether heads have sinks.
    pub sinks: bool,
    /// The form of the result.
    pub output: Output,
    /// Waves of a program.
    pub waves: u32,
}

struct Args {
    n_tokens: Value,
    sums: View,
    totals: View,
    sinks: Option<View>,
    out: RowSink,
}

const FAMILY: &str = "attention_join";

impl AttentionJoin {
    /// What joins the parts that an attention writes, whose result it would be in this form.
    pub fn of(attention: &Attention, shape: &TargetShape, sinks: bool, output: Output) -> AttentionJoin {
        AttentionJoin {
            heads: attention.heads,
            value_dim: attention.value_dim,
            parts: attention.tiling.parts(),
            in_order: matches!(attention.tiling, AttentionCut::Vectors(_)),
            sinks,
            output,
            waves: (128 / shape.lanes).max(1),
        }
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let t = n_tokens.into();
        let [sums, totals] = part_views(i, t, [self.heads, self.value_dim, self.parts], Access::In);
        Args {
            n_tokens,
            sums,
            totals,
            sinks: self.sinks.then(|| i.view(Slot::Sinks, Elem::F32, &[1.into(), self.heads.into()], Access::In)),
            out: RowSink::declare(i, self.output, t, self.heads.saturating_mul(self.value_dim)),
        }
    }

    /// The parts of a head, from a row on, added in order.
    fn added(&self, b: &mut Builder, a: &Args, [token, row]: [Value; 2]) -> Sums {
        let (zero, one, parts) = (b.index(0), b.index(1), b.index(self.parts.into()));
        let sums = Sums::new(b, 1, self.value_dim);
        sums.clear(b, 1, self.value_dim);
        b.for_loop([zero, parts, one], &[], |b, part, _| {
            let row = b.add(row, part);
            let [largest, total] = [zero, one].map(|which| {
                let v = b.load(a.totals, &[token, row, which], &[1, 1, 1], None);
                b.reshape(v, &[1, 1])
            });
            let nothing = b.float(0.0, &[1, 1]);
            let any = b.cmp(CmpOp::Gt, total, nothing);
            let any = b.convert(any, Elem::I32);
            let any = b.reshape(any, &[]);
            b.for_loop([zero, any, one], &[], |b, _, _| {
                sums.add(b, zero, self.value_dim, [largest, total], |b, at, mask| {
                    let mask = mask.map(|m| b.reshape(m, &[1, 1, PIECE]));
                    let sum = b.load(a.sums, &[token, row, at], &[1, 1, PIECE], mask);
                    b.reshape(sum, &[1, PIECE])
                });
                vec![]
            });
            vec![]
        });
        sums
    }
}

impl Template for AttentionJoin {
    fn name(&self) -> String {
        let sinks = if self.sinks { "_sinks" } else { "" };
        let (h, d, output) = (self.heads, self.value_dim, self.output.tag());
        let order = if self.in_order { "_in_order" } else { "" };
        format!("{FAMILY}_h{h}_d{d}_x{}w{}{order}{sinks}{output}", self.parts, self.waves)
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        let unless = |ok, fact: String, reason| TemplateError::unless(ok, FAMILY, fact, reason);
        let size = format!("{} parts of {}", self.parts, self.value_dim);
        let at_once = if self.in_order { 1 } else { self.parts };
        let fits = self.parts.is_power_of_two() && at_once.saturating_mul(self.value_dim) <= JOINED;
        unless(fits && self.value_dim > 0, size, "a head's parts are a power of two, and 1 to 8192 elements")?;
        unless((1..=4096).contains(&self.heads), format!("{} heads", self.heads), "a row has 1 to 4096 heads")?;
        let waves = (1..=16).contains(&self.waves) && self.waves.is_power_of_two();
        unless(waves, format!("{} waves", self.waves), "a program has 1, 2, 4, 8 or 16 waves")?;
        check_output(FAMILY, self.output, self.value_dim)?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.waves);
        b.grid(0, GridExpr::constant(self.heads));
        b.grid(1, GridExpr::Extent(a.n_tokens.into()));
        let (head, token, zero, one) = (b.program_id(0), b.program_id(1), b.index(0), b.index(1));
        let (parts, d) = (self.parts, self.value_dim);
        let row = times(&mut b, head, parts);
        let sink = a.sinks.map(|sinks| b.load(sinks, &[zero, head], &[1, 1], None));
        let col = times(&mut b, head, d);
        if self.in_order {
            let sums = self.added(&mut b, &a, [token, row]);
            sums.finish(&mut b, zero, d, sink, (a.out, [token, col], self.heads * d));
            return Ok(b.finish());
        }
        let [largest, total] = [zero, one].map(|which| {
            let v = b.load(a.totals, &[token, row, which], &[1, parts, 1], None);
            b.reshape(v, &[parts, 1])
        });
        let sums = b.load(a.sums, &[token, row, zero], &[1, parts, d], None);
        let sums = b.reshape(sums, &[parts, d]);
        let top = b.reduce(ReduceOp::Max, largest, 0);
        let below = b.sub(largest, top);
        let factor = b.unary(UnaryOp::Exp, below);
        let totals = b.mul(total, factor);
        let mut total = b.reduce(ReduceOp::Sum, totals, 0);
        let sums = b.mul(sums, factor);
        let sum = b.reduce(ReduceOp::Sum, sums, 0);
        let shrink = sink.map(|sink| {
            let [shrink, with] = with_sink(&mut b, top, total, sink);
            total = with;
            shrink
        });
        let whole = b.float(1.0, &[1, 1]);
        let mut inverse = b.div(whole, total);
        if let Some(shrink) = shrink {
            inverse = b.mul(inverse, shrink);
        }
        let y = b.mul(sum, inverse);
        a.out.store(&mut b, [token, col], y, None, self.heads * d);
        Ok(b.finish())
    }
}
