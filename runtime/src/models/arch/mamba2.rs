//! Mamba 2: state-space blocks and nothing else.

use crate::models::Problem;
use crate::models::blocks::{Decoder, Layer, Ssm, SsmSizes};
use crate::models::builder::ModelBuilder;

pub(crate) fn build(m: &mut ModelBuilder<'_>) -> Result<(), Problem> {
    let sizes = SsmSizes::read(m)?;
    Decoder::PLAIN.build(m, |_, _| Ok(Layer::of_mixer(Ssm { sizes })))
}
