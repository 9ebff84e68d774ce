//! What the metadata says about a model.

use super::Problem;
use super::keys::{Keys, PerLayer};
use super::rope::RopeConfig;
use crate::gguf::Gguf;

/// Sizes and numbers of a model. Those that only some models have are 0 for the others.
#[derive(Clone, PartialEq, Debug)]
pub struct ModelConfig {
    /// `general.architecture`.
    pub architecture: String,
    /// `general.name`.
    pub name: Option<String>,
    /// Tokens of the vocabulary.
    pub n_vocab: u32,
    /// Columns of the hidden state.
    pub n_embd: u32,
    /// Layers, without those that predict further tokens.
    pub n_layer: u32,
    /// Layers of the file that predict further tokens, and are not run; they follow the others.
    pub n_layer_nextn: u32,
    /// Query heads.
    pub n_head: PerLayer,
    /// Key/value heads.
    pub n_kv_head: PerLayer,
    /// Elements of a head of queries and keys.
    pub head_dim: u32,
    /// Elements of a head of values.
    pub value_dim: u32,
    /// Columns inside the feed-forward network.
    pub n_ff: PerLayer,
    /// Experts of a layer that has them.
    pub n_expert: u32,
    /// Experts that a token takes.
    pub n_expert_used: PerLayer,
    /// Positions that the model was trained for.
    pub n_ctx_train: u32,
    /// Factor of query-key products, where the metadata say it.
    pub attention_scale: Option<f32>,
    /// Rotary position embedding.
    pub rope: RopeConfig,
}

/// The heads of a layer's attention. All counts and sizes are positive, and their products fit 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Heads {
    /// Query heads.
    pub(crate) n_head: u32,
    /// Key/value heads; they divide the query heads.
    pub(crate) n_kv_head: u32,
    /// Elements of a head of queries and keys.
    pub(crate) head_dim: u32,
    /// Elements of a head of values.
    pub(crate) value_dim: u32,
}

impl ModelConfig {
    pub(super) fn read(gguf: &Gguf, architecture: &str) -> Result<ModelConfig, Problem> {
        let keys = Keys::new(gguf, architecture);
        if keys.bool("attention.causal")? == Some(false) {
            return Err(keys.wrong("attention.causal", false, "true: attention is causal here"));
        }
        let n_embd = keys.require_size("embedding_length")?;
        let blocks = keys.require_size("block_count")?;
        let n_layer_nextn = keys.u32("nextn_predict_layers")?.unwrap_or(0);
        let n_layer = blocks.checked_sub(n_layer_nextn).filter(|&n| n > 0).ok_or_else(|| {
            keys.wrong("nextn_predict_layers", n_layer_nextn, format!("fewer than the {blocks} blocks"))
        })?;
        let layers = |key: &str| keys.per_layer(key, blocks);
        let n_head = layers("attention.head_count")?.unwrap_or(PerLayer::Same(0));
        let n_kv_head = layers("attention.head_count_kv")?.unwrap_or_else(|| n_head.clone());
        let (head_dim, value_dim) = head_dims(&keys, n_embd, n_head.at(0))?;
        let n_ctx_train = keys.require_size("context_length")?;
        let n_expert = keys.u32("expert_count")?.unwrap_or(0);
        let n_expert_used = layers("expert_used_count")?.unwrap_or(PerLayer::Same(0));
        if n_expert_used.max() > n_expert {
            return Err(keys.wrong(
                "expert_used_count",
                n_expert_used.max(),
                format!("at most the {n_expert} experts"),
            ));
        }
        Ok(ModelConfig {
            architecture: architecture.into(),
            name: gguf.metadata().str("general.name")?.map(Into::into),
            n_vocab: n_vocab(gguf, &keys)?,
            n_embd,
            n_layer,
            n_layer_nextn,
            n_head,
            n_kv_head,
            head_dim,
            value_dim,
            n_ff: layers("feed_forward_length")?.unwrap_or(PerLayer::Same(0)),
            n_expert,
            n_expert_used,
            n_ctx_train,
            attention_scale: keys.positive_or_none("attention.scale")?,
            rope: RopeConfig::read(&keys, head_dim, n_ctx_train)?,
        })
    }
}

/// The lengths of heads of keys and of values.
fn head_dims(keys: &Keys<'_>, n_embd: u32, n_head: u32) -> Result<(u32, u32), Problem> {
    let from_width = || {
        if n_head == 0 || n_embd.is_multiple_of(n_head) {
            return Ok(n_embd.checked_div(n_head).unwrap_or(0));
        }
        let want =
            format!("a divisor of the {n_embd} columns where the file has no `{}`", keys.key("attention.key_length"));
        Err(keys.wrong("attention.head_count", n_head, want))
    };
    let head_dim = keys.size("attention.key_length")?.map_or_else(from_width, Ok)?;
    Ok((head_dim, keys.size("attention.value_length")?.unwrap_or(head_dim)))
}

/// The vocabulary's size: that of the tokenizer, else the one in the metadata, else that of the embedding table, whose
/// shape is checked against it later.
fn n_vocab(gguf: &Gguf, keys: &Keys<'_>) -> Result<u32, Problem> {
    const TOKENS: &str = "tokenizer.ggml.tokens";
    if let Some(tokens) = gguf.metadata().array(TOKENS)? {
        return u32::try_from(tokens.len()).ok().filter(|&n| n > 0).ok_or_else(|| Problem::Metadata {
            key: TOKENS.into(),
            found: format!("an array of {}", tokens.len()),
            want: "one of at least 1, and of a size that fits 32 bits".into(),
        });
    }
    if let Some(n) = keys.size("vocab_size")? {
        return Ok(n);
    }
    let table = gguf.require_tensor("token_embd.weight")?;
    u32::try_from(table.dim(1)).map_err(|_| Problem::TensorShape {
        name: table.name().into(),
        found: table.dims().into(),
        want: vec![table.dim(0), u64::from(u32::MAX)],
    })
}
