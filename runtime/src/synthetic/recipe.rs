//! Which type each tensor has, as quantisers choose it.

use super::shape::{Shape, Tensor};
use crate::gguf::GgmlType;

/// A choice of types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recipe {
    /// `Q4_K`, with `Q6_K` for the output and for half of the layers' `attn_v` and `ffn_down`.
    Q4KM,
    /// `Q8_0`.
    Q8_0,
    /// `Q4_0`.
    Q4_0,
    /// `F16`.
    F16,
    /// `MXFP4` for the experts, or for all matrices of layers where there are none, and `Q8_0` for the others.
    Mxfp4,
}

/// Elements of the blocks of K-quants.
const K_BLOCK: u64 = 256;

impl Recipe {
    /// All of them.
    pub const ALL: [Recipe; 5] = [Recipe::Q4KM, Recipe::Q8_0, Recipe::Q4_0, Recipe::F16, Recipe::Mxfp4];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Recipe::Q4KM => "q4_k_m",
            Recipe::Q8_0 => "q8_0",
            Recipe::Q4_0 => "q4_0",
            Recipe::F16 => "f16",
            Recipe::Mxfp4 => "mxfp4",
        }
    }

    /// `general.file_type`.
    pub(super) fn file_type(self) -> u32 {
        match self {
            Recipe::Q4KM => 15,
            Recipe::Q8_0 => 7,
            Recipe::Q4_0 => 2,
            Recipe::F16 => 1,
            Recipe::Mxfp4 => 38,
        }
    }

    /// The type of a matrix.
    pub(super) fn of(self, tensor: &Tensor, shape: &Shape) -> GgmlType {
        match self {
            Recipe::Q4KM => {
                let kind = if is_finer(tensor, shape) { GgmlType::Q6_K } else { GgmlType::Q4_K };
                whole_blocks(kind, tensor.dims[0])
            }
            Recipe::Q8_0 => GgmlType::Q8_0,
            Recipe::Q4_0 => GgmlType::Q4_0,
            Recipe::F16 => GgmlType::F16,
            Recipe::Mxfp4 => {
                let is_expert = tensor.dims.len() == 3;
                let coarse = if shape.experts.is_some() { is_expert } else { tensor.layer.is_some() };
                if coarse { GgmlType::MXFP4 } else { GgmlType::Q8_0 }
            }
        }
    }
}

/// Whether `q4_k_m` gives a matrix the finer of its types: the output, and `attn_v` and `ffn_down` of the first and the
/// last eighth of the layers and of every third between.
fn is_finer(tensor: &Tensor, shape: &Shape) -> bool {
    let Some(layer) = tensor.layer else { return tensor.name == "output.weight" };
    let layers = shape.layers;
    let ends = ["attn_v.weight", "ffn_down.weight", "ffn_down_exps.weight"];
    let more = layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
    more && ends.iter().any(|e| tensor.name.ends_with(e))
}

/// The type itself, or what quantisers take for rows that are no whole blocks of it.
fn whole_blocks(kind: GgmlType, row: u64) -> GgmlType {
    match kind {
        _ if row.is_multiple_of(K_BLOCK) => kind,
        GgmlType::Q6_K => GgmlType::Q8_0,
        _ => GgmlType::Q5_0,
    }
}
