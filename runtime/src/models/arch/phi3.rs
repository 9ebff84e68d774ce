//! Phi-3 and Phi-4: one projection for queries, keys and values, one for gate and up, LongRoPE's divisors of
//! frequencies for short and for long contexts.
//!
//! `attention.sliding_window` is not followed, as elsewhere: converters wrote it for models that have no window.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mlp, Shape};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope_with_factors(RopeStyle::Neox)?;
    Decoder::PLAIN.build(m, |m, n| {
        let mlp = Mlp { shape: Shape::Fused, ..Mlp::new(m, n, Activation::Silu)? };
        Ok(Layer::new(Attention::new(m, n, rope)?, mlp))
    })
}
