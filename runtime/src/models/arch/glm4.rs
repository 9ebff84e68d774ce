//! GLM-4-0414: norms before and behind each block, a part of each head rotated.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mlp, Shape};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    // Models that see images rotate sections of a head by positions that are the same in text, in halves.
    let style = if m.keys().get("rope.dimension_sections").is_some() { RopeStyle::Neox } else { RopeStyle::Normal };
    let rope = m.rope(style);
    Decoder::PLAIN.build(m, |m, n| {
        let mlp = Mlp { shape: Shape::Fused, ..Mlp::new(m, n, Activation::Silu)? };
        Ok(Layer {
            post_norm: Some("post_attention_norm"),
            ffn_post_norm: Some("post_ffw_norm"),
            ..Layer::new(Attention::new(m, n, rope)?, mlp)
        })
    })
}
