//! A short convolution along the sequence between two gates (Liquid AI, LFM2).

use crate::models::Problem;
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{ConvState, Op, State, Tensor};

/// `out(c * conv(b * x))`, where `b`, `c` and `x` are one projection of the layer's input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortConv {
    /// Rows that one output sees.
    pub(crate) taps: u32,
}

impl ShortConv {
    /// With the metadata's number of taps.
    pub(crate) fn new(m: &ModelBuilder<'_>) -> Result<ShortConv, Problem> {
        const KEY: &str = "shortconv.l_cache";
        match m.keys().require_size(KEY)? {
            1 => Err(m.keys().wrong(KEY, 1, "at least 2")),
            taps => Ok(ShortConv { taps }),
        }
    }

    pub(super) fn mix(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<Tensor, Problem> {
        let n = m.config().n_embd;
        let name = |part: &str| format!("blk.{layer}.shortconv.{part}");
        let bcx = m.linear(h, &name("in_proj"), n.checked_mul(3).unwrap_or(0), Bias::IfPresent)?;
        let b = m.graph.columns(bcx, 0, n)?;
        let c = m.graph.columns(bcx, n, n)?;
        let x = m.graph.columns(bcx, 2 * n, n)?;
        let x = m.graph.mul(b, x)?;
        let weight = m.tensor(&name("conv.weight"), &[self.taps, n])?;
        let state = m.graph.state(State::Conv(ConvState { layer, cols: n, taps: self.taps }))?;
        let x = m.graph.push(Op::ShortConv { x, weight, bias: None, state, act: None })?;
        Ok(m.graph.mul(c, x)?)
    }

    pub(super) fn finish(&self, m: &mut ModelBuilder<'_>, layer: u32, mixed: Tensor) -> Result<Tensor, Problem> {
        let n_embd = m.config().n_embd;
        m.linear(mixed, &format!("blk.{layer}.shortconv.out_proj"), n_embd, Bias::IfPresent)
    }
}
