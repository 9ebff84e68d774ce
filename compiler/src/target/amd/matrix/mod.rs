//! Matrix instructions: one product `D = A * B + C` of small tiles that the lanes of a wave hold in registers.
//!
//! A is M x K, B is K x N, C and D are M x N. Each lane holds *elements* of each, numbered from the low bits of its
//! first register: its *fragment*. Which element of the tile that is follows from the bits of two numbers, that of the
//! lane and that of the element, so a [`Fragment`] is a permutation of bits.

mod layout;
mod mfma;
mod wmma;

pub use layout::{Bit, Fragment, Layout};
pub(super) use mfma::{GFX9_4, GFX90A, GFX908, GFX942, GFX950};
pub(super) use wmma::{GFX11, GFX12};

use super::{Chip, Fact, FactError};
use std::fmt;

/// Element types of matrix instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixType {
    /// binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// binary32.
    F32,
    /// Signed bytes.
    I8,
    /// Bytes; the instruction says of each operand whether it is signed.
    Iu8,
    /// 4-bit values; the instruction says of each operand whether it is signed.
    Iu4,
    /// 8-bit floats E4M3, in the chip's form ([`super::Fp8`]).
    Fp8,
    /// 8-bit floats E5M2, in the chip's form ([`super::Fp8`]).
    Bf8,
    /// 32-bit integers.
    I32,
}

impl MatrixType {
    /// Bits of an element.
    pub const fn bits(self) -> u32 {
        match self {
            MatrixType::Iu4 => 4,
            MatrixType::I8 | MatrixType::Iu8 | MatrixType::Fp8 | MatrixType::Bf8 => 8,
            MatrixType::F16 | MatrixType::Bf16 => 16,
            MatrixType::F32 | MatrixType::I32 => 32,
        }
    }
}

impl fmt::Display for MatrixType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MatrixType::F16 => "f16",
            MatrixType::Bf16 => "bf16",
            MatrixType::F32 => "f32",
            MatrixType::I8 => "i8",
            MatrixType::Iu8 => "iu8",
            MatrixType::Iu4 => "iu4",
            MatrixType::Fp8 => "fp8",
            MatrixType::Bf8 => "bf8",
            MatrixType::I32 => "i32",
        })
    }
}

/// LLVM's scalar types of operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scalar {
    /// `half`.
    Half,
    /// `bfloat`.
    Bfloat,
    /// `float`.
    Float,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
}

impl Scalar {
    /// Its bits.
    pub const fn bits(self) -> u32 {
        match self {
            Scalar::Half | Scalar::Bfloat | Scalar::I16 => 16,
            Scalar::Float | Scalar::I32 => 32,
            Scalar::I64 => 64,
        }
    }
}

/// LLVM's type of an operand: a vector, or a scalar if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Type of the vector's elements, which need not be the matrix's.
    pub scalar: Scalar,
    /// How many.
    pub count: u32,
}

/// The arguments that an intrinsic of a matrix product takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MatrixCall {
    /// WMMA: `(a, b, c)`; overloaded by the types of D and A.
    Wmma,
    /// WMMA of integers: `(a signed: i1, a, b signed: i1, b, c, clamp: i1)`; overloaded by the types of D and A.
    WmmaSigned,
    /// WMMA with 16-bit results: `(a, b, c, high: i1)`; overloaded by the types of D and A. On gfx11 `high` says which
    /// half of each register holds an element of C and D; on gfx12 it is false.
    WmmaHalf,
    /// MFMA: `(a, b, c, cbsz: i32, abid: i32, blgp: i32)`, where zeros mean no broadcast; not overloaded.
    Mfma,
    /// MFMA with types as operands: `(a, b, c, type of a: i32, type of b: i32, 0, scales of a: i32, 0, scales of b:
    /// i32)`, where scales that are the constant 0 mean none; overloaded by the types of A and B.
    MfmaTyped,
    /// NVIDIA's mma.sync, whose results have 8 columns: two calls, one for the lower columns and one for the upper. Each
    /// register of a fragment is an argument: `(a.., b.., c..)`, and the result is a struct of those of D.
    MmaSync,
}

/// A matrix instruction of a chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MatrixOp {
    /// Rows of A and D.
    pub m: u32,
    /// Columns of B and D.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// Elements of A.
    pub a: MatrixType,
    /// Elements of B.
    pub b: MatrixType,
    /// Elements of C and D.
    pub acc: MatrixType,
    /// Lanes of the wave that its layout is for.
    pub wave: u32,
    /// LLVM's intrinsic, without the types it is overloaded by.
    pub intrinsic: &'static str,
    /// Its arguments.
    pub call: MatrixCall,
    /// LLVM's type of A and B.
    pub factor: Operand,
    /// LLVM's type of C and D.
    pub result: Operand,
    /// The instruction, as the chip's assembly calls it.
    pub mnemonic: &'static str,
    /// Which elements a lane holds.
    pub layout: Layout,
    /// Cycles from one such instruction to the next in one matrix unit, of which each SIMD has one.
    pub cycles: Fact<u32>,
}

impl MatrixOp {
    /// Multiplications and additions, counted apart.
    pub const fn flops(&self) -> u32 {
        2 * self.m * self.n * self.k
    }

    /// Elements of A (and of B) that a lane holds.
    pub fn factor_elements(&self) -> u32 {
        1 << self.layout.factor.element.len()
    }

    /// Elements of C and D that a lane holds, unused ones among them.
    pub fn result_elements(&self) -> u32 {
        1 << self.layout.result.element.len()
    }

    /// Row and column of A (m, k) of a lane's element.
    pub fn a_at(&self, lane: u32, element: u32) -> (u32, u32) {
        let at = self.layout.factor.at(lane, element);
        (at.outer, at.k)
    }

    /// Row and column of B (k, n) of a lane's element.
    pub fn b_at(&self, lane: u32, element: u32) -> (u32, u32) {
        let at = self.layout.factor.at(lane, element);
        (at.k, at.outer)
    }

    /// Row and column of C and D (m, n) of a lane's element; none if it holds no element.
    pub fn d_at(&self, lane: u32, element: u32) -> Option<(u32, u32)> {
        let at = self.layout.result.at(lane, element);
        (!at.unused).then_some((at.m, at.n))
    }
}

impl fmt::Display for MatrixOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{} {}*{} to {}", self.m, self.n, self.k, self.a, self.b, self.acc)
    }
}

impl Chip {
    /// The matrix instructions of such types, those with most work first.
    ///
    /// # Errors
    /// If the chip has none.
    pub fn matrix_products(
        &self,
        a: MatrixType,
        b: MatrixType,
        acc: MatrixType,
    ) -> Result<Vec<&'static MatrixOp>, FactError> {
        let mut ops: Vec<_> = self.matrix_ops.iter().filter(|op| (op.a, op.b, op.acc) == (a, b, acc)).collect();
        if ops.is_empty() {
            return Err(FactError::Absent { chip: self.name, what: format!("matrix product of {a}*{b} to {acc}") });
        }
        ops.sort_by_key(|op| std::cmp::Reverse(op.flops()));
        Ok(ops)
    }

    /// Floating-point (or integer) operations that a matrix instruction does in one clock of one CU.
    ///
    /// # Errors
    /// If its cycles are not known.
    pub fn matrix_rate(&self, op: &MatrixOp) -> Result<u32, FactError> {
        let cycles = self.known(&format!("throughput of {}", op.mnemonic), op.cycles)?;
        Ok(op.flops() / cycles * (self.simds / self.block.cus()))
    }
}
