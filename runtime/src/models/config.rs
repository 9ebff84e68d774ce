//! What the metadata says about a model.

use super::Problem;
use crate::gguf::{Gguf, Metadata, Value};

/// Sizes and numbers of a model. All sizes are positive.
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
    /// Layers.
    pub n_layer: u32,
    /// Query heads of a layer.
    pub n_head: u32,
    /// Key/value heads of a layer; they divide the query heads.
    pub n_kv_head: u32,
    /// Elements of a head, of queries, keys and values.
    pub head_dim: u32,
    /// Columns inside the feed-forward network.
    pub n_ff: u32,
    /// Positions that the model was trained for.
    pub n_ctx_train: u32,
    /// What RMS norms add to the mean square.
    pub norm_eps: f32,
    /// Factor of query-key products, where the metadata say it.
    pub attention_scale: Option<f32>,
    /// Rotary position embedding.
    pub rope: RopeConfig,
}

/// The metadata of the rotary position embedding.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RopeConfig {
    /// Elements of a head that are rotated.
    pub n_rot: u32,
    /// Base of the frequencies; 10000 where the file doesn't say.
    pub freq_base: f32,
    /// 1 / factor of linear scaling, else 1.
    pub freq_scale: f32,
}

/// Metadata whose keys begin with the architecture's name.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl<'a> Keys<'a> {
    pub(super) fn new(gguf: &'a Gguf, architecture: &'a str) -> Keys<'a> {
        Keys { metadata: gguf.metadata(), architecture }
    }

    /// The whole key.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.architecture)
    }

    /// The error about a key's value.
    pub(super) fn wrong(&self, key: &str, found: impl ToString, want: impl ToString) -> Problem {
        Problem::Metadata { key: self.key(key), found: found.to_string(), want: want.to_string() }
    }

    pub(super) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.metadata.get(&self.key(key))
    }

    pub(super) fn u32(&self, key: &str) -> Result<Option<u32>, Problem> {
        Ok(self.metadata.u32(&self.key(key))?)
    }

    pub(super) fn bool_array(&self, key: &str) -> Result<Option<Vec<bool>>, Problem> {
        Ok(self.metadata.bool_array(&self.key(key))?)
    }

    /// A positive size.
    fn size(&self, key: &str) -> Result<Option<u32>, Problem> {
        match self.u32(key)? {
            Some(0) => Err(self.wrong(key, 0, "at least 1")),
            size => Ok(size),
        }
    }

    fn require_size(&self, key: &str) -> Result<u32, Problem> {
        self.size(key)?.ok_or_else(|| self.metadata.missing(&self.key(key)).into())
    }

    /// A positive size that may be given for each layer, and then has to be the same for all.
    fn uniform_size(&self, key: &str) -> Result<Option<u32>, Problem> {
        if !matches!(self.get(key), Some(Value::Array(_))) {
            return self.size(key);
        }
        let list = self.metadata.require_u32_array(&self.key(key))?;
        match list.first() {
            Some(&n) if n > 0 && list.iter().all(|&m| m == n) => Ok(Some(n)),
            _ => Err(self.wrong(key, format!("{list:?}"), "one positive number for all layers")),
        }
    }

    /// A finite number above zero.
    pub(super) fn positive(&self, key: &str) -> Result<Option<f32>, Problem> {
        let Some(x) = self.metadata.f32(&self.key(key))? else { return Ok(None) };
        if x.is_normal() && x > 0.0 { Ok(Some(x)) } else { Err(self.wrong(key, x, "a positive number")) }
    }

    /// A finite number above zero; the file may write zero for "none".
    pub(super) fn positive_or_none(&self, key: &str) -> Result<Option<f32>, Problem> {
        match self.metadata.f32(&self.key(key))? {
            Some(0.0) => Ok(None),
            _ => self.positive(key),
        }
    }

    /// Refuses a file that has this key with another value than the one that makes no difference.
    fn only(&self, key: &str, neutral: f32, why: &str) -> Result<(), Problem> {
        match self.metadata.f32(&self.key(key))? {
            Some(x) if x != neutral => Err(self.wrong(key, x, format!("{neutral}: {why}"))),
            _ => Ok(()),
        }
    }
}

impl ModelConfig {
    pub(super) fn read(gguf: &Gguf, architecture: &str) -> Result<ModelConfig, Problem> {
        let keys = Keys::new(gguf, architecture);
        if let Some(n) = keys.u32("expert_count")?.filter(|&n| n > 0) {
            return Err(keys.wrong("expert_count", n, "0: mixtures of experts are not supported yet"));
        }
        if gguf.metadata().bool(&keys.key("attention.causal"))? == Some(false) {
            return Err(keys.wrong("attention.causal", false, "true: attention is causal here"));
        }
        let n_embd = keys.require_size("embedding_length")?;
        let require_uniform = |key: &str| -> Result<u32, Problem> {
            let missing = || Problem::from(gguf.metadata().missing(&keys.key(key)));
            keys.uniform_size(key)?.ok_or_else(missing)
        };
        let n_head = require_uniform("attention.head_count")?;
        let n_kv_head = keys.uniform_size("attention.head_count_kv")?.unwrap_or(n_head);
        if !n_head.is_multiple_of(n_kv_head) {
            let want = format!("a divisor of the {n_head} query heads");
            return Err(keys.wrong("attention.head_count_kv", n_kv_head, want));
        }
        let head_dim = head_dim(&keys, n_embd, n_head)?;
        Ok(ModelConfig {
            architecture: architecture.into(),
            name: gguf.metadata().str("general.name")?.map(Into::into),
            n_vocab: n_vocab(gguf, &keys)?,
            n_embd,
            n_layer: keys.require_size("block_count")?,
            n_head,
            n_kv_head,
            head_dim,
            n_ff: require_uniform("feed_forward_length")?,
            n_ctx_train: keys.require_size("context_length")?,
            norm_eps: norm_eps(gguf, &keys)?,
            attention_scale: keys.positive_or_none("attention.scale")?,
            rope: rope(gguf, &keys, head_dim)?,
        })
    }

    /// Columns of the queries of a layer.
    pub fn n_q(&self) -> u32 {
        self.n_head * self.head_dim
    }

    /// Columns of the keys, and of the values, of a layer.
    pub fn n_kv(&self) -> u32 {
        self.n_kv_head * self.head_dim
    }
}

fn norm_eps(gguf: &Gguf, keys: &Keys<'_>) -> Result<f32, Problem> {
    const KEY: &str = "attention.layer_norm_rms_epsilon";
    let eps = gguf.metadata().require_f32(&keys.key(KEY))?;
    if eps.is_finite() && eps >= 0.0 { Ok(eps) } else { Err(keys.wrong(KEY, eps, "a number of at least 0")) }
}

fn head_dim(keys: &Keys<'_>, n_embd: u32, n_head: u32) -> Result<u32, Problem> {
    const KEY: &str = "attention.key_length";
    let head_dim = match keys.size(KEY)? {
        Some(n) => n,
        None if n_embd.is_multiple_of(n_head) => n_embd / n_head,
        None => {
            let want = format!("a divisor of the {n_embd} columns where the file has no `{}`", keys.key(KEY));
            return Err(keys.wrong("attention.head_count", n_head, want));
        }
    };
    if n_head.checked_mul(head_dim).is_none() {
        return Err(keys.wrong("attention.head_count", n_head, format!("{n_head} heads of {head_dim} to fit 32 bits")));
    }
    match keys.size("attention.value_length")? {
        Some(n) if n != head_dim => {
            Err(keys.wrong("attention.value_length", n, format!("{head_dim}, the length of keys")))
        }
        _ => Ok(head_dim),
    }
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

fn rope(gguf: &Gguf, keys: &Keys<'_>, head_dim: u32) -> Result<RopeConfig, Problem> {
    let n_rot = keys.size("rope.dimension_count")?.unwrap_or(head_dim);
    if !n_rot.is_multiple_of(2) || n_rot > head_dim {
        let want = format!("an even number of at most {head_dim}, a head's elements");
        return Err(keys.wrong("rope.dimension_count", n_rot, want));
    }
    let freq_base = keys.positive("rope.freq_base")?.unwrap_or(10000.0);
    keys.only("rope.scaling.attn_factor", 1.0, "scaling attention by context length is not supported yet")?;
    // Older files have one key for linear scaling.
    let factor = match keys.positive_or_none("rope.scaling.factor")? {
        Some(factor) => Some(factor),
        None => keys.positive_or_none("rope.scale_linear")?,
    };
    let factor = match gguf.metadata().str(&keys.key("rope.scaling.type"))? {
        Some("none") => 1.0,
        None | Some("linear") => factor.unwrap_or(1.0),
        Some(other) => return Err(keys.wrong("rope.scaling.type", format!("`{other}`"), "none or linear")),
    };
    Ok(RopeConfig { n_rot, freq_base, freq_scale: 1.0 / factor })
}
