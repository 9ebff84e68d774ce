//! Qwen3-Next and Qwen3.5: gated delta nets, and a layer of gated attention in every few.

use crate::models::Problem;
use crate::models::blocks::{
    Attention, Decoder, DeltaNet, FeedForward, Gate, Layer, Mixer, Mlp, Moe, Projections, QkNorm, SsmSizes,
};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, KeyHeads, RopeStyle, Scoring};

/// Every so many layers attention, where the file doesn't say.
const INTERVAL: u32 = 4;

pub(crate) fn next(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let sizes = SsmSizes::read(m)?;
    build(m, DeltaNet { sizes, scalars: Projections::ByKeyHead, key_heads: KeyHeads::Blocked }, with_experts)
}

/// Converters order the value heads of Qwen3.5 so that neighbours have different key heads.
fn net(m: &ModelBuilder<'_>) -> Result<DeltaNet, Problem> {
    Ok(DeltaNet { sizes: SsmSizes::read(m)?, scalars: Projections::Split, key_heads: KeyHeads::Cyclic })
}

pub(crate) fn dense(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let net = net(m)?;
    build(m, net, |m, n| Ok(Mlp::new(m, n, Activation::Silu)?.into()))
}

pub(crate) fn experts(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let net = net(m)?;
    build(m, net, with_experts)
}

fn with_experts(m: &ModelBuilder<'_>, layer: u32) -> Result<FeedForward, Problem> {
    let moe = Moe::new(m, layer, Scoring::Softmax, true)?;
    if !m.has(&format!("blk.{layer}.ffn_up_shexp.weight")) {
        return Ok(moe.into());
    }
    let shared = match m.keys().u32("expert_shared_feed_forward_length")? {
        None | Some(0) => m.n_ff(layer)?,
        Some(n) => n,
    };
    Ok(moe.with_shared_of(shared, true).into())
}

fn build(
    m: &mut ModelBuilder<'_>,
    net: DeltaNet,
    ffn: fn(&ModelBuilder<'_>, u32) -> Result<FeedForward, Problem>,
) -> Result<(), Problem> {
    let blocks = m.config().n_layer + m.config().n_layer_nextn;
    let listed = m.keys().flags("attention.recurrent_layers", blocks)?;
    let interval = m.keys().size("full_attention_interval")?.unwrap_or(INTERVAL);
    // Text has one position for all the sections that rotated elements are divided in.
    let rope = m.rope(RopeStyle::Neox);
    Decoder::PLAIN.build(m, |m, n| {
        let recurrent = match &listed {
            Some(list) => list[n as usize],
            None => (n + 1) % interval != 0,
        };
        let mixer: Mixer = if recurrent {
            net.into()
        } else {
            Attention { qk_norm: QkNorm::Heads, gate: Gate::WithQueries, ..Attention::new(m, n, rope)? }.into()
        };
        Ok(Layer::new(mixer, FeedForward { norm: Some("post_attention_norm"), ..ffn(m, n)? }))
    })
}
