//! Gemma 3 (text): layers with a sliding window and a short rotary base between layers that see everything, norms before
//! and behind each block, a scaled embedding.

use super::blocks::{Attention, Decoder, Layer, Mlp};
use super::builder::ModelBuilder;
use super::{ModelConfig, Problem};
use crate::gguf::Value;
use hrx_ir::graph::{Activation, RopeSpec, RopeStyle};

/// Layers of one period of the pattern, of which the last sees everything, where the file doesn't say.
const PERIOD: u32 = 6;

/// The rotary base of layers with a window, where the file doesn't say. Scaling is for the other layers.
const LOCAL_FREQ_BASE: f32 = 10000.0;

/// Layers of the 27B model, whose queries are scaled by the columns a head has, not by its own length; files don't say.
const LAYERS_27B: u32 = 62;

pub(super) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let &ModelConfig { n_embd, n_head, n_layer, attention_scale, .. } = m.config();
    let keys = m.keys();
    let window = keys.u32("attention.sliding_window")?.filter(|&w| w > 0);
    let pattern = window_pattern(m)?;
    let local_base = keys.positive("rope.freq_base_swa")?.unwrap_or(LOCAL_FREQ_BASE);
    let final_softcap = keys.positive_or_none("final_logit_softcapping")?;

    let rope = m.rope(RopeStyle::Neox);
    let mut global =
        Attention { qk_norm: true, post_norm: Some("post_attention_norm"), ..Attention::new(m.config(), rope) };
    if n_layer == LAYERS_27B && attention_scale.is_none() {
        global.scale = 1.0 / (n_embd as f32 / n_head as f32).sqrt();
    }
    let local = Attention { window, rope: RopeSpec { freq_base: local_base, freq_scale: 1.0, ..rope }, ..global };
    let mlp = Mlp { post_norm: Some("post_ffw_norm"), ..Mlp::gated(Activation::GeluTanh) };
    let decoder = Decoder { embed_scale: (n_embd as f32).sqrt(), final_softcap };
    decoder.build(m, |layer| {
        let sliding = window.is_some() && pattern[layer as usize];
        Layer { attention: if sliding { local } else { global }, mlp }
    })
}

/// For each layer whether it has the window. The file gives one truth value a layer, or the length of a period.
fn window_pattern(m: &ModelBuilder<'_>) -> Result<Vec<bool>, Problem> {
    const KEY: &str = "attention.sliding_window_pattern";
    let (keys, n_layer) = (m.keys(), m.config().n_layer);
    if let Some(Value::Array(_)) = keys.get(KEY) {
        let pattern = keys.bool_array(KEY)?.unwrap_or_default();
        return if pattern.len() == n_layer as usize {
            Ok(pattern)
        } else {
            Err(keys.wrong(KEY, format!("an array of {}", pattern.len()), format!("one of {n_layer}, the layers")))
        };
    }
    // A period of 0 means that there is none: every layer has the window.
    let period = keys.u32(KEY)?.unwrap_or(PERIOD);
    Ok((0..n_layer).map(|layer| period == 0 || layer % period + 1 < period).collect())
}
