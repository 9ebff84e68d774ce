//! Dot products of packed values in one lane.

use super::{Chip, FactError};
use std::fmt;

/// The factors of a dot product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DotType {
    /// Four signed bytes each.
    I8,
    /// Four unsigned bytes each.
    U8,
    /// Four bytes each; the instruction says of each operand whether it is signed.
    Iu8,
    /// Eight signed 4-bit values each.
    I4,
    /// Eight unsigned 4-bit values each.
    U4,
    /// Eight 4-bit values each; the instruction says of each operand whether it is signed.
    Iu4,
    /// Two `f16` each.
    F16,
    /// Two `bf16` each.
    Bf16,
    /// Four FP8 (E4M3) each.
    Fp8,
    /// Four FP8 (E4M3) and four BF8 (E5M2).
    Fp8Bf8,
    /// Four BF8 (E5M2) and four FP8 (E4M3).
    Bf8Fp8,
    /// Four BF8 (E5M2) each.
    Bf8,
}

impl fmt::Display for DotType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DotType::I8 => "i8",
            DotType::U8 => "u8",
            DotType::Iu8 => "iu8",
            DotType::I4 => "i4",
            DotType::U4 => "u4",
            DotType::Iu4 => "iu4",
            DotType::F16 => "f16",
            DotType::Bf16 => "bf16",
            DotType::Fp8 => "fp8",
            DotType::Fp8Bf8 => "fp8*bf8",
            DotType::Bf8Fp8 => "bf8*fp8",
            DotType::Bf8 => "bf8",
        })
    }
}

/// The arguments that an intrinsic of a dot product takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DotCall {
    /// `(a, b, c, clamp: i1)`.
    Clamp,
    /// `(a signed: i1, a, b signed: i1, b, c, clamp: i1)`.
    SignedClamp,
    /// `(a, b, c)`.
    Plain,
}

/// A dot product whose sum is 32 bits wide: `i32` of whole factors, `f32` of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DotOp {
    /// Its factors.
    pub factors: DotType,
    /// LLVM's intrinsic. None of them is overloaded.
    pub intrinsic: &'static str,
    /// Its arguments.
    pub call: DotCall,
    /// The instructions, without suffix, that it may become.
    pub mnemonics: &'static [&'static str],
}

const fn op(factors: DotType, intrinsic: &'static str, call: DotCall, mnemonics: &'static [&'static str]) -> DotOp {
    DotOp { factors, intrinsic, call, mnemonics }
}

const I8: DotOp =
    op(DotType::I8, "llvm.amdgcn.sdot4", DotCall::Clamp, &["v_dot4_i32_i8", "v_dot4c_i32_i8", "v_dot4_i32_iu8"]);
const U8: DotOp = op(DotType::U8, "llvm.amdgcn.udot4", DotCall::Clamp, &["v_dot4_u32_u8"]);
const IU8: DotOp = op(DotType::Iu8, "llvm.amdgcn.sudot4", DotCall::SignedClamp, &["v_dot4_i32_iu8"]);
const I4: DotOp =
    op(DotType::I4, "llvm.amdgcn.sdot8", DotCall::Clamp, &["v_dot8_i32_i4", "v_dot8c_i32_i4", "v_dot8_i32_iu4"]);
const U4: DotOp = op(DotType::U4, "llvm.amdgcn.udot8", DotCall::Clamp, &["v_dot8_u32_u4"]);
const IU4: DotOp = op(DotType::Iu4, "llvm.amdgcn.sudot8", DotCall::SignedClamp, &["v_dot8_i32_iu4"]);
const F16: DotOp = op(
    DotType::F16,
    "llvm.amdgcn.fdot2",
    DotCall::Clamp,
    &["v_dot2_f32_f16", "v_dot2c_f32_f16", "v_dual_dot2acc_f32_f16"],
);
const BF16: DotOp = op(
    DotType::Bf16,
    "llvm.amdgcn.fdot2.f32.bf16",
    DotCall::Clamp,
    &["v_dot2_f32_bf16", "v_dot2c_f32_bf16", "v_dual_dot2acc_f32_bf16"],
);
const FP8: DotOp = op(DotType::Fp8, "llvm.amdgcn.dot4.f32.fp8.fp8", DotCall::Plain, &["v_dot4_f32_fp8_fp8"]);
const FP8_BF8: DotOp = op(DotType::Fp8Bf8, "llvm.amdgcn.dot4.f32.fp8.bf8", DotCall::Plain, &["v_dot4_f32_fp8_bf8"]);
const BF8_FP8: DotOp = op(DotType::Bf8Fp8, "llvm.amdgcn.dot4.f32.bf8.fp8", DotCall::Plain, &["v_dot4_f32_bf8_fp8"]);
const BF8: DotOp = op(DotType::Bf8, "llvm.amdgcn.dot4.f32.bf8.bf8", DotCall::Plain, &["v_dot4_f32_bf8_bf8"]);

/// Every dot product that some chip has.
pub const ALL: &[DotOp] = GFX12;

/// gfx906 to gfx942 and gfx10.3.
pub(super) const GFX906: &[DotOp] = &[I8, U8, I4, U4, F16];
/// gfx950.
pub(super) const GFX950: &[DotOp] = &[I8, U8, I4, U4, F16, BF16];
/// gfx11.
pub(super) const GFX11: &[DotOp] = &[I8, U8, IU8, I4, U4, IU4, F16, BF16];
/// gfx12.
pub(super) const GFX12: &[DotOp] = &[I8, U8, IU8, I4, U4, IU4, F16, BF16, FP8, FP8_BF8, BF8_FP8, BF8];

impl Chip {
    /// The dot product of such factors.
    ///
    /// # Errors
    /// If the chip has none.
    pub fn dot(&self, factors: DotType) -> Result<&'static DotOp, FactError> {
        self.dots
            .iter()
            .find(|d| d.factors == factors)
            .ok_or_else(|| FactError::Absent { chip: self.name, what: format!("dot product of {factors}") })
    }
}
