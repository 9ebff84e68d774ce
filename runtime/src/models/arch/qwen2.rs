//! Qwen2 and Qwen2.5: biases on queries, keys and values. The kind with experts has one beside them that every token
//! takes, gated.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer, Mlp, Moe};
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, RopeStyle, Scoring};

pub(crate) fn dense(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    build(m, |m, n| Ok(Mlp::new(m, n, Activation::Silu)?.into()))
}

pub(crate) fn experts(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    build(m, |m, n| {
        let shared = match m.keys().u32("expert_shared_feed_forward_length")? {
            None | Some(0) => m.n_ff(n)?,
            Some(n) => n,
        };
        Ok(Moe::new(m, n, Scoring::Softmax, false)?.with_shared_of(shared, true).into())
    })
}

fn build(
    m: &mut ModelBuilder<'_>,
    ffn: fn(&ModelBuilder<'_>, u32) -> Result<FeedForward, Problem>,
) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    Decoder::PLAIN.build(m, |m, n| {
        let attention = Attention { qkv_bias: Bias::Required, ..Attention::new(m, n, rope)? };
        Ok(Layer::new(attention, ffn(m, n)?))
    })
}
