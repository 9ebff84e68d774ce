//! What is known of a scalar before the kernel runs: what divides it, and between what it lies.

use super::Builder;
use hrx_ir::tile::{BinaryOp, Block, Literal, Op, Value, ValueDef};

/// How far back definitions are followed.
const DEPTH: u32 = 8;

/// The least and the greatest value that a scalar may have; both are `i32`'s.
pub(super) type Range = (i64, i64);

fn range(least: i64, greatest: i64) -> Option<Range> {
    let fits = |n| i32::try_from(n).is_ok();
    (fits(least) && fits(greatest)).then_some((least, greatest))
}

impl Builder<'_> {
    /// A number that divides a scalar, as far as is known.
    pub(super) fn multiple_of(&self, v: Value) -> u32 {
        self.multiple(v, 0)
    }

    fn multiple(&self, v: Value, depth: u32) -> u32 {
        const ANY: u32 = 1 << 30;
        if depth > DEPTH {
            return 1;
        }
        let of = |v| self.multiple(v, depth + 1);
        match self.definition(v) {
            Definition::Int(0) => ANY,
            Definition::Int(n) => n.unsigned_abs().min(u64::from(ANY)) as u32,
            Definition::Binary(op, a, b) => match (op, self.k.as_const_int(b)) {
                (BinaryOp::Mul, _) => of(a).saturating_mul(of(b)).min(ANY),
                (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Min | BinaryOp::Max, _) => gcd(of(a), of(b)),
                (BinaryOp::Shl, Some(n @ 0..=30)) => of(a).saturating_mul(1 << n).min(ANY),
                (BinaryOp::Shr, Some(n @ 0..=30)) if of(a).is_multiple_of(1 << n) => of(a) >> n,
                _ => 1,
            },
            Definition::Counter([lower, _, step]) => gcd(of(lower), of(step)),
            Definition::Other => 1,
        }
    }

    /// Between what a scalar lies; `None` where that is not known.
    pub(super) fn range_of(&self, v: Value) -> Option<Range> {
        self.range(v, 0)
    }

    fn range(&self, v: Value, depth: u32) -> Option<Range> {
        if depth > DEPTH {
            return None;
        }
        let of = |v| self.range(v, depth + 1);
        match self.definition(v) {
            Definition::Int(n) => range(n, n),
            Definition::Binary(op, a, b) => {
                let (a, b) = (of(a), of(b));
                match (op, a, b) {
                    (BinaryOp::Add, Some(a), Some(b)) => range(a.0 + b.0, a.1 + b.1),
                    (BinaryOp::Sub, Some(a), Some(b)) => range(a.0 - b.1, a.1 - b.0),
                    (BinaryOp::Mul, Some(a), Some(b)) if a.0 >= 0 && b.0 >= 0 => range(a.0 * b.0, a.1 * b.1),
                    (BinaryOp::Min, Some(a), Some(b)) => range(a.0.min(b.0), a.1.min(b.1)),
                    (BinaryOp::Max, Some(a), Some(b)) => range(a.0.max(b.0), a.1.max(b.1)),
                    (BinaryOp::Shl, Some(a), Some((n @ 0..=31, m))) if n == m && a.0 >= 0 => range(a.0 << n, a.1 << n),
                    (BinaryOp::Shr, Some(a), Some((n @ 0..=31, m))) if n == m => range(a.0 >> n, a.1 >> n),
                    _ => None,
                }
            }
            // What is inside a loop runs only where the counter is below the upper bound.
            Definition::Counter([lower, upper, _]) => {
                let (lower, upper) = (of(lower)?, of(upper)?);
                range(lower.0, upper.1.saturating_sub(1).max(lower.0))
            }
            Definition::Other => None,
        }
    }

    fn definition(&self, v: Value) -> Definition {
        match self.k.values[v].def {
            ValueDef::Result(inst, 0) => match &self.k.insts[inst].op {
                Op::Const { value: Literal::Int(n), .. } => Definition::Int(*n),
                Op::Binary { op, args: [a, b] } => Definition::Binary(*op, *a, *b),
                _ => Definition::Other,
            },
            ValueDef::BlockParam(block, 0) => self.loop_of(block).map_or(Definition::Other, Definition::Counter),
            _ => Definition::Other,
        }
    }

    /// Lower bound, upper bound and step of the loop with this body.
    fn loop_of(&self, block: Block) -> Option<[Value; 3]> {
        self.k.insts.values().find_map(|d| match &d.op {
            Op::For { bounds, body, .. } if *body == block => Some(*bounds),
            _ => None,
        })
    }
}

/// What a scalar is made of.
enum Definition {
    Int(i64),
    Binary(BinaryOp, Value, Value),
    /// A loop's counter: its lower bound, upper bound and step.
    Counter([Value; 3]),
    Other,
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
