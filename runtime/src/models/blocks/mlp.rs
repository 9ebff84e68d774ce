//! Feed-forward networks without experts.

use crate::models::Problem;
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, Limit, Op, Tensor};

/// How a feed-forward network is put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    /// `down(act(gate(x)) * up(x))`.
    Gated,
    /// The same, where `up` gives the columns of the gate and then its own.
    Fused,
    /// `down(act(up(x)))`.
    Plain,
}

/// A feed-forward network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mlp {
    /// How it is put together.
    pub(crate) shape: Shape,
    /// Columns inside.
    pub(crate) n_ff: u32,
    /// The nonlinearity.
    pub(crate) act: Activation,
    /// Bounds of the gated product.
    pub(crate) limit: Limit,
    /// Biases of all parts.
    pub(crate) bias: Bias,
    /// What follows `ffn_gate`, `ffn_up` and `ffn_down` in the tensors' names.
    pub(crate) suffix: &'static str,
}

impl Mlp {
    /// The gated kind of a layer, with the metadata's number of columns.
    pub(crate) fn new(m: &ModelBuilder<'_>, layer: u32, act: Activation) -> Result<Mlp, Problem> {
        Ok(Mlp::sized(m.n_ff(layer)?, act))
    }

    /// The gated kind with `n_ff` columns inside.
    pub(crate) fn sized(n_ff: u32, act: Activation) -> Mlp {
        Mlp { shape: Shape::Gated, n_ff, act, limit: Limit::Off, bias: Bias::IfPresent, suffix: "" }
    }

    pub(super) fn run(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<Tensor, Problem> {
        let n_embd = m.config().n_embd;
        let &Mlp { n_ff, act, limit, bias, .. } = self;
        let name = |part: &str| format!("blk.{layer}.ffn_{part}{}", self.suffix);
        let inner = match self.shape {
            Shape::Gated => {
                let gate = m.linear(h, &name("gate"), n_ff, bias)?;
                let up = m.linear(h, &name("up"), n_ff, bias)?;
                m.graph.push(Op::Glu { gate, up, act, limit })?
            }
            Shape::Fused => {
                let both = m.linear(h, &name("up"), n_ff.checked_mul(2).unwrap_or(0), bias)?;
                let gate = m.graph.columns(both, 0, n_ff)?;
                let up = m.graph.columns(both, n_ff, n_ff)?;
                m.graph.push(Op::Glu { gate, up, act, limit })?
            }
            Shape::Plain => {
                let up = m.linear(h, &name("up"), n_ff, bias)?;
                m.graph.act(up, act)?
            }
        };
        m.linear(inner, &name("down"), n_embd, bias)
    }
}
