//! What is NVIDIA's of code generation for GPUs.
//!
//! A view is its address; an access adds a 32-bit offset to it, as on other GPUs. No access of a lane that may access
//! memory lies beyond a view's end (the interpreters see to that), so nothing is checked: a lane that must not load loads
//! the view's first bytes instead, and one that must not store branches around it. Accesses have to be aligned, which
//! `lanes::alignment` knows of every address; words of quantised blocks at odd addresses are put together of aligned ones.
//! The lanes of a wave need not go in step, so there is a barrier for single waves too.

mod matrix;
mod memory;

use crate::lanes::ahead::programs_of_one_token;
use crate::lanes::alignment::Alignments;
use crate::lanes::ir::{Address, LaneKernel, Val};
use crate::simt::{Codegen, GLOBAL, Isa, Result, said};
use crate::target::amd::MatrixOp;
use crate::target::nvidia::{self, Chip};
use hrx_ir::tile::{Content, Kernel, Op, View};
use inkwell::attributes::AttributeLoc;
use inkwell::values::{BasicValueEnum, IntValue, PointerValue, StructValue};

/// All lanes of a wave.
const ALL: u32 = u32::MAX;

/// Every other byte of a word.
const EVEN_BYTES: u32 = 0x00FF_00FF;
/// The lowest four bits of each byte.
const LOW_NIBBLES: u32 = 0x0F0F_0F0F;
/// `prmt`'s selector of a word's bytes 0 and 2, then zeros of the other word.
const BYTES_0_AND_2: u32 = 0x4420;

/// 2^23: the floats from here on are whole numbers.
const WHOLE: f32 = 8_388_608.0;
/// `prmt`'s selector of a byte of one word, to be set, and the upper three bytes of another.
const BYTE_UNDER_EXPONENT: u32 = 0x7650;

/// NVIDIA's GPUs, with what is known of a kernel's addresses.
pub(crate) struct Nvptx {
    alignments: Alignments,
    /// Whether launches begin before those in front of them have ended.
    begins_early: bool,
    /// How many workgroups are to have room on a multiprocessor beside one another, if that is to be kept.
    beside: Option<u32>,
}

/// The fewest registers that a lane is to have for the sake of more workgroups.
const FEWEST_REGISTERS: u32 = 80;

/// How many workgroups of a product of one token's row with quantised weights are to have room beside one another: all of
/// the launch, where registers allow it. With a few more than there is room for it would take twice as long.
fn beside(chip: &Chip, k: &Kernel) -> Option<u32> {
    let quantised = k.views.values().any(|v| matches!(v.content, Content::Quant(_)));
    if !quantised || k.insts.values().any(|i| matches!(i.op, Op::Mma { .. })) {
        return None;
    }
    let multiprocessors = u64::from(chip.board.multiprocessors.value);
    let wanted = programs_of_one_token(k).div_ceil(multiprocessors);
    let most = nvidia::REGISTERS.value / (FEWEST_REGISTERS * nvidia::WARP * k.waves).max(1);
    let n = u32::try_from(wanted).unwrap_or(u32::MAX).min(most);
    (n > 1).then_some(n)
}

impl Nvptx {
    /// For a kernel and a chip.
    pub(crate) fn new(chip: &Chip, k: &Kernel, lanes: &LaneKernel) -> Nvptx {
        Nvptx { alignments: Alignments::of(k, lanes), begins_early: chip.begins_early(), beside: beside(chip, k) }
    }
}

impl Isa for Nvptx {
    /// PTX_Kernel.
    const CONVENTION: u32 = 71;

    /// Constant memory serves lanes that read different addresses one after another.
    const TABLES: u16 = GLOBAL;

    const DECLARED_LDS: u32 = nvidia::DECLARED_SHARED.value;

    /// Of `prmt`: four bits a byte.
    const SELECTOR: [u32; 3] = [0x7777, 0x4444, 0x3210];

    fn interface(g: &Codegen<'_, '_, Self>) {
        let threads = (g.lanes.wave * g.lanes.waves).to_string();
        let attribute = g.cx.create_string_attribute("nvvm.reqntid", &threads);
        g.function.add_attribute(AttributeLoc::Function, attribute);
        if let Some(n) = g.isa.beside {
            let attribute = g.cx.create_string_attribute("nvvm.minctasm", &n.to_string());
            g.function.add_attribute(AttributeLoc::Function, attribute);
        }
    }

    fn view<'c>(_: &Codegen<'c, '_, Self>, _: View, base: PointerValue<'c>) -> Result<BasicValueEnum<'c>> {
        Ok(base.into())
    }

    fn thread<'c>(g: &Codegen<'c, '_, Self>) -> Result<IntValue<'c>> {
        Ok(g.call("llvm.nvvm.read.ptx.sreg.tid.x", &[], &[])?.into_int_value())
    }

    /// The assembler finds out which registers are the same in all lanes.
    fn uniform<'c>(_: &Codegen<'c, '_, Self>, n: IntValue<'c>) -> Result<IntValue<'c>> {
        Ok(n)
    }

    fn program<'c>(g: &Codegen<'c, '_, Self>, axis: u8) -> Result<BasicValueEnum<'c>> {
        let name = ["x", "y", "z"][usize::from(axis)];
        g.call(&format!("llvm.nvvm.read.ptx.sreg.ctaid.{name}"), &[], &[])
    }

    /// `cvt` saturates, and makes 0 of a NaN (PTX ISA, "cvt").
    fn whole<'c>(g: &Codegen<'c, '_, Self>, x: BasicValueEnum<'c>, signed: bool) -> Result<BasicValueEnum<'c>> {
        g.call(if signed { "llvm.nvvm.f2i.rz" } else { "llvm.nvvm.f2ui.rz" }, &[], &[x])
    }

    /// The byte under the exponent of 2^23, whose lowest bit of significance is 1, and 2^23 taken away: exact, and two
    /// instructions where to extract and convert it are three.
    fn byte_to_float<'c>(g: &Codegen<'c, '_, Self>, word: IntValue<'c>, n: u8) -> Result<BasicValueEnum<'c>> {
        let f32t = g.cx.f32_type();
        let exponent = g.word(WHOLE.to_bits());
        let bits = Self::permuted(g, exponent, word, g.word(BYTE_UNDER_EXPONENT | u32::from(n)))?;
        let above = g.b.build_bit_cast(bits, f32t, "").map_err(said)?.into_float_value();
        let exponent = f32t.const_float(f64::from(WHOLE));
        Ok(g.b.build_float_sub(above, exponent, "").map_err(said)?.into())
    }

    /// Earlier than at the end the next launch's workgroups would take places beside these, and not be spread evenly.
    fn end(g: &Codegen<'_, '_, Self>) -> Result<()> {
        if g.isa.begins_early { g.assembly("griddepcontrol.launch_dependents;") } else { Ok(()) }
    }

    fn begins_early(&self) -> bool {
        self.begins_early
    }

    fn await_launches(g: &Codegen<'_, '_, Self>) -> Result<()> {
        g.assembly("griddepcontrol.wait;")
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

    fn selector<'c>(g: &Codegen<'c, '_, Self>, index: IntValue<'c>) -> Result<IntValue<'c>> {
        // The low halves of four bytes as four bits each: of two bytes, then of two such pairs.
        let low = g.b.build_and(index, g.word(LOW_NIBBLES), "").map_err(said)?;
        let moved = g.b.build_right_shift(low, g.word(4), false, "").map_err(said)?;
        let pairs = g.b.build_or(low, moved, "").map_err(said)?;
        let pairs = g.b.build_and(pairs, g.word(EVEN_BYTES), "").map_err(said)?;
        Self::permuted(g, g.word(0), pairs, g.word(BYTES_0_AND_2))
    }

    fn permuted<'c>(
        g: &Codegen<'c, '_, Self>,
        high: IntValue<'c>,
        low: IntValue<'c>,
        selector: IntValue<'c>,
    ) -> Result<IntValue<'c>> {
        Ok(g.call("llvm.nvvm.prmt", &[], &[low.into(), high.into(), selector.into()])?.into_int_value())
    }

    fn dot4<'c>(g: &Codegen<'c, '_, Self>, signed: bool, args: [BasicValueEnum<'c>; 3]) -> Result<BasicValueEnum<'c>> {
        g.call(if signed { "llvm.nvvm.idp4a.s.s" } else { "llvm.nvvm.idp4a.u.s" }, &[], &args)
    }

    fn dot2<'c>(_: &Codegen<'c, '_, Self>, _: [BasicValueEnum<'c>; 3]) -> Result<BasicValueEnum<'c>> {
        Err("PTX has no dot product of halves".into())
    }

    fn shuffle_xor<'c>(g: &Codegen<'c, '_, Self>, x: BasicValueEnum<'c>, mask: u32) -> Result<BasicValueEnum<'c>> {
        let last = g.word(g.lanes.wave - 1).into();
        g.call("llvm.nvvm.shfl.sync.bfly.i32", &[], &[g.word(ALL).into(), x, g.word(mask).into(), last])
    }

    fn barrier(g: &Codegen<'_, '_, Self>) -> Result<()> {
        g.keep_loads()?;
        match g.lanes.waves {
            1 => g.intrinsic("llvm.nvvm.bar.warp.sync", &[], &[g.word(ALL).into()])?,
            _ => g.intrinsic("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[g.word(0).into()])?,
        };
        Ok(())
    }

    fn load_matrices<'c>(
        g: &Codegen<'c, '_, Self>,
        row: PointerValue<'c>,
        count: u32,
        transposed: bool,
    ) -> Result<Vec<BasicValueEnum<'c>>> {
        let order = if transposed { ".trans" } else { "" };
        let name = format!("llvm.nvvm.ldmatrix.sync.aligned.m8n8.x{count}{order}.b16");
        let loaded = g.call(&name, &[row.get_type().into()], &[row.into()])?;
        let Ok(words) = StructValue::try_from(loaded) else { return Ok(vec![loaded]) };
        (0..count).map(|n| g.b.build_extract_value(words, n, "").map_err(said)).collect()
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
