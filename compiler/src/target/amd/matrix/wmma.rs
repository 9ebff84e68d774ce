//! WMMA: matrix instructions of RDNA 3 and 4, in waves of 32 lanes.
//!
//! Sources: LLVM's IntrinsicsAMDGPU.td for names and types; AMD's matrix instruction calculator and GPUOpen's articles
//! (<https://gpuopen.com/learn/wmma_on_rdna3/>, <https://gpuopen.com/learn/using_matrix_core_amd_rdna4/>) for layouts;
//! the second article and ROCm's Origami for cycles. The order of k is the same in A and B, so it does not matter for
//! integers, whose sums are exact; of the 4-bit products no source says more than how many elements a lane holds.
//!
//! Left out: SWMMAC (sparse A), and layouts of waves of 64 lanes.

use super::super::Source;
use super::layout::{Fragment, Layout, fragment};
use super::{MatrixCall, MatrixOp, MatrixType, Operand, Scalar};
use crate::target::fact::known;

/// gfx11: a lane holds a whole row of A or column of B, and lanes 16 to 31 hold the same ones again.
const FACTOR_11: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), Repeat], [K(0), K(1), K(2), K(3)]);
/// gfx11: row 2 * element + (lane >= 16).
const RESULT_11: Fragment = fragment!([N(0), N(1), N(2), N(3), M(0)], [M(1), M(2), M(3)]);
/// gfx11 with 16-bit results: the low halves of as many registers.
const HALF_RESULT_11: Fragment = fragment!([N(0), N(1), N(2), N(3), M(0)], [Unused, M(1), M(2), M(3)]);
/// gfx12: the lower lanes hold the lower half of k.
const FACTOR_12: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), K(3)], [K(0), K(1), K(2)]);
/// gfx12, K = 32.
const FACTOR_12_K32: Fragment = fragment!([Outer(0), Outer(1), Outer(2), Outer(3), K(4)], [K(0), K(1), K(2), K(3)]);
/// gfx12: row 8 * (lane >= 16) + element.
const RESULT_12: Fragment = fragment!([N(0), N(1), N(2), N(3), M(3)], [M(0), M(1), M(2)]);

const F32X8: Operand = Operand { scalar: Scalar::Float, count: 8 };
const I32X8: Operand = Operand { scalar: Scalar::I32, count: 8 };

const fn half(count: u32) -> Operand {
    Operand { scalar: Scalar::Half, count }
}

const fn i16s(count: u32) -> Operand {
    Operand { scalar: Scalar::I16, count }
}

const fn i32s(count: u32) -> Operand {
    Operand { scalar: Scalar::I32, count }
}

/// gfx11: f16 products.
const F16: MatrixOp = MatrixOp {
    m: 16,
    n: 16,
    k: 16,
    a: MatrixType::F16,
    b: MatrixType::F16,
    acc: MatrixType::F32,
    wave: 32,
    intrinsic: "llvm.amdgcn.wmma.f32.16x16x16.f16",
    call: MatrixCall::Wmma,
    factor: half(16),
    result: F32X8,
    mnemonic: "v_wmma_f32_16x16x16_f16",
    layout: Layout { factor: FACTOR_11, result: RESULT_11 },
    cycles: known(32, Source::GpuOpenRdna4),
};

/// gfx11: bf16 products; LLVM has them as `i16`.
const BF16: MatrixOp = MatrixOp {
    a: MatrixType::Bf16,
    b: MatrixType::Bf16,
    intrinsic: "llvm.amdgcn.wmma.f32.16x16x16.bf16",
    factor: i16s(16),
    mnemonic: "v_wmma_f32_16x16x16_bf16",
    ..F16
};

/// gfx11: products of bytes, packed into `i32`.
const IU8: MatrixOp = MatrixOp {
    a: MatrixType::Iu8,
    b: MatrixType::Iu8,
    acc: MatrixType::I32,
    intrinsic: "llvm.amdgcn.wmma.i32.16x16x16.iu8",
    call: MatrixCall::WmmaSigned,
    factor: i32s(4),
    result: I32X8,
    mnemonic: "v_wmma_i32_16x16x16_iu8",
    ..F16
};

/// gfx11: products of 4-bit values, packed into `i32`.
const IU4: MatrixOp = MatrixOp {
    a: MatrixType::Iu4,
    b: MatrixType::Iu4,
    intrinsic: "llvm.amdgcn.wmma.i32.16x16x16.iu4",
    factor: i32s(2),
    mnemonic: "v_wmma_i32_16x16x16_iu4",
    cycles: known(16, Source::Origami),
    ..IU8
};

/// gfx11: f16 products added to f16.
const F16_F16: MatrixOp = MatrixOp {
    acc: MatrixType::F16,
    intrinsic: "llvm.amdgcn.wmma.f16.16x16x16.f16",
    call: MatrixCall::WmmaHalf,
    result: half(16),
    mnemonic: "v_wmma_f16_16x16x16_f16",
    layout: Layout { factor: FACTOR_11, result: HALF_RESULT_11 },
    ..F16
};

/// gfx11: bf16 products added to bf16.
const BF16_BF16: MatrixOp = MatrixOp {
    a: MatrixType::Bf16,
    b: MatrixType::Bf16,
    acc: MatrixType::Bf16,
    intrinsic: "llvm.amdgcn.wmma.bf16.16x16x16.bf16",
    factor: i16s(16),
    result: i16s(16),
    mnemonic: "v_wmma_bf16_16x16x16_bf16",
    ..F16_F16
};

/// gfx11.
pub(in super::super) const GFX11: &[MatrixOp] = &[F16, BF16, IU8, IU4, F16_F16, BF16_BF16];

/// gfx12: half the elements a lane, twice the speed.
const fn gfx12(op: MatrixOp, factor: Operand) -> MatrixOp {
    let layout = Layout { factor: FACTOR_12, result: RESULT_12 };
    MatrixOp { factor, layout, cycles: known(16, Source::GpuOpenRdna4), ..op }
}

const IU8_12: MatrixOp = MatrixOp { cycles: known(8, Source::GpuOpenRdna4), ..gfx12(IU8, i32s(2)) };

/// 8-bit floats, packed into `i32`.
const fn f8(a: MatrixType, b: MatrixType, intrinsic: &'static str, mnemonic: &'static str) -> MatrixOp {
    MatrixOp { a, b, intrinsic, mnemonic, cycles: known(8, Source::Origami), ..gfx12(F16, i32s(2)) }
}

/// gfx12.
pub(in super::super) const GFX12: &[MatrixOp] = &[
    gfx12(F16, half(8)),
    gfx12(BF16, i16s(8)),
    IU8_12,
    MatrixOp { cycles: known(8, Source::Origami), ..gfx12(IU4, i32s(1)) },
    MatrixOp {
        k: 32,
        intrinsic: "llvm.amdgcn.wmma.i32.16x16x32.iu4",
        mnemonic: "v_wmma_i32_16x16x32_iu4",
        layout: Layout { factor: FACTOR_12_K32, result: RESULT_12 },
        cycles: known(8, Source::Origami),
        ..gfx12(IU4, i32s(2))
    },
    f8(MatrixType::Fp8, MatrixType::Fp8, "llvm.amdgcn.wmma.f32.16x16x16.fp8.fp8", "v_wmma_f32_16x16x16_fp8_fp8"),
    f8(MatrixType::Fp8, MatrixType::Bf8, "llvm.amdgcn.wmma.f32.16x16x16.fp8.bf8", "v_wmma_f32_16x16x16_fp8_bf8"),
    f8(MatrixType::Bf8, MatrixType::Fp8, "llvm.amdgcn.wmma.f32.16x16x16.bf8.fp8", "v_wmma_f32_16x16x16_bf8_fp8"),
    f8(MatrixType::Bf8, MatrixType::Bf8, "llvm.amdgcn.wmma.f32.16x16x16.bf8.bf8", "v_wmma_f32_16x16x16_bf8_bf8"),
    MatrixOp { result: half(8), ..gfx12(F16_F16, half(8)) },
    MatrixOp { result: i16s(8), ..gfx12(BF16_BF16, i16s(8)) },
];
