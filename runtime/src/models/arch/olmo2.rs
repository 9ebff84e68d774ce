//! OLMo 2: norms behind each block and none before, all heads' queries and keys normed together. OLMo 3 has windows in
//! three of four layers, which are not scaled to longer contexts.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer, Mlp, QkNorm, Windows};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeSpec, RopeStyle};

/// Every fourth layer sees everything, where the file doesn't say.
const PERIOD: u32 = 4;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    let windows = Windows::read(m, PERIOD)?;
    let base = m.keys().positive("rope.freq_base_swa")?.unwrap_or(rope.freq_base);
    let local = RopeSpec { n_rot: rope.n_rot, ..RopeSpec::new(rope.head_dim, rope.style, base) };
    Decoder::PLAIN.build(m, |m, n| {
        let window = windows.at(n);
        let attention = Attention::new(m, n, if window.is_some() { local } else { rope })?;
        let mlp = Mlp::new(m, n, Activation::Silu)?;
        Ok(Layer {
            norm: None,
            post_norm: Some("post_attention_norm"),
            ffn_post_norm: Some("post_ffw_norm"),
            ..Layer::new(
                Attention { window, qk_norm: QkNorm::Rows, ..attention },
                FeedForward { norm: None, ..mlp.into() },
            )
        })
    })
}
