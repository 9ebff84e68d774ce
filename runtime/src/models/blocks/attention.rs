//! Self-attention with a cache of keys and values.

use crate::models::Problem;
use crate::models::builder::{Bias, ModelBuilder};
use crate::models::config::Heads;
use hrx_ir::graph::{Activation, Input, KvCache, NormKind, Op, RopeSpec, Tensor};

/// Norms of queries and keys before the rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QkNorm {
    /// None.
    Off,
    /// Of each head, with one weight for all.
    Heads,
    /// The same, where the file has the weights.
    HeadsIfPresent,
    /// Of each head, with its own weight, where the file has them.
    EachHeadIfPresent,
    /// Of all heads together.
    Rows,
}

/// What values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Values {
    /// A projection of their own.
    Projected,
    /// That, normed by heads without a weight; where the file has none, the keys' projection.
    Normed,
}

/// Sigmoids that attention's result is multiplied by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gate {
    /// None.
    Off,
    /// One for each element: the query projection gives a head's query and then its gate.
    WithQueries,
    /// One for each head, from `attn_gate`, where the file has it.
    HeadsIfPresent,
}

/// Growth of queries with their position: [`Op::PositionScale`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Temperature {
    pub(crate) by: f32,
    pub(crate) every: u32,
}

/// Self-attention of a layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attention {
    /// Counts and sizes.
    pub(crate) heads: Heads,
    /// How queries and keys are rotated; none for not at all.
    pub(crate) rope: Option<RopeSpec>,
    /// Factor of query-key products.
    pub(crate) scale: f32,
    /// How many positions a token sees, its own included; none for all.
    pub(crate) window: Option<u32>,
    /// Bound of the scores.
    pub(crate) softcap: Option<f32>,
    /// Norms of queries and keys.
    pub(crate) qk_norm: QkNorm,
    /// Biases of the query, key and value projections.
    pub(crate) qkv_bias: Bias,
    /// Bias of the output projection.
    pub(crate) output_bias: Bias,
    /// Whether each head has a score without a value.
    pub(crate) sinks: bool,
    /// Gates of the result.
    pub(crate) gate: Gate,
    /// What values are.
    pub(crate) values: Values,
    /// Growth of queries with their position.
    pub(crate) temperature: Option<Temperature>,
    /// The earlier layer whose keys and values are read; none for the layer's own.
    pub(crate) reads: Option<u32>,
}

impl Attention {
    /// The plain kind: everything seen, nothing normed, scaled by the metadata's factor or `1 / sqrt(head_dim)`.
    pub(crate) fn new(m: &ModelBuilder<'_>, layer: u32, rope: RopeSpec) -> Result<Attention, Problem> {
        let heads = m.heads(layer)?;
        Ok(Attention {
            heads,
            rope: Some(rope),
            scale: m.config().attention_scale.unwrap_or(1.0 / (heads.head_dim as f32).sqrt()),
            window: None,
            softcap: None,
            qk_norm: QkNorm::Off,
            qkv_bias: Bias::IfPresent,
            output_bias: Bias::IfPresent,
            sinks: false,
            gate: Gate::Off,
            values: Values::Projected,
            temperature: None,
            reads: None,
        })
    }

    /// What the heads gather, before the output projection.
    pub(super) fn mix(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<Tensor, Problem> {
        let Heads { n_head, n_kv_head, head_dim, .. } = self.heads;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let [q, k, v] = self.project(m, layer, h)?;
        let (q, gate) = self.split_gate(m, layer, h, q)?;
        let q = self.norm_heads(m, q, &name("attn_q_norm"), n_head)?;
        let own = self.reads.is_none();
        let k = if own { self.norm_heads(m, k, &name("attn_k_norm"), n_kv_head)? } else { k };
        let mut q = self.rotate(m, q)?;
        if let Some(Temperature { by, every }) = self.temperature {
            let positions = m.graph.input(Input::Positions);
            q = m.graph.push(Op::PositionScale { x: q, positions, by, every })?;
        }
        let cache = match self.reads {
            Some(other) => other_cache(m, layer, other)?,
            None => self.store(m, layer, k, v)?,
        };
        let sinks = if self.sinks { Some(m.tensor(&name("attn_sinks.weight"), &[n_head])?) } else { None };
        let positions = m.graph.input(Input::Positions);
        let (scale, window, softcap) = (self.scale, self.window, self.softcap);
        let op = Op::Attention { q, positions, cache, n_head, sinks, n_kv_head, head_dim, scale, window, softcap };
        let out = m.graph.push(op)?;
        let Some(gate) = gate else { return Ok(out) };
        let gate = m.graph.act(gate, Activation::Sigmoid)?;
        Ok(m.graph.mul(out, gate)?)
    }

    /// The output projection.
    pub(super) fn finish(&self, m: &mut ModelBuilder<'_>, layer: u32, mixed: Tensor) -> Result<Tensor, Problem> {
        let n_embd = m.config().n_embd;
        m.linear(mixed, &format!("blk.{layer}.attn_output"), n_embd, self.output_bias)
    }

    /// Queries (with their gates), keys and values; keys and values are the queries where another layer's are read.
    fn project(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<[Tensor; 3], Problem> {
        let Heads { n_head, n_kv_head, head_dim, value_dim } = self.heads;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let gates = if self.gate == Gate::WithQueries { 2 } else { 1 };
        let (n_q, n_k, n_v) = (gates * n_head * head_dim, n_kv_head * head_dim, n_kv_head * value_dim);
        if m.has(&name("attn_qkv.weight")) {
            let n = n_q.checked_add(n_k).and_then(|n| n.checked_add(n_v)).unwrap_or(0);
            let qkv = m.linear(h, &name("attn_qkv"), n, self.qkv_bias)?;
            let q = m.graph.columns(qkv, 0, n_q)?;
            let k = m.graph.columns(qkv, n_q, n_k)?;
            return Ok([q, k, m.graph.columns(qkv, n_q + n_k, n_v)?]);
        }
        let q = m.linear(h, &name("attn_q"), n_q, self.qkv_bias)?;
        if self.reads.is_some() {
            // Some files have what is not needed.
            for part in ["attn_k.weight", "attn_v.weight", "attn_k_norm.weight"] {
                m.skip(&name(part));
            }
            return Ok([q, q, q]);
        }
        let k = m.linear(h, &name("attn_k"), n_k, self.qkv_bias)?;
        let v = match self.values {
            Values::Normed if !m.has(&name("attn_v.weight")) => k,
            _ => m.linear(h, &name("attn_v"), n_v, self.qkv_bias)?,
        };
        Ok([q, k, v])
    }

    /// Queries and what the result's gates are made of.
    fn split_gate(
        &self,
        m: &mut ModelBuilder<'_>,
        layer: u32,
        h: Tensor,
        q: Tensor,
    ) -> Result<(Tensor, Option<Tensor>), Problem> {
        let Heads { n_head, head_dim, .. } = self.heads;
        let name = format!("blk.{layer}.attn_gate");
        match self.gate {
            Gate::WithQueries => {
                let group = 2 * head_dim;
                let gate = m.graph.push(Op::Columns { x: q, group, start: head_dim, len: head_dim })?;
                Ok((m.graph.push(Op::Columns { x: q, group, start: 0, len: head_dim })?, Some(gate)))
            }
            Gate::HeadsIfPresent if m.has(&format!("{name}.weight")) => {
                Ok((q, Some(m.linear(h, &name, n_head, Bias::IfPresent)?)))
            }
            Gate::Off | Gate::HeadsIfPresent => Ok((q, None)),
        }
    }

    fn norm_heads(&self, m: &mut ModelBuilder<'_>, x: Tensor, name: &str, heads: u32) -> Result<Tensor, Problem> {
        let head_dim = self.heads.head_dim;
        let present = m.has(&format!("{name}.weight"));
        match self.qk_norm {
            QkNorm::Heads => m.norm(x, name, head_dim),
            QkNorm::HeadsIfPresent if present => m.norm(x, name, head_dim),
            QkNorm::EachHeadIfPresent if present => m.norm_each(x, name, head_dim, heads),
            QkNorm::Rows => m.norm(x, name, heads * head_dim),
            QkNorm::Off | QkNorm::HeadsIfPresent | QkNorm::EachHeadIfPresent => Ok(x),
        }
    }

    fn rotate(&self, m: &mut ModelBuilder<'_>, x: Tensor) -> Result<Tensor, Problem> {
        Ok(match self.rope {
            Some(rope) => m.graph.rope(x, rope)?,
            None => x,
        })
    }

    /// The layer's cache with the step's keys, which are rotated first, and values.
    fn store(&self, m: &mut ModelBuilder<'_>, layer: u32, k: Tensor, v: Tensor) -> Result<Tensor, Problem> {
        let Heads { n_kv_head, head_dim, value_dim, .. } = self.heads;
        let k = self.rotate(m, k)?;
        let v = match self.values {
            Values::Projected => v,
            Values::Normed => {
                let eps = m.norm_eps()?;
                m.graph.normalize(v, NormKind::Rms, value_dim, eps)?
            }
        };
        let cache = m.graph.cache(KvCache { value_dim, ..KvCache::new(layer, n_kv_head, head_dim) })?;
        let stored = m.graph.kv_store(k, Some(v), cache)?;
        m.stored.insert(layer, stored);
        Ok(stored)
    }
}

/// The cache of an earlier layer with the step's keys and values.
fn other_cache(m: &ModelBuilder<'_>, layer: u32, other: u32) -> Result<Tensor, Problem> {
    const KEY: &str = "attention.shared_kv_layers";
    let keys = m.keys();
    let Some(&stored) = m.stored.get(&other) else {
        let found = keys.u32(KEY)?.unwrap_or(0);
        return Err(keys.wrong(KEY, found, format!("so few that layer {layer} can read an earlier one of its kind")));
    };
    Ok(stored)
}
