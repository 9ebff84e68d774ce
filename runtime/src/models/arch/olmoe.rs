//! OLMoE: experts, all heads' queries and keys normed together.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Moe, QkNorm};
use crate::models::builder::ModelBuilder;
use hrx_ir::graph::{RopeStyle, Scoring};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    Decoder::PLAIN.build(m, |m, n| {
        let attention = Attention { qk_norm: QkNorm::Rows, ..Attention::new(m, n, rope)? };
        Ok(Layer::new(attention, Moe::new(m, n, Scoring::Softmax, false)?))
    })
}
