//! LFM2: short convolutions, and attention in the layers that have key/value heads.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mixer, Mlp, QkNorm, ShortConv};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    let window = m.keys().size_or_none("attention.sliding_window")?;
    let conv = ShortConv::new(m)?;
    // The norm behind the layers has another's name in these files.
    Decoder { output_norm: "token_embd_norm", ..Decoder::PLAIN }.build(m, |m, n| {
        let mixer: Mixer = if m.config().n_kv_head.at(n) == 0 {
            conv.into()
        } else {
            Attention { window, qk_norm: QkNorm::Heads, ..Attention::new(m, n, rope)? }.into()
        };
        Ok(Layer::new(mixer, Mlp::new(m, n, Activation::Silu)?))
    })
}
