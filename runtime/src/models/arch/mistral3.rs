//! Mistral 3: as Llama, with queries that grow with their position beyond the original context.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, FeedForward, Layer, Temperature};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::RopeStyle;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope_with_factors(RopeStyle::Normal)?;
    let every = m.config().rope.original;
    let by = m.keys().positive_or_none("attention.temperature_scale")?;
    let temperature = by.map(|by| Temperature { by, every });
    Decoder::PLAIN.build(m, |m, n| {
        let attention = Attention { temperature, ..Attention::new(m, n, rope)? };
        Ok(Layer::new(attention, FeedForward::usual(m, n)?))
    })
}
