//! Step-3.5: more heads and another rotation in layers with a window, a gate for each head, experts with bounded
//! products beside one that every token takes; first layers without.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Gate, Layer, Mlp, Moe, QkNorm, Windows};
use crate::models::builder::ModelBuilder;
use crate::models::rope::rotated;
use hrx_ir::graph::{Activation, Limit, RopeSpec, RopeStyle, Scoring};

/// The rotary base of layers with a window, where the file doesn't say.
const LOCAL_FREQ_BASE: f32 = 10000.0;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let whole = m.rope(RopeStyle::Neox);
    let keys = m.keys();
    let local_base = keys.positive("rope.freq_base_swa")?.unwrap_or(LOCAL_FREQ_BASE);
    let n_rot = rotated(&keys, "rope.dimension_count_swa", whole.head_dim)?.unwrap_or(whole.n_rot);
    let local = RopeSpec { n_rot, ..RopeSpec::new(whole.head_dim, whole.style, local_base) };
    let windows = Windows::read(m, 0)?;
    let blocks = m.config().n_layer + m.config().n_layer_nextn;
    let expert_limit = keys.per_layer_f32("swiglu_clamp_exp", blocks)?;
    let limit = keys.per_layer_f32("swiglu_clamp_shexp", blocks)?;
    let shared = keys.size_or_none("expert_shared_feed_forward_length")?;
    // Layers that see everything rotate half as much, by divided frequencies; the file has divisors for all layers.
    let half = whole.n_rot / 2;
    let factors = m.first_of("rope_freqs.weight", half.max(n_rot) / 2, half / 2)?;
    let global = RopeSpec { n_rot: half, factors, ..whole };
    Decoder::PLAIN.build(m, |m, n| {
        let window = windows.at(n);
        let attention = Attention {
            window,
            qk_norm: QkNorm::HeadsIfPresent,
            gate: Gate::HeadsIfPresent,
            ..Attention::new(m, n, if window.is_some() { local } else { global })?
        };
        let mlp = |mlp: Mlp| Mlp { limit: bound(limit(n)), ..mlp };
        let ffn: FeedForward = if m.has(&format!("blk.{n}.ffn_gate_inp.weight")) {
            let mut moe = Moe::described(m, n, Scoring::Sigmoid)?;
            if let Some(n_ff) = shared {
                moe = moe.with_shared_of(n_ff, false);
            }
            moe.shared.iter_mut().for_each(|s| s.mlp = mlp(s.mlp));
            Moe { limit: bound(expert_limit(n)), ..moe }.into()
        } else {
            mlp(Mlp::new(m, n, Activation::Silu)?).into()
        };
        Ok(Layer::new(attention, ffn))
    })
}

/// Zero says that there is no bound.
fn bound(limit: f32) -> Limit {
    if limit > 0.0 { Limit::Activated(limit) } else { Limit::Off }
}
