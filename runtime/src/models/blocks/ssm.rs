//! The state-space block of Mamba 2 (Dao and Gu 2024).

use crate::models::Problem;
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, ConvState, KeyHeads, Op, RecurrentState, State, Tensor};

/// The sizes of blocks with a recurrence behind a convolution; the metadata's `ssm.*`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SsmSizes {
    /// Rows that one output of the convolution sees.
    pub(crate) taps: u32,
    /// Columns of values: heads of `value_dim`.
    pub(crate) n_inner: u32,
    /// Elements of a key.
    pub(crate) key_dim: u32,
    /// Value heads.
    pub(crate) n_head: u32,
    /// Elements of a value head.
    pub(crate) value_dim: u32,
    /// Key heads; they divide the value heads.
    pub(crate) n_key_head: u32,
    /// Columns of all keys, and of all queries.
    pub(crate) n_key: u32,
    /// Columns of the convolution: queries, keys and values.
    pub(crate) n_conv: u32,
}

impl SsmSizes {
    pub(crate) fn read(m: &ModelBuilder<'_>) -> Result<SsmSizes, Problem> {
        let keys = m.keys();
        let taps = keys.require_size("ssm.conv_kernel")?;
        let n_inner = keys.require_size("ssm.inner_size")?;
        let key_dim = keys.require_size("ssm.state_size")?;
        let n_head = keys.require_size("ssm.time_step_rank")?;
        let n_key_head = keys.require_size("ssm.group_count")?;
        if taps < 2 {
            return Err(keys.wrong("ssm.conv_kernel", taps, "at least 2"));
        }
        if !n_inner.is_multiple_of(n_head) {
            return Err(keys.wrong("ssm.time_step_rank", n_head, format!("a divisor of the {n_inner} inner columns")));
        }
        if !n_head.is_multiple_of(n_key_head) {
            return Err(keys.wrong("ssm.group_count", n_key_head, format!("a divisor of the {n_head} heads")));
        }
        let n_key = key_dim.checked_mul(n_key_head);
        // Twice the inner columns: with their gates; and two numbers for each head.
        let sums = |n: u32| n.checked_mul(2)?.checked_add(n_inner.checked_mul(2)?)?.checked_add(n_head.checked_mul(2)?);
        let (Some(n_key), Some(_)) = (n_key, n_key.and_then(sums)) else {
            let want = format!("{n_key_head} groups of such a size to fit 32 bits");
            return Err(keys.wrong("ssm.state_size", key_dim, want));
        };
        let (value_dim, n_conv) = (n_inner / n_head, 2 * n_key + n_inner);
        Ok(SsmSizes { taps, n_inner, key_dim, n_head, value_dim, n_key_head, n_key, n_conv })
    }

    /// The convolution `ssm_conv1d`, with SiLU behind it.
    pub(super) fn convolve(
        &self,
        m: &mut ModelBuilder<'_>,
        layer: u32,
        x: Tensor,
        bias: Bias,
    ) -> Result<Tensor, Problem> {
        let name = |part: &str| format!("blk.{layer}.ssm_conv1d.{part}");
        let weight = m.tensor(&name("weight"), &[self.taps, self.n_conv])?;
        let bias = match bias {
            Bias::Required => Some(m.tensor(&name("bias"), &[self.n_conv])?),
            Bias::IfPresent => m.optional(&name("bias"), &[self.n_conv])?,
        };
        let state = m.graph.state(State::Conv(ConvState { layer, cols: self.n_conv, taps: self.taps }))?;
        Ok(m.graph.push(Op::ShortConv { x, weight, bias, state, act: Some(Activation::Silu) })?)
    }

    /// The state of the recurrence.
    pub(super) fn state(&self, m: &mut ModelBuilder<'_>, layer: u32) -> Result<Tensor, Problem> {
        let &SsmSizes { n_head, key_dim, value_dim, .. } = self;
        Ok(m.graph.state(State::Recurrent(RecurrentState { layer, n_head, key_dim, value_dim }))?)
    }
}

/// Mamba 2's block: `out(norm(y * silu(z)))`, where y is the recurrence of values `x * dt` with keys B and queries C,
/// plus `x * D`; z, x, B, C and dt are one projection, x, B and C convolved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ssm {
    /// Its sizes.
    pub(crate) sizes: SsmSizes,
}

impl Ssm {
    pub(super) fn mix(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<Tensor, Problem> {
        let SsmSizes { n_inner, n_head, n_key, n_key_head, n_conv, .. } = self.sizes;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let all = m.linear(h, &name("ssm_in"), n_inner + n_conv + n_head, Bias::IfPresent)?;
        let z = m.graph.columns(all, 0, n_inner)?;
        let xbc = m.graph.columns(all, n_inner, n_conv)?;
        let dt = m.graph.columns(all, n_inner + n_conv, n_head)?;

        let xbc = self.sizes.convolve(m, layer, xbc, Bias::Required)?;
        let x = m.graph.columns(xbc, 0, n_inner)?;
        let k = m.graph.columns(xbc, n_inner, n_key)?;
        let q = m.graph.columns(xbc, n_inner + n_key, n_key)?;

        let dt_bias = m.tensor(&name("ssm_dt.bias"), &[n_head])?;
        let dt = m.graph.add(dt, dt_bias)?;
        let dt = m.graph.act(dt, Activation::Softplus)?;
        let a = m.row(&name("ssm_a"), &[1, n_head])?;
        let decay = m.graph.mul(dt, a)?;
        let v = m.graph.mul(x, dt)?;
        let state = self.sizes.state(m, layer)?;
        let op = Op::Recurrence { q, k, v, decay, beta: None, state, key_heads: KeyHeads::Blocked };
        let y = m.graph.push(op)?;

        let d = m.row(&name("ssm_d"), &[1, n_head])?;
        let skip = m.graph.mul(x, d)?;
        let y = m.graph.add(y, skip)?;
        let y = m.graph.glu(z, y, Activation::Silu)?;
        m.norm_each(y, &name("ssm_norm"), n_inner / n_key_head, n_key_head)
    }

    pub(super) fn finish(&self, m: &mut ModelBuilder<'_>, layer: u32, mixed: Tensor) -> Result<Tensor, Problem> {
        let n_embd = m.config().n_embd;
        m.linear(mixed, &format!("blk.{layer}.ssm_out"), n_embd, Bias::IfPresent)
    }
}
