//! MFMA: matrix instructions of CDNA, in waves of 64 lanes.
//!
//! Sources: LLVM's IntrinsicsAMDGPU.td for names and types, its SISchedule.td for passes (of 4 cycles each); AMD's
//! matrix instruction calculator (CDNA 1 and 2) and ROCm's article on matrix cores (CDNA 3 and 4) for layouts and cycles.
//!
//! All have one form. Of a tile with 2^s rows, the low s bits of the lane's number are the row of A (column of B), the
//! others the highest bits of k; a lane's elements are consecutive in k. The rows of D go in groups of four elements.
//!
//! Left out: those that multiply several small tiles at once, f64 and xf32, SMFMAC (sparse A), and the 4-bit and 6-bit
//! types and the block scales of gfx950.

use super::super::Source;
use super::layout::{Fragment, Layout, fragment};
use super::{MatrixCall, MatrixOp, MatrixType, Operand, Scalar};
use crate::target::fact::known;

const D16: Fragment = fragment!([N(0), N(1), N(2), N(3), M(2), M(3)], [M(0), M(1)]);
const D32: Fragment = fragment!([N(0), N(1), N(2), N(3), N(4), M(2)], [M(0), M(1), M(3), M(4)]);

/// 16 rows, with 1, 2, 4, 8 or 16 elements a lane.
const A16X1: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), K(0), K(1)], []);
const A16X2: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), K(1), K(2)], [K(0)]);
const A16X4: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), K(2), K(3)], [K(0), K(1)]);
const A16X8: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), K(3), K(4)], [K(0), K(1), K(2)]);
const A16X16: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), K(4), K(5)], [K(0), K(1), K(2), K(3)]);

/// 32 rows, with 1, 2, 4, 8 or 16 elements a lane.
const A32X1: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), Outer(4), K(0)], []);
const A32X2: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), Outer(4), K(1)], [K(0)]);
const A32X4: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), Outer(4), K(2)], [K(0), K(1)]);
const A32X8: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), Outer(4), K(3)], [K(0), K(1), K(2)]);
const A32X16: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), Outer(4), K(4)], [K(0), K(1), K(2), K(3)]);

/// The 8-bit floats of gfx950's large products: two runs of 16 elements, with the other lanes' first runs in between.
const A16_F8F6F4: Fragment =
    fragment!([Outer(0), Outer(1), Outer(2), Outer(3), K(4), K(5)], [K(0), K(1), K(2), K(3), K(6)]);
const A32_F8F6F4: Fragment =
    fragment!([Outer(0), Outer(1), Outer(2), Outer(3), Outer(4), K(4)], [K(0), K(1), K(2), K(3), K(5)]);

const fn operand(scalar: Scalar, count: u32) -> Operand {
    Operand { scalar, count }
}

/// 16x16 results.
const fn op16(
    types: (MatrixType, MatrixType),
    k: u32,
    intrinsic: &'static str,
    factor: Operand,
    fragment: Fragment,
) -> MatrixOp {
    MatrixOp {
        m: 16,
        n: 16,
        k,
        a: types.0,
        b: types.0,
        acc: types.1,
        wave: 64,
        intrinsic,
        call: MatrixCall::Mfma,
        factor,
        result: operand(if matches!(types.1, MatrixType::I32) { Scalar::I32 } else { Scalar::Float }, 4),
        mnemonic: "",
        layout: Layout { factor: fragment, result: D16 },
        cycles: None,
    }
}

/// 32x32 results.
const fn op32(
    types: (MatrixType, MatrixType),
    k: u32,
    intrinsic: &'static str,
    factor: Operand,
    fragment: Fragment,
) -> MatrixOp {
    let op = op16(types, k, intrinsic, factor, fragment);
    let result = operand(op.result.scalar, 16);
    MatrixOp { m: 32, n: 32, result, layout: Layout { factor: fragment, result: D32 }, ..op }
}

/// 8-bit floats of two kinds.
const fn mixed(op: MatrixOp, a: MatrixType, b: MatrixType, intrinsic: &'static str) -> MatrixOp {
    MatrixOp { a, b, intrinsic, ..op }
}

/// A row of a chip: what its assembly calls the instruction, and its cycles, which LLVM and the source agree on.
const fn row(op: MatrixOp, mnemonic: &'static str, cycles: u32, source: Source) -> MatrixOp {
    MatrixOp { mnemonic, cycles: known(cycles, source), ..op }
}

const F32_F32: (MatrixType, MatrixType) = (MatrixType::F32, MatrixType::F32);
const F16_F32: (MatrixType, MatrixType) = (MatrixType::F16, MatrixType::F32);
const BF16_F32: (MatrixType, MatrixType) = (MatrixType::Bf16, MatrixType::F32);
const I8_I32: (MatrixType, MatrixType) = (MatrixType::I8, MatrixType::I32);
const FP8_F32: (MatrixType, MatrixType) = (MatrixType::Fp8, MatrixType::F32);

const F32_16: MatrixOp = op16(F32_F32, 4, "llvm.amdgcn.mfma.f32.16x16x4f32", operand(Scalar::Float, 1), A16X1);
const F32_32: MatrixOp = op32(F32_F32, 2, "llvm.amdgcn.mfma.f32.32x32x2f32", operand(Scalar::Float, 1), A32X1);
const F16_16: MatrixOp = op16(F16_F32, 16, "llvm.amdgcn.mfma.f32.16x16x16f16", operand(Scalar::Half, 4), A16X4);
const F16_32: MatrixOp = op32(F16_F32, 8, "llvm.amdgcn.mfma.f32.32x32x8f16", operand(Scalar::Half, 4), A32X4);
const BF16_OLD_16: MatrixOp = op16(BF16_F32, 8, "llvm.amdgcn.mfma.f32.16x16x8bf16", operand(Scalar::I16, 2), A16X2);
const BF16_OLD_32: MatrixOp = op32(BF16_F32, 4, "llvm.amdgcn.mfma.f32.32x32x4bf16", operand(Scalar::I16, 2), A32X2);
const BF16_16: MatrixOp = op16(BF16_F32, 16, "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", operand(Scalar::I16, 4), A16X4);
const BF16_32: MatrixOp = op32(BF16_F32, 8, "llvm.amdgcn.mfma.f32.32x32x8bf16.1k", operand(Scalar::I16, 4), A32X4);
const I8_OLD_16: MatrixOp = op16(I8_I32, 16, "llvm.amdgcn.mfma.i32.16x16x16i8", operand(Scalar::I32, 1), A16X4);
const I8_OLD_32: MatrixOp = op32(I8_I32, 8, "llvm.amdgcn.mfma.i32.32x32x8i8", operand(Scalar::I32, 1), A32X4);
const I8_16: MatrixOp = op16(I8_I32, 32, "llvm.amdgcn.mfma.i32.16x16x32.i8", operand(Scalar::I64, 1), A16X8);
const I8_32: MatrixOp = op32(I8_I32, 16, "llvm.amdgcn.mfma.i32.32x32x16.i8", operand(Scalar::I64, 1), A32X8);
const FP8_16: MatrixOp = op16(FP8_F32, 32, "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", operand(Scalar::I64, 1), A16X8);
const FP8_32: MatrixOp = op32(FP8_F32, 16, "llvm.amdgcn.mfma.f32.32x32x16.fp8.fp8", operand(Scalar::I64, 1), A32X8);

/// gfx908.
pub(in super::super) const GFX908: &[MatrixOp] = &[
    row(F32_16, "v_mfma_f32_16x16x4f32", 32, Source::MatrixCalculator),
    row(F32_32, "v_mfma_f32_32x32x2f32", 64, Source::MatrixCalculator),
    row(F16_16, "v_mfma_f32_16x16x16f16", 32, Source::MatrixCalculator),
    row(F16_32, "v_mfma_f32_32x32x8f16", 64, Source::MatrixCalculator),
    row(BF16_OLD_16, "v_mfma_f32_16x16x8bf16", 32, Source::MatrixCalculator),
    row(BF16_OLD_32, "v_mfma_f32_32x32x4bf16", 64, Source::MatrixCalculator),
    row(I8_OLD_16, "v_mfma_i32_16x16x16i8", 32, Source::MatrixCalculator),
    row(I8_OLD_32, "v_mfma_i32_32x32x8i8", 64, Source::MatrixCalculator),
];

/// gfx90a: as gfx908, and with twice the k for bf16.
pub(in super::super) const GFX90A: &[MatrixOp] = &concat::<10>(&[
    GFX908,
    &[
        row(BF16_16, "v_mfma_f32_16x16x16bf16_1k", 32, Source::MatrixCalculator),
        row(BF16_32, "v_mfma_f32_32x32x8bf16_1k", 64, Source::MatrixCalculator),
    ],
]);

/// What gfx942 and gfx950 have in common: twice as fast, with twice the k for bytes.
pub(in super::super) const GFX9_4: &[MatrixOp] = &[
    row(F32_16, "v_mfma_f32_16x16x4_f32", 32, Source::RocmMatrixBlog),
    row(F32_32, "v_mfma_f32_32x32x2_f32", 64, Source::RocmMatrixBlog),
    row(F16_16, "v_mfma_f32_16x16x16_f16", 16, Source::RocmMatrixBlog),
    row(F16_32, "v_mfma_f32_32x32x8_f16", 32, Source::RocmMatrixBlog),
    row(BF16_16, "v_mfma_f32_16x16x16_bf16", 16, Source::RocmMatrixBlog),
    row(BF16_32, "v_mfma_f32_32x32x8_bf16", 32, Source::RocmMatrixBlog),
    row(I8_16, "v_mfma_i32_16x16x32_i8", 16, Source::LlvmSchedule),
    row(I8_32, "v_mfma_i32_32x32x16_i8", 32, Source::LlvmSchedule),
];

const FP8: [MatrixOp; 8] = [
    row(FP8_16, "v_mfma_f32_16x16x32_fp8_fp8", 16, Source::RocmMatrixBlog),
    row(FP8_32, "v_mfma_f32_32x32x16_fp8_fp8", 32, Source::RocmMatrixBlog),
    row(
        mixed(FP8_16, MatrixType::Fp8, MatrixType::Bf8, "llvm.amdgcn.mfma.f32.16x16x32.fp8.bf8"),
        "v_mfma_f32_16x16x32_fp8_bf8",
        16,
        Source::RocmMatrixBlog,
    ),
    row(
        mixed(FP8_32, MatrixType::Fp8, MatrixType::Bf8, "llvm.amdgcn.mfma.f32.32x32x16.fp8.bf8"),
        "v_mfma_f32_32x32x16_fp8_bf8",
        32,
        Source::RocmMatrixBlog,
    ),
    row(
        mixed(FP8_16, MatrixType::Bf8, MatrixType::Fp8, "llvm.amdgcn.mfma.f32.16x16x32.bf8.fp8"),
        "v_mfma_f32_16x16x32_bf8_fp8",
        16,
        Source::RocmMatrixBlog,
    ),
    row(
        mixed(FP8_32, MatrixType::Bf8, MatrixType::Fp8, "llvm.amdgcn.mfma.f32.32x32x16.bf8.fp8"),
        "v_mfma_f32_32x32x16_bf8_fp8",
        32,
        Source::RocmMatrixBlog,
    ),
    row(
        mixed(FP8_16, MatrixType::Bf8, MatrixType::Bf8, "llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8"),
        "v_mfma_f32_16x16x32_bf8_bf8",
        16,
        Source::RocmMatrixBlog,
    ),
    row(
        mixed(FP8_32, MatrixType::Bf8, MatrixType::Bf8, "llvm.amdgcn.mfma.f32.32x32x16.bf8.bf8"),
        "v_mfma_f32_32x32x16_bf8_bf8",
        32,
        Source::RocmMatrixBlog,
    ),
];

/// gfx950 alone: twice the k. The products with types as operands are here with FP8 (E4M3) only, whose type is 0.
const LARGE: [MatrixOp; 8] = [
    row(
        op16(F16_F32, 32, "llvm.amdgcn.mfma.f32.16x16x32.f16", operand(Scalar::Half, 8), A16X8),
        "v_mfma_f32_16x16x32_f16",
        16,
        Source::RocmMatrixBlog,
    ),
    row(
        op32(F16_F32, 16, "llvm.amdgcn.mfma.f32.32x32x16.f16", operand(Scalar::Half, 8), A32X8),
        "v_mfma_f32_32x32x16_f16",
        32,
        Source::RocmMatrixBlog,
    ),
    row(
        op16(BF16_F32, 32, "llvm.amdgcn.mfma.f32.16x16x32.bf16", operand(Scalar::Bfloat, 8), A16X8),
        "v_mfma_f32_16x16x32_bf16",
        16,
        Source::RocmMatrixBlog,
    ),
    row(
        op32(BF16_F32, 16, "llvm.amdgcn.mfma.f32.32x32x16.bf16", operand(Scalar::Bfloat, 8), A32X8),
        "v_mfma_f32_32x32x16_bf16",
        32,
        Source::RocmMatrixBlog,
    ),
    row(
        op16(I8_I32, 64, "llvm.amdgcn.mfma.i32.16x16x64.i8", operand(Scalar::I32, 4), A16X16),
        "v_mfma_i32_16x16x64_i8",
        16,
        Source::LlvmSchedule,
    ),
    row(
        op32(I8_I32, 32, "llvm.amdgcn.mfma.i32.32x32x32.i8", operand(Scalar::I32, 4), A32X16),
        "v_mfma_i32_32x32x32_i8",
        32,
        Source::LlvmSchedule,
    ),
    MatrixOp {
        call: MatrixCall::MfmaTyped,
        ..row(
            op16(FP8_F32, 128, "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4", operand(Scalar::I32, 8), A16_F8F6F4),
            "v_mfma_f32_16x16x128_f8f6f4",
            32,
            Source::RocmMatrixBlog,
        )
    },
    MatrixOp {
        call: MatrixCall::MfmaTyped,
        ..row(
            op32(FP8_F32, 64, "llvm.amdgcn.mfma.scale.f32.32x32x64.f8f6f4", operand(Scalar::I32, 8), A32_F8F6F4),
            "v_mfma_f32_32x32x64_f8f6f4",
            64,
            Source::RocmMatrixBlog,
        )
    },
];

/// gfx942.
pub(in super::super) const GFX942: &[MatrixOp] = &concat::<16>(&[GFX9_4, &FP8]);

/// gfx950.
pub(in super::super) const GFX950: &[MatrixOp] = &concat::<24>(&[GFX9_4, &FP8, &LARGE]);

/// The rows of several lists. `N` is their number; the build fails if it is not.
const fn concat<const N: usize>(lists: &[&[MatrixOp]]) -> [MatrixOp; N] {
    let mut rows = [F32_16; N];
    let (mut list, mut to) = (0, 0);
    while list < lists.len() {
        let mut from = 0;
        while from < lists[list].len() {
            rows[to] = lists[list][from];
            from += 1;
            to += 1;
        }
        list += 1;
    }
    assert!(to == N, "a row was left out");
    rows
}
