//! Products with weight matrices: matvec and matmul are one template.
//!
//! A program computes `program_rows` outputs for `tokens` tokens. It goes through its outputs `rows` at a time; each
//! group of rows is one loop along K ([`dot`]) whose sums land in local memory. The epilogue then takes them from there
//! in pieces of 32, which is what the output's blocks are made of.

mod dot;

use crate::Template;
use crate::emit::{activation, below, clamped, plus, scaled, softcap, times};
use crate::facts::{Activation, Output, Real, TargetShape, TemplateError, WeightType};
use crate::norm::{inverse_rms, normed};
use crate::row::{PIECE, RowSink, check_output, for_pieces};
use crate::slot::{Interface, Slot, declare, slots_of};
use dot::{Input, Lanes, Matrix};
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::{Access, Builder, Elem, GridExpr, Kernel, Value, View};

/// The second matrix of a gated layer: the result is act(x · gate) * (x · up).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gated {
    /// The type of the matrix that the gate multiplies. Quantised if the gate's is; the formats may differ.
    pub up: WeightType,
    /// The function on the gate.
    pub activation: Activation,
}

/// y = x · Wᵀ for W `[n, k]`, with what comes before and after it.
///
/// The result is `residual + softcap(scale * (act(x·W0ᵀ) * (x·W1ᵀ) or x·W0ᵀ + bias))`, where each part is optional.
///
/// Slots: NTokens; X `f32 [T, k]` for `f32` input or a norm, else XCodes and XScales; with `norm` NormWeight `f32 [k]`;
/// Weight(0) `[n, k]`; with `gated` Weight(1) `[n, k]`; with `bias` Bias `f32 [n]`; with `residual` Residual
/// `f32 [T, n]`; Out `f32 [T, n]`, or OutCodes and OutScales. Residual may be the same memory as Out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Linear {
    /// Outputs: any number; for Q8 output a multiple of `tiling.program_rows`.
    pub n: u32,
    /// Inputs: for quantised weights a whole number of blocks.
    pub k: u32,
    /// The type of the (gate's) matrix.
    pub weight: WeightType,
    /// In which form x is read: `f32` by any weights, Q8 by quantised ones. Products with Q8 are sums of integers; those
    /// with `f32` leave no rounding of activations, and take about as long where there is no dot instruction for bytes.
    pub input: Output,
    /// The second matrix, if any.
    pub gated: Option<Gated>,
    /// The eps of an RMS norm of x, with the same result bit for bit as [`RmsNorm`](crate::RmsNorm) before this kernel.
    /// Each program norms its row, so this is for one token at a time.
    pub norm: Option<Real>,
    /// Whether a bias is added; not with `gated`.
    pub bias: bool,
    /// What the result is multiplied by.
    pub scale: Option<Real>,
    /// The cap of cap * tanh(y / cap).
    pub softcap: Option<Real>,
    /// Whether rows are added to the result; `f32` output only.
    pub residual: bool,
    /// The form of the result.
    pub output: Output,
    /// How the work is cut.
    pub tiling: LinearTiling,
}

/// How the work of a [`Linear`] is cut. The result does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinearTiling {
    /// Tokens of a program.
    pub tokens: u32,
    /// Outputs that are summed together: the accumulators are `rows * tokens * 8` lanes of f32.
    pub rows: u32,
    /// Outputs of a program: a multiple of 32 and of `rows`.
    pub program_rows: u32,
    /// Steps along K that are unrolled, of 32 elements each (K-quants: always a block of 256; floats: 8 elements each).
    pub unroll: u32,
}

impl LinearTiling {
    /// A tiling for launches of about this many tokens.
    pub fn choose(shape: &TargetShape, tokens: u32) -> LinearTiling {
        // Half the registers accumulate; the others hold codes, scales and products.
        let accumulator = dot::LANES.div_ceil(shape.lanes.max(1));
        let budget = (shape.registers / 2 / accumulator).max(1);
        let power = |n: u32| 1 << n.max(1).ilog2();
        let tokens = power(tokens.min(budget / 2).min(4));
        let rows = power((budget / tokens).min(4));
        LinearTiling { tokens, rows, program_rows: PIECE, unroll: 2 }
    }
}

struct Args {
    n_tokens: Value,
    x: Input,
    norm_weight: Option<View>,
    weights: Vec<Matrix>,
    bias: Option<View>,
    residual: Option<View>,
    out: RowSink,
}

const FAMILY: &str = "matmul";

impl Linear {
    /// A plain product with nothing before or after it.
    pub fn new(n: u32, k: u32, weight: WeightType, tiling: LinearTiling) -> Linear {
        Linear {
            n,
            k,
            weight,
            input: Linear::input(weight),
            gated: None,
            norm: None,
            bias: false,
            scale: None,
            softcap: None,
            residual: false,
            output: Output::F32,
            tiling,
        }
    }

    /// The smallest form of activations that kernels with this weight type can read.
    pub fn input(weight: WeightType) -> Output {
        match weight {
            WeightType::Quant(_) => Output::Q8,
            WeightType::Float(_) => Output::F32,
        }
    }

    fn check(&self) -> Result<(), TemplateError> {
        let unless = |ok, fact: String, reason| TemplateError::unless(ok, FAMILY, fact, reason);
        let t = &self.tiling;
        check_output(FAMILY, self.output, self.n)?;
        self.weight.check(FAMILY, self.k)?;
        let small = t.tokens > 0 && t.rows > 0 && t.unroll > 0 && t.tokens <= 64 && t.rows <= 64 && t.unroll <= 64;
        unless(small, format!("{t:?}"), "tokens, rows and unroll are 1 to 64")?;
        let whole = t.program_rows > 0 && t.program_rows.is_multiple_of(PIECE) && t.program_rows.is_multiple_of(t.rows);
        unless(
            whole && t.program_rows <= 1024,
            format!("{t:?}"),
            "program_rows is a multiple of 32 and of rows, at most 1024",
        )?;
        if self.output == Output::Q8 {
            unless(
                self.n.is_multiple_of(t.program_rows),
                format!("Q8 output of n = {}", self.n),
                "programs write whole blocks",
            )?;
            unless(!self.residual, "Q8 output with a residual".into(), "the sum is needed in f32")?;
        }
        if let Some(g) = &self.gated {
            g.up.check(FAMILY, self.k)?;
            unless(!self.bias, "a gated product with a bias".into(), "no model has one")?;
        }
        let readable = self.input == Output::F32 || self.weight_types().all(|w| Linear::input(w) == Output::Q8);
        let names: Vec<&str> = self.weight_types().map(|w| w.name()).collect();
        unless(readable, format!("Q8 input of {}", names.join(" and ")), "float weights read f32")?;
        unless(self.norm.is_none() || t.tokens == 1, format!("norm with {} tokens", t.tokens), "programs norm one row")
    }

    fn weight_types(&self) -> impl Iterator<Item = WeightType> {
        [Some(self.weight), self.gated.as_ref().map(|g| g.up)].into_iter().flatten()
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let (t, n, k) = (n_tokens.into(), self.n.into(), self.k.into());
        let x = match self.input {
            Output::Q8 if self.norm.is_none() => Input::Q8 {
                codes: i.view(Slot::XCodes, Elem::I8, &[t, k], Access::In),
                scales: i.view(Slot::XScales, Elem::F32, &[t, (self.k / CHUNK).into()], Access::In),
            },
            _ => Input::F32(i.view(Slot::X, Elem::F32, &[t, k], Access::In)),
        };
        Args {
            n_tokens,
            x,
            norm_weight: self.norm.map(|_| i.view(Slot::NormWeight, Elem::F32, &[1.into(), k], Access::In)),
            weights: self.weight_types().zip(0..).map(|(w, at)| Matrix::declare(i, at, w, self.n, self.k)).collect(),
            bias: self.bias.then(|| i.view(Slot::Bias, Elem::F32, &[1.into(), n], Access::In)),
            residual: self.residual.then(|| i.view(Slot::Residual, Elem::F32, &[t, n], Access::In)),
            out: RowSink::declare(i, self.output, t, self.n),
        }
    }

    /// Norms the program's row into local memory, in the form that the weights read.
    fn norm_row(&self, b: &mut Builder, x: View, weight: View, row: Value, eps: Real) -> Input {
        let local = RowSink::local(b, self.input, self.k);
        let inverse = inverse_rms(b, x, row, self.k, eps.f64());
        let zero = b.index(0);
        for_pieces(b, self.k, &[], |b, col, mask, _| {
            let y = normed(b, [x, weight], [row, col], inverse, mask);
            local.store(b, [zero, col], y, mask);
            vec![]
        });
        match local {
            RowSink::F32(x) => Input::F32(x),
            RowSink::Q8 { codes, scales } => Input::Q8 { codes, scales },
        }
    }

    /// The sums of the program's outputs from `first` on, in local memory `f32 [tokens, program_rows]` for each matrix.
    fn sums(&self, b: &mut Builder, a: &Args, x: Input, tokens: &[Value], first: Value) -> Vec<View> {
        let t = &self.tiling;
        let locals: Vec<View> = a.weights.iter().map(|_| b.local(Elem::F32, &[t.tokens, t.program_rows])).collect();
        let (zero, all, step) = (b.index(0), b.index(i64::from(t.program_rows)), b.index(i64::from(t.rows)));
        let mut end = all;
        if !self.n.is_multiple_of(t.program_rows) {
            let n = b.index(i64::from(self.n));
            let rest = b.sub(n, first);
            end = b.min(all, rest);
            let zeros = b.float(0.0, &[t.tokens, t.program_rows]);
            locals.iter().for_each(|&l| b.store(l, &[zero, zero], zeros, None));
        }
        b.for_loop([zero, end, step], &[], |b, at, _| {
            let row = b.add(first, at);
            let rows = Lanes { index: self.rows_from(b, row), count: t.rows };
            for (matrix, &local) in a.weights.iter().zip(&locals) {
                let sums = matrix.dot(b, rows, x, tokens, self.k, t.unroll);
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

    /// The rows of a group: consecutive ones where n has whole groups, else clamped to the last one.
    fn rows_from(&self, b: &mut Builder, row: Value) -> Value {
        let rows = self.tiling.rows;
        if self.n.is_multiple_of(rows) {
            return row;
        }
        let (iota, last) = (b.iota(rows), b.index(i64::from(self.n) - 1));
        let at = b.add(iota, row);
        b.min(at, last)
    }

    /// Finishes and stores the outputs of one token.
    fn epilogue(&self, b: &mut Builder, a: &Args, locals: &[View], [at, token, first]: [Value; 3]) {
        let zero = b.index(0);
        for p in (0..self.tiling.program_rows).step_by(PIECE as usize) {
            let col = plus(b, first, p);
            let mask = (!self.n.is_multiple_of(self.tiling.program_rows)).then(|| below(b, col, PIECE, self.n));
            let p = b.index(i64::from(p));
            let mut y = b.load(locals[0], &[at, p], &[1, PIECE], None);
            if let Some(bias) = a.bias {
                let v = b.load(bias, &[zero, col], &[1, PIECE], mask);
                y = b.add(y, v);
            }
            if let Some(g) = &self.gated {
                let up = b.load(locals[1], &[at, p], &[1, PIECE], None);
                let gate = activation(b, g.activation, y);
                y = b.mul(gate, up);
            }
            if let Some(s) = self.scale {
                y = scaled(b, s.f64(), y);
            }
            if let Some(c) = self.softcap {
                y = softcap(b, c.f64(), y);
            }
            if let Some(residual) = a.residual {
                let r = b.load(residual, &[token, col], &[1, PIECE], mask);
                y = b.add(y, r);
            }
            a.out.store(b, [token, col], y, mask);
        }
    }
}

impl Template for Linear {
    fn name(&self) -> String {
        let t = &self.tiling;
        let mut name = format!("{FAMILY}_{}", self.weight.name());
        if let Some(g) = &self.gated {
            name += &format!("_{}_{}", g.activation.tag(), g.up.name());
        }
        name += &format!("_n{}_k{}_t{}r{}", self.n, self.k, t.tokens, t.rows);
        if t.program_rows != PIECE {
            name += &format!("_p{}", t.program_rows);
        }
        if t.unroll != 1 {
            name += &format!("_u{}", t.unroll);
        }
        if self.input != Linear::input(self.weight) {
            name += "_xf32";
        }
        if let Some(eps) = self.norm {
            name += &format!("_norm{}", eps.tag());
        }
        name += if self.bias { "_bias" } else { "" };
        if let Some(s) = self.scale {
            name += &format!("_scale{}", s.tag());
        }
        if let Some(c) = self.softcap {
            name += &format!("_cap{}", c.tag());
        }
        name += if self.residual { "_res" } else { "" };
        name + self.output.tag()
    }

    fn slots(&self) -> Vec<Slot> {
        slots_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.check()?;
        let t = &self.tiling;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.grid(0, GridExpr::ceil_div(self.n, t.program_rows));
        b.grid(1, GridExpr::ceil_div(a.n_tokens, t.tokens));
        let (program, group) = (b.program_id(0), b.program_id(1));
        let first = times(&mut b, program, t.program_rows);
        if t.tokens == 1 {
            let zero = b.index(0);
            let (x, row) = match (self.norm, a.norm_weight, a.x) {
                (Some(eps), Some(w), Input::F32(x)) => (self.norm_row(&mut b, x, w, group, eps), zero),
                _ => (a.x, group),
            };
            let locals = self.sums(&mut b, &a, x, &[row], first);
            self.epilogue(&mut b, &a, &locals, [zero, group, first]);
        } else {
            let first_token = times(&mut b, group, t.tokens);
            let tokens: Vec<Value> = (0..t.tokens).map(|i| clamped(&mut b, first_token, i, a.n_tokens)).collect();
            let locals = self.sums(&mut b, &a, a.x, &tokens, first);
            let rest = b.sub(a.n_tokens, first_token);
            let (zero, one, all) = (b.index(0), b.index(1), b.index(i64::from(t.tokens)));
            let end = b.min(all, rest);
            b.for_loop([zero, end, one], &[], |b, at, _| {
                let token = b.add(first_token, at);
                self.epilogue(b, &a, &locals, [at, token, first]);
                vec![]
            });
        }
        Ok(b.finish())
    }
}
