//! In which form products read what they multiply.

use hrx_templates::{Output, TargetShape};

/// The form in which products with quantised weights read activations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Activations {
    /// What is fastest: `Q8` on a processor, where products of bytes are several times as fast as others, `F32` on a GPU.
    Auto,
    /// f32. Kernels for packed matrices, and for one token on NVIDIA GPUs, round to numbers of 15 bits of a block of 32's
    /// largest: a mean square of 5e-9 of the row's.
    #[default]
    F32,
    /// Blocks of 32 8-bit codes with a scale.
    Q8,
}

impl std::str::FromStr for Activations {
    type Err = String;

    fn from_str(name: &str) -> Result<Activations, String> {
        match name {
            "auto" => Ok(Activations::Auto),
            "f32" => Ok(Activations::F32),
            "q8" => Ok(Activations::Q8),
            _ => Err(format!("there is no form `{name}` of activations; there are: auto, f32, q8")),
        }
    }
}

impl Activations {
    /// The form for a target.
    pub(super) fn form(self, shape: &TargetShape) -> Output {
        match self {
            Activations::Auto if shape.waves.is_none() => Output::Q8,
            Activations::Auto | Activations::F32 => Output::F32,
            Activations::Q8 => Output::Q8,
        }
    }
}
