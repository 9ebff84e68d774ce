//! Parts of a token's positions whose bounds do not depend on the context, so that a program may have one of them or all,
//! and what comes of them is the same bits: each has an online softmax of its own, and they are brought together in order.
//!
//! Parts grow with the positions, four of each length from the third four on, so that there are few of them, and a thread
//! more never waits long for one: 0, 512, 1024, … 4096, 5120, … 8192, 10240, …

use super::weigh::{larger, power};
use super::{LANES, UNSEEN};
use crate::emit::{plus, scaled, times};
use crate::row::{PIECE, RowSink, for_pieces};
use hrx_ir::tile::{BinaryOp, Builder, Elem, Value, View};

/// Parts of all positions; the last one has no end.
pub(super) const PARTS: u32 = 32;
/// Positions of the first parts: a multiple of all tiles.
const SHORTEST: u32 = 512;
/// Parts of one length.
const OF_A_LENGTH: u32 = 4;
/// More positions than there are behind the last part's beginning.
const BEYOND: i64 = 1 << 30;

/// Where a part begins, counted from the first row of its sequence.
fn start(b: &mut Builder, part: Value) -> Value {
    let (zero, one, four) = (b.index(0), b.index(1), b.index(OF_A_LENGTH.into()));
    let four_number = b.div(part, four);
    let place = b.binary(BinaryOp::Rem, part, four);
    // The first four begin at 0, and have the length of the second.
    let later = b.min(four_number, one);
    let more = times(b, later, OF_A_LENGTH);
    let place = b.add(place, more);
    let doubled = b.sub(four_number, one);
    let doubled = b.max(doubled, zero);
    let place = b.binary(BinaryOp::Shl, place, doubled);
    times(b, place, SHORTEST)
}

/// The rows of a part of a sequence that begins at row `first`, within `range`.
pub(super) fn rows(b: &mut Builder, part: Value, first: Value, range: [Value; 2]) -> [Value; 2] {
    let from = start(b, part);
    let next = plus(b, part, 1);
    let to = start(b, next);
    let last = b.index(i64::from(PARTS) - 1);
    let is_last = b.div(part, last);
    let beyond = b.index(BEYOND);
    let more = b.mul(is_last, beyond);
    let to = b.add(to, more);
    let (from, to) = (b.add(first, from), b.add(first, to));
    [b.max(from, range[0]), b.min(to, range[1])]
}

/// A number of parts that has all of the first `rows` rows of a sequence.
pub(super) fn count(b: &mut Builder, rows: Value) -> Value {
    let (shortest, most) = (b.index(SHORTEST.into()), b.index(PARTS.into()));
    let up = plus(b, rows, SHORTEST - 1);
    let all = b.div(up, shortest);
    b.min(all, most)
}

/// Does something once if `rows` are any.
pub(super) fn if_any(b: &mut Builder, [from, to]: [Value; 2], then: impl FnOnce(&mut Builder)) {
    let (zero, one) = (b.index(0), b.index(1));
    let n = b.sub(to, from);
    let n = b.min(n, one);
    b.for_loop([zero, n, one], &[], |b, _, _| {
        then(b);
        vec![]
    });
}

/// Sums of weighted values with what they are relative to, in local memory. Scores are counted in powers of two.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    /// Sums of weighted values: `f32 [lines, value_dim]`.
    pub values: View,
    /// Largest scores: `f32 [1, width(lines)]`.
    pub largest: View,
    /// Sums of weights: `f32 [1, width(lines)]`.
    pub total: View,
}

/// Numbers that lines have in a row: whole vectors.
pub(super) fn width(lines: u32) -> u32 {
    lines.next_multiple_of(LANES)
}

impl Sums {
    pub fn new(b: &mut Builder, lines: u32, value_dim: u32) -> Sums {
        let values = b.local(Elem::F32, &[lines, value_dim]);
        let [largest, total] = [0, 1].map(|_| b.local(Elem::F32, &[1, width(lines)]));
        Sums { values, largest, total }
    }

    /// Nothing seen, nothing summed.
    pub fn clear(&self, b: &mut Builder, lines: u32, value_dim: u32) {
        let (zero, one, end) = (b.index(0), b.index(1), b.index(lines.into()));
        let unseen = b.float(UNSEEN, &[1, width(lines)]);
        let nothing = b.float(0.0, &[1, width(lines)]);
        b.store(self.largest, &[zero, zero], unseen, None);
        b.store(self.total, &[zero, zero], nothing, None);
        b.for_loop([zero, end, one], &[], |b, line, _| {
            for_pieces(b, value_dim, PIECE, &[], |b, at, mask, _| {
                let zeros = b.float(0.0, &[1, PIECE]);
                b.store(self.values, &[line, at], zeros, mask);
                vec![]
            });
            vec![]
        });
    }

    /// A line's largest score and total.
    pub fn numbers(&self, b: &mut Builder, line: Value) -> [Value; 2] {
        let zero = b.index(0);
        [self.largest, self.total].map(|view| b.load(view, &[zero, line], &[1, 1], None))
    }

    /// Adds a part to a line: its largest score and total, and its sums, which `piece` loads from some element on.
    pub fn add(
        &self,
        b: &mut Builder,
        line: Value,
        value_dim: u32,
        [largest, total]: [Value; 2],
        piece: impl Fn(&mut Builder, Value, Option<Value>) -> Value,
    ) {
        let zero = b.index(0);
        let [before, total_before] = self.numbers(b, line);
        let top = larger(b, before, largest);
        let [keep, take] = [before, largest].map(|of| {
            let below = b.sub(of, top);
            power(b, below)
        });
        let kept = b.mul(total_before, keep);
        let total = b.fma(total, take, kept);
        b.store(self.largest, &[zero, line], top, None);
        b.store(self.total, &[zero, line], total, None);
        for_pieces(b, value_dim, PIECE, &[], |b, at, mask, _| {
            let sum = b.load(self.values, &[line, at], &[1, PIECE], mask);
            let part = piece(b, at, mask);
            let kept = b.mul(sum, keep);
            let sum = b.fma(part, take, kept);
            b.store(self.values, &[line, at], sum, mask);
            vec![]
        });
    }

    /// Takes in a line's sink, whose part only the total has, divides by the total, and stores the row's head from
    /// `column` on, in rows of `end` elements.
    pub fn finish(
        &self,
        b: &mut Builder,
        line: Value,
        value_dim: u32,
        sink: Option<Value>,
        (out, [row, column], end): (RowSink, [Value; 2], u32),
    ) {
        let [largest, mut total] = self.numbers(b, line);
        let shrink = sink.map(|sink| {
            let sink = scaled(b, std::f64::consts::LOG2_E, sink);
            let top = larger(b, largest, sink);
            let [shrink, weight] = [largest, sink].map(|of| {
                let below = b.sub(of, top);
                power(b, below)
            });
            total = b.fma(total, shrink, weight);
            shrink
        });
        let unit = b.float(1.0, &[1, 1]);
        let mut inverse = b.div(unit, total);
        if let Some(shrink) = shrink {
            inverse = b.mul(inverse, shrink);
        }
        for_pieces(b, value_dim, PIECE, &[], |b, at, mask, _| {
            let sum = b.load(self.values, &[line, at], &[1, PIECE], mask);
            let y = b.mul(sum, inverse);
            let column = b.add(column, at);
            out.store(b, [row, column], y, mask, end);
            vec![]
        });
    }
}
