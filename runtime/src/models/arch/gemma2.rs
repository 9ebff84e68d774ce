//! Gemma 2: layers with a sliding window in turn with layers that see everything, norms before and behind each block,
//! bounded scores and logits, a scaled embedding.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mlp, Windows};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeSpec, RopeStyle};

/// Every second layer sees everything, the others so many positions, where the file doesn't say.
const PERIOD: u32 = 2;
const WINDOW: u32 = 4096;

/// Bounds of scores and logits, where the file doesn't say.
const SCORE_BOUND: f32 = 50.0;
const LOGIT_BOUND: f32 = 30.0;

/// Layers of the 27B model, whose queries are scaled by the columns a head has, not by its own length; files don't say.
const LAYERS_27B: u32 = 46;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let (n_embd, keys) = (m.config().n_embd as f32, m.keys());
    let windows = Windows::read_or(m, PERIOD, WINDOW)?;
    let softcap = Some(keys.positive("attn_logit_softcapping")?.unwrap_or(SCORE_BOUND));
    let final_softcap = Some(keys.positive("final_logit_softcapping")?.unwrap_or(LOGIT_BOUND));
    let rope = m.rope(RopeStyle::Neox);
    let local = RopeSpec { freq_base: keys.positive("rope.freq_base_swa")?.unwrap_or(rope.freq_base), ..rope };
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
            ..Layer::new(Attention { window, softcap, ..attention }, mlp)
        })
    })
}
