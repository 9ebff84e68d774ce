//! A graph under construction together with the file that its weights come from.

use super::config::Keys;
use super::rows::{supported_types, weight_content};
use super::{ModelConfig, Problem};
use crate::gguf::Gguf;
use hrx_ir::graph::{self, Graph, RopeSpec, RopeStyle, Tensor};
use std::collections::HashSet;

/// Whether a linear layer has a bias.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bias {
    /// The architecture has one.
    Required,
    /// Where the file has one. Files of models with biases exist for architectures that were published without.
    IfPresent,
}

/// Looks up weights by name and shape, and builds the graph over them.
pub(super) struct ModelBuilder<'a> {
    gguf: &'a Gguf,
    config: ModelConfig,
    /// The graph so far.
    pub(super) graph: graph::Builder,
    used: HashSet<String>,
}

impl<'a> ModelBuilder<'a> {
    pub(super) fn new(gguf: &'a Gguf, config: ModelConfig) -> ModelBuilder<'a> {
        let graph = graph::Builder::new(&config.architecture);
        ModelBuilder { gguf, config, graph, used: HashSet::new() }
    }

    pub(super) fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The architecture's own metadata.
    pub(super) fn keys(&self) -> Keys<'_> {
        Keys::new(self.gguf, &self.config.architecture)
    }

    /// The verified graph. Every tensor of the file has to be used.
    pub(super) fn finish(self) -> Result<(ModelConfig, Graph), Problem> {
        let mut unused = self.gguf.tensors().iter().filter(|t| !self.used.contains(t.name()));
        if let Some(first) = unused.next() {
            let (architecture, name) = (self.config.architecture, first.name().into());
            return Err(Problem::UnusedTensors { architecture, name, others: unused.count() });
        }
        Ok((self.config, self.graph.finish()?))
    }

    /// A weight with these dimensions in GGML's order, if the file has it.
    fn find(&mut self, name: &str, want: &[u32]) -> Result<Option<Tensor>, Problem> {
        let Some(info) = self.gguf.tensor(name) else { return Ok(None) };
        // Trailing dimensions of 1 make no difference.
        let axes = want.len().max(info.dims().len());
        if (0..axes).any(|axis| info.dim(axis) != want.get(axis).map_or(1, |&n| u64::from(n))) {
            let (found, want) = (info.dims().into(), want.iter().map(|&n| n.into()).collect());
            return Err(Problem::TensorShape { name: name.into(), found, want });
        }
        let Some(content) = weight_content(info.ggml_type()) else {
            let (name, found) = (name.into(), info.ggml_type().name());
            return Err(Problem::TensorType { name, found, want: supported_types() });
        };
        self.used.insert(name.into());
        let rows = want.get(1).copied().unwrap_or(1);
        Ok(Some(self.graph.weight(name, content, rows, want[0])?))
    }

    fn require(&mut self, name: &str, want: &[u32]) -> Result<Tensor, Problem> {
        match self.find(name, want)? {
            Some(t) => Ok(t),
            None => Err(Problem::MissingTensor { name: name.into(), want: want.iter().map(|&n| n.into()).collect() }),
        }
    }

    /// The matrix `name`, `rows` rows of `cols` elements.
    pub(super) fn matrix(&mut self, name: &str, rows: u32, cols: u32) -> Result<Tensor, Problem> {
        self.require(name, &[cols, rows])
    }

    /// The matrix `name`, if the file has it.
    pub(super) fn optional_matrix(&mut self, name: &str, rows: u32, cols: u32) -> Result<Option<Tensor>, Problem> {
        self.find(name, &[cols, rows])
    }

    /// `x` through the linear layer of `{name}.weight` and `{name}.bias`, giving `n_out` columns.
    pub(super) fn linear(&mut self, x: Tensor, name: &str, n_out: u32, bias: Bias) -> Result<Tensor, Problem> {
        let n_in = self.graph.graph().cols(x);
        let weight = self.matrix(&format!("{name}.weight"), n_out, n_in)?;
        let bias_name = format!("{name}.bias");
        let bias = match bias {
            Bias::Required => Some(self.require(&bias_name, &[n_out])?),
            Bias::IfPresent => self.find(&bias_name, &[n_out])?,
        };
        Ok(self.graph.linear(x, weight, bias)?)
    }

    /// `x` normed in groups of `n` columns with `{name}.weight`.
    pub(super) fn norm(&mut self, x: Tensor, name: &str, n: u32) -> Result<Tensor, Problem> {
        let weight = self.require(&format!("{name}.weight"), &[n])?;
        Ok(self.graph.rms_norm(x, weight, self.config.norm_eps)?)
    }

    /// The rotary embedding that the metadata describe.
    pub(super) fn rope(&self, style: RopeStyle) -> RopeSpec {
        let rope = self.config.rope;
        RopeSpec {
            n_rot: rope.n_rot,
            freq_scale: rope.freq_scale,
            ..RopeSpec::new(self.config.head_dim, style, rope.freq_base)
        }
    }

    /// The divisors of rotary frequencies, where the file has them (Llama 3.1 and later).
    pub(super) fn rope_factors(&mut self) -> Result<Option<Tensor>, Problem> {
        self.find("rope_freqs.weight", &[self.config.rope.n_rot / 2])
    }
}
