//! Matrix instructions: mma.sync, two of which make a result of 16 columns.
//!
//! Fragments are those of the PTX ISA ("Matrix Fragments for mma.m16n8k16 with floating point type", "mma.m16n8k32"), with
//! the registers of a factor in the order in which a tile counts them: along k first, then the rows below by 8. A and B are
//! alike, as B of the second instruction is B's rows from 8 on. Cycles are those of the units' peak ([`Source::Whitepaper`]);
//! on GeForce cards sums in `f32` are at half the rate.

use crate::target::amd::Bit::{K, M, N, Outer};
use crate::target::amd::{Fragment, Layout, MatrixCall, MatrixOp, MatrixType, Operand, Scalar};
use crate::target::fact::{Source, known};

const RESULT: Fragment = Fragment { lane: &[N(1), N(2), M(0), M(1), M(2)], element: &[N(0), N(3), M(3)] };

/// Of factors with 16 bits.
const HALVES: Layout = Layout {
    factor: Fragment { lane: &[K(1), K(2), Outer(0), Outer(1), Outer(2)], element: &[K(0), K(3), Outer(3)] },
    result: RESULT,
};

/// Of factors with 8 bits.
const BYTES: Layout = Layout {
    factor: Fragment { lane: &[K(2), K(3), Outer(0), Outer(1), Outer(2)], element: &[K(0), K(1), K(4), Outer(3)] },
    result: RESULT,
};

const fn op(
    ty: MatrixType,
    k: u32,
    [intrinsic, mnemonic]: [&'static str; 2],
    factor: Operand,
    layout: Layout,
    cycles: u32,
) -> MatrixOp {
    let (acc, sums) = match ty {
        MatrixType::I8 => (MatrixType::I32, Scalar::I32),
        _ => (MatrixType::F32, Scalar::Float),
    };
    MatrixOp {
        m: 16,
        n: 16,
        k,
        a: ty,
        b: ty,
        acc,
        wave: super::WARP,
        intrinsic,
        call: MatrixCall::MmaSync,
        factor,
        result: Operand { scalar: sums, count: 1 },
        mnemonic,
        layout,
        cycles: known(cycles, Source::Whitepaper),
    }
}

/// One register of a fragment.
const WORD: Operand = Operand { scalar: Scalar::I32, count: 1 };
/// The same as two halves.
const PAIR: Operand = Operand { scalar: Scalar::Half, count: 2 };

const fn ops([halves, bytes]: [u32; 2]) -> [MatrixOp; 3] {
    [
        op(
            MatrixType::F16,
            16,
            ["llvm.nvvm.mma.m16n8k16.row.col.f32.f32", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"],
            PAIR,
            HALVES,
            halves,
        ),
        op(
            MatrixType::Bf16,
            16,
            ["llvm.nvvm.mma.m16n8k16.row.col.bf16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"],
            WORD,
            HALVES,
            halves,
        ),
        op(
            MatrixType::I8,
            32,
            ["llvm.nvvm.mma.m16n8k32.row.col.s8", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"],
            WORD,
            BYTES,
            bytes,
        ),
    ]
}

pub(super) const SM80: &[MatrixOp] = &ops([16, 16]);
pub(super) const SM86: &[MatrixOp] = &ops([64, 32]);
pub(super) const SM90: &[MatrixOp] = &ops([8, 8]);
pub(super) const SM100: &[MatrixOp] = &ops([4, 4]);
