//! Embeddings that each layer has of its own (Gemma 3n and later).

use crate::models::Problem;
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, Tensor};

/// A row for each layer, from the token and from its embedding, that gates what is added behind the layer's blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PerLayerEmbedding {
    /// Columns of one layer's row.
    pub(crate) n: u32,
}

impl PerLayerEmbedding {
    /// The rows of all layers, from the embedding `x`: `(norm(project(x) / sqrt(n_embd)) + table[token]) / sqrt(2)`.
    pub(super) fn rows(&self, m: &mut ModelBuilder<'_>, x: Tensor) -> Result<Tensor, Problem> {
        let (n_embd, n_layer, n_vocab) = (m.config().n_embd, m.config().n_layer, m.config().n_vocab);
        let Some(cols) = self.n.checked_mul(n_layer) else {
            let want = format!("{n_layer} layers' to fit 32 bits");
            return Err(m.keys().wrong("embedding_length_per_layer_input", self.n, want));
        };
        let table = m.tensor("per_layer_token_embd.weight", &[cols, n_vocab])?;
        let own = m.graph.embed(table, (self.n as f32).sqrt())?;
        let projected = m.linear(x, "per_layer_model_proj", cols, Bias::IfPresent)?;
        let projected = m.graph.scale(projected, 1.0 / (n_embd as f32).sqrt())?;
        let projected = m.norm(projected, "per_layer_proj_norm", self.n)?;
        let sum = m.graph.add(projected, own)?;
        Ok(m.graph.scale(sum, std::f32::consts::FRAC_1_SQRT_2)?)
    }

    /// `x + norm(project(gelu(gate(x)) * row))`.
    pub(super) fn run(&self, m: &mut ModelBuilder<'_>, layer: u32, x: Tensor, rows: Tensor) -> Result<Tensor, Problem> {
        let n_embd = m.config().n_embd;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let row = m.graph.columns(rows, layer * self.n, self.n)?;
        let row = m.wanted(layer, row)?;
        let gate = m.linear(x, &name("inp_gate"), self.n, Bias::IfPresent)?;
        let gated = m.graph.glu(gate, row, Activation::GeluTanh)?;
        let out = m.linear(gated, &name("proj"), n_embd, Bias::IfPresent)?;
        let out = m.norm(out, &name("post_norm"), n_embd)?;
        Ok(m.graph.add(x, out)?)
    }
}
