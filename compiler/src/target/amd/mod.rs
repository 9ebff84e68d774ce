//! AMD GPUs.

/// What a GPU is to the code generator.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Chip {
    /// LLVM's name of the processor.
    pub name: &'static str,
    /// Lanes of a wave in the code that is generated for it.
    pub wave: u32,
    /// The matrix unit.
    pub matrix: Matrix,
    /// Dot products of four bytes.
    pub dot4: Dot4,
    /// Whether there is a dot product of two `f16` pairs added to an `f32` (v_dot2_f32_f16).
    pub dot2: bool,
    /// Most bytes of LDS of a workgroup.
    pub lds: u32,
}

/// A matrix unit, by the shapes and fragment layouts of its instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Matrix {
    /// None.
    None,
    /// WMMA as gfx11 has it.
    Wmma11,
    /// WMMA as gfx12 has it.
    Wmma12,
    /// MFMA as gfx908 and gfx90a have it.
    MfmaA,
    /// MFMA as gfx942 has it.
    MfmaB,
    /// MFMA as gfx950 has it.
    MfmaC,
}

/// Dot products of four pairs of bytes added to 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dot4 {
    /// None.
    None,
    /// Factors of one signedness.
    Same,
    /// Each factor signed or not.
    Mixed,
}

const fn row(name: &'static str, wave: u32, matrix: Matrix, dot4: Dot4) -> Chip {
    Chip { name, wave, matrix, dot4, dot2: true, lds: 64 << 10 }
}

/// All chips.
pub static CHIPS: &[Chip] = &[
    row("gfx906", 64, Matrix::None, Dot4::Same),
    row("gfx942", 64, Matrix::MfmaB, Dot4::Same),
    row("gfx1030", 32, Matrix::None, Dot4::Same),
    row("gfx1100", 32, Matrix::Wmma11, Dot4::Mixed),
    row("gfx1151", 32, Matrix::Wmma11, Dot4::Mixed),
    row("gfx1201", 32, Matrix::Wmma12, Dot4::Mixed),
];

/// The chip of that name.
pub fn find(name: &str) -> Option<&'static Chip> {
    CHIPS.iter().find(|c| c.name == name)
}
