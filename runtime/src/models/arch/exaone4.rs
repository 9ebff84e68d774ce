//! EXAONE 4.0: norms behind each block and none before. The 32B model has windows in three of four layers, and only
//! these know of positions.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer, Mlp, QkNorm, Windows};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeSpec, RopeStyle};

/// Every fourth layer sees everything, where the file doesn't say.
const PERIOD: u32 = 4;

/// Layers of the model that has windows, and their size, where the file doesn't say.
const LAYERS_32B: u32 = 64;
const WINDOW: u32 = 4096;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope_with_factors(RopeStyle::Neox)?;
    let windows = match m.config().n_layer {
        LAYERS_32B => Windows::read_or(m, PERIOD, WINDOW)?,
        _ => Windows::read(m, PERIOD)?,
    };
    let base = m.keys().positive("rope.freq_base_swa")?.unwrap_or(rope.freq_base);
    let local = RopeSpec { freq_base: base, ..rope };
    Decoder::PLAIN.build(m, |m, n| {
        let window = windows.at(n);
        let rotation = if windows.exist() { window.map(|_| local) } else { Some(rope) };
        let attention = Attention { window, rope: rotation, qk_norm: QkNorm::Heads, ..Attention::new(m, n, rope)? };
        let ffn = FeedForward { norm: None, ..Mlp::new(m, n, Activation::Silu)?.into() };
        Ok(Layer {
            norm: None,
            post_norm: Some("post_attention_norm"),
            ffn_post_norm: Some("post_ffw_norm"),
            ..Layer::new(attention, ffn)
        })
    })
}
