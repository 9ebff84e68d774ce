//! Maple: experts with bounded products; only layers with a window know of positions.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Moe, QkNorm, Windows};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Limit, RopeSpec, RopeStyle, Scoring};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    let keys = m.keys();
    let rope = RopeSpec { freq_base: keys.positive("rope.freq_base_swa")?.unwrap_or(rope.freq_base), ..rope };
    if keys.get("attention.sliding_window_pattern").is_none() {
        return Err(keys.missing("attention.sliding_window_pattern"));
    }
    let windows = Windows::read(m, 0)?;
    let limit = keys.per_layer_f32("swiglu_clamp_exp", m.config().n_layer + m.config().n_layer_nextn)?;
    Decoder::PLAIN.build(m, |m, n| {
        let window = windows.at(n);
        let attention =
            Attention { window, rope: window.map(|_| rope), qk_norm: QkNorm::Heads, ..Attention::new(m, n, rope)? };
        let limit = if limit(n) > 0.0 { Limit::Gate(limit(n)) } else { Limit::Off };
        Ok(Layer::new(attention, Moe { limit, ..Moe::new(m, n, Scoring::Softmax, true)? }))
    })
}
