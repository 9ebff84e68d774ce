//! What is AMD's of code generation for GPUs.
//!
//! Each view becomes a buffer resource, so that addresses are 32-bit offsets, what lies beyond the view's end reads as
//! zero, and a lane that must not access memory gets an offset beyond it. What kernels do not use (hidden arguments, ids
//! along other axes) is said, so that the hardware does not set it up.

mod memory;
mod ops;

pub use memory::LARGEST_VIEW;

use crate::lanes::ir::{Address, Op, Val};
use crate::simt::{Codegen, Isa, Result, said};
use crate::target::amd::{Chip, MatrixOp};
use hrx_ir::tile::View;
use inkwell::attributes::AttributeLoc;
use inkwell::module::FlagBehavior;
use inkwell::values::{BasicMetadataValueEnum, BasicValueEnum, IntValue, PointerValue};

/// AMD's GPUs.
pub(crate) struct Amd(pub &'static Chip);

/// What a kernel never uses of what the runtime could pass (AMDGPU usage guide, function attributes).
const UNUSED: &[&str] = &[
    "amdgpu-no-dispatch-ptr",
    "amdgpu-no-queue-ptr",
    "amdgpu-no-implicitarg-ptr",
    "amdgpu-no-dispatch-id",
    "amdgpu-no-heap-ptr",
    "amdgpu-no-hostcall-ptr",
    "amdgpu-no-multigrid-sync-arg",
    "amdgpu-no-default-queue",
    "amdgpu-no-completion-action",
    "amdgpu-no-lds-kernel-id",
    "amdgpu-no-flat-scratch-init",
    "amdgpu-no-workitem-id-y",
    "amdgpu-no-workitem-id-z",
];

impl Isa for Amd {
    /// AMDGPU_KERNEL.
    const CONVENTION: u32 = 91;

    const DECLARED_LDS: u32 = u32::MAX;

    /// Of `v_perm_b32`: a byte a byte.
    const SELECTOR: [u32; 3] = [0x0707_0707, 0x0404_0404, 0x0302_0100];

    fn interface(g: &Codegen<'_, '_, Self>) {
        g.said_to_llvm();
    }

    fn view<'c>(g: &Codegen<'c, '_, Self>, view: View, base: PointerValue<'c>) -> Result<BasicValueEnum<'c>> {
        g.resource(view, base)
    }

    fn thread<'c>(g: &Codegen<'c, '_, Self>) -> Result<IntValue<'c>> {
        Ok(g.call("llvm.amdgcn.workitem.id.x", &[], &[])?.into_int_value())
    }

    fn uniform<'c>(g: &Codegen<'c, '_, Self>, n: IntValue<'c>) -> Result<IntValue<'c>> {
        let t = g.cx.i32_type().into();
        Ok(g.call("llvm.amdgcn.readfirstlane", &[t], &[n.into()])?.into_int_value())
    }

    fn program<'c>(g: &Codegen<'c, '_, Self>, axis: u8) -> Result<BasicValueEnum<'c>> {
        let name = ["x", "y", "z"][usize::from(axis)];
        g.call(&format!("llvm.amdgcn.workgroup.id.{name}"), &[], &[])
    }

    fn whole<'c>(g: &Codegen<'c, '_, Self>, x: BasicValueEnum<'c>, signed: bool) -> Result<BasicValueEnum<'c>> {
        let name = if signed { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
        g.call(name, &[g.cx.i32_type().into(), g.cx.f32_type().into()], &[x])
    }

    /// `v_cvt_f32_ubyteN`, which LLVM knows by this.
    fn byte_to_float<'c>(g: &Codegen<'c, '_, Self>, word: IntValue<'c>, n: u8) -> Result<BasicValueEnum<'c>> {
        let moved = g.b.build_right_shift(word, g.word(8 * u32::from(n)), false, "").map_err(said)?;
        let byte = g.b.build_and(moved, g.word(0xFF), "").map_err(said)?;
        Ok(g.b.build_unsigned_int_to_float(byte, g.cx.f32_type(), "").map_err(said)?.into())
    }

    fn load<'c>(
        g: &Codegen<'c, '_, Self>,
        view: View,
        at: &Address,
        bytes: u32,
        mask: Option<Val>,
    ) -> Result<BasicValueEnum<'c>> {
        g.load_view(view, at, bytes, mask)
    }

    fn store<'c>(
        g: &Codegen<'c, '_, Self>,
        view: View,
        at: &Address,
        value: BasicValueEnum<'c>,
        mask: Option<Val>,
    ) -> Result<()> {
        g.store_view(view, at, value, mask)
    }

    fn selector<'c>(_: &Codegen<'c, '_, Self>, index: IntValue<'c>) -> Result<IntValue<'c>> {
        Ok(index)
    }

    fn permuted<'c>(
        g: &Codegen<'c, '_, Self>,
        high: IntValue<'c>,
        low: IntValue<'c>,
        selector: IntValue<'c>,
    ) -> Result<IntValue<'c>> {
        Ok(g.call("llvm.amdgcn.perm", &[], &[high.into(), low.into(), selector.into()])?.into_int_value())
    }

    fn dot4<'c>(g: &Codegen<'c, '_, Self>, signed: bool, args: [BasicValueEnum<'c>; 3]) -> Result<BasicValueEnum<'c>> {
        g.dot4(signed, args)
    }

    fn dot2<'c>(g: &Codegen<'c, '_, Self>, [a, b, c]: [BasicValueEnum<'c>; 3]) -> Result<BasicValueEnum<'c>> {
        g.call("llvm.amdgcn.fdot2", &[], &[a, b, c, g.flag(false)])
    }

    fn shuffle_xor<'c>(g: &Codegen<'c, '_, Self>, x: BasicValueEnum<'c>, mask: u32) -> Result<BasicValueEnum<'c>> {
        g.exchanged(x, mask)
    }

    fn barrier(g: &Codegen<'_, '_, Self>) -> Result<()> {
        g.lds_barrier()
    }

    fn load_matrices<'c>(
        g: &Codegen<'c, '_, Self>,
        _: PointerValue<'c>,
        _: u32,
        _: bool,
    ) -> Result<Vec<BasicValueEnum<'c>>> {
        Err(format!("{} does not load matrices from LDS", g.isa.0.name))
    }

    fn mma<'c>(
        g: &Codegen<'c, '_, Self>,
        inst: &MatrixOp,
        a: &[Val],
        b: &[Val],
        c: &[Val],
    ) -> Result<Vec<BasicValueEnum<'c>>> {
        g.matrix_product(inst, a, b, c)
    }
}

impl Codegen<'_, '_, Amd> {
    /// Attributes and module flags.
    fn said_to_llvm(&self) {
        let threads = self.lanes.wave * self.lanes.waves;
        let mut strings = vec![
            ("amdgpu-flat-work-group-size", format!("{threads},{threads}")),
            ("uniform-work-group-size", "true".into()),
            // Signalling NaNs need no quieting: minimum and maximum take one instruction.
            ("amdgpu-ieee", "false".into()),
        ];
        strings.extend(UNUSED.iter().map(|&name| (name, String::new())));
        let axes = self.used_axes();
        for (axis, name) in [(1, "amdgpu-no-workgroup-id-y"), (2, "amdgpu-no-workgroup-id-z")] {
            if !axes[axis] {
                strings.push((name, String::new()));
            }
        }
        for (name, value) in strings {
            self.function.add_attribute(AttributeLoc::Function, self.cx.create_string_attribute(name, &value));
        }
        let i32t = self.cx.i32_type();
        let size = [threads, 1, 1].map(|n| BasicMetadataValueEnum::from(i32t.const_int(u64::from(n), false)));
        let kind = self.cx.get_kind_id("reqd_work_group_size");
        self.function.as_global_value().set_metadata(self.cx.metadata_node(&size), kind);
        let version = u64::from(100 * self.isa.0.code_object_version());
        self.module.add_basic_value_flag(
            "amdhsa_code_object_version",
            FlagBehavior::Error,
            i32t.const_int(version, false),
        );
    }

    /// Which axes of the grid the kernel asks for.
    fn used_axes(&self) -> [bool; 3] {
        let mut used = [true, false, false];
        for inst in &self.lanes.body {
            if let Op::Program(axis) = inst.op {
                let id = self.k.program_ids[usize::from(axis)];
                let mut reads = false;
                for data in self.k.insts.values() {
                    data.op.for_each_operand(|v| reads |= v == id);
                }
                used[usize::from(axis)] |= reads;
            }
        }
        used
    }
}
