//! A causal convolution along the sequence, column by column, whose history is kept between launches (Poli et al. 2023;
//! the short convolutions of Mamba, of gated delta nets and of LFM2).

use crate::Template;
use crate::emit::{activation, below, times};
use crate::facts::{Activation, MAX_EXTENT, TargetShape, TemplateError};
use crate::slot::{Interface, Signature, Slot, declare, signature_of};
use hrx_ir::tile::{Access, Builder, Elem, GridExpr, Kernel, Value, View};

/// `y[t, c] = act(bias[c] + sum over j < taps of weight[c, j] * x[t - taps + 1 + j, c])`.
///
/// Slots: NTokens; X `f32 [T, cols]`; Weight(0) `f32 [cols, taps]`; with `bias` Bias `f32 [cols]`; State
/// `f32 [taps - 1, cols]`: the last rows before X, the oldest first; afterwards the last ones with X; Out
/// `f32 [T, cols]`. A program has `program_cols` columns and walks along the sequence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShortConv {
    /// Columns.
    pub cols: u32,
    /// Rows that a result is made of: 2 to 16.
    pub taps: u32,
    /// Whether there is a bias.
    pub bias: bool,
    /// The function behind it.
    pub activation: Option<Activation>,
    /// Columns of a program: a power of two from 32 to 1024.
    pub program_cols: u32,
    /// Waves of a program.
    pub waves: u32,
}

struct Args {
    n_tokens: Value,
    x: View,
    /// `[taps, cols]`: a strided view of the weight.
    weight: View,
    bias: Option<View>,
    state: View,
    out: View,
}

const FAMILY: &str = "short_conv";

impl ShortConv {
    /// Columns and waves of a program on a target.
    pub fn cut(shape: &TargetShape) -> [u32; 2] {
        match shape.waves {
            Some(_) => [2 * shape.lanes, 1],
            None => [32, 1],
        }
    }

    fn declare(&self, i: &mut Interface) -> Args {
        let n_tokens = i.index(Slot::NTokens);
        let cols = self.cols.into();
        let row = [n_tokens.into(), cols];
        Args {
            n_tokens,
            x: i.view(Slot::X, Elem::F32, &row, Access::In),
            weight: i.strided(
                Slot::Weight(0),
                Elem::F32,
                &[self.taps.into(), cols],
                &[1.into(), self.taps.into()],
                Access::In,
            ),
            bias: self.bias.then(|| i.view(Slot::Bias, Elem::F32, &[1.into(), cols], Access::In)),
            state: i.view(Slot::State, Elem::F32, &[self.taps.saturating_sub(1).into(), cols], Access::InOut),
            out: i.view(Slot::Out, Elem::F32, &row, Access::Out),
        }
    }
}

impl Template for ShortConv {
    fn name(&self) -> String {
        let bias = if self.bias { "_bias" } else { "" };
        let act = self.activation.map_or(String::new(), |a| format!("_{}", a.tag()));
        let waves = if self.waves == 1 { String::new() } else { format!("w{}", self.waves) };
        format!("{FAMILY}_c{}_taps{}{bias}{act}_p{}{waves}", self.cols, self.taps, self.program_cols)
    }

    fn signature(&self) -> Signature {
        signature_of(|i| self.declare(i))
    }

    fn kernel(&self) -> Result<Kernel, TemplateError> {
        let unless = |ok, fact: String, reason| TemplateError::unless(ok, FAMILY, fact, reason);
        unless(
            (1..=MAX_EXTENT).contains(&self.cols),
            format!("{} columns", self.cols),
            "a row has 1 to 2^30 elements",
        )?;
        unless((2..=16).contains(&self.taps), format!("{} taps", self.taps), "there are 2 to 16")?;
        let n = self.program_cols;
        let cut = (32..=1024).contains(&n) && n.is_power_of_two() && self.waves.is_power_of_two() && self.waves <= 16;
        unless(cut, format!("{n} columns of {} waves", self.waves), "powers of two: 32 to 1024, 1 to 16")?;
        let mut b = Builder::new(self.name());
        let a = declare(&mut b, |i| self.declare(i));
        b.waves(self.waves);
        b.grid(0, GridExpr::ceil_div(self.cols, n));
        let program = b.program_id(0);
        let col = times(&mut b, program, n);
        let mask = (!self.cols.is_multiple_of(n)).then(|| below(&mut b, col, n, self.cols));
        let row = |b: &mut Builder, view: View, at: u32| {
            let at = b.index(i64::from(at));
            b.load(view, &[at, col], &[1, n], mask)
        };
        let weights: Vec<Value> = (0..self.taps).map(|j| row(&mut b, a.weight, j)).collect();
        let bias = a.bias.map(|v| row(&mut b, v, 0));
        let history: Vec<Value> = (0..self.taps - 1).map(|j| row(&mut b, a.state, j)).collect();
        let (zero, one) = (b.index(0), b.index(1));
        let history = b.for_loop([zero, a.n_tokens, one], &history, |b, token, history| {
            let x = b.load(a.x, &[token, col], &[1, n], mask);
            let mut rows = history.to_vec();
            rows.push(x);
            let mut sum = bias.unwrap_or_else(|| b.float(0.0, &[1, n]));
            for (&w, &x) in weights.iter().zip(&rows) {
                sum = b.fma(w, x, sum);
            }
            let y = self.activation.map_or(sum, |act| activation(b, act, sum));
            b.store(a.out, &[token, col], y, mask);
            rows.split_off(1)
        });
        for (j, row) in history.into_iter().enumerate() {
            let at = b.index(j as i64);
            b.store(a.state, &[at, col], row, mask);
        }
        Ok(b.finish())
    }
}
