//! Rows of a matrix times one token's row, the lanes of a workgroup sharing out rows and chunks.
//!
//! A step along K takes some chunks of all the program's rows. Each run of 16 elements has an accumulator: its products
//! are added in order, scaled once for the group that they are in, and added to the run's sum of the steps before. At the
//! end the runs of a row are summed. Lanes that have a run of several rows read the token's elements once for them.
//!
//! Rows of x that are [`fixed`](super::fixed) are in local memory, and their products are sums of integers.
//!
//! A norm needs no pass of its own: squares are summed beside the products of elements and the norm's weights, and the
//! sums are divided by the root of their mean at the end.

use super::dot::{Input, Matrix};
use super::experts::{Chosen, ExpertArgs, Experts};
use super::fixed::{Fixed, Part, Staging};
use super::{Args, Linear, RowsTiling, rows_from};
use crate::emit::{below, plus, times};
use crate::facts::Output;
use crate::fixed::HIGH;
use crate::norm::inverse_of_squares;
use hrx_ir::quant::{CHUNK, Format};
use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, GridExpr, ReduceOp, RunPart, Type, Value, View};

/// Elements that one accumulator takes in a step: a lane reads the codes of as many together, and no group of a format
/// is shorter.
const RUN: u32 = 16;

/// Emits the kernel's body.
pub(super) fn emit(b: &mut Builder, l: &Linear, t: &RowsTiling, a: &mut Args) {
    b.waves(t.waves);
    b.grid(0, GridExpr::ceil_div(l.n, t.rows));
    b.grid(1, GridExpr::Extent(a.n_tokens.into()));
    let (program, token) = (b.program_id(0), b.program_id(1));
    let first = times(b, program, t.rows);
    if let Some((experts, args)) = l.experts.zip(a.experts.as_mut()) {
        experts.choose(b, args, [program, token]);
    }
    let a = &*a;
    if let Some((experts, args)) = l.experts.filter(|e| e.summed).zip(a.experts.as_ref()) {
        return summed(b, l, t, a, [token, first], (experts, args));
    }
    let of = l.chosen(b, a, token);
    let row = rows_from(b, first, t.rows, l.n, of.map(|c| c.first));
    let (rows, squares) = Rows::staged(b, (l, t, a), of.map_or(token, |c| c.x_row), row);
    let sums = rows.sums(b, squares);
    rows.store(b, [token, first], of, &sums);
}

/// Experts of a token whose products are in one iteration: their blocks are in flight together.
const BESIDE: u32 = 4;

/// Goes through a token's experts; the runs' sums of each, weighed, are added up before runs are.
fn summed(
    b: &mut Builder,
    l: &Linear,
    t: &RowsTiling,
    a: &Args,
    [token, first]: [Value; 2],
    (experts, args): (Experts, &ExpertArgs),
) {
    let used = b.index(i64::from(experts.used));
    let base = b.mul(token, used);
    let rows_of = |b: &mut Builder, slot: Value| {
        let x_row = b.add(base, slot);
        let of = experts.of_token(b, args, [token, slot], x_row, l.n);
        let row = rows_from(b, first, t.rows, l.n, Some(of.first));
        Rows::staged(b, (l, t, a), x_row, row).0
    };
    let add = |b: &mut Builder, (slot, rows): (Value, Rows), sum: Value| {
        let runs = rows.run_sums(b);
        match experts.weight(b, args, [token, slot]) {
            Some(weight) => b.fma(runs[0], weight, sum),
            None => b.add(runs[0], sum),
        }
    };
    let by = [BESIDE, 2, 1].into_iter().find(|by| experts.used.is_multiple_of(*by)).unwrap_or(1);
    let zero = b.float(0.0, &[t.rows, t.chunks * CHUNK / RUN]);
    let bounds = [b.index(0), used, b.index(i64::from(by))];
    let sums = b.for_loop(bounds, &[zero], |b, slot, sums| {
        let slots: Vec<Value> = (0..by).map(|i| plus(b, slot, i)).collect();
        let rows: Vec<Rows> = slots.iter().map(|&slot| rows_of(b, slot)).collect();
        vec![slots.into_iter().zip(rows).fold(sums[0], |sum, of| add(b, of, sum))]
    });
    let sum = b.reduce(ReduceOp::Sum, sums[0], 1);
    let zero = b.index(0);
    Rows { l, t, a, token, row: zero, fixed: None }.store(b, [token, first], None, &[sum]);
}

/// A step of the token's row, and the sum of each of its runs, `[1, runs]`. What nobody reads is removed.
enum Step {
    /// `f32 [1, runs, RUN]`.
    F32 { x: Value, sum: Value },
    /// Codes `i8 [1, step]` and the scale of each run.
    Q8 { codes: Value, scale: Value, sum: Value },
    /// Numbers of 15 bits.
    Fixed(Part),
}

/// What rows are multiplied by what, how, and where it is.
type Facts<'a> = (&'a Linear, &'a RowsTiling, &'a Args);

struct Rows<'a> {
    l: &'a Linear,
    t: &'a RowsTiling,
    a: &'a Args,
    /// The row of x.
    token: Value,
    /// The program's rows as loads take them.
    row: Value,
    /// The row of x in local memory.
    fixed: Option<Fixed>,
}

/// Sums of runs `[rows, runs]` of which those that a lane has together, of chunks whose codes are in the same bytes, are
/// added up: then lanes exchange half as many.
fn paired(b: &mut Builder, sums: Value, matrix: Matrix) -> Value {
    let Matrix::Quant(_, format) = matrix else { return sums };
    let Some(apart) = format.chunks_of_bytes() else { return sums };
    let [rows, runs] = [0, 1].map(|axis| b.ty(sums).shape.dims()[axis]);
    let apart = apart * CHUNK / RUN;
    if !runs.is_multiple_of(2 * apart) {
        return sums;
    }
    let pairs = b.reshape(sums, &[rows, runs / (2 * apart), 2, apart]);
    let pairs = b.reduce(ReduceOp::Sum, pairs, 2);
    b.reshape(pairs, &[rows, runs / 2])
}

/// Where a step is in a row.
#[derive(Clone, Copy)]
struct Place {
    /// Its first chunk.
    chunk: Value,
    /// Its first element.
    col: Value,
}

impl<'a> Rows<'a> {
    /// Elements of a step.
    fn step(&self) -> u32 {
        self.t.chunks * CHUNK
    }

    /// Rows, with the row of x in local memory where the cut has it there: with a norm its squares come in parts, `[1, n]`.
    fn staged(b: &mut Builder, (l, t, a): Facts<'a>, token: Value, row: Value) -> (Rows<'a>, Option<Value>) {
        let mut rows = Rows { l, t, a, token, row, fixed: None };
        if !l.fixed_rows() {
            return (rows, None);
        }
        let staging = Staging { row: token, k: l.k, step: rows.step(), run: RUN, waves: t.waves };
        let (fixed, squares) = staging.stage(b, a);
        rows.fixed = Some(fixed);
        (rows, squares)
    }

    /// The sums of each matrix's rows, `[rows, 1]`, with the squares if staging has seen to them.
    fn sums(&self, b: &mut Builder, squares: Option<Value>) -> Vec<Value> {
        let mut sums = self.run_sums(b);
        let inverse = self.l.norm.and_then(|eps| Some((eps, squares.or_else(|| sums.pop())?)));
        let inverse = inverse.map(|(eps, squares)| inverse_of_squares(b, squares, self.l.k, eps.f64()));
        let finished = |(&matrix, s): (&Matrix, Value)| {
            let s = if self.fixed.is_some() { paired(b, s, matrix) } else { s };
            let sum = b.reduce(ReduceOp::Sum, s, 1);
            inverse.map_or(sum, |inverse| b.mul(sum, inverse))
        };
        self.a.weights.iter().zip(sums).map(finished).collect()
    }

    /// The sums of the runs of each matrix's rows, `[rows, runs]`, and with a norm those of the squares, `[1, runs]`, if
    /// staging has not seen to them. Where the token's elements are in local memory a program goes over one matrix after
    /// the other, and has more rows of each at once.
    fn run_sums(&self, b: &mut Builder) -> Vec<Value> {
        let weights = &self.a.weights;
        match self.fixed {
            Some(_) => weights.iter().flat_map(|w| self.sums_of(b, std::slice::from_ref(w), false)).collect(),
            None => self.sums_of(b, weights, self.l.norm.is_some()),
        }
    }

    /// Those of some matrices, and of the squares.
    fn sums_of(&self, b: &mut Builder, weights: &[Matrix], squares: bool) -> Vec<Value> {
        let (rows, step) = (self.t.rows, self.step());
        let zero = b.float(0.0, &[rows, step / RUN]);
        let mut zeros = vec![zero; weights.len()];
        // The squares' sums come last.
        if squares {
            zeros.push(b.float(0.0, &[1, step / RUN]));
        }
        // Chunks are counted rather than elements: then all that moves in the loop is a multiple of its counter.
        let (first, end) = (b.index(0), b.index(i64::from(self.l.k.div_ceil(CHUNK))));
        let by = b.index(i64::from(self.t.chunks));
        let add_step = |b: &mut Builder, chunk: Value, sums: &[Value]| {
            let size = b.index(i64::from(CHUNK));
            let col = b.mul(chunk, size);
            self.add_step(b, weights, Place { chunk, col }, sums)
        };
        if self.l.k <= step { add_step(b, first, &zeros) } else { b.for_loop([first, end, by], &zeros, add_step) }
    }

    /// Adds a step's products to the runs' sums. The token's elements are read once for all matrices.
    fn add_step(&self, b: &mut Builder, weights: &[Matrix], at: Place, sums: &[Value]) -> Vec<Value> {
        let (x, squares) = self.input(b, at);
        let matrices = weights.iter().zip(sums);
        let mut next: Vec<Value> = matrices
            .map(|(&matrix, &sum)| match matrix {
                Matrix::Quant(view, format) => self.quant_step(b, view, format, at, &x, sum),
                Matrix::Float(view) => self.float_step(b, view, at.col, &x, sum),
            })
            .collect();
        let before = sums.get(weights.len()).zip(squares);
        next.extend(before.map(|(&before, squares)| b.add(before, squares)));
        next
    }

    /// A step of the token's row, and with a norm the sums of the squares of its runs, `[1, runs]`.
    fn input(&self, b: &mut Builder, at: Place) -> (Step, Option<Value>) {
        if let Some(fixed) = &self.fixed {
            return (Step::Fixed(fixed.part(b, at.chunk, self.step())), None);
        }
        let x = match self.a.x {
            Input::F32(x) => x,
            Input::Q8 { codes, scales } => {
                let stored = self.stored_q8(b, [codes, scales], at);
                return (self.q8(b, stored), None);
            }
            Input::Q15 { .. } => unreachable!("facts with Q15 input of matrices that are not packed are refused"),
        };
        let (x, squares) = self.x(b, x, at.col);
        let step = match self.l.input {
            Output::F32 | Output::Q15 => self.f32(b, x),
            Output::Q8 => {
                let blocks = b.reshape(x, &[self.t.chunks, CHUNK]);
                let [codes, scales] = crate::row::quantize(b, blocks);
                let made = [b.reshape(codes, &[1, self.step()]), b.reshape(scales, &[1, self.t.chunks])];
                self.q8(b, made)
            }
        };
        (step, squares)
    }

    fn f32(&self, b: &mut Builder, x: Value) -> Step {
        let x = self.runs(b, x);
        let mut sum = b.slice(x, 2, 0, 1);
        for i in 1..RUN {
            let xi = b.slice(x, 2, i, 1);
            sum = b.add(sum, xi);
        }
        Step::F32 { x, sum: b.reshape(sum, &[1, self.step() / RUN]) }
    }

    /// Of codes `i8 [1, step]` and scales `f32 [1, chunks]`.
    fn q8(&self, b: &mut Builder, [codes, scales]: [Value; 2]) -> Step {
        let scale = b.repeat(scales, CHUNK / RUN);
        let ones = b.int(1, Type::new(Elem::U8, &[1, self.step()]));
        let zero = b.int(0, Type::new(Elem::I32, &[1, self.step() / 4]));
        let sum = self.dot(b, ones, codes, zero);
        Step::Q8 { codes, scale, sum: b.mul(sum, scale) }
    }

    /// Codes and scales as they are stored.
    fn stored_q8(&self, b: &mut Builder, [codes, scales]: [View; 2], Place { chunk, col }: Place) -> [Value; 2] {
        let mask = self.inside(b, col);
        let codes = b.load(codes, &[self.token, col], &[1, self.step()], mask);
        let of_chunks = mask.map(|_| below(b, chunk, self.t.chunks, self.l.k / CHUNK));
        [codes, b.load(scales, &[self.token, chunk], &[1, self.t.chunks], of_chunks)]
    }

    /// Which elements of a step are the row's; none where all are.
    fn inside(&self, b: &mut Builder, col: Value) -> Option<Value> {
        (!self.l.k.is_multiple_of(self.step())).then(|| below(b, col, self.step(), self.l.k))
    }

    /// A step of the token's `f32` row, `[1, step]`; with a norm times its weights, and the sums of the runs' squares.
    fn x(&self, b: &mut Builder, x: View, col: Value) -> (Value, Option<Value>) {
        let mask = self.inside(b, col);
        let dims = [1, self.step()];
        let v = b.load(x, &[self.token, col], &dims, mask);
        let Some(weight) = self.a.norm_weight else { return (v, None) };
        let zero = b.index(0);
        let w = b.load(weight, &[zero, col], &dims, mask);
        let runs = self.runs(b, v);
        let squares = self.products(b, runs, runs);
        (b.mul(v, w), Some(squares))
    }

    /// Runs of a tile `[rows, step]`: `[rows, runs, RUN]`.
    fn runs(&self, b: &mut Builder, v: Value) -> Value {
        let rows = b.ty(v).shape.dims()[0];
        b.reshape(v, &[rows, self.step() / RUN, RUN])
    }

    /// A group's value for each of its runs.
    fn of_runs(&self, b: &mut Builder, v: Value, format: &Format) -> Value {
        b.repeat(v, format.group / RUN)
    }

    fn quant_step(
        &self,
        b: &mut Builder,
        view: View,
        format: &'static Format,
        at: Place,
        x: &Step,
        acc: Value,
    ) -> Value {
        let (rows, chunks) = (self.t.rows, self.t.chunks);
        let at = [self.row, at.chunk];
        let codes = b.load_run(view, at, RunPart::Codes, rows, chunks);
        let scales = b.load_run(view, at, RunPart::Scales, rows, chunks);
        let scales = self.of_runs(b, scales, format);
        let offsets = format.has_offset().then(|| {
            let offsets = b.load_run(view, at, RunPart::Offsets, rows, chunks);
            self.of_runs(b, offsets, format)
        });
        match *x {
            Step::F32 { x, sum } => {
                let codes = b.convert(codes, Elem::F32);
                let codes = self.runs(b, codes);
                let products = self.products(b, codes, x);
                self.accumulate(b, acc, [products, sum], scales, offsets)
            }
            Step::Q8 { codes: x, scale, sum } => {
                let zero = b.int(0, Type::new(Elem::I32, &[rows, self.step() / 4]));
                let products = self.dot(b, codes, x, zero);
                let products = b.mul(products, scale);
                self.accumulate(b, acc, [products, sum], scales, offsets)
            }
            Step::Fixed(ref part) => {
                let codes = self.runs(b, codes);
                let [high, low] = [part.high, part.low].map(|bytes| self.runs(b, bytes));
                let zero = b.int(0, Type::new(Elem::I32, &[rows, self.step() / RUN, 1]));
                let sums = self.dots(b, codes, high, zero);
                let by = b.int(i64::from(HIGH), Type::new(Elem::I32, &[1, 1, 1]));
                let sums = b.binary(BinaryOp::Shl, sums, by);
                let sums = self.dots(b, codes, low, sums);
                let sums = b.reshape(sums, &[rows, self.step() / RUN]);
                let products = b.convert(sums, Elem::F32);
                let products = b.mul(products, part.unit);
                self.accumulate(b, acc, [products, part.sum], scales, offsets)
            }
        }
    }

    /// The sums of products of bytes over each run, `[rows, runs, RUN]`, added to `i32 [rows, runs, 1]`: exact.
    fn dots(&self, b: &mut Builder, codes: Value, x: Value, mut sums: Value) -> Value {
        for at in (0..RUN).step_by(4) {
            let [codes, x] = [codes, x].map(|bytes| b.slice(bytes, 2, at, 4));
            sums = b.dot4(codes, x, sums);
        }
        sums
    }

    /// scale * products - offset * sum, added to the accumulator.
    fn accumulate(
        &self,
        b: &mut Builder,
        acc: Value,
        [products, sum]: [Value; 2],
        scales: Value,
        offsets: Option<Value>,
    ) -> Value {
        let acc = b.fma(products, scales, acc);
        match offsets {
            Some(o) => {
                let minus = b.unary(hrx_ir::tile::UnaryOp::Neg, o);
                b.fma(minus, sum, acc)
            }
            None => acc,
        }
    }

    /// Sums of products of bytes over each run, as `f32 [rows, runs]`: exact.
    fn dot(&self, b: &mut Builder, codes: Value, x: Value, zero: Value) -> Value {
        let rows = b.ty(zero).shape.dims()[0];
        let fours = b.dot4(codes, x, zero);
        let fours = b.reshape(fours, &[rows, self.step() / RUN, RUN / 4]);
        let sums = b.reduce(ReduceOp::Sum, fours, 2);
        let sums = b.reshape(sums, &[rows, self.step() / RUN]);
        b.convert(sums, Elem::F32)
    }

    /// For each run the sum of products of w and x in order, `[rows, runs]` with the rows of w.
    fn products(&self, b: &mut Builder, w: Value, x: Value) -> Value {
        let rows = b.ty(w).shape.dims()[0];
        let (w0, x0) = (b.slice(w, 2, 0, 1), b.slice(x, 2, 0, 1));
        let mut sum = b.mul(w0, x0);
        for i in 1..RUN {
            let (wi, xi) = (b.slice(w, 2, i, 1), b.slice(x, 2, i, 1));
            sum = b.fma(wi, xi, sum);
        }
        b.reshape(sum, &[rows, self.step() / RUN])
    }

    fn float_step(&self, b: &mut Builder, view: View, col: Value, x: &Step, acc: Value) -> Value {
        let mask = self.inside(b, col);
        let w = b.load(view, &[self.row, col], &[self.t.rows, self.step()], mask);
        let w = b.convert(w, Elem::F32);
        let w = self.runs(b, w);
        let Step::F32 { x, .. } = *x else { unreachable!("facts with float weights and Q8 input are refused") };
        let products = self.products(b, w, x);
        b.add(acc, products)
    }

    /// Finishes and stores the outputs.
    fn store(&self, b: &mut Builder, [token, first]: [Value; 2], of: Option<Chosen>, sums: &[Value]) {
        let (l, a, rows) = (self.l, self.a, self.t.rows);
        let bias_row = of.map_or_else(|| b.index(0), |c| c.expert);
        let mask = (!l.n.is_multiple_of(rows)).then(|| {
            let iota = b.iota(rows);
            let at = b.add(iota, first);
            let end = b.int(i64::from(l.n), Type::new(Elem::I32, &[rows]));
            let m = b.cmp(CmpOp::Lt, at, end);
            b.reshape(m, &[1, rows])
        });
        let line = |b: &mut Builder, v: Value| b.reshape(v, &[1, rows]);
        let mut y = line(b, sums[0]);
        if let Some(scale) = a.expert_scale(b, of) {
            y = b.mul(y, scale);
        }
        let up = sums.get(1).map(|&u| line(b, u));
        let bias = a.bias.map(|bias| b.load(bias, &[bias_row, first], &[1, rows], mask));
        let residual = |b: &mut Builder| a.residual.map(|r| b.load(r, &[token, first], &[1, rows], mask));
        let y = l.finished(b, y, up, bias, residual);
        a.out.store(b, [token, first], y, mask, l.n);
    }
}
