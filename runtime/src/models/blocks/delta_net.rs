//! The gated delta net (Yang et al. 2024): a linear recurrence that replaces what it held under a key.

use super::SsmSizes;
use crate::models::Problem;
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, KeyHeads, NormKind, Op, Tensor};

/// How the two scalars of each head are projected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Projections {
    /// `ssm_alpha` and `ssm_beta`.
    Split,
    /// `ssm_ba`: for each key head the betas of its value heads, then their alphas.
    ByKeyHead,
}

/// A gated delta net: `out(norm(y) * silu(z))`, where y is the recurrence over normed queries, normed keys and values,
/// which are one projection, convolved; `decay = a * softplus(alpha + dt)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeltaNet {
    /// Its sizes.
    pub(crate) sizes: SsmSizes,
    /// How the scalars are projected.
    pub(crate) scalars: Projections,
    /// Which key head a value head has.
    pub(crate) key_heads: KeyHeads,
}

impl DeltaNet {
    pub(super) fn mix(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<Tensor, Problem> {
        let SsmSizes { n_inner, n_head, value_dim, n_key, .. } = self.sizes;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let (qkv, z) = self.project(m, layer, h)?;
        let (alpha, beta) = self.scalars(m, layer, h)?;
        let beta = m.graph.act(beta, Activation::Sigmoid)?;
        let dt = m.tensor(&name("ssm_dt.bias"), &[n_head])?;
        let alpha = m.graph.add(alpha, dt)?;
        let alpha = m.graph.act(alpha, Activation::Softplus)?;
        let a = m.tensor(&name("ssm_a"), &[n_head])?;
        let decay = m.graph.mul(alpha, a)?;

        let qkv = self.sizes.convolve(m, layer, qkv, Bias::IfPresent)?;
        let q = m.graph.columns(qkv, 0, n_key)?;
        let k = m.graph.columns(qkv, n_key, n_key)?;
        let v = m.graph.columns(qkv, 2 * n_key, n_inner)?;
        let scale = 1.0 / (self.sizes.key_dim as f32).sqrt();
        let q = self.unit(m, q, scale)?;
        let k = self.unit(m, k, 1.0)?;
        let state = self.sizes.state(m, layer)?;
        let op = Op::Recurrence { q, k, v, decay, beta: Some(beta), state, key_heads: self.key_heads };
        let y = m.graph.push(op)?;
        let y = m.norm(y, &name("ssm_norm"), value_dim)?;
        Ok(m.graph.glu(z, y, Activation::Silu)?)
    }

    pub(super) fn finish(&self, m: &mut ModelBuilder<'_>, layer: u32, mixed: Tensor) -> Result<Tensor, Problem> {
        let n_embd = m.config().n_embd;
        m.linear(mixed, &format!("blk.{layer}.ssm_out"), n_embd, Bias::IfPresent)
    }

    /// Heads of length `by`: `x / sqrt(sum(x^2) + eps)` is a norm by the mean with another epsilon and factor.
    fn unit(&self, m: &mut ModelBuilder<'_>, x: Tensor, by: f32) -> Result<Tensor, Problem> {
        let n = self.sizes.key_dim;
        let eps = m.norm_eps()? / n as f32;
        let normed = m.graph.normalize(x, NormKind::Rms, n, eps)?;
        Ok(m.graph.scale(normed, by / (n as f32).sqrt())?)
    }

    /// Queries, keys and values together, and the gates.
    fn project(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<(Tensor, Tensor), Problem> {
        let SsmSizes { n_inner, n_conv, key_dim, n_key_head, .. } = self.sizes;
        let name = |part: &str| format!("blk.{layer}.{part}");
        if !m.has(&name("ssm_in.weight")) {
            let qkv = m.linear(h, &name("attn_qkv"), n_conv, Bias::IfPresent)?;
            return Ok((qkv, m.linear(h, &name("attn_gate"), n_inner, Bias::IfPresent)?));
        }
        // Older files: for each key head its query, key, values and gates.
        let all = m.linear(h, &name("ssm_in"), n_conv + n_inner, Bias::IfPresent)?;
        let values = n_inner / n_key_head;
        let group = 2 * (key_dim + values);
        let part = |start, len| Op::Columns { x: all, group, start, len };
        let q = m.graph.push(part(0, key_dim))?;
        let k = m.graph.push(part(key_dim, key_dim))?;
        let v = m.graph.push(part(2 * key_dim, values))?;
        let z = m.graph.push(part(2 * key_dim + values, values))?;
        let qk = m.graph.push(Op::Concat { a: q, b: k, groups: 1 })?;
        Ok((m.graph.push(Op::Concat { a: qk, b: v, groups: 1 })?, z))
    }

    /// Alpha and beta.
    fn scalars(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<(Tensor, Tensor), Problem> {
        let SsmSizes { n_head, n_key_head, .. } = self.sizes;
        let name = |part: &str| format!("blk.{layer}.{part}");
        if self.scalars == Projections::Split {
            let alpha = m.linear(h, &name("ssm_alpha"), n_head, Bias::IfPresent)?;
            return Ok((alpha, m.linear(h, &name("ssm_beta"), n_head, Bias::IfPresent)?));
        }
        let both = m.linear(h, &name("ssm_ba"), 2 * n_head, Bias::IfPresent)?;
        let len = n_head / n_key_head;
        let part = |start| Op::Columns { x: both, group: 2 * len, start, len };
        Ok((m.graph.push(part(len))?, m.graph.push(part(0))?))
    }
}
