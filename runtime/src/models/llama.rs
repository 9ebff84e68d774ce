//! Llama, and what its files also hold: Mistral, SmolLM2, Yi and others of the same shape.

use super::Problem;
use super::blocks::{Attention, Decoder, Layer, Mlp};
use super::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeSpec, RopeStyle};

/// Converters permute the query and key rows of these models so that rotated pairs are neighbours.
pub(super) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = RopeSpec { factors: m.rope_factors()?, ..m.rope(RopeStyle::Normal) };
    let attention = Attention::new(m.config(), rope);
    let mlp = Mlp::gated(Activation::Silu);
    Decoder::PLAIN.build(m, |_| Layer { attention, mlp })
}
