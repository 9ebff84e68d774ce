//! A layer's blocks on the residual stream, and what is around the layers.

use super::{Attention, DeltaNet, LatentAttention, Mlp, Moe, PerLayerEmbedding, ShortConv, Ssm};
use crate::models::builder::{Bias, ModelBuilder};
use crate::models::{ModelConfig, Problem};
use hrx_ir::graph::{Activation, HIDDEN, Input, LOGITS, Op, Scoring, Tensor};

/// The block of a layer in which tokens see each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mixer {
    Attention(Attention),
    Latent(LatentAttention),
    DeltaNet(DeltaNet),
    ShortConv(ShortConv),
    Ssm(Ssm),
}

impl Mixer {
    /// The part in which they do.
    fn mix(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<Tensor, Problem> {
        match self {
            Mixer::Attention(block) => block.mix(m, layer, h),
            Mixer::Latent(block) => block.mix(m, layer, h),
            Mixer::DeltaNet(block) => block.mix(m, layer, h),
            Mixer::ShortConv(block) => block.mix(m, layer, h),
            Mixer::Ssm(block) => block.mix(m, layer, h),
        }
    }

    /// The projection behind it.
    fn finish(&self, m: &mut ModelBuilder<'_>, layer: u32, mixed: Tensor) -> Result<Tensor, Problem> {
        match self {
            Mixer::Attention(block) => block.finish(m, layer, mixed),
            Mixer::Latent(block) => block.finish(m, layer, mixed),
            Mixer::DeltaNet(block) => block.finish(m, layer, mixed),
            Mixer::ShortConv(block) => block.finish(m, layer, mixed),
            Mixer::Ssm(block) => block.finish(m, layer, mixed),
        }
    }
}

/// A network that each token goes through by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FeedForward {
    /// Name of the norm before it.
    pub(crate) norm: Option<&'static str>,
    /// The network.
    pub(crate) net: Net,
    /// Name of the norm behind it.
    pub(crate) post_norm: Option<&'static str>,
}

/// One network or many.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Net {
    Mlp(Mlp),
    Moe(Moe),
}

impl FeedForward {
    /// Gated with SiLU; or experts of that kind, chosen by a softmax, where the model has any.
    pub(crate) fn usual(m: &ModelBuilder<'_>, layer: u32) -> Result<FeedForward, Problem> {
        Ok(match m.config().n_expert {
            0 => Mlp::new(m, layer, Activation::Silu)?.into(),
            _ => Moe::new(m, layer, Scoring::Softmax, true)?.into(),
        })
    }
}

impl From<Mlp> for FeedForward {
    fn from(mlp: Mlp) -> FeedForward {
        FeedForward { norm: Some("ffn_norm"), net: Net::Mlp(mlp), post_norm: None }
    }
}

impl From<Moe> for FeedForward {
    fn from(moe: Moe) -> FeedForward {
        FeedForward { norm: Some("ffn_norm"), net: Net::Moe(moe), post_norm: None }
    }
}

macro_rules! mixers {
    ($($kind:ident($block:ident)),*) => {
        $(impl From<$block> for Mixer {
            fn from(block: $block) -> Mixer {
                Mixer::$kind(block)
            }
        })*
    };
}

mixers! { Attention(Attention), Latent(LatentAttention), DeltaNet(DeltaNet), ShortConv(ShortConv), Ssm(Ssm) }

/// The blocks of a layer, one after the other on the residual stream: with h the normed stream,
/// `x = x + post_norm(mixer(h))`, then `x = x + ffn_post_norm(sum of networks(norm(x)))`.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Name of the norm before the mixer.
    pub(crate) norm: Option<&'static str>,
    /// The mixer.
    pub(crate) mixer: Mixer,
    /// Name of the norm between the mixer and the residual sum.
    pub(crate) post_norm: Option<&'static str>,
    /// The networks, whose results are summed; may be none.
    pub(crate) ffn: Vec<FeedForward>,
    /// Name of the norm between the networks' sum and the residual sum.
    pub(crate) ffn_post_norm: Option<&'static str>,
    /// Whether the networks read what the mixer reads, and not the stream behind it.
    pub(crate) parallel: bool,
    /// What blocks' results are multiplied by before they are added.
    pub(crate) residual_scale: f32,
}

impl Layer {
    /// `attn_norm`, the mixer, and a network with its norm.
    pub(crate) fn new(mixer: impl Into<Mixer>, ffn: impl Into<FeedForward>) -> Layer {
        Layer { ffn: vec![ffn.into()], ..Layer::of_mixer(mixer) }
    }

    /// `attn_norm` and the mixer, nothing else.
    pub(crate) fn of_mixer(mixer: impl Into<Mixer>) -> Layer {
        Layer {
            norm: Some("attn_norm"),
            mixer: mixer.into(),
            post_norm: None,
            ffn: vec![],
            ffn_post_norm: None,
            parallel: false,
            residual_scale: 1.0,
        }
    }

    /// The residual stream behind the layer.
    fn run(&self, m: &mut ModelBuilder<'_>, layer: u32, x: Tensor) -> Result<Tensor, Problem> {
        let h = norm(m, layer, x, self.norm)?;
        let mixed = self.mixer.mix(m, layer, h)?;
        // From here on rows don't see each other: the last layer goes on with the wanted ones alone.
        let mixed = m.wanted(layer, mixed)?;
        let x = m.wanted(layer, x)?;
        let read = if self.parallel { Some(m.wanted(layer, h)?) } else { None };
        let out = self.mixer.finish(m, layer, mixed)?;
        let mut x = self.add(m, layer, out, x, self.post_norm)?;
        let mut sum = None;
        for ffn in &self.ffn {
            let h = match read {
                Some(h) => h,
                None => norm(m, layer, x, ffn.norm)?,
            };
            let out = match &ffn.net {
                Net::Mlp(net) => net.run(m, layer, h)?,
                Net::Moe(net) => net.run(m, layer, x, h)?,
            };
            let out = norm(m, layer, out, ffn.post_norm)?;
            sum = Some(match sum {
                Some(sum) => m.graph.add(sum, out)?,
                None => out,
            });
        }
        if let Some(sum) = sum {
            x = self.add(m, layer, sum, x, self.ffn_post_norm)?;
        }
        Ok(x)
    }

    /// The residual sum.
    fn add(
        &self,
        m: &mut ModelBuilder<'_>,
        layer: u32,
        block: Tensor,
        residual: Tensor,
        post_norm: Option<&str>,
    ) -> Result<Tensor, Problem> {
        let mut block = norm(m, layer, block, post_norm)?;
        if self.residual_scale != 1.0 {
            block = m.graph.scale(block, self.residual_scale)?;
        }
        Ok(m.graph.add(block, residual)?)
    }
}

/// The norm of that name, if there is one.
fn norm(m: &mut ModelBuilder<'_>, layer: u32, x: Tensor, name: Option<&str>) -> Result<Tensor, Problem> {
    let n_embd = m.config().n_embd;
    match name {
        Some(name) => m.norm(x, &format!("blk.{layer}.{name}"), n_embd),
        None => Ok(x),
    }
}

/// What a model has around its layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder {
    /// Factor of the embedding.
    pub(crate) embed_scale: f32,
    /// Whether a row of `position_embd` is added for each token's position.
    pub(crate) position_table: bool,
    /// Embeddings that each layer has of its own.
    pub(crate) per_layer: Option<PerLayerEmbedding>,
    /// Whether the stream is multiplied by `layer_output_scale` behind layers that have it.
    pub(crate) layer_scales: bool,
    /// Name of the norm behind the layers.
    pub(crate) output_norm: &'static str,
    /// Factor of the logits.
    pub(crate) logit_scale: f32,
    /// Bound of the logits.
    pub(crate) final_softcap: Option<f32>,
}

impl Decoder {
    /// Nothing scaled, nothing bounded.
    pub(crate) const PLAIN: Decoder = Decoder {
        embed_scale: 1.0,
        position_table: false,
        per_layer: None,
        layer_scales: false,
        output_norm: "output_norm",
        logit_scale: 1.0,
        final_softcap: None,
    };

    /// Embedding, the layers in order, norm and head. The head is the embedding table where the file has no other.
    pub(crate) fn build(
        self,
        m: &mut ModelBuilder<'_>,
        layers: impl Fn(&ModelBuilder<'_>, u32) -> Result<Layer, Problem>,
    ) -> Result<(), Problem> {
        let &ModelConfig { n_vocab, n_embd, n_layer, n_ctx_train, .. } = m.config();
        let table = m.tensor("token_embd.weight", &[n_embd, n_vocab])?;
        let mut x = m.graph.embed(table, self.embed_scale)?;
        if self.position_table {
            let table = m.tensor("position_embd.weight", &[n_embd, n_ctx_train])?;
            let ids = m.graph.input(Input::Positions);
            let rows = m.graph.push(Op::Embed { table, ids, scale: 1.0 })?;
            x = m.graph.add(x, rows)?;
        }
        let rows = match self.per_layer {
            Some(own) => Some((own, own.rows(m, x)?)),
            None => None,
        };
        for n in 0..n_layer {
            x = layers(m, n)?.run(m, n, x)?;
            if let Some((own, rows)) = rows {
                x = own.run(m, n, x, rows)?;
            }
            if self.layer_scales
                && let Some(scale) = m.optional(&format!("blk.{n}.layer_output_scale.weight"), &[1])?
            {
                x = m.graph.mul(x, scale)?;
            }
        }
        let x = m.norm(x, self.output_norm, n_embd)?;
        m.graph.output(HIDDEN, x)?;
        let mut logits = if m.has("output.weight") {
            m.linear(x, "output", n_vocab, Bias::IfPresent)?
        } else {
            m.graph.linear(x, table, None)?
        };
        if self.logit_scale != 1.0 {
            logits = m.graph.scale(logits, self.logit_scale)?;
        }
        if let Some(cap) = self.final_softcap {
            logits = m.graph.soft_cap(logits, cap)?;
        }
        Ok(m.graph.output(LOGITS, logits)?)
    }
}
