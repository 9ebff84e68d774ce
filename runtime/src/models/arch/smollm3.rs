//! SmolLM3: as Llama, but every fourth layer knows nothing of positions.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Mlp};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{Activation, RopeStyle};

/// Every so many layers one without rotation; files don't say.
const PERIOD: u32 = 4;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Normal);
    Decoder::PLAIN.build(m, |m, n| {
        let rotates = (n + 1) % PERIOD != 0;
        let attention = Attention { rope: rotates.then_some(rope), ..Attention::new(m, n, rope)? };
        Ok(Layer::new(attention, Mlp::new(m, n, Activation::Silu)?))
    })
}
