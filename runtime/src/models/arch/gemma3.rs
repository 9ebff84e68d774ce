//! Gemma 3 (text): layers with a sliding window and a short rotary base between layers that see everything, norms
//! before and behind each block, a scaled embedding.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mlp, QkNorm, Windows};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeSpec, RopeStyle};

/// Layers of one period of the pattern, of which the last sees everything, where the file doesn't say.
const PERIOD: u32 = 6;

/// The rotary base of layers with a window, where the file doesn't say. Scaling is for the other layers.
const LOCAL_FREQ_BASE: f32 = 10000.0;

/// Layers of the 27B model, whose queries are scaled by the columns a head has, not by its own length; files don't say.
const LAYERS_27B: u32 = 62;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let (n_embd, keys) = (m.config().n_embd as f32, m.keys());
    let windows = Windows::read(m, PERIOD)?;
    let local_base = keys.positive("rope.freq_base_swa")?.unwrap_or(LOCAL_FREQ_BASE);
    let final_softcap = keys.positive_or_none("final_logit_softcapping")?;
    let rope = m.rope(RopeStyle::Neox);
    let local = RopeSpec { n_rot: rope.n_rot, ..RopeSpec::new(rope.head_dim, rope.style, local_base) };
    let decoder = Decoder { embed_scale: n_embd.sqrt(), final_softcap, ..Decoder::PLAIN };
    decoder.build(m, |m, n| {
        let window = windows.at(n);
        let mut attention = Attention::new(m, n, if window.is_some() { local } else { rope })?;
        if m.config().n_layer == LAYERS_27B && m.config().attention_scale.is_none() {
            attention.scale = 1.0 / (n_embd / attention.heads.n_head as f32).sqrt();
        }
        let mlp = Mlp::new(m, n, Activation::GeluTanh)?;
        Ok(Layer {
            post_norm: Some("post_attention_norm"),
            ffn_post_norm: Some("post_ffw_norm"),
            ..Layer::new(Attention { window, qk_norm: QkNorm::Heads, ..attention }, mlp)
        })
    })
}
