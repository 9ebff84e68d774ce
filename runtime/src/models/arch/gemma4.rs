//! Gemma 4 (text): layers with a sliding window and shorter heads between layers that see everything, values normed,
//! last layers that read earlier ones' keys and values, embeddings for each layer; or experts beside each layer's
//! network.

use crate::models::Problem;
use crate::models::blocks::{
    Attention, Decoder, FeedForward, Layer, Mlp, Moe, PerLayerEmbedding, QkNorm, Router, Values, Windows,
};
use crate::models::builder::ModelBuilder;
use crate::models::rope::rotated;
use hrx_ir::graph::{Activation, RopeSpec, RopeStyle, Scoring};

/// The rotary base of layers with a window, where the file doesn't say.
const LOCAL_FREQ_BASE: f32 = 10000.0;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope_with_factors(RopeStyle::Neox)?;
    let (n_embd, keys) = (m.config().n_embd as f32, m.keys());
    if keys.get("attention.sliding_window_pattern").is_none() {
        return Err(keys.missing("attention.sliding_window_pattern"));
    }
    let windows = Windows::read(m, 0)?;
    let head_dim = keys.size("attention.key_length_swa")?.unwrap_or(m.config().head_dim);
    let value_dim = keys.size("attention.value_length_swa")?.unwrap_or(head_dim);
    let local_base = keys.positive("rope.freq_base_swa")?.unwrap_or(LOCAL_FREQ_BASE);
    let n_rot = rotated(&keys, "rope.dimension_count_swa", head_dim)?.unwrap_or(head_dim);
    let local = RopeSpec { n_rot, ..RopeSpec::new(head_dim, RopeStyle::Neox, local_base) };
    let shared = keys.u32("attention.shared_kv_layers")?.unwrap_or(0);
    let first_shared = m.config().n_layer.saturating_sub(shared);
    let decoder = Decoder {
        embed_scale: n_embd.sqrt(),
        per_layer: keys.size_or_none("embedding_length_per_layer_input")?.map(|n| PerLayerEmbedding { n }),
        layer_scales: true,
        final_softcap: keys.positive_or_none("final_logit_softcapping")?,
        ..Decoder::PLAIN
    };
    decoder.build(m, |m, n| {
        let window = windows.at(n);
        let mut attention = Attention {
            scale: 1.0,
            window,
            qk_norm: QkNorm::Heads,
            values: Values::Normed,
            ..Attention::new(m, n, if window.is_some() { local } else { rope })?
        };
        if window.is_some() {
            attention.heads = m.heads_of(n, [head_dim, value_dim])?;
        }
        if n >= first_shared {
            // Of the last two layers with their own, one is of each kind.
            attention.reads = Some(first_shared.wrapping_sub(if window.is_some() { 2 } else { 1 }));
        }
        Ok(Layer {
            post_norm: Some("post_attention_norm"),
            ffn: networks(m, n)?,
            ffn_post_norm: Some("post_ffw_norm"),
            ..Layer::of_mixer(attention)
        })
    })
}

/// A network, and experts beside it where the file has them.
fn networks(m: &ModelBuilder<'_>, layer: u32) -> Result<Vec<FeedForward>, Problem> {
    let mlp = FeedForward::from(Mlp::new(m, layer, Activation::GeluTanh)?);
    if !m.has(&format!("blk.{layer}.ffn_gate_inp.weight")) {
        return Ok(vec![mlp]);
    }
    let moe =
        Moe { router: Router::Residual, act: Activation::GeluTanh, ..Moe::new(m, layer, Scoring::Softmax, true)? };
    Ok(vec![
        FeedForward { post_norm: Some("post_ffw_norm_1"), ..mlp },
        FeedForward { norm: Some("pre_ffw_norm_2"), post_norm: Some("post_ffw_norm_2"), ..moe.into() },
    ])
}
