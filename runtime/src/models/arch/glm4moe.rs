//! GLM-4.5 and GLM-4.6: experts chosen by biased sigmoids, beside one that every token takes; first layers without.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer, Mlp, Moe, QkNorm};
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, RopeStyle, Scoring};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    let dense = m.keys().u32("leading_dense_block_count")?.unwrap_or(0);
    let n_shared = m.keys().u32("expert_shared_count")?.unwrap_or(0);
    Decoder::PLAIN.build(m, |m, n| {
        let attention = Attention { qk_norm: QkNorm::HeadsIfPresent, ..Attention::new(m, n, rope)? };
        let ffn: FeedForward = if n < dense {
            Mlp::new(m, n, Activation::Silu)?.into()
        } else {
            let moe = Moe { choice_bias: Bias::Required, ..Moe::described(m, n, Scoring::Sigmoid)? };
            moe.with_shared(m, n_shared)?.into()
        };
        Ok(Layer::new(attention, FeedForward { norm: Some("post_attention_norm"), ..ffn }))
    })
}
