//! Products with weight matrices: matvec and matmul are one template, cut in one of four ways.
//!
//! * [`vectors`]: a program has some outputs of some tokens, summed a few rows at a time: for processors.
//! * [`panels`]: the same with matrices packed for the vectors: rows in lanes.
//! * [`rows`]: a workgroup's lanes share the rows of a matrix for one token: for decoding on GPUs.
//! * [`matrix`]: a workgroup makes a tile of outputs of many tokens with the matrix unit: for prefill on GPUs.
//!
//! What comes behind the sums is one [`epilogue`](Linear::finished) for all.

mod cut;
mod dot;
mod experts;
mod fixed;
mod matrix;
mod matrix_cut;
mod panel_cut;
mod panels;
mod rows;
mod rows_cut;
mod vectors;

pub use cut::{LinearCut, LinearTiling};
pub use experts::Experts;
pub(crate) use matrix::PAD;
pub use matrix_cut::MatrixTiling;
pub use panel_cut::PanelTiling;
pub use rows_cut::RowsTiling;

use crate::Template;
use crate::emit::{activation, scaled, softcap};
use crate::facts::{Activation, Output, Real, TemplateError, WeightType};
use crate::row::{RowSink, check_output};
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use dot::{Input, Matrix};
use experts::ExpertArgs;
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::{Access, Builder, Elem, Kernel, Value, View};

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
/// `f32 [T, n]`; Out `f32 [T, n]`, or OutCodes and OutScales.
///
/// With `experts` T is the number of tokens times the experts of one, and the product is with the matrices of the row's
/// expert. Then there are also, behind NTokens, NRows: the number of tokens; behind x Routes `f32 [NRows, 2 * used]`, or with
/// `routing` Logits `f32 [NRows, count]` and Choice, which gets what Routes would be, and
/// ExpertScale `f32 [count]`, and for `grouped` ExpertRows `i32 [count, NRows]` and Counts `i32 [count]` instead of Routes; X is `f32 [NRows, k]`, or `own` `f32 [T, k]`; matrices are `[count * n, k]`, Bias
/// `f32 [count, n]`. The scale comes before the bias. For `summed` Out is `f32 [NRows, n]`, as is Residual.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Linear {
    /// Outputs: any number; for Q8 or Q15 output a multiple of `tiling.program_rows`.
    pub n: u32,
    /// Inputs: for quantised weights a whole number of blocks.
    pub k: u32,
    /// The type of the (gate's) matrix.
    pub weight: WeightType,
    /// In which form x is read: `f32` by any weights, Q8 by quantised ones, Q15 by those of them that are packed. Products
    /// with Q8 and Q15 are sums of integers; those with `f32` leave no rounding of activations, and take about as long as
    /// those with Q8 where there is no dot instruction for bytes.
    pub input: Output,
    /// The second matrix, if any.
    pub gated: Option<Gated>,
    /// The eps of an RMS norm of x, with the same result bit for bit as [`RmsNorm`](crate::RmsNorm) before this kernel.
    /// Each program norms its row, so this is for one token at a time.
    pub norm: Option<Real>,
    /// Products with chosen experts' matrices.
    pub experts: Option<Experts>,
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
    pub tiling: LinearCut,
}

struct Args {
    /// Rows of the result.
    n_tokens: Value,
    x: Input,
    norm_weight: Option<View>,
    experts: Option<ExpertArgs>,
    /// The matrices, those that are packed for panels apart.
    weights: Vec<Matrix>,
    packed: Vec<panels::Matrix>,
    bias: Option<View>,
    residual: Option<View>,
    out: RowSink,
}

impl Args {
    /// The factor of a row's expert, `[1, 1]`.
    fn expert_scale(&self, b: &mut Builder, of: Option<experts::Chosen>) -> Option<Value> {
        let (view, chosen) = (self.experts.as_ref()?.scale?, of?);
        let zero = b.index(0);
        Some(b.load(view, &[zero, chosen.expert], &[1, 1], None))
    }
}

const FAMILY: &str = "matmul";

impl Linear {
    /// A plain product with nothing before or after it.
    pub fn new(n: u32, k: u32, weight: WeightType, tiling: impl Into<LinearCut>) -> Linear {
        Linear {
            n,
            k,
            weight,
            input: Linear::input(weight),
            gated: None,
            norm: None,
            experts: None,
            bias: false,
            scale: None,
            softcap: None,
            residual: false,
            output: Output::F32,
            tiling: tiling.into(),
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
        check_output(FAMILY, self.output, self.n)?;
        self.weight.check(FAMILY, self.k)?;
        let whole = self.tiling.check(self)?;
        self.experts.map_or(Ok(()), |e| e.check(self))?;
        if self.output != Output::F32 {
            let fact = |of: &str| format!("{:?} output {of}", self.output);
            unless(self.n.is_multiple_of(whole), fact(&format!("of n = {}", self.n)), "programs write whole blocks")?;
            unless(!self.residual, fact("with a residual"), "the sum is needed in f32")?;
        }
        if let Some(g) = &self.gated {
            g.up.check(FAMILY, self.k)?;
            unless(!self.bias, "a gated product with a bias".into(), "no model has one")?;
        }
        let readable = self.input == Output::F32 || self.weight_types().all(|w| Linear::input(w) == Output::Q8);
        let names: Vec<&str> = self.weight_types().map(|w| w.name()).collect();
        let fact = || format!("{:?} input of {}", self.input, names.join(" and "));
        unless(readable, fact(), "float weights read f32")?;
        let packed = matches!(self.tiling, LinearCut::Panels(_));
        unless(self.input != Output::Q15 || packed, fact(), "only packed matrices read it")?;
        let tokens = self.tiling.tokens();
        unless(self.norm.is_none() || tokens == 1, format!("norm with {tokens} tokens"), "programs norm one row")
    }

    /// Whether rows of x are made numbers in local memory.
    fn fixed_rows(&self) -> bool {
        let quantised = self.weight_types().all(|w| matches!(w, WeightType::Quant(_)));
        matches!(self.tiling, LinearCut::Rows(t) if t.fixed) && quantised && self.input == Output::F32
    }

    /// Whether a matrix has weights of `f32`, which nothing rounds.
    fn has_f32_weights(&self) -> bool {
        self.weight_types().any(|w| w == WeightType::Float(Elem::F32))
    }

    fn weight_types(&self) -> impl Iterator<Item = WeightType> {
        [Some(self.weight), self.gated.as_ref().map(|g| g.up)].into_iter().flatten()
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let (t, n, k) = (n_tokens.into(), self.n.into(), self.k.into());
        let [n_rows, x_rows] = self.experts.map_or([n_tokens; 2], |e| e.declare_rows(i, n_tokens));
        let rows = x_rows.into();
        let x = match (self.input, &self.tiling) {
            // By chunk or step, so that places in it are constants of the code.
            (form @ (Output::Q8 | Output::Q15), LinearCut::Panels(_)) => {
                let (chunks, bytes) = (self.k / CHUNK, CHUNK * form.bytes());
                let dims = [rows, chunks.into(), bytes.into()];
                let strides = [self.k.saturating_mul(form.bytes()).into(), bytes.into(), 1.into()];
                let codes = i.strided(Slot::XCodes, Elem::I8, &dims, &strides, Access::In);
                let scales = i.view(Slot::XScales, Elem::F32, &[rows, chunks.into()], Access::In);
                match form {
                    Output::Q15 => Input::Q15 { codes, scales },
                    _ => Input::Q8 { codes, scales },
                }
            }
            (Output::F32, LinearCut::Panels(_)) => {
                let step = panels::STEP;
                let (dims, strides) = ([rows, (self.k / step).into(), step.into()], [k, step.into(), 1.into()]);
                Input::F32(i.strided(Slot::X, Elem::F32, &dims, &strides, Access::In))
            }
            (Output::Q8, _) if self.norm.is_none() => Input::Q8 {
                codes: i.view(Slot::XCodes, Elem::I8, &[t, k], Access::In),
                scales: i.view(Slot::XScales, Elem::F32, &[t, (self.k / CHUNK).into()], Access::In),
            },
            _ => Input::F32(i.view(Slot::X, Elem::F32, &[x_rows.into(), k], Access::In)),
        };
        let norm_weight = self.norm.map(|_| i.view(Slot::NormWeight, Elem::F32, &[1.into(), k], Access::In));
        let experts = self.experts.map(|e| e.declare(i, n_rows));
        let results = if self.experts.is_some_and(|e| e.summed) { n_rows } else { n_tokens };
        let count = self.experts.map_or(1, |e| e.count);
        let rows = self.n.saturating_mul(count);
        let types = self.weight_types().zip(0..);
        let (mut weights, mut packed) = (Vec::new(), Vec::new());
        match &self.tiling {
            LinearCut::Panels(p) => {
                packed.extend(types.map(|(w, at)| panels::Matrix::declare(i, at, w, p.panels, [rows, self.k])))
            }
            _ => weights.extend(types.map(|(w, at)| Matrix::declare(i, at, w, rows, self.k))),
        }
        Args {
            n_tokens: results,
            x,
            norm_weight,
            experts,
            weights,
            packed,
            bias: self.bias.then(|| i.view(Slot::Bias, Elem::F32, &[count.into(), n], Access::In)),
            residual: self.residual.then(|| i.view(Slot::Residual, Elem::F32, &[results.into(), n], Access::In)),
            out: RowSink::declare(i, self.output, results.into(), self.n),
        }
    }

    /// What a row of the launch is about, where it is an expert's.
    fn chosen(&self, b: &mut Builder, a: &Args, row: Value) -> Option<experts::Chosen> {
        let (experts, args) = (self.experts.as_ref()?, a.experts.as_ref()?);
        Some(experts.chosen(b, args, row, self.n))
    }

    /// What comes behind the sums: `y` and with a gate `up`, of one shape, become the result. `bias` and `residual` give the
    /// tiles that are added, if any.
    fn finished(
        &self,
        b: &mut Builder,
        mut y: Value,
        up: Option<Value>,
        bias: Option<Value>,
        residual: impl FnOnce(&mut Builder) -> Option<Value>,
    ) -> Value {
        if let Some(v) = bias {
            y = b.add(y, v);
        }
        if let (Some(g), Some(up)) = (&self.gated, up) {
            let gate = activation(b, g.activation, y);
            y = b.mul(gate, up);
        }
        if let Some(s) = self.scale {
            y = scaled(b, s.f64(), y);
        }
        if let Some(c) = self.softcap {
            y = softcap(b, c.f64(), y);
        }
        match residual(b) {
            Some(r) => b.add(y, r),
            None => y,
        }
    }
}

impl Template for Linear {
    fn name(&self) -> String {
        let mut name = format!("{FAMILY}_{}", self.weight.name());
        if let Some(g) = &self.gated {
            name += &format!("_{}_{}", g.activation.tag(), g.up.name());
        }
        name += &format!("_n{}_k{}{}", self.n, self.k, self.tiling.tag());
        if self.input != Linear::input(self.weight) {
            name += if self.input == Output::F32 { "_xf32" } else { "_xq15" };
        }
        if let Some(eps) = self.norm {
            name += &format!("_norm{}", eps.tag());
        }
        name += &self.experts.map_or(String::new(), |e| e.tag());
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

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        self.check()?;
        let mut b = Builder::new(self.name());
        let mut a = declare(&mut b, |i| self.declare(i));
        match &self.tiling {
            LinearCut::Vectors(t) => vectors::emit(&mut b, self, t, &a),
            LinearCut::Panels(t) => panels::emit(&mut b, self, t, &a),
            LinearCut::Rows(t) => rows::emit(&mut b, self, t, &mut a),
            LinearCut::Matrix(t) => matrix::emit(&mut b, self, t, &a),
        }
        Ok(b.finish())
    }
}

/// The rows from `row` on of those that begin at `base`: consecutive ones where `n` has whole groups of `count`, else
/// clamped to the last one.
fn rows_from(b: &mut Builder, row: Value, count: u32, n: u32, base: Option<Value>) -> Value {
    let mut at = row;
    if !n.is_multiple_of(count) {
        let (iota, last) = (b.iota(count), b.index(i64::from(n) - 1));
        at = b.add(iota, row);
        at = b.min(at, last);
    }
    match base {
        Some(base) => b.add(at, base),
        None => at,
    }
}
