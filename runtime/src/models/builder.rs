//! A graph under construction together with the file that its weights come from.

use super::config::Heads;
use super::keys::Keys;
use super::rows::{supported_types, weight_content};
use super::{ModelConfig, Problem, Stored};
use crate::gguf::{Gguf, TensorInfo};
use hrx_ir::graph::{self, Graph, NormKind, RopeSpec, RopeStyle, Tensor};
use std::collections::{HashMap, HashSet};

/// Whether a linear layer has a bias.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bias {
    /// The architecture has one.
    Required,
    /// Where the file has one. Files of models with biases exist for architectures that were published without.
    IfPresent,
}

/// Dimensions as files have them.
fn wide(dims: &[u32]) -> Vec<u64> {
    dims.iter().map(|&n| n.into()).collect()
}

/// Checks a tensor's dimensions.
fn has_dims(info: &TensorInfo, want: &[u32]) -> Result<(), Problem> {
    // Trailing dimensions of 1 make no difference.
    let axes = want.len().max(info.dims().len());
    if (0..axes).any(|axis| info.dim(axis) != want.get(axis).map_or(1, |&n| u64::from(n))) {
        let (name, found) = (info.name().into(), info.dims().into());
        return Err(Problem::TensorShape { name, found, want: wide(want) });
    }
    Ok(())
}

/// Looks up weights by name and shape, and builds the graph over them.
pub(crate) struct ModelBuilder<'a> {
    gguf: &'a Gguf,
    config: ModelConfig,
    norms: NormKind,
    /// The graph so far.
    pub(crate) graph: graph::Builder,
    /// The caches of layers after their store, for layers that read another's.
    pub(crate) stored: HashMap<u32, Tensor>,
    used: HashSet<String>,
}

impl<'a> ModelBuilder<'a> {
    pub(super) fn new(gguf: &'a Gguf, config: ModelConfig) -> ModelBuilder<'a> {
        let graph = graph::Builder::new(&config.architecture);
        ModelBuilder { gguf, config, norms: NormKind::Rms, graph, stored: HashMap::new(), used: HashSet::new() }
    }

    pub(crate) fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The architecture's own metadata.
    pub(crate) fn keys(&self) -> Keys<'_> {
        Keys::new(self.gguf, &self.config.architecture)
    }

    /// All norms are LayerNorm, not the root-mean-square norm.
    pub(crate) fn use_layer_norm(&mut self) {
        self.norms = NormKind::Layer;
    }

    /// The verified graph. Every tensor of the file has to be used, but for those that
    /// [`is_for_others`](Self::is_for_others).
    pub(super) fn finish(self) -> Result<(ModelConfig, Graph), Problem> {
        let unknown = |t: &&TensorInfo| !self.used.contains(t.name()) && !self.is_for_others(t.name());
        let mut unused = self.gguf.tensors().iter().filter(unknown);
        if let Some(first) = unused.next() {
            let (architecture, name) = (self.config.architecture.clone(), first.name().into());
            return Err(Problem::UnusedTensors { architecture, name, others: unused.count() });
        }
        Ok((self.config, self.graph.finish()?))
    }

    /// Whether a tensor is no part of what is computed here: the blocks behind the last layer, and all tensors named
    /// `blk.N.nextn.*`, predict tokens after the next (multi-token prediction); `*.input_scale` is for engines that
    /// round activations to NVFP4.
    fn is_for_others(&self, name: &str) -> bool {
        let block = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        let behind = |n: &str| {
            let (first, count) = (self.config.n_layer, self.config.n_layer_nextn);
            n.parse::<u32>().is_ok_and(|n| n >= first && n - first < count)
        };
        block.is_some_and(|(n, part)| part.starts_with("nextn.") || behind(n)) || name.ends_with(".input_scale")
    }

    /// Whether the file has a tensor.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.gguf.tensor(name).is_some()
    }

    /// Takes a tensor to be known, though it is not needed.
    pub(crate) fn skip(&mut self, name: &str) {
        self.used.insert(name.into());
    }

    /// A weight with these dimensions in GGML's order, if the file has it; as `rows` rows of `cols` elements, whatever
    /// its dimensions: those are neighbours in the file.
    fn find_as(&mut self, name: &str, want: &[u32], [rows, cols]: [u32; 2]) -> Result<Option<Tensor>, Problem> {
        let Some(stored) = Stored::find(self.gguf, name) else { return Ok(None) };
        let first = stored.parts()[0];
        match &stored {
            Stored::Whole(info) => has_dims(info, want)?,
            Stored::Experts(experts) => {
                let (count, each) = want.split_last().unwrap_or((&1, &[]));
                if experts.len() as u64 != u64::from(*count) {
                    let found = first.dims().iter().copied().chain([experts.len() as u64]).collect();
                    return Err(Problem::TensorShape { name: name.into(), found, want: wide(want) });
                }
                for info in experts {
                    has_dims(info, each)?;
                    if info.ggml_type() != first.ggml_type() {
                        let (name, found) = (info.name().into(), info.ggml_type().name());
                        return Err(Problem::TensorType { name, found, want: vec![first.ggml_type().name()] });
                    }
                }
            }
        }
        let Some(content) = weight_content(first.ggml_type()) else {
            let (name, found) = (first.name().into(), first.ggml_type().name());
            return Err(Problem::TensorType { name, found, want: supported_types() });
        };
        self.used.extend(stored.parts().iter().map(|part| part.name().into()));
        Ok(Some(self.graph.weight(name, content, rows, cols)?))
    }

    fn find(&mut self, name: &str, want: &[u32]) -> Result<Option<Tensor>, Problem> {
        let rows = want[1..].iter().try_fold(1u32, |n, &m| n.checked_mul(m));
        // A tensor of more rows has not these dimensions.
        self.find_as(name, want, [rows.unwrap_or(0), want[0]])
    }

    fn missing(name: &str, want: &[u32]) -> Problem {
        Problem::MissingTensor { name: name.into(), want: wide(want) }
    }

    /// The tensor `name` with these dimensions in GGML's order: a vector, a matrix of rows, or rows expert after
    /// expert.
    pub(crate) fn tensor(&mut self, name: &str, want: &[u32]) -> Result<Tensor, Problem> {
        self.find(name, want)?.ok_or_else(|| Self::missing(name, want))
    }

    /// The tensor `name`, if the file has it.
    pub(crate) fn optional(&mut self, name: &str, want: &[u32]) -> Result<Option<Tensor>, Problem> {
        self.find(name, want)
    }

    /// All elements of the tensor `name` as one row.
    pub(crate) fn row(&mut self, name: &str, want: &[u32]) -> Result<Tensor, Problem> {
        let n = want.iter().try_fold(1u32, |n, &m| n.checked_mul(m)).unwrap_or(0);
        self.find_as(name, want, [1, n])?.ok_or_else(|| Self::missing(name, want))
    }

    /// The first `n` elements of the vector `name` of `all`, if the file has it.
    pub(crate) fn first_of(&mut self, name: &str, all: u32, n: u32) -> Result<Option<Tensor>, Problem> {
        self.find_as(name, &[all], [1, n])
    }

    fn bias(&mut self, name: &str, want: &[u32], bias: Bias) -> Result<Option<Tensor>, Problem> {
        match bias {
            Bias::Required => self.tensor(&format!("{name}.bias"), want).map(Some),
            Bias::IfPresent => self.find(&format!("{name}.bias"), want),
        }
    }

    /// `x` through the linear layer of `{name}.weight` and `{name}.bias`, giving `n_out` columns. Where the file has
    /// `{name}.scale` (NVFP4), products are multiplied by it.
    pub(crate) fn linear(&mut self, x: Tensor, name: &str, n_out: u32, bias: Bias) -> Result<Tensor, Problem> {
        let n_in = self.graph.graph().cols(x);
        let weight = self.tensor(&format!("{name}.weight"), &[n_in, n_out])?;
        let bias = self.bias(name, &[n_out], bias)?;
        let Some(scale) = self.find(&format!("{name}.scale"), &[1])? else {
            return Ok(self.graph.linear(x, weight, bias)?);
        };
        let product = self.graph.linear(x, weight, None)?;
        let scaled = self.graph.mul(product, scale)?;
        Ok(match bias {
            Some(bias) => self.graph.add(scaled, bias)?,
            None => scaled,
        })
    }

    /// As [`linear`](Self::linear), for the experts of each row.
    pub(crate) fn expert_linear(
        &mut self,
        x: Tensor,
        name: &str,
        [n_in, n_out, n_expert]: [u32; 3],
        routes: Tensor,
        bias: Bias,
    ) -> Result<Tensor, Problem> {
        let weight = self.tensor(&format!("{name}.weight"), &[n_in, n_out, n_expert])?;
        let bias = self.bias(name, &[n_out, n_expert], bias)?;
        let scale = self.find(&format!("{name}.scale"), &[n_expert])?;
        Ok(self.graph.push(graph::Op::ExpertLinear { x, weight, n_expert, routes: Some(routes), scale, bias })?)
    }

    /// What norms add to the mean square.
    pub(crate) fn norm_eps(&self) -> Result<f32, Problem> {
        self.keys().require_epsilon(match self.norms {
            NormKind::Rms => "attention.layer_norm_rms_epsilon",
            NormKind::Layer => "attention.layer_norm_epsilon",
        })
    }

    /// `x` normed in groups of `n` columns with `{name}.weight`, which all groups share, and `{name}.bias` if the file
    /// has it.
    pub(crate) fn norm(&mut self, x: Tensor, name: &str, n: u32) -> Result<Tensor, Problem> {
        let eps = self.norm_eps()?;
        let weight = self.tensor(&format!("{name}.weight"), &[n])?;
        if self.norms == NormKind::Rms {
            return Ok(self.graph.rms_norm(x, weight, eps)?);
        }
        let normed = self.graph.normalize(x, NormKind::Layer, n, eps)?;
        let scaled = self.graph.mul(normed, weight)?;
        Ok(match self.find(&format!("{name}.bias"), &[n])? {
            Some(bias) => self.graph.add(scaled, bias)?,
            None => scaled,
        })
    }

    /// `x` normed in `groups` groups of `n` columns, each with its own row of `{name}.weight`.
    pub(crate) fn norm_each(&mut self, x: Tensor, name: &str, n: u32, groups: u32) -> Result<Tensor, Problem> {
        let eps = self.norm_eps()?;
        let weight = self.row(&format!("{name}.weight"), &[n, groups])?;
        let normed = self.graph.normalize(x, self.norms, n, eps)?;
        Ok(self.graph.mul(normed, weight)?)
    }

    /// The rows of `x` that are wanted behind the last layer, if this is it: from where rows don't see each other.
    pub(crate) fn wanted(&mut self, layer: u32, x: Tensor) -> Result<Tensor, Problem> {
        Ok(if layer + 1 == self.config.n_layer { self.graph.select_rows(x)? } else { x })
    }

    /// The heads of a layer's attention.
    pub(crate) fn heads(&self, layer: u32) -> Result<Heads, Problem> {
        self.heads_of(layer, [self.config.head_dim, self.config.value_dim])
    }

    /// The heads of a layer's attention, where keys and values have these lengths.
    pub(crate) fn heads_of(&self, layer: u32, [head_dim, value_dim]: [u32; 2]) -> Result<Heads, Problem> {
        let (keys, c) = (self.keys(), &self.config);
        let (n_head, n_kv_head) = (c.n_head.at(layer), c.n_kv_head.at(layer));
        if n_head == 0 || head_dim == 0 {
            return Err(match keys.get("attention.head_count") {
                None => keys.missing("attention.head_count"),
                Some(_) => keys.wrong("attention.head_count", c.n_head.describe(layer), "at least 1"),
            });
        }
        if n_kv_head == 0 || !n_head.is_multiple_of(n_kv_head) {
            let want = format!("a divisor of the {n_head} query heads");
            return Err(keys.wrong("attention.head_count_kv", c.n_kv_head.describe(layer), want));
        }
        // Twice the queries: with their gates.
        let dim = head_dim.max(value_dim);
        if n_head.checked_mul(2).and_then(|n| n.checked_mul(dim)).is_none() {
            return Err(keys.wrong("attention.head_count", n_head, format!("{n_head} heads of {dim} to fit 32 bits")));
        }
        Ok(Heads { n_head, n_kv_head, head_dim, value_dim })
    }

    /// The columns inside a layer's feed-forward network.
    pub(crate) fn n_ff(&self, layer: u32) -> Result<u32, Problem> {
        const KEY: &str = "feed_forward_length";
        let (keys, n_ff) = (self.keys(), &self.config.n_ff);
        match n_ff.at(layer) {
            0 if keys.get(KEY).is_none() => Err(keys.missing(KEY)),
            0 => Err(keys.wrong(KEY, n_ff.describe(layer), "at least 1")),
            n => Ok(n),
        }
    }

    /// The rotary embedding that the metadata describe.
    pub(crate) fn rope(&self, style: RopeStyle) -> RopeSpec {
        self.config.rope.spec(self.config.head_dim, style)
    }

    /// The same with the divisors of frequencies that the file has: one list (Llama 3.1 and later), or two of which the
    /// context's length chooses (LongRoPE).
    pub(crate) fn rope_with_factors(&mut self, style: RopeStyle) -> Result<RopeSpec, Problem> {
        let rope = self.rope(style);
        let n = rope.n_rot / 2;
        let factors = self.find("rope_freqs.weight", &[n])?;
        if factors.is_some() {
            return Ok(RopeSpec { factors, ..rope });
        }
        let short = self.find("rope_factors_short.weight", &[n])?;
        let long_factors = self.find("rope_factors_long.weight", &[n])?;
        let original = if long_factors.is_some() { self.config.rope.original } else { rope.original };
        Ok(RopeSpec { factors: short, long_factors, original, ..rope })
    }
}
