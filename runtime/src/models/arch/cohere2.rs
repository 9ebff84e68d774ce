//! Command R7B and Command A: attention and network side by side behind one LayerNorm; windows in three of four layers,
//! and only these know of positions.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mlp, Windows};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeSpec, RopeStyle};

/// Every fourth layer sees everything, where the file doesn't say.
const PERIOD: u32 = 4;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    m.use_layer_norm();
    let rope = m.rope_with_factors(RopeStyle::Normal)?;
    let keys = m.keys();
    keys.require_size("attention.sliding_window")?;
    let windows = Windows::read(m, PERIOD)?;
    let local = RopeSpec { freq_base: keys.positive("rope.freq_base_swa")?.unwrap_or(rope.freq_base), ..rope };
    let decoder = Decoder { logit_scale: keys.require_positive("logit_scale")?, ..Decoder::PLAIN };
    decoder.build(m, |m, n| {
        let window = windows.at(n);
        let attention = Attention { window, rope: window.map(|_| local), ..Attention::new(m, n, rope)? };
        Ok(Layer { parallel: true, ..Layer::new(attention, Mlp::new(m, n, Activation::Silu)?) })
    })
}
