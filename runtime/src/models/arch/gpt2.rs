//! GPT-2: LayerNorm, biases everywhere, a table of positions, a network without a gate.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mlp, Shape};
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, RopeStyle};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    m.use_layer_norm();
    let unused = m.rope(RopeStyle::Neox);
    Decoder { position_table: true, ..Decoder::PLAIN }.build(m, |m, n| {
        let attention = Attention {
            rope: None,
            qkv_bias: Bias::Required,
            output_bias: Bias::Required,
            ..Attention::new(m, n, unused)?
        };
        let mlp = Mlp { shape: Shape::Plain, bias: Bias::Required, ..Mlp::new(m, n, Activation::GeluTanh)? };
        Ok(Layer::new(attention, mlp))
    })
}
