//! Multi-head latent attention (DeepSeek-AI 2024): keys and values of all heads are projections of one short row.

use super::Temperature;
use crate::models::Problem;
use crate::models::builder::{Bias, ModelBuilder};
use crate::models::config::Heads;
use hrx_ir::graph::{Input, KvCache, Op, RopeSpec, Tensor};

/// Latent attention of a layer.
///
/// Files with `attn_k_b` and `attn_v_b` have it in the absorbed form: queries are brought to the latent row's space,
/// which is cached with the rotated part of the keys, and read by all heads; values are its first `rank` elements. In
/// older files `attn_kv_b` gives keys and values of each head, which are cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatentAttention {
    /// Query heads.
    pub(crate) n_head: u32,
    /// Columns of the latent row.
    pub(crate) rank: u32,
    /// Columns of the row that queries are made of; 0 where they are a projection of the layer's input.
    pub(crate) q_rank: u32,
    /// Elements of a head's key that are not rotated.
    pub(crate) plain_dim: u32,
    /// Elements of a head's value.
    pub(crate) value_dim: u32,
    /// Whether the file has the absorbed form.
    pub(crate) absorbed: bool,
    /// The rotation, of heads that are rotated whole.
    pub(crate) rope: RopeSpec,
    /// Factor of query-key products.
    pub(crate) scale: f32,
    /// Growth of queries with their position.
    pub(crate) temperature: Option<Temperature>,
}

impl LatentAttention {
    /// `rope` is the model's rotation; its `n_rot` elements are the last of each key.
    pub(crate) fn new(m: &ModelBuilder<'_>, layer: u32, rope: RopeSpec) -> Result<LatentAttention, Problem> {
        let keys = m.keys();
        let Heads { n_head, head_dim, value_dim, .. } = m.heads(layer)?;
        let rank = keys.require_size("attention.kv_lora_rank")?;
        let own = [keys.size("attention.key_length_mla")?, keys.size("attention.value_length_mla")?];
        let (key, key_dim, value_dim, absorbed) = match own {
            [Some(k), Some(v)] => ("attention.key_length_mla", k, v, true),
            _ => ("attention.key_length", head_dim, value_dim, false),
        };
        let n_rot = rope.n_rot;
        let plain_dim = key_dim
            .checked_sub(n_rot)
            .filter(|&n| n > 0)
            .ok_or_else(|| keys.wrong(key, key_dim, format!("more than the {n_rot} elements that are rotated")))?;
        let largest = rank.max(plain_dim.saturating_add(value_dim)).saturating_add(n_rot);
        if n_head.checked_mul(largest).is_none() || rank.checked_add(n_rot).is_none() {
            let want = format!("{n_head} heads of {largest} to fit 32 bits");
            return Err(keys.wrong("attention.kv_lora_rank", rank, want));
        }
        Ok(LatentAttention {
            n_head,
            rank,
            q_rank: keys.u32("attention.q_lora_rank")?.unwrap_or(0),
            plain_dim,
            value_dim,
            absorbed,
            rope: RopeSpec { head_dim: n_rot, ..rope },
            scale: 1.0 / (key_dim as f32).sqrt(),
            temperature: None,
        })
    }

    pub(super) fn mix(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<Tensor, Problem> {
        let &LatentAttention { n_head, rank, plain_dim, value_dim, .. } = self;
        let n_rot = self.rope.n_rot;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let q = self.queries(m, layer, h)?;
        let (plain, rotated) = self.split(m, q, n_head, plain_dim)?;
        let rotated = m.graph.rope(rotated, self.rope)?;

        let both = m.linear(h, &name("attn_kv_a_mqa"), rank + n_rot, Bias::IfPresent)?;
        let latent = m.graph.columns(both, 0, rank)?;
        let latent = m.norm(latent, &name("attn_kv_a_norm"), rank)?;
        let k_rotated = m.graph.columns(both, rank, n_rot)?;
        let k_rotated = m.graph.rope(k_rotated, self.rope)?;

        let (q, k, v, n_kv_head, cache) = if self.absorbed {
            // Transitional files have both forms.
            m.skip(&name("attn_kv_b.weight"));
            let plain = self.each_head(m, &name("attn_k_b.weight"), plain, [plain_dim, rank])?;
            let cache = KvCache { value_dim: rank, shared: true, ..KvCache::new(layer, 1, rank + n_rot) };
            (self.join(m, plain, rotated, n_head)?, self.join(m, latent, k_rotated, 1)?, None, 1, cache)
        } else {
            let kv = m.linear(latent, &name("attn_kv_b"), n_head * (plain_dim + value_dim), Bias::IfPresent)?;
            let (k, v) = self.split(m, kv, n_head, plain_dim)?;
            let k_rotated = repeated(m, k_rotated, n_head)?;
            let cache = KvCache { value_dim, ..KvCache::new(layer, n_head, plain_dim + n_rot) };
            (self.join(m, plain, rotated, n_head)?, self.join(m, k, k_rotated, n_head)?, Some(v), n_head, cache)
        };
        let positions = m.graph.input(Input::Positions);
        let q = match self.temperature {
            Some(Temperature { by, every }) => m.graph.push(Op::PositionScale { x: q, positions, by, every })?,
            None => q,
        };
        let head_dim = cache.head_dim;
        let cache = m.graph.cache(cache)?;
        let cache = m.graph.kv_store(k, v, cache)?;
        let scale = self.scale;
        let (sinks, window, softcap) = (None, None, None);
        let op = Op::Attention { q, positions, cache, n_head, sinks, n_kv_head, head_dim, scale, window, softcap };
        Ok(m.graph.push(op)?)
    }

    pub(super) fn finish(&self, m: &mut ModelBuilder<'_>, layer: u32, mixed: Tensor) -> Result<Tensor, Problem> {
        let (n_embd, name) = (m.config().n_embd, |part: &str| format!("blk.{layer}.{part}"));
        let values = match self.absorbed {
            true => self.each_head(m, &name("attn_v_b.weight"), mixed, [self.rank, self.value_dim])?,
            false => mixed,
        };
        m.linear(values, &name("attn_output"), n_embd, Bias::IfPresent)
    }

    fn queries(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<Tensor, Problem> {
        let n_q = self.n_head * (self.plain_dim + self.rope.n_rot);
        let name = |part: &str| format!("blk.{layer}.{part}");
        if self.q_rank == 0 {
            return m.linear(h, &name("attn_q"), n_q, Bias::IfPresent);
        }
        let row = m.linear(h, &name("attn_q_a"), self.q_rank, Bias::IfPresent)?;
        let row = m.norm(row, &name("attn_q_a_norm"), self.q_rank)?;
        m.linear(row, &name("attn_q_b"), n_q, Bias::IfPresent)
    }

    /// The first `len` elements of each head, and the others.
    fn split(&self, m: &mut ModelBuilder<'_>, x: Tensor, heads: u32, len: u32) -> Result<(Tensor, Tensor), Problem> {
        let group = m.graph.graph().cols(x) / heads;
        let first = m.graph.push(Op::Columns { x, group, start: 0, len })?;
        Ok((first, m.graph.push(Op::Columns { x, group, start: len, len: group - len })?))
    }

    fn join(&self, m: &mut ModelBuilder<'_>, a: Tensor, b: Tensor, groups: u32) -> Result<Tensor, Problem> {
        Ok(m.graph.push(Op::Concat { a, b, groups })?)
    }

    /// Each head through its own matrix.
    fn each_head(
        &self,
        m: &mut ModelBuilder<'_>,
        name: &str,
        x: Tensor,
        [n_in, n_out]: [u32; 2],
    ) -> Result<Tensor, Problem> {
        let n_expert = self.n_head;
        let weight = m.tensor(name, &[n_in, n_out, n_expert])?;
        Ok(m.graph.push(Op::ExpertLinear { x, weight, n_expert, routes: None, scale: None, bias: None })?)
    }
}

/// A row `times` over.
fn repeated(m: &mut ModelBuilder<'_>, x: Tensor, times: u32) -> Result<Tensor, Problem> {
    let mut all = x;
    // The bits of the number behind its highest one: double, and add one more where a bit is set.
    for bit in (0..times.ilog2()).rev() {
        all = m.graph.push(Op::Concat { a: all, b: all, groups: 1 })?;
        if times >> bit & 1 == 1 {
            all = m.graph.push(Op::Concat { a: all, b: x, groups: 1 })?;
        }
    }
    Ok(all)
}
