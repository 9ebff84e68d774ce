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
    /// Word 3 of a buffer resource whose offsets are bytes: the flags of `llvm.amdgcn.make.buffer.rsrc`.
    pub buffer_word3: u32,
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

/// Word 3 of a buffer resource on gfx9: a data format of 32 bits and a float number format. Untyped loads and stores
/// ignore both, but a format of zero is an invalid resource.
/// Source: LLVM, mlir/lib/Conversion/AMDGPUToROCDL (makeBufferRsrc).
const BUFFER_GFX9: u32 = 7 << 12 | 4 << 15;

/// Word 3 of a buffer resource from gfx10 to gfx12: as [`BUFFER_GFX9`], with bit 24 set and out-of-bounds mode 3, which
/// compares the byte offset with the resource's byte count.
/// Source: LLVM, mlir/lib/Conversion/AMDGPUToROCDL (makeBufferRsrc); Mesa, src/amd/common/ac_descriptors.c (OOB_SELECT).
const BUFFER_GFX10: u32 = BUFFER_GFX9 | 1 << 24 | 3 << 28;

const fn gfx9(name: &'static str, matrix: Matrix, dots: bool) -> Chip {
    let dot4 = if dots { Dot4::Same } else { Dot4::None };
    Chip { name, wave: 64, matrix, dot4, dot2: dots, lds: 64 << 10, buffer_word3: BUFFER_GFX9 }
}

const fn rdna(name: &'static str, matrix: Matrix, dot4: Dot4) -> Chip {
    let dot2 = !matches!(dot4, Dot4::None);
    Chip { name, wave: 32, matrix, dot4, dot2, lds: 64 << 10, buffer_word3: BUFFER_GFX10 }
}

/// All chips. The generic ones are what several chips have in common; their code needs code object version 6.
pub static CHIPS: &[Chip] = &[
    gfx9("gfx906", Matrix::None, true),
    gfx9("gfx908", Matrix::MfmaA, true),
    gfx9("gfx90a", Matrix::MfmaA, true),
    gfx9("gfx942", Matrix::MfmaB, true),
    Chip { lds: 160 << 10, ..gfx9("gfx950", Matrix::MfmaC, true) },
    rdna("gfx1030", Matrix::None, Dot4::Same),
    rdna("gfx1031", Matrix::None, Dot4::Same),
    rdna("gfx1032", Matrix::None, Dot4::Same),
    rdna("gfx1100", Matrix::Wmma11, Dot4::Mixed),
    rdna("gfx1101", Matrix::Wmma11, Dot4::Mixed),
    rdna("gfx1102", Matrix::Wmma11, Dot4::Mixed),
    rdna("gfx1103", Matrix::Wmma11, Dot4::Mixed),
    rdna("gfx1150", Matrix::Wmma11, Dot4::Mixed),
    rdna("gfx1151", Matrix::Wmma11, Dot4::Mixed),
    rdna("gfx1152", Matrix::Wmma11, Dot4::Mixed),
    rdna("gfx1153", Matrix::Wmma11, Dot4::Mixed),
    rdna("gfx1200", Matrix::Wmma12, Dot4::Mixed),
    rdna("gfx1201", Matrix::Wmma12, Dot4::Mixed),
    gfx9("gfx9-generic", Matrix::None, false),
    gfx9("gfx9-4-generic", Matrix::MfmaB, true),
    rdna("gfx10-1-generic", Matrix::None, Dot4::None),
    rdna("gfx10-3-generic", Matrix::None, Dot4::Same),
    rdna("gfx11-generic", Matrix::Wmma11, Dot4::Mixed),
    rdna("gfx12-generic", Matrix::Wmma12, Dot4::Mixed),
];

/// The chip of that name.
pub fn find(name: &str) -> Option<&'static Chip> {
    CHIPS.iter().find(|c| c.name == name)
}

impl Chip {
    /// The version of the code object format that the chip's code is in.
    pub fn code_object_version(&self) -> u32 {
        if self.name.ends_with("-generic") { 6 } else { 5 }
    }

    /// Whether DPP can take any lane of the row by exclusive or, and there is v_permlanex16: from gfx10 on.
    pub fn has_row_xmask(&self) -> bool {
        self.wave == 32
    }
}
