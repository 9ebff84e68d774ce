//! The vocabulary of facts that families share.

use hrx_ir::quant::{Arranged, Format};
use hrx_ir::tile::Elem;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A fact that a family does not support.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{family}: {fact} is not supported: {reason}")]
pub struct TemplateError {
    /// The family's name.
    pub family: &'static str,
    /// The fact with its value.
    pub fact: String,
    /// Why not.
    pub reason: &'static str,
}

impl TemplateError {
    /// `Ok` if `supported`, else the error.
    pub(crate) fn unless(
        supported: bool,
        family: &'static str,
        fact: impl fmt::Display,
        reason: &'static str,
    ) -> Result<(), TemplateError> {
        if supported { Ok(()) } else { Err(TemplateError { family, fact: fact.to_string(), reason }) }
    }
}

/// A number that is a fact: compared and hashed by its bits.
#[derive(Clone, Copy, Debug)]
pub struct Real(pub f32);

impl Real {
    pub(crate) fn f64(self) -> f64 {
        f64::from(self.0)
    }

    /// The number as part of a name: `1em5` for 1e-5, `1p25e1` for 12.5.
    pub(crate) fn tag(self) -> String {
        format!("{:e}", self.0).replace('-', "m").replace('.', "p")
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Real) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for Real {}

impl Hash for Real {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// In what form a kernel writes rows of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// `f32 [T, K]`.
    F32,
    /// Codes `i8 [T, K]` and scales `f32 [T, K/32]`; see the crate's documentation.
    Q8,
    /// The same with numbers of 15 bits: bytes `i8 [T, K/32, 64]`, the high parts of a block before the low ones.
    Q15,
}

impl Output {
    pub(crate) fn tag(self) -> &'static str {
        match self {
            Output::F32 => "",
            Output::Q8 => "_q8",
            Output::Q15 => "_q15",
        }
    }

    /// Bytes of an element: of Q8 and Q15 without the scale.
    pub fn bytes(self) -> u32 {
        match self {
            Output::F32 => 4,
            Output::Q8 => 1,
            Output::Q15 => 2,
        }
    }
}

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activation {
    /// x / (1 + exp(-x)).
    Silu,
    /// 0.5 x (1 + tanh(sqrt(2/π) x (1 + 0.044715 x²))): the tanh form of GELU (Hendrycks & Gimpel 2016).
    GeluTanh,
    /// x / (1 + exp(-1.702 x)).
    GeluQuick,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// ln(1 + exp(x)).
    Softplus,
    /// max(x, 0)².
    ReluSquared,
}

impl Activation {
    /// All of them.
    pub const ALL: [Activation; 6] = [
        Activation::Silu,
        Activation::GeluTanh,
        Activation::GeluQuick,
        Activation::Sigmoid,
        Activation::Softplus,
        Activation::ReluSquared,
    ];

    pub(crate) fn tag(self) -> &'static str {
        match self {
            Activation::Silu => "silu",
            Activation::GeluTanh => "gelu",
            Activation::GeluQuick => "gelu_quick",
            Activation::Sigmoid => "sigmoid",
            Activation::Softplus => "softplus",
            Activation::ReluSquared => "relu_squared",
        }
    }
}

/// Bounds inside a gated product, for a limit L.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// act(gate) * up.
    Off,
    /// act(min(gate, L)) * clamp(up, -L, L).
    Gate(Real),
    /// min(act(gate), L) * clamp(up, -L, L).
    Activated(Real),
    /// act(min(gate, L)) * (clamp(up, -L, L) + 1).
    GatePlusOne(Real),
}

impl Limit {
    pub(crate) fn tag(self) -> String {
        match self {
            Limit::Off => String::new(),
            Limit::Gate(l) => format!("_lim{}", l.tag()),
            Limit::Activated(l) => format!("_limact{}", l.tag()),
            Limit::GatePlusOne(l) => format!("_limone{}", l.tag()),
        }
    }
}

/// What a weight matrix or embedding table is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightType {
    /// Blocks of a quantised format.
    Quant(&'static Format),
    /// Plain `f32`, `f16` or `bf16`.
    Float(Elem),
}

impl Hash for WeightType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl WeightType {
    /// The name of the format or element type.
    pub fn name(&self) -> &'static str {
        match self {
            WeightType::Quant(f) => f.name,
            WeightType::Float(e) => e.name(),
        }
    }

    /// The names of all types: those of the quantised formats, then `f32`, `f16`, `bf16`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let floats = Elem::ALL.iter().filter(|e| e.is_float()).map(|e| e.name());
        hrx_ir::quant::FORMATS.iter().map(|f| f.name).chain(floats)
    }

    /// The type of that name, GGML's in either case: `Q4_K`, `f16`.
    pub fn from_name(name: &str) -> Option<WeightType> {
        let name = name.to_ascii_lowercase();
        let float = || Elem::from_name(&name).filter(|e| e.is_float()).map(WeightType::Float);
        Format::from_name(&name).map(WeightType::Quant).or_else(float)
    }

    /// Bytes of a row of `k` elements; none where that is not a whole number of blocks.
    pub fn row_bytes(&self, k: u32) -> Option<u64> {
        let (block, bytes) = match self {
            WeightType::Quant(f) => (f.block, f.block_bytes),
            WeightType::Float(e) => (1, e.bytes()),
        };
        k.is_multiple_of(block).then(|| u64::from(k / block) * u64::from(bytes))
    }

    /// Whether rows of `k` elements can be stored and read as this type.
    pub(crate) fn check(&self, family: &'static str, k: u32) -> Result<(), TemplateError> {
        TemplateError::unless(k <= MAX_EXTENT, family, format!("k = {k}"), "a row has at most 2^30 elements")?;
        match self {
            WeightType::Quant(f) => {
                TemplateError::unless(
                    k > 0 && k.is_multiple_of(f.block),
                    family,
                    format!("k = {k} of {}", f.name),
                    WHOLE_BLOCKS,
                )?;
                let fits = hrx_ir::quant::CHUNK.is_multiple_of(f.group);
                TemplateError::unless(fits, family, format!("format {}", f.name), "a group of it is more than a chunk")
            }
            WeightType::Float(e) => {
                TemplateError::unless(k > 0, family, "k = 0", "rows have elements")?;
                TemplateError::unless(e.is_float(), family, format!("weight type {e}"), "it is not a float")
            }
        }
    }
}

/// The most elements of a row, and rows of a matrix: indices are `i32`, and tiles may reach a little beyond the end.
pub(crate) const MAX_EXTENT: u32 = 1 << 30;

pub(crate) const WHOLE_BLOCKS: &str = "a row is not a whole number of blocks";

/// What tilings are chosen from: the vector registers that one program computes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TargetShape {
    /// `f32` lanes of one vector register; on a GPU the lanes of a wave.
    pub lanes: u32,
    /// How many vector registers there are.
    pub registers: u32,
    /// Whether four products of any unsigned and signed bytes are summed by one instruction.
    pub byte_dot: bool,
    /// Whether vectors read matrices that are packed for them, where these can be.
    pub packs: bool,
    /// Of a GPU, where a program is a workgroup of waves whose lanes work on one tile together.
    pub waves: Option<Waves>,
}

/// What of a GPU tilings are chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Waves {
    /// Vector registers that the waves of a SIMD share, each for all lanes of a wave.
    pub register_file: u32,
    /// Registers are given to waves in multiples of this.
    pub register_granule: u32,
    /// Most waves of a SIMD.
    pub max_waves: u32,
    /// Most bytes of LDS of a workgroup.
    pub lds: u32,
    /// SIMDs of the chip's typical board, if one is known.
    pub simds: Option<u32>,
    /// Cycles of a 16x16x16 product of f16 in a matrix unit; of what does without one.
    pub product_cycles: u32,
    /// Instructions of such a product.
    pub product_instructions: u32,
    /// How many times longer than for an AMD GPU code may be: PTX is made without scheduling and allocating registers.
    pub code_factor: u32,
    /// Whether lanes load transposed matrices from LDS.
    pub transposing_loads: bool,
    /// Bytes a cycle that a SIMD gets of the nearest cache, where that is known.
    pub cache_bytes: Option<u32>,
    /// Whether products of one token's row with quantised weights are to be made of numbers of 15 bits in local memory.
    pub fixed_rows: bool,
    /// Whether blocks of weights are [arranged](hrx_ir::quant::Arranged) for aligned words.
    pub arranged: bool,
}

impl TargetShape {
    /// A processor's vectors.
    pub fn vectors(lanes: u32, registers: u32) -> TargetShape {
        TargetShape { lanes, registers, byte_dot: false, packs: true, waves: None }
    }

    /// The same with matrices as they are stored.
    pub fn without_packing(self) -> TargetShape {
        TargetShape { packs: false, ..self }
    }

    /// The same with, or without, an instruction for dot products of any unsigned with signed bytes.
    pub fn with_byte_dot(self, byte_dot: bool) -> TargetShape {
        TargetShape { byte_dot, ..self }
    }

    /// How weights of a format are arranged in the device's memory, where that is not as files have them.
    pub fn arranged(&self, format: &Format) -> Option<&'static Arranged> {
        self.waves.filter(|w| w.arranged).and_then(|_| format.arranged())
    }

    /// A GPU's waves of so many lanes, of which a lane can name so many registers.
    pub fn waves(lanes: u32, registers: u32, waves: Waves) -> TargetShape {
        TargetShape { lanes, registers, byte_dot: false, packs: false, waves: Some(waves) }
    }
}

/// How rows are cut: into pieces that a program works on at once, spread over some waves. Sums of rows depend on the
/// piece, and not on the waves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowCut {
    /// Elements of a piece: a power of two from 32 to 4096.
    pub piece: u32,
    /// Waves of a program.
    pub waves: u32,
}

impl RowCut {
    /// For a processor's vectors.
    pub const VECTORS: RowCut = RowCut { piece: hrx_ir::quant::CHUNK, waves: 1 };

    /// The cut for rows of `k` elements. On waves each lane has four neighbours of a piece, and the largest pieces have
    /// eight waves.
    pub fn choose(shape: &TargetShape, k: u32) -> RowCut {
        if shape.waves.is_none() {
            return RowCut::VECTORS;
        }
        let piece = RowCut::piece_on_waves(k);
        RowCut { piece, waves: (piece / (4 * shape.lanes)).clamp(1, 8) }
    }

    /// A row's piece on waves, whatever their number: the same in every kernel that sums a row, so that they agree.
    pub(crate) fn piece_on_waves(k: u32) -> u32 {
        k.clamp(128, 1024).next_power_of_two()
    }

    pub(crate) fn check(&self, family: &'static str) -> Result<(), TemplateError> {
        let piece = (32..=4096).contains(&self.piece) && self.piece.is_power_of_two();
        TemplateError::unless(piece, family, format!("{self:?}"), "a piece is a power of two from 32 to 4096")?;
        let waves = (1..=16).contains(&self.waves) && self.waves.is_power_of_two();
        TemplateError::unless(waves, family, format!("{self:?}"), "a program has 1, 2, 4, 8 or 16 waves")
    }

    pub(crate) fn tag(&self) -> String {
        if *self == RowCut::VECTORS { String::new() } else { format!("_p{}w{}", self.piece, self.waves) }
    }
}

#[cfg(test)]
mod tests {
    use super::WeightType;

    #[test]
    fn every_weight_type_is_found_by_its_name() {
        for name in WeightType::names() {
            let found = WeightType::from_name(&name.to_ascii_uppercase());
            assert_eq!(found.map(|w| w.name()), Some(name));
        }
        assert_eq!(WeightType::from_name("i8"), None);
        assert_eq!(WeightType::from_name("Q4_K").and_then(|w| w.row_bytes(512)), Some(288));
        assert_eq!(WeightType::from_name("Q4_K").and_then(|w| w.row_bytes(500)), None);
        assert_eq!(WeightType::from_name("bf16").and_then(|w| w.row_bytes(3)), Some(6));
    }
}
