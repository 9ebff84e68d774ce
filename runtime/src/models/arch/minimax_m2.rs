//! MiniMax-M2: experts chosen by biased scores, all heads' queries and keys normed together.

use crate::models::Problem;
use crate::models::blocks::{Attention, Decoder, Layer, Moe, QkNorm};
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{RopeStyle, Scoring};

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let rope = m.rope(RopeStyle::Neox);
    Decoder::PLAIN.build(m, |m, n| {
        let attention = Attention { qk_norm: QkNorm::Rows, ..Attention::new(m, n, rope)? };
        let mut moe = Moe { choice_bias: Bias::Required, ..Moe::described(m, n, Scoring::Sigmoid)? };
        moe.routing.normalize = true;
        Ok(Layer::new(attention, moe))
    })
}
