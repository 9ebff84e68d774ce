//! Orion: as Llama, with LayerNorm and rotation in halves.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mlp};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    m.use_layer_norm();
    let rope = m.rope(RopeStyle::Neox);
    Decoder::PLAIN.build(m, |m, n| Ok(Layer::new(Attention::new(m, n, rope)?, Mlp::new(m, n, Activation::Silu)?)))
}
