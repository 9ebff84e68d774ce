//! The rows of chips: one row a generation, and each chip as what it changes of it.

use super::registers::{Accumulators, Block, Sgprs, Vgprs};
use super::{Chip, Dot4, Fp8, Matrix, Source, dot, matrix};
use crate::target::fact::{Fact, Known, known};

/// Word 3 of a buffer resource on gfx9: a data format of 32 bits and a float number format. Untyped loads and stores
/// ignore both, but a format of zero is an invalid resource. Source: [`Source::MlirBuffer`].
const BUFFER_GFX9: u32 = 7 << 12 | 4 << 15;

/// Word 3 of a buffer resource from gfx10 to gfx12: as [`BUFFER_GFX9`], with bit 24 set and out-of-bounds mode 3, which
/// compares the byte offset with the resource's byte count. Sources: [`Source::MlirBuffer`]; the modes are listed in
/// [`Source::MesaDescriptors`].
const BUFFER_GFX10: u32 = BUFFER_GFX9 | 1 << 24 | 3 << 28;

const fn vgprs(wave: u32, total: u32, granule: u32, encoding: u32) -> Vgprs {
    Vgprs { wave, total, granule, encoding, addressable: 256 }
}

const VGPRS_GCN: &[Vgprs] = &[vgprs(64, 256, 4, 4)];
const VGPRS_90A: &[Vgprs] = &[vgprs(64, 512, 8, 8)];
const VGPRS_GFX10_1: &[Vgprs] = &[vgprs(32, 1024, 8, 8), vgprs(64, 512, 4, 4)];
const VGPRS_GFX10_3: &[Vgprs] = &[vgprs(32, 1024, 16, 8), vgprs(64, 512, 8, 4)];
/// With half as many again (LLVM's feature `1_5xVGPRs`).
const VGPRS_LARGE: &[Vgprs] = &[vgprs(32, 1536, 24, 8), vgprs(64, 768, 12, 4)];

const LDS_GRANULE: Known<u32> = Known { value: 512, source: Source::LlvmTarget };
const LDS_GRANULE_950: Known<u32> = Known { value: 2048, source: Source::LlvmTarget };
/// The kernel descriptor counts in 512 bytes still.
const LDS_GRANULE_GFX10_3: Known<u32> = Known { value: 1024, source: Source::MesaInfo };

const fn rocm<T: Copy>(value: T) -> Fact<T> {
    known(value, Source::RocmSpecs)
}

const fn kernel<T: Copy>(value: T) -> Fact<T> {
    known(value, Source::KernelCaches)
}

/// Vega as of gfx906, and what all of gfx9 was made from.
const GCN: Chip = Chip {
    name: "",
    generation: "GCN 5.1",
    members: &[],
    wave: 64,
    matrix: Matrix::None,
    matrix_ops: &[],
    dot4: Dot4::Same,
    dot2: true,
    dots: dot::GFX906,
    fp8: None,
    lds: 64 << 10,
    buffer_word3: BUFFER_GFX9,
    block: Block::Cu,
    simds: 4,
    max_waves: 10,
    max_workgroups: 16,
    max_work_items: 1024,
    vgprs: VGPRS_GCN,
    accumulators: Accumulators::None,
    sgprs: Sgprs { addressable: 102, pool: Some((800, 16)) },
    lds_block: 64 << 10,
    lds_granule: LDS_GRANULE,
    lds_banks: known(32, Source::LlvmTarget),
    vector_cache: rocm(16),
    vector_line: kernel(64),
    l2: None,
    l2_line: None,
    last_level: rocm(None),
    f32_rate: known(128, Source::TechPowerUp),
};

const CDNA1: Chip = Chip {
    generation: "CDNA 1",
    matrix: Matrix::MfmaA,
    matrix_ops: matrix::GFX908,
    accumulators: Accumulators::Separate,
    l2: rocm(8 << 10),
    f32_rate: known(128, Source::Cdna2Paper),
    ..GCN
};

const CDNA2: Chip = Chip {
    generation: "CDNA 2",
    matrix_ops: matrix::GFX90A,
    max_waves: 8,
    vgprs: VGPRS_90A,
    accumulators: Accumulators::Unified,
    vector_line: kernel(64),
    l2_line: kernel(128),
    f32_rate: known(128, Source::Cdna2Paper),
    ..CDNA1
};

/// From here on `f32` operations are counted as packed ones, two at a time.
const CDNA3: Chip = Chip {
    generation: "CDNA 3",
    matrix: Matrix::MfmaB,
    matrix_ops: matrix::GFX942,
    fp8: known(Fp8::Fnuz, Source::RocmMatrixBlog),
    vector_cache: rocm(32),
    vector_line: None,
    l2: rocm(4 << 10),
    l2_line: known(128, Source::MesaInfo),
    last_level: rocm(Some(256)),
    f32_rate: known(256, Source::RocmMatrixBlog),
    ..CDNA2
};

const CDNA4: Chip = Chip {
    generation: "CDNA 4",
    matrix: Matrix::MfmaC,
    matrix_ops: matrix::GFX950,
    dots: dot::GFX950,
    fp8: known(Fp8::Ocp, Source::RocmMatrixBlog),
    lds: 160 << 10,
    lds_block: 160 << 10,
    lds_granule: LDS_GRANULE_950,
    // LLVM has 32, as for every other chip.
    lds_banks: known(64, Source::RocmFp8Blog),
    ..CDNA3
};

/// RDNA 2, and what later generations were made from.
const RDNA2: Chip = Chip {
    generation: "RDNA 2",
    wave: 32,
    buffer_word3: BUFFER_GFX10,
    block: Block::Wgp,
    max_waves: 16,
    max_workgroups: 32,
    vgprs: VGPRS_GFX10_3,
    sgprs: Sgprs { addressable: 106, pool: None },
    lds_block: 128 << 10,
    lds_granule: LDS_GRANULE_GFX10_3,
    vector_cache: kernel(16),
    vector_line: kernel(128),
    l2_line: kernel(128),
    last_level: None,
    f32_rate: known(128, Source::Rx6000News),
    ..GCN
};

const RDNA1: Chip = Chip {
    generation: "RDNA 1",
    dot4: Dot4::None,
    dot2: false,
    dots: &[],
    max_waves: 20,
    vgprs: VGPRS_GFX10_1,
    lds_granule: LDS_GRANULE,
    last_level: kernel(None),
    f32_rate: None,
    ..RDNA2
};

/// `f32` operations are counted as pairs that one instruction does (VOPD).
const RDNA3: Chip = Chip {
    generation: "RDNA 3",
    matrix: Matrix::Wmma11,
    matrix_ops: matrix::GFX11,
    dot4: Dot4::Mixed,
    dots: dot::GFX11,
    vgprs: VGPRS_LARGE,
    vector_cache: rocm(32),
    vector_line: None,
    l2_line: known(128, Source::MesaInfo),
    f32_rate: known(256, Source::TechPowerUp),
    ..RDNA2
};

const RDNA3_5: Chip = Chip { generation: "RDNA 3.5", f32_rate: None, ..RDNA3 };

const RDNA4: Chip = Chip {
    generation: "RDNA 4",
    matrix: Matrix::Wmma12,
    matrix_ops: matrix::GFX12,
    dots: dot::GFX12,
    fp8: known(Fp8::Ocp, Source::ComposableKernel),
    l2_line: known(256, Source::MesaInfo),
    ..RDNA3
};

/// All chips.
pub static CHIPS: &[Chip] = &[
    // The driver's table gives 8 MiB of L2; ROCm's and AMD's say 4.
    Chip { name: "gfx906", l2: rocm(4 << 10), l2_line: kernel(64), ..GCN },
    Chip { name: "gfx908", ..CDNA1 },
    Chip { name: "gfx90a", ..CDNA2 },
    Chip { name: "gfx942", ..CDNA3 },
    Chip { name: "gfx950", ..CDNA4 },
    Chip { name: "gfx1030", l2: kernel(4 << 10), last_level: kernel(Some(128)), ..RDNA2 },
    Chip { name: "gfx1031", l2: kernel(3 << 10), last_level: kernel(Some(96)), ..RDNA2 },
    Chip { name: "gfx1032", l2: kernel(2 << 10), last_level: kernel(Some(32)), ..RDNA2 },
    Chip { name: "gfx1100", l2: rocm(6 << 10), last_level: rocm(Some(96)), ..RDNA3 },
    Chip { name: "gfx1101", l2: rocm(4 << 10), last_level: rocm(Some(64)), ..RDNA3 },
    Chip { name: "gfx1102", vgprs: VGPRS_GFX10_3, l2: rocm(2 << 10), last_level: rocm(Some(32)), ..RDNA3 },
    Chip { name: "gfx1103", vgprs: VGPRS_GFX10_3, l2: rocm(2 << 10), last_level: rocm(None), ..RDNA3 },
    Chip { name: "gfx1150", vgprs: VGPRS_GFX10_3, l2: rocm(2 << 10), last_level: rocm(None), ..RDNA3_5 },
    Chip { name: "gfx1151", l2: rocm(2 << 10), last_level: rocm(Some(32)), ..RDNA3_5 },
    Chip { name: "gfx1152", vgprs: VGPRS_GFX10_3, l2: rocm(1 << 10), last_level: rocm(None), ..RDNA3_5 },
    Chip { name: "gfx1153", vgprs: VGPRS_GFX10_3, vector_cache: None, ..RDNA3_5 },
    Chip { name: "gfx1200", l2: rocm(4 << 10), last_level: rocm(Some(32)), ..RDNA4 },
    Chip { name: "gfx1201", l2: rocm(8 << 10), last_level: rocm(Some(64)), ..RDNA4 },
    GFX9_GENERIC,
    GFX9_4_GENERIC,
    GFX10_1_GENERIC,
    GFX10_3_GENERIC,
    GFX11_GENERIC,
    GFX12_GENERIC,
];

// What all members have in common; what differs among them, or is not known of one, is not known. LLVM's list of
// members is in its user guide ([`Source::LlvmUsage`]).

const GFX9_GENERIC: Chip = Chip {
    name: "gfx9-generic",
    generation: "GCN 5",
    members: &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"],
    dot4: Dot4::None,
    dot2: false,
    dots: &[],
    last_level: None,
    ..GCN
};

const GFX9_4_GENERIC: Chip = Chip {
    name: "gfx9-4-generic",
    generation: "CDNA 3 and 4",
    members: &["gfx942", "gfx950"],
    matrix_ops: matrix::GFX9_4,
    fp8: None,
    // The larger of the granules; members differ.
    lds_granule: LDS_GRANULE_950,
    lds_banks: None,
    ..CDNA3
};

const GFX10_1_GENERIC: Chip =
    Chip { name: "gfx10-1-generic", members: &["gfx1010", "gfx1011", "gfx1012", "gfx1013"], ..RDNA1 };

const GFX10_3_GENERIC: Chip = Chip {
    name: "gfx10-3-generic",
    members: &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"],
    ..RDNA2
};

const GFX11_GENERIC: Chip = Chip {
    name: "gfx11-generic",
    generation: "RDNA 3 and 3.5",
    members: &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"],
    vgprs: VGPRS_GFX10_3,
    vector_cache: None,
    f32_rate: None,
    ..RDNA3
};

const GFX12_GENERIC: Chip = Chip { name: "gfx12-generic", members: &["gfx1200", "gfx1201"], ..RDNA4 };
