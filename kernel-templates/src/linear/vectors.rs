//! A program computes `program_rows` outputs for `tokens` tokens. It goes through its outputs `rows` at a time; each
//! group of rows is one loop along K ([`dot`](super::dot)) whose sums land in local memory. The epilogue then takes them
//! from there in pieces of 32, which is what the output's blocks are made of.

use super::dot::{Input, Lanes};
use super::experts::{Chosen, Experts};
use super::{Args, Linear, LinearTiling};
use crate::emit::{below, clamped, plus, times};
use crate::facts::Real;
use crate::norm::{inverse_rms, normed};
use crate::row::{PIECE, RowSink, for_pieces};
use hrx_ir::tile::{Builder, Elem, GridExpr, Value, View};

/// Emits the kernel's body.
pub(super) fn emit(b: &mut Builder, l: &Linear, t: &LinearTiling, a: &Args) {
    Vectors { l, t, a }.emit(b);
}

struct Vectors<'a> {
    l: &'a Linear,
    t: &'a LinearTiling,
    a: &'a Args,
}

impl Vectors<'_> {
    fn emit(&self, b: &mut Builder) {
        let (l, t, a) = (self.l, self.t, self.a);
        b.grid(0, GridExpr::ceil_div(l.n, t.program_rows));
        let (program, group) = (b.program_id(0), b.program_id(1));
        let first = times(b, program, t.program_rows);
        if let Some(experts) = l.experts.filter(|e| e.grouped) {
            b.grid(1, GridExpr::constant(experts.count));
            return self.grouped(b, experts, group, first);
        }
        b.grid(1, GridExpr::ceil_div(a.n_tokens, t.tokens));
        if t.tokens == 1 {
            let zero = b.index(0);
            if let Some(chosen) = l.chosen(b, a, group) {
                let locals = self.sums(b, a.x, &[chosen.x_row], first, Some(chosen));
                epilogue(b, l, a, t.program_rows, &locals, [zero, group, first], Some(chosen));
                return;
            }
            let (x, row) = match (l.norm, a.norm_weight, a.x) {
                (Some(eps), Some(w), Input::F32(x)) => (self.norm_row(b, x, w, group, eps), zero),
                _ => (a.x, group),
            };
            let locals = self.sums(b, x, &[row], first, None);
            epilogue(b, l, a, t.program_rows, &locals, [zero, group, first], None);
        } else {
            let first_token = times(b, group, t.tokens);
            let tokens: Vec<Value> = (0..t.tokens).map(|i| clamped(b, first_token, i, a.n_tokens)).collect();
            let locals = self.sums(b, a.x, &tokens, first, None);
            let rest = b.sub(a.n_tokens, first_token);
            let (zero, one, all) = (b.index(0), b.index(1), b.index(i64::from(t.tokens)));
            let end = b.min(all, rest);
            b.for_loop([zero, end, one], &[], |b, at, _| {
                let token = b.add(first_token, at);
                epilogue(b, l, a, t.program_rows, &locals, [at, token, first], None);
                vec![]
            });
        }
    }

    /// The rows that go to one expert, some at a time.
    fn grouped(&self, b: &mut Builder, experts: Experts, expert: Value, first: Value) {
        let (l, t, a) = (self.l, self.t, self.a);
        let Some((list, count)) = a.experts.as_ref().and_then(|args| experts.group(b, args, expert)) else { return };
        let of = Chosen { expert, first: times(b, expert, l.n), x_row: expert };
        let (zero, one, step) = (b.index(0), b.index(1), b.index(i64::from(t.tokens)));
        b.for_loop([zero, count, step], &[], |b, at, _| {
            let tokens: Vec<Value> = (0..t.tokens)
                .map(|i| {
                    let at = clamped(b, at, i, count);
                    let row = b.load(list, &[expert, at], &[1, 1], None);
                    let row = b.reshape(row, &[]);
                    experts.x_rows(b, row)
                })
                .collect();
            let locals = self.sums(b, a.x, &tokens, first, Some(of));
            let rest = b.sub(count, at);
            let end = b.min(step, rest);
            b.for_loop([zero, end, one], &[], |b, i, _| {
                let at = b.add(at, i);
                let row = b.load(list, &[expert, at], &[1, 1], None);
                let row = b.reshape(row, &[]);
                epilogue(b, l, a, t.program_rows, &locals, [i, row, first], Some(of));
                vec![]
            });
            vec![]
        });
    }

    /// Norms the program's row into local memory, in the form that the weights read.
    fn norm_row(&self, b: &mut Builder, x: View, weight: View, row: Value, eps: Real) -> Input {
        let k = self.l.k;
        let local = RowSink::local(b, self.l.input, k);
        let inverse = inverse_rms(b, x, row, [k, PIECE], eps.f64());
        let zero = b.index(0);
        for_pieces(b, k, PIECE, &[], |b, col, mask, _| {
            let y = normed(b, [x, weight], [row, col], inverse, PIECE, mask);
            local.store(b, [zero, col], y, mask, k);
            vec![]
        });
        match local {
            RowSink::F32(x) => Input::F32(x),
            RowSink::Q8 { codes, scales } => Input::Q8 { codes, scales },
            RowSink::Q15 { codes, scales } => Input::Q15 { codes, scales },
        }
    }

    /// The sums of the program's outputs from `first` on, in local memory `f32 [tokens, program_rows]` for each matrix.
    fn sums(&self, b: &mut Builder, x: Input, tokens: &[Value], first: Value, of: Option<Chosen>) -> Vec<View> {
        let (l, t, a) = (self.l, self.t, self.a);
        let (locals, end) = outputs(b, l, first, [a.weights.len() as u32, t.tokens, t.program_rows]);
        let (zero, step) = (b.index(0), b.index(i64::from(t.rows)));
        b.for_loop([zero, end, step], &[], |b, at, _| {
            let row = b.add(first, at);
            let rows = Lanes { index: super::rows_from(b, row, t.rows, l.n, of.map(|c| c.first)), count: t.rows };
            for (matrix, &local) in a.weights.iter().zip(&locals) {
                let sums = matrix.dot(b, rows, x, tokens, l.k, t.unroll);
                for (i, sum) in sums.into_iter().enumerate() {
                    let i = b.index(i as i64);
                    let line = b.reshape(sum, &[1, t.rows]);
                    b.store(local, &[i, at], line, None);
                }
            }
            vec![]
        });
        locals
    }
}

/// Finishes and stores the outputs of one token, whose sums are at `at` in local memory.
pub(super) fn epilogue(
    b: &mut Builder,
    l: &Linear,
    a: &Args,
    program_rows: u32,
    locals: &[View],
    [at, token, first]: [Value; 3],
    of: Option<Chosen>,
) {
    let bias_row = of.map_or_else(|| b.index(0), |c| c.expert);
    let scale = a.expert_scale(b, of);
    for p in (0..program_rows).step_by(PIECE as usize) {
        let col = plus(b, first, p);
        let mask = (!l.n.is_multiple_of(program_rows)).then(|| below(b, col, PIECE, l.n));
        let p = b.index(i64::from(p));
        let mut y = b.load(locals[0], &[at, p], &[1, PIECE], None);
        if let Some(scale) = scale {
            y = b.mul(y, scale);
        }
        let bias = a.bias.map(|bias| b.load(bias, &[bias_row, col], &[1, PIECE], mask));
        let up = l.gated.as_ref().map(|_| b.load(locals[1], &[at, p], &[1, PIECE], None));
        let residual = |b: &mut Builder| a.residual.map(|residual| b.load(residual, &[token, col], &[1, PIECE], mask));
        let y = l.finished(b, y, up, bias, residual);
        a.out.store(b, [token, col], y, mask, l.n);
    }
}

/// Local memory for a program's outputs from `first` on, `f32 [tokens, rows]` for each of some matrices, and how many of the
/// rows there are: what the last program has not is zero.
pub(super) fn outputs(
    b: &mut Builder,
    l: &Linear,
    first: Value,
    [matrices, tokens, rows]: [u32; 3],
) -> (Vec<View>, Value) {
    let locals: Vec<View> = (0..matrices).map(|_| b.local(Elem::F32, &[tokens, rows])).collect();
    let (zero, all) = (b.index(0), b.index(i64::from(rows)));
    if l.n.is_multiple_of(rows) {
        return (locals, all);
    }
    let n = b.index(i64::from(l.n));
    let rest = b.sub(n, first);
    let end = b.min(all, rest);
    let zeros = b.float(0.0, &[tokens, rows]);
    locals.iter().for_each(|&l| b.store(l, &[zero, zero], zeros, None));
    (locals, end)
}
