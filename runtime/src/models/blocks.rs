//! The parts of decoder-only transformers. An architecture says which it has; here they become operations.

use super::builder::{Bias, ModelBuilder};
use super::{ModelConfig, Problem};
use hrx_ir::graph::{Activation, HIDDEN, KvCache, LOGITS, Op, RopeSpec, Tensor};

/// Self-attention of a layer, with the norm before it.
#[derive(Clone, Copy)]
pub(super) struct Attention {
    /// How queries and keys are rotated.
    pub(super) rope: RopeSpec,
    /// Factor of query-key products.
    pub(super) scale: f32,
    /// How many positions a token sees, its own included; none for all.
    pub(super) window: Option<u32>,
    /// Whether each head of queries and keys is normed before the rotation.
    pub(super) qk_norm: bool,
    /// Biases of the query, key and value projections.
    pub(super) qkv_bias: Bias,
    /// Name of the norm between the block and the residual sum.
    pub(super) post_norm: Option<&'static str>,
}

impl Attention {
    /// The plain kind: everything seen, nothing normed, scaled by the metadata's factor or `1 / sqrt(head_dim)`.
    pub(super) fn new(config: &ModelConfig, rope: RopeSpec) -> Attention {
        let scale = config.attention_scale.unwrap_or(1.0 / (config.head_dim as f32).sqrt());
        Attention { rope, scale, window: None, qk_norm: false, qkv_bias: Bias::IfPresent, post_norm: None }
    }
}

/// The gated feed-forward network of a layer, with the norm before it: `down(act(gate(x)) * up(x))`.
#[derive(Clone, Copy)]
pub(super) struct Mlp {
    /// The nonlinearity.
    pub(super) act: Activation,
    /// Name of the norm between the block and the residual sum.
    pub(super) post_norm: Option<&'static str>,
}

impl Mlp {
    /// Without a norm behind it.
    pub(super) fn gated(act: Activation) -> Mlp {
        Mlp { act, post_norm: None }
    }
}

/// The two blocks of a layer, one after the other on the residual stream.
#[derive(Clone, Copy)]
pub(super) struct Layer {
    pub(super) attention: Attention,
    pub(super) mlp: Mlp,
}

/// What a decoder has around its layers.
pub(super) struct Decoder {
    /// Factor of the embedding.
    pub(super) embed_scale: f32,
    /// Bound of the logits.
    pub(super) final_softcap: Option<f32>,
}

impl Decoder {
    /// Neither scaled nor bounded.
    pub(super) const PLAIN: Decoder = Decoder { embed_scale: 1.0, final_softcap: None };

    /// Embedding, the layers in order, norm and head. The head is the embedding table where the file has no other.
    pub(super) fn build(self, m: &mut ModelBuilder<'_>, layers: impl Fn(u32) -> Layer) -> Result<(), Problem> {
        let &ModelConfig { n_vocab, n_embd, n_layer, .. } = m.config();
        let table = m.matrix("token_embd.weight", n_vocab, n_embd)?;
        let mut x = m.graph.embed(table, self.embed_scale)?;
        for n in 0..n_layer {
            let layer = layers(n);
            x = attention(m, n, x, &layer.attention)?;
            x = mlp(m, n, x, &layer.mlp)?;
        }
        let x = m.norm(x, "output_norm", n_embd)?;
        m.graph.output(HIDDEN, x)?;
        let logits = match m.optional_matrix("output.weight", n_vocab, n_embd)? {
            Some(_) => m.linear(x, "output", n_vocab, Bias::IfPresent)?,
            None => m.graph.linear(x, table, None)?,
        };
        let logits = match self.final_softcap {
            Some(cap) => m.graph.soft_cap(logits, cap)?,
            None => logits,
        };
        Ok(m.graph.output(LOGITS, logits)?)
    }
}

/// The norm behind a block, and the residual sum.
fn add_residual(
    m: &mut ModelBuilder<'_>,
    layer: u32,
    block: Tensor,
    residual: Tensor,
    post_norm: Option<&str>,
) -> Result<Tensor, Problem> {
    let n_embd = m.config().n_embd;
    let block = match post_norm {
        Some(name) => m.norm(block, &format!("blk.{layer}.{name}"), n_embd)?,
        None => block,
    };
    Ok(m.graph.add(block, residual)?)
}

fn attention(m: &mut ModelBuilder<'_>, layer: u32, x: Tensor, spec: &Attention) -> Result<Tensor, Problem> {
    let config = m.config();
    let (n_q, n_kv) = (config.n_q(), config.n_kv());
    let &ModelConfig { n_embd, n_head, n_kv_head, head_dim, n_layer, .. } = config;
    let name = |part: &str| format!("blk.{layer}.{part}");
    let h = m.norm(x, &name("attn_norm"), n_embd)?;
    let mut q = m.linear(h, &name("attn_q"), n_q, spec.qkv_bias)?;
    let mut k = m.linear(h, &name("attn_k"), n_kv, spec.qkv_bias)?;
    let v = m.linear(h, &name("attn_v"), n_kv, spec.qkv_bias)?;
    if spec.qk_norm {
        q = m.norm(q, &name("attn_q_norm"), head_dim)?;
        k = m.norm(k, &name("attn_k_norm"), head_dim)?;
    }
    let q = m.graph.rope(q, spec.rope)?;
    let k = m.graph.rope(k, spec.rope)?;
    let cache = m.graph.cache(KvCache::new(layer, n_kv_head, head_dim))?;
    let cache = m.graph.kv_store(k, Some(v), cache)?;
    let positions = m.graph.input(hrx_ir::graph::Input::Positions);
    let (scale, window) = (spec.scale, spec.window);
    let op =
        Op::Attention { q, positions, cache, n_head, sinks: None, n_kv_head, head_dim, scale, window, softcap: None };
    let mut out = m.graph.push(op)?;
    let mut residual = x;
    // From here on rows don't see each other: the last layer goes on with the wanted ones alone.
    if layer + 1 == n_layer {
        out = m.graph.select_rows(out)?;
        residual = m.graph.select_rows(residual)?;
    }
    let out = m.linear(out, &name("attn_output"), n_embd, Bias::IfPresent)?;
    add_residual(m, layer, out, residual, spec.post_norm)
}

fn mlp(m: &mut ModelBuilder<'_>, layer: u32, x: Tensor, spec: &Mlp) -> Result<Tensor, Problem> {
    let &ModelConfig { n_embd, n_ff, .. } = m.config();
    let name = |part: &str| format!("blk.{layer}.{part}");
    let h = m.norm(x, &name("ffn_norm"), n_embd)?;
    let gate = m.linear(h, &name("ffn_gate"), n_ff, Bias::IfPresent)?;
    let up = m.linear(h, &name("ffn_up"), n_ff, Bias::IfPresent)?;
    let h = m.graph.glu(gate, up, spec.act)?;
    let out = m.linear(h, &name("ffn_down"), n_embd, Bias::IfPresent)?;
    add_residual(m, layer, out, x, spec.post_norm)
}
