//! Seed-OSS: as Qwen2, with the name of another norm before the network.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer, Mlp};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    Decoder::PLAIN.build(m, |m, n| {
        let ffn = FeedForward::from(Mlp::new(m, n, Activation::Silu)?);
        Ok(Layer::new(Attention::new(m, n, rope)?, FeedForward { norm: Some("post_attention_norm"), ..ffn }))
    })
}
