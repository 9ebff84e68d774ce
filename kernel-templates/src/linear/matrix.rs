//! A tile of outputs of many tokens with the matrix unit, or of `f32` weights without it.
//!
//! Steps along K lie in local memory twice: while the matrix unit works on one, the next is read, dequantised and stored
//! as `f16` beside it. Rows there are a little longer than what they hold, so that lanes which read one column of rows
//! find them in different banks.
//!
//! `f32` weights stay what they are: steps lie in local memory as `f32`, and products are added in rising order.
//!
//! For the matrix unit activations are multiplied by 2^-6 on their way to `f16` and sums by 2^6 behind: exact, and the range of `f16` then
//! reaches to four million.

use super::dot::{Input, Matrix};
use super::experts::Chosen;
use super::{Args, Linear, MatrixTiling, rows_from};
use crate::emit::{places, scaled, shifted_right, times};
use crate::row::RowSink;
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::{BinaryOp, Builder, CmpOp, Elem, GridExpr, RunPart, Type, Value, View};

/// What activations are multiplied by for the matrix unit.
const SCALE: f64 = 1.0 / 64.0;

/// Elements of K of `f32` factors that lanes have in registers at once.
const EXACT_PIECE: u32 = 8;

/// Elements between the end of a row in local memory and the start of the next: 16 bytes.
pub(crate) const PAD: u32 = 8;

/// Emits the kernel's body.
pub(super) fn emit(b: &mut Builder, l: &Linear, t: &MatrixTiling, a: &Args) {
    b.waves(t.waves);
    b.grid(0, GridExpr::ceil_div(l.n, t.n));
    let (column, row) = (b.program_id(0), b.program_id(1));
    let first = times(b, column, t.n);
    let exact = l.has_f32_weights();
    let elem = if exact { Elem::F32 } else { Elem::F16 };
    let x = b.local_padded(elem, &[2, t.m, t.k], PAD);
    let weights: Vec<View> = a.weights.iter().map(|_| b.local_padded(elem, &[2, t.n, t.k], PAD)).collect();
    if let Some(experts) = l.experts.filter(|e| e.grouped) {
        b.grid(1, GridExpr::constant(experts.count));
        let Some((list, count)) = a.experts.as_ref().and_then(|args| experts.group(b, args, row)) else { return };
        let of = Chosen { expert: row, first: times(b, row, l.n), x_row: row };
        let outputs = rows_from(b, first, t.n, l.n, Some(of.first));
        let (zero, step) = (b.index(0), b.index(i64::from(t.m)));
        b.for_loop([zero, count, step], &[], |b, at, _| {
            let (place, clamped) = places(b, at, t.m, count);
            let rows = b.load(list, &[row, clamped], &[1, t.m], None);
            let rows = b.reshape(rows, &[t.m]);
            let tokens = experts.x_rows(b, rows);
            let tile = Tile { l, t, a, tokens, outputs, x, weights: weights.clone(), exact, of: Some(of) };
            let sums = tile.sums(b);
            tile.store(b, [rows, first], [place, count], &sums);
            vec![]
        });
        return;
    }
    b.grid(1, GridExpr::ceil_div(a.n_tokens, t.m));
    let first_token = times(b, row, t.m);
    let (place, tokens) = places(b, first_token, t.m, a.n_tokens);
    let outputs = rows_from(b, first, t.n, l.n, None);
    let tile = Tile { l, t, a, tokens, outputs, x, weights, exact, of: None };
    let sums = tile.sums(b);
    tile.store(b, [first_token, first], [place, a.n_tokens], &sums);
}

struct Tile<'a> {
    l: &'a Linear,
    t: &'a MatrixTiling,
    a: &'a Args,
    /// Rows of tokens and of outputs, as loads take them.
    tokens: Value,
    outputs: Value,
    /// Local memory `[2, rows, k]` for the activations and for each matrix.
    x: View,
    weights: Vec<View>,
    /// Whether they are `f32`, and not `f16`.
    exact: bool,
    /// The expert whose matrix it is.
    of: Option<Chosen>,
}

impl Tile<'_> {
    /// The sums of each matrix, `f32 [m, n]`.
    fn sums(&self, b: &mut Builder) -> Vec<Value> {
        let (t, k) = (self.t, self.l.k);
        let zero = b.index(0);
        // The loop has one turn more than there are steps: the first multiplies zeros, so that staging stands in one
        // place; the last one stages what nobody reads.
        let zeros: Vec<Value> = std::iter::once(t.m)
            .chain(self.weights.iter().map(|_| t.n))
            .map(|rows| {
                let zeros = b.float(0.0, &[rows, t.k]);
                self.factor(b, zeros)
            })
            .collect();
        self.put(b, &zeros, zero);
        let last = (k - 1) / t.k * t.k;
        let (end, step) = (b.index(i64::from(last + 2 * t.k)), b.index(i64::from(t.k)));
        let last = b.index(i64::from(last));
        let mut inits = vec![zero];
        inits.extend(self.weights.iter().map(|_| b.float(0.0, &[t.m, t.n])));
        let out = b.for_loop([zero, end, step], &inits, |b, col, carried| {
            let half = carried[0];
            let one = b.index(1);
            let other = b.sub(one, half);
            // What is loaded here is stored behind the products of the step before.
            let next = b.min(col, last);
            let next = self.load(b, next);
            let mut carried_on = vec![other];
            carried_on.extend(self.multiplied(b, half, &carried[1..]));
            self.put(b, &next, other);
            carried_on
        });
        out[1..].to_vec()
    }

    /// The products of a half of local memory, added to the sums of each matrix.
    fn multiplied(&self, b: &mut Builder, half: Value, sums: &[Value]) -> Vec<Value> {
        let t = self.t;
        let mut sums = sums.to_vec();
        let piece = if self.exact { EXACT_PIECE } else { t.k };
        for at in (0..t.k).step_by(piece as usize) {
            let x = self.staged(b, self.x, half, [t.m, at, piece]);
            for (&view, sum) in self.weights.iter().zip(&mut sums) {
                let w = self.staged(b, view, half, [t.n, at, piece]);
                *sum = match self.exact {
                    true => {
                        let w = b.transpose(w);
                        b.dot(x, w, *sum)
                    }
                    false => b.mma(x, w, *sum),
                };
            }
        }
        sums
    }

    fn staged(&self, b: &mut Builder, view: View, half: Value, [rows, at, k]: [u32; 3]) -> Value {
        let (zero, at) = (b.index(0), b.index(i64::from(at)));
        let v = b.load(view, &[half, zero, at], &[1, rows, k], None);
        b.reshape(v, &[rows, k])
    }

    /// What activations are multiplied by.
    fn scale(&self) -> f64 {
        if self.exact { 1.0 } else { SCALE }
    }

    /// A factor of products as it lies in local memory.
    fn factor(&self, b: &mut Builder, v: Value) -> Value {
        b.convert(v, if self.exact { Elem::F32 } else { Elem::F16 })
    }

    fn put(&self, b: &mut Builder, staged: &[Value], half: Value) {
        let zero = b.index(0);
        for (&view, &v) in std::iter::once(&self.x).chain(&self.weights).zip(staged) {
            let rows = b.ty(v).shape.dims()[0];
            let v = b.reshape(v, &[1, rows, self.t.k]);
            b.store(view, &[half, zero, zero], v, None);
        }
    }

    /// A step's activations and weights, `[rows, k]`; beyond the row's end zeros.
    fn load(&self, b: &mut Builder, col: Value) -> Vec<Value> {
        let (t, k) = (self.t, self.l.k);
        let mask = (!k.is_multiple_of(t.k)).then(|| {
            let chunks = t.k / CHUNK;
            let (iota, first) = (b.iota(chunks), shifted_right(b, col, CHUNK.trailing_zeros()));
            let at = b.add(iota, first);
            let end = b.int(i64::from(k / CHUNK), Type::new(Elem::I32, &[chunks]));
            let m = b.cmp(CmpOp::Lt, at, end);
            let m = b.repeat(m, CHUNK);
            b.reshape(m, &[1, t.k])
        });
        let Input::F32(x) = self.a.x else { unreachable!("a tile is made of f32 rows") };
        let x = b.load(x, &[self.tokens, col], &[t.m, t.k], mask);
        let x = scaled(b, self.scale(), x);
        let mut out = vec![self.factor(b, x)];
        for &matrix in &self.a.weights {
            let w = match matrix {
                Matrix::Quant(view, _) => {
                    let chunk = shifted_right(b, col, CHUNK.trailing_zeros());
                    b.load_run(view, [self.outputs, chunk], RunPart::Values, t.n, t.k / CHUNK)
                }
                Matrix::Float(view) => b.load(view, &[self.outputs, col], &[t.n, t.k], mask),
            };
            // bfloat16 is exact in f32, and what of it f16 can't hold is no weight.
            let w = if b.ty(w).elem == Elem::BF16 { b.convert(w, Elem::F32) } else { w };
            out.push(self.factor(b, w));
        }
        out
    }

    /// Finishes and stores the outputs at some rows, those whose place is below `count`.
    fn store(&self, b: &mut Builder, [rows, first]: [Value; 2], [place, count]: [Value; 2], sums: &[Value]) {
        let (l, t, a) = (self.l, self.t, self.a);
        let places = b.reshape(place, &[t.m, 1]);
        let mut mask = b.cmp(CmpOp::Lt, places, count);
        let mut columns = None;
        if !l.n.is_multiple_of(t.n) {
            let (iota, end) = (b.iota(t.n), b.int(i64::from(l.n), Type::new(Elem::I32, &[t.n])));
            let at = b.add(iota, first);
            let m = b.cmp(CmpOp::Lt, at, end);
            let m = b.reshape(m, &[1, t.n]);
            columns = Some(m);
            mask = b.binary(BinaryOp::And, mask, m);
        }
        let back = 1.0 / self.scale();
        let mut y = scaled(b, back, sums[0]);
        if let Some(scale) = a.expert_scale(b, self.of) {
            y = b.mul(y, scale);
        }
        let up = sums.get(1).map(|&u| scaled(b, back, u));
        let bias_row = self.of.map_or_else(|| b.index(0), |c| c.expert);
        let bias = a.bias.map(|bias| b.load(bias, &[bias_row, first], &[1, t.n], columns));
        let residual = |b: &mut Builder| a.residual.map(|r| b.load(r, &[rows, first], &[t.m, t.n], Some(mask)));
        let y = l.finished(b, y, up, bias, residual);
        if let RowSink::F32(out) = a.out {
            b.store(out, &[rows, first], y, Some(mask));
        }
    }
}
