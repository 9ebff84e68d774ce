//! Granite 3 and 4: as Llama, with factors of the embedding, of blocks' results and of logits; or with experts.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer, Moe};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{RopeStyle, Scoring};

/// Models without rotation say that its scaling was not trained.
pub(crate) fn dense(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rotates = m.keys().bool("rope.scaling.finetuned")?.unwrap_or(true);
    build(m, rotates)
}

pub(crate) fn experts(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    build(m, true)
}

fn build(m: &mut ModelBuilder<'_>, rotates: bool) -> Result<(), Problem> {
    let rope = m.rope_with_factors(RopeStyle::Normal)?;
    let keys = m.keys();
    let residual_scale = keys.positive_or_none("residual_scale")?.unwrap_or(1.0);
    let shared = keys.size_or_none("expert_shared_feed_forward_length")?;
    let decoder = Decoder {
        embed_scale: keys.positive_or_none("embedding_scale")?.unwrap_or(1.0),
        logit_scale: 1.0 / keys.require_positive("logit_scale")?,
        ..Decoder::PLAIN
    };
    decoder.build(m, |m, n| {
        let attention = Attention { rope: rotates.then_some(rope), ..Attention::new(m, n, rope)? };
        let ffn = match shared {
            Some(n_ff) if m.config().n_expert > 0 => {
                Moe::new(m, n, Scoring::Softmax, true)?.with_shared_of(n_ff, false).into()
            }
            _ => FeedForward::usual(m, n)?,
        };
        Ok(Layer { residual_scale, ..Layer::new(attention, ffn) })
    })
}
