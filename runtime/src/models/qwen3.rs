//! Qwen3: every head of queries and keys is normed.

use super::Problem;
use super::blocks::{Attention, Decoder, Layer, Mlp};
use super::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle};

pub(super) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    let attention = Attention { qk_norm: true, ..Attention::new(m.config(), rope) };
    let mlp = Mlp::gated(Activation::Silu);
    Decoder::PLAIN.build(m, |_| Layer { attention, mlp })
}
