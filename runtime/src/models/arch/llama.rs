//! Llama, and what its files also hold: Mistral, Mixtral (with experts), SmolLM2, Yi and others of the same shape.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::RopeStyle;

/// Converters permute the query and key rows of these models so that rotated pairs are neighbours.
pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope_with_factors(RopeStyle::Normal)?;
    Decoder::PLAIN.build(m, |m, n| Ok(Layer::new(Attention::new(m, n, rope)?, FeedForward::usual(m, n)?)))
}
