//! DeepSeek V2 and V3, and models of the same shape: latent attention, experts of which groups are open, beside those
//! that every token takes; first layers without.

use crate::models::Problem;
use crate::models::blocks::{Decoder, FeedForward, LatentAttention, Layer, Mlp, Moe, Temperature};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle, Scoring};

/// The part of `rope.scaling.yarn_log_multiplier` that is YaRN's own: files have a tenth of the model's factor.
const LOG_MULTIPLIER: f32 = 0.1;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Normal);
    let keys = m.keys();
    let dense = keys.u32("leading_dense_block_count")?.unwrap_or(0);
    let n_shared = keys.u32("expert_shared_count")?.unwrap_or(0);
    let temperature = match keys.positive_or_none("attention.temperature_scale")? {
        Some(by) => Some(Temperature { by, every: keys.require_size("attention.temperature_length")? }),
        None => None,
    };
    // Scores grow with the extended context, once for queries and once for keys.
    let scaling = &m.config().rope;
    let growth = rope.magnitude * scaling.growth(scaling.yarn_log_multiplier / LOG_MULTIPLIER);
    Decoder::PLAIN.build(m, |m, n| {
        let latent = LatentAttention::new(m, n, rope)?;
        let attention = LatentAttention { scale: growth * growth * latent.scale, temperature, ..latent };
        let ffn: FeedForward = if n < dense {
            Mlp::new(m, n, Activation::Silu)?.into()
        } else {
            Moe::described(m, n, default_scoring(m))?.with_shared(m, n_shared)?.into()
        };
        Ok(Layer::new(attention, ffn))
    })
}

/// Files of GLM-4.7-Flash, which are told by their layers and vocabulary, don't say that its scores are sigmoids.
fn default_scoring(m: &ModelBuilder<'_>) -> Scoring {
    match (m.config().n_layer, m.config().n_vocab) {
        (47 | 48, 154880) => Scoring::Sigmoid,
        _ => Scoring::Softmax,
    }
}
