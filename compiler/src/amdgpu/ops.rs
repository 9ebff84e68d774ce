//! What lanes do together, as AMD's instructions have it: dot products, exchanges, barriers, matrix products.

use super::Amd;
use crate::lanes::ir::Val;
use crate::simt::{Codegen, Result, said};
use crate::target::amd::{DotCall, DotType, MatrixCall, MatrixOp, Operand, Scalar};
use inkwell::context::AsContextRef;
use inkwell::llvm_sys::LLVMAtomicOrdering;
use inkwell::llvm_sys::core;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{AsValueRef, BasicValueEnum};

/// DPP controls (RDNA and GCN ISA documents, DPP_CTRL).
mod dpp {
    pub const ROW_XMASK: u32 = 0x160;
    pub const ROW_HALF_MIRROR: u32 = 0x141;
    pub const ROW_ROTATE_8: u32 = 0x128;
    /// quad_perm of the four lanes whose numbers differ in these bits.
    pub fn quad_xor(mask: u32) -> u32 {
        (0..4).map(|i| (i ^ mask) << (2 * i)).sum()
    }
}

impl<'c> Codegen<'c, '_, Amd> {
    /// A dot product of bytes; lanes are built with one only where the chip has it.
    pub(super) fn dot4(&self, signed: bool, [a, b, c]: [BasicValueEnum<'c>; 3]) -> Result<BasicValueEnum<'c>> {
        let op = self.isa.0.dot(DotType::Iu8).or_else(|_| self.isa.0.dot(DotType::I8)).map_err(|e| e.to_string())?;
        match op.call {
            DotCall::SignedClamp => {
                let args = [self.flag(signed), a, self.flag(true), b, c, self.flag(false)];
                self.call(op.intrinsic, &[], &args)
            }
            _ => self.call(op.intrinsic, &[], &[a, b, c, self.flag(false)]),
        }
    }

    /// The word of the lane whose number differs in these bits.
    pub(super) fn exchanged(&self, mut x: BasicValueEnum<'c>, mask: u32) -> Result<BasicValueEnum<'c>> {
        let i32t = self.cx.i32_type();
        let modern = self.isa.0.has_row_xmask();
        let steps: Vec<u32> = match mask {
            m @ 1..=3 => vec![dpp::quad_xor(m)],
            m @ 4..=15 if modern => vec![dpp::ROW_XMASK | m],
            4 => vec![dpp::ROW_HALF_MIRROR, dpp::quad_xor(3)],
            8 => vec![dpp::ROW_ROTATE_8],
            _ => vec![],
        };
        if !steps.is_empty() {
            for control in steps {
                let all = self.word(15).into();
                let old = i32t.get_poison().into();
                let args = [old, x, self.word(control).into(), all, all, self.flag(true)];
                x = self.call("llvm.amdgcn.update.dpp", &[i32t.into()], &args)?;
            }
        } else if mask == 16 && modern {
            let lanes = [0x7654_3210u32, 0xFEDC_BA98].map(|n| self.word(n).into());
            let args = [x, x, lanes[0], lanes[1], self.flag(false), self.flag(false)];
            x = self.call("llvm.amdgcn.permlanex16", &[i32t.into()], &args)?;
        } else {
            let lane = self.lane_number()?;
            let other = self.b.build_xor(lane, self.word(mask), "").map_err(said)?;
            let address = self.b.build_left_shift(other, self.word(2), "").map_err(said)?;
            x = self.call("llvm.amdgcn.ds.bpermute", &[], &[address.into(), x])?;
        }
        Ok(x)
    }

    /// A barrier of LDS. The lanes of a single wave go in step: for them it only keeps the compiler from moving accesses.
    pub(super) fn lds_barrier(&self) -> Result<()> {
        let scope = if self.lanes.waves == 1 { "wavefront" } else { "workgroup" };
        self.keep_loads()?;
        self.fence(LLVMAtomicOrdering::LLVMAtomicOrderingRelease, scope)?;
        let name = if self.lanes.waves == 1 { "llvm.amdgcn.wave.barrier" } else { "llvm.amdgcn.s.barrier" };
        self.intrinsic(name, &[], &[])?;
        self.fence(LLVMAtomicOrdering::LLVMAtomicOrderingAcquire, scope)
    }

    /// A fence that orders LDS accesses only (AMDGPU usage guide, "amdgpu-synchronize-as").
    fn fence(&self, ordering: LLVMAtomicOrdering, scope: &str) -> Result<()> {
        let tag = self.cx.metadata_string("amdgpu-synchronize-as").into();
        let local = self.cx.metadata_string("local").into();
        let node = self.cx.metadata_node(&[tag, local]);
        let kind = self.cx.get_kind_id("mmra");
        // SAFETY: context, builder and node are alive, the builder stands in a block, and the name is given with its
        // length or as a constant with its zero. inkwell has no fences with a scope.
        unsafe {
            let id = core::LLVMGetSyncScopeID(self.cx.as_ctx_ref(), scope.as_ptr().cast(), scope.len());
            let fence = core::LLVMBuildFenceSyncScope(self.b.as_mut_ptr(), ordering, id, c"".as_ptr());
            core::LLVMSetMetadata(fence, kind, node.as_value_ref());
        }
        Ok(())
    }

    /// LLVM's type of a matrix instruction's operand.
    fn operand_type(&self, operand: Operand) -> BasicTypeEnum<'c> {
        let cx = self.cx;
        let scalar: BasicTypeEnum = match operand.scalar {
            Scalar::Half => cx.f16_type().into(),
            Scalar::Bfloat => cx.bf16_type().into(),
            Scalar::Float => cx.f32_type().into(),
            Scalar::I16 => cx.i16_type().into(),
            Scalar::I32 => cx.i32_type().into(),
            Scalar::I64 => cx.i64_type().into(),
        };
        match (scalar, operand.count) {
            (t, 1) => t,
            (BasicTypeEnum::FloatType(t), n) => t.vec_type(n).into(),
            (BasicTypeEnum::IntType(t), n) => t.vec_type(n).into(),
            (t, _) => t,
        }
    }

    pub(super) fn matrix_product(
        &self,
        inst: &MatrixOp,
        a: &[Val],
        b: &[Val],
        c: &[Val],
    ) -> Result<Vec<BasicValueEnum<'c>>> {
        let fragment = |list: &[Val]| match list {
            [one] => self.get(*one),
            list => self.vector(list, list.len() as u32),
        };
        let factor = self.operand_type(inst.factor);
        let as_factor = |list: &[Val]| self.b.build_bit_cast(fragment(list)?, factor, "").map_err(said);
        let (a, b, n) = (as_factor(a)?, as_factor(b)?, c.len() as u32);
        let c = fragment(c)?;
        let overloads = [c.get_type(), factor];
        let out = match inst.call {
            MatrixCall::Wmma => self.call(inst.intrinsic, &overloads, &[a, b, c])?,
            MatrixCall::WmmaSigned => {
                let args = [self.flag(true), a, self.flag(true), b, c, self.flag(false)];
                self.call(inst.intrinsic, &overloads, &args)?
            }
            MatrixCall::Mfma => {
                let zero = self.word(0).into();
                self.call(inst.intrinsic, &[], &[a, b, c, zero, zero, zero])?
            }
            MatrixCall::WmmaHalf | MatrixCall::MfmaTyped | MatrixCall::MmaSync => {
                return Err(format!("{inst} is not one of those that kernels use"));
            }
        };
        let out = out.into_vector_value();
        (0..n).map(|i| self.b.build_extract_element(out, self.word(i), "").map_err(said)).collect()
    }
}
