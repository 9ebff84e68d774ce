//! StableLM: LayerNorm, a part of each head rotated; models without a norm before the network have it beside attention.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mlp, QkNorm};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    m.use_layer_norm();
    let rope = m.rope(RopeStyle::Neox);
    Decoder::PLAIN.build(m, |m, n| {
        let attention = Attention { qk_norm: QkNorm::EachHeadIfPresent, ..Attention::new(m, n, rope)? };
        let parallel = !m.has(&format!("blk.{n}.ffn_norm.weight"));
        Ok(Layer { parallel, ..Layer::new(attention, Mlp::new(m, n, Activation::Silu)?) })
    })
}
