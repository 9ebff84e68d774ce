//! Qwen3: every head of queries and keys is normed.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer, Mlp, Moe, QkNorm};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle, Scoring};

pub(crate) fn dense(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    build(m, |m, n| Ok(Mlp::new(m, n, Activation::Silu)?.into()))
}

pub(crate) fn experts(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    build(m, |m, n| Ok(Moe::new(m, n, Scoring::Softmax, true)?.into()))
}

fn build(
    m: &mut ModelBuilder<'_>,
    ffn: fn(&ModelBuilder<'_>, u32) -> Result<FeedForward, Problem>,
) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    Decoder::PLAIN.build(m, |m, n| {
        let attention = Attention { qk_norm: QkNorm::Heads, ..Attention::new(m, n, rope)? };
        Ok(Layer::new(attention, ffn(m, n)?))
    })
}
