//! gpt-oss: experts with biases and a bounded product, attention with sinks, a window in every second layer.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer, Moe, Windows};
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, Limit, RopeStyle, Scoring};

/// Every second layer sees everything, where the file doesn't say.
const PERIOD: u32 = 2;

/// Bound inside the experts; files don't say.
const LIMIT: f32 = 7.0;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    let windows = Windows::read(m, PERIOD)?;
    Decoder::PLAIN.build(m, |m, n| {
        let attention = Attention {
            window: windows.at(n),
            sinks: true,
            qkv_bias: Bias::Required,
            output_bias: Bias::Required,
            ..Attention::new(m, n, rope)?
        };
        let moe = Moe {
            router_bias: Bias::Required,
            bias: Bias::Required,
            act: Activation::GeluQuick,
            limit: Limit::GatePlusOne(LIMIT),
            ..Moe::new(m, n, Scoring::SoftmaxOfChosen, false)?
        };
        Ok(Layer::new(attention, FeedForward { norm: Some("post_attention_norm"), ..moe.into() }))
    })
}
