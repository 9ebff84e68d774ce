//! Qwen2 and Qwen2.5: biases on queries, keys and values.

use super::Problem;
use super::blocks::{Attention, Decoder, Layer, Mlp};
use super::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, RopeStyle};

pub(super) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    let attention = Attention { qkv_bias: Bias::Required, ..Attention::new(m.config(), rope) };
    let mlp = Mlp::gated(Activation::Silu);
    Decoder::PLAIN.build(m, |_| Layer { attention, mlp })
}
