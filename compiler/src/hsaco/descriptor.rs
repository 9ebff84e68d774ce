//! Kernel descriptors: the 64 bytes from which a command processor sets a kernel up. Layout and fields are from LLVM's
//! "User Guide for AMDGPU Backend", section "Kernel Descriptor".

use super::identity::Generation::{self, *};

/// Bytes of a descriptor, and what it is aligned to.
pub const DESCRIPTOR_BYTES: usize = 64;

/// A word of the descriptor that is made of bit fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Rsrc1,
    Rsrc2,
    Rsrc3,
    Properties,
    Preload,
}

/// A bit field of a descriptor.
#[derive(Debug)]
pub struct Field {
    /// LLVM's name for it, in small letters.
    pub name: &'static str,
    word: Word,
    shift: u32,
    width: u32,
    first: Generation,
    last: Generation,
}

const fn field(name: &'static str, word: Word, shift: u32, width: u32, first: Generation, last: Generation) -> Field {
    Field { name, word, shift, width, first, last }
}

/// All fields, in the order of LLVM's tables. A name comes again where another generation has it elsewhere.
static FIELDS: &[Field] = {
    use Word::*;
    &[
        field("granulated_workitem_vgpr_count", Rsrc1, 0, 6, Gfx6, Gfx125),
        field("granulated_wavefront_sgpr_count", Rsrc1, 6, 4, Gfx6, Gfx125),
        field("priority", Rsrc1, 10, 2, Gfx6, Gfx125),
        field("float_round_mode_32", Rsrc1, 12, 2, Gfx6, Gfx125),
        field("float_round_mode_16_64", Rsrc1, 14, 2, Gfx6, Gfx125),
        field("float_denorm_mode_32", Rsrc1, 16, 2, Gfx6, Gfx125),
        field("float_denorm_mode_16_64", Rsrc1, 18, 2, Gfx6, Gfx125),
        field("priv", Rsrc1, 20, 1, Gfx6, Gfx125),
        field("enable_dx10_clamp", Rsrc1, 21, 1, Gfx6, Gfx11),
        field("enable_wg_rr_en", Rsrc1, 21, 1, Gfx12, Gfx125),
        field("debug_mode", Rsrc1, 22, 1, Gfx6, Gfx125),
        field("enable_ieee_mode", Rsrc1, 23, 1, Gfx6, Gfx11),
        field("disable_perf", Rsrc1, 23, 1, Gfx12, Gfx125),
        field("bulky", Rsrc1, 24, 1, Gfx6, Gfx125),
        field("cdbg_user", Rsrc1, 25, 1, Gfx6, Gfx125),
        field("fp16_ovfl", Rsrc1, 26, 1, Gfx9, Gfx125),
        field("flat_scratch_is_nv", Rsrc1, 27, 1, Gfx125, Gfx125),
        field("wgp_mode", Rsrc1, 29, 1, Gfx10, Gfx125),
        field("mem_ordered", Rsrc1, 30, 1, Gfx10, Gfx125),
        field("fwd_progress", Rsrc1, 31, 1, Gfx10, Gfx125),
        field("enable_private_segment", Rsrc2, 0, 1, Gfx6, Gfx125),
        field("user_sgpr_count", Rsrc2, 1, 5, Gfx6, Gfx12),
        field("user_sgpr_count", Rsrc2, 1, 6, Gfx125, Gfx125),
        field("enable_trap_handler", Rsrc2, 6, 1, Gfx6, Gfx11),
        field("enable_dynamic_vgpr", Rsrc2, 6, 1, Gfx12, Gfx12),
        field("enable_sgpr_workgroup_id_x", Rsrc2, 7, 1, Gfx6, Gfx125),
        field("enable_sgpr_workgroup_id_y", Rsrc2, 8, 1, Gfx6, Gfx125),
        field("enable_sgpr_workgroup_id_z", Rsrc2, 9, 1, Gfx6, Gfx125),
        field("enable_sgpr_workgroup_info", Rsrc2, 10, 1, Gfx6, Gfx125),
        field("enable_vgpr_workitem_id", Rsrc2, 11, 2, Gfx6, Gfx125),
        field("enable_exception_address_watch", Rsrc2, 13, 1, Gfx6, Gfx125),
        field("enable_exception_memory", Rsrc2, 14, 1, Gfx6, Gfx125),
        field("granulated_lds_size", Rsrc2, 15, 9, Gfx6, Gfx125),
        field("enable_exception_ieee_754_fp_invalid_operation", Rsrc2, 24, 1, Gfx6, Gfx125),
        field("enable_exception_fp_denormal_source", Rsrc2, 25, 1, Gfx6, Gfx125),
        field("enable_exception_ieee_754_fp_division_by_zero", Rsrc2, 26, 1, Gfx6, Gfx125),
        field("enable_exception_ieee_754_fp_overflow", Rsrc2, 27, 1, Gfx6, Gfx125),
        field("enable_exception_ieee_754_fp_underflow", Rsrc2, 28, 1, Gfx6, Gfx125),
        field("enable_exception_ieee_754_fp_inexact", Rsrc2, 29, 1, Gfx6, Gfx125),
        field("enable_exception_int_divide_by_zero", Rsrc2, 30, 1, Gfx6, Gfx125),
        field("accum_offset", Rsrc3, 0, 6, Gfx90a, Gfx90a),
        field("tg_split", Rsrc3, 16, 1, Gfx90a, Gfx90a),
        field("shared_vgpr_count", Rsrc3, 0, 4, Gfx10, Gfx11),
        field("inst_pref_size", Rsrc3, 4, 6, Gfx11, Gfx11),
        field("inst_pref_size", Rsrc3, 4, 8, Gfx12, Gfx125),
        field("trap_on_start", Rsrc3, 10, 1, Gfx11, Gfx11),
        field("trap_on_end", Rsrc3, 11, 1, Gfx11, Gfx11),
        field("glg_en", Rsrc3, 13, 1, Gfx12, Gfx125),
        field("named_bar_cnt", Rsrc3, 14, 3, Gfx125, Gfx125),
        field("enable_dynamic_vgpr", Rsrc3, 17, 1, Gfx125, Gfx125),
        field("tcp_split", Rsrc3, 18, 3, Gfx125, Gfx125),
        field("enable_didt_throttle", Rsrc3, 21, 1, Gfx125, Gfx125),
        field("image_op", Rsrc3, 31, 1, Gfx11, Gfx125),
        field("enable_sgpr_private_segment_buffer", Properties, 0, 1, Gfx6, Gfx125),
        field("enable_sgpr_dispatch_ptr", Properties, 1, 1, Gfx6, Gfx125),
        field("enable_sgpr_queue_ptr", Properties, 2, 1, Gfx6, Gfx125),
        field("enable_sgpr_kernarg_segment_ptr", Properties, 3, 1, Gfx6, Gfx125),
        field("enable_sgpr_dispatch_id", Properties, 4, 1, Gfx6, Gfx125),
        field("enable_sgpr_flat_scratch_init", Properties, 5, 1, Gfx6, Gfx125),
        field("enable_sgpr_private_segment_size", Properties, 6, 1, Gfx6, Gfx125),
        field("enable_wavefront_size32", Properties, 10, 1, Gfx10, Gfx125),
        field("uses_dynamic_stack", Properties, 11, 1, Gfx6, Gfx125),
        field("kernarg_preload_spec_length", Preload, 0, 7, Gfx90a, Gfx90a),
        field("kernarg_preload_spec_length", Preload, 0, 7, Gfx125, Gfx125),
        field("kernarg_preload_spec_offset", Preload, 7, 9, Gfx90a, Gfx90a),
        field("kernarg_preload_spec_offset", Preload, 7, 9, Gfx125, Gfx125),
    ]
};

/// How results that don't fit are rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// To the nearest, ties to even.
    NearestEven,
    /// Up.
    PlusInfinity,
    /// Down.
    MinusInfinity,
    /// Towards zero.
    Zero,
}

/// Which subnormal numbers become zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denormals {
    /// Operands and results.
    FlushBoth,
    /// Results.
    FlushResults,
    /// Operands.
    FlushOperands,
    /// None.
    Keep,
}

/// The floating point mode that a kernel starts with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FloatMode {
    /// Rounding of 32-bit arithmetic.
    pub round_32: Rounding,
    /// Rounding of 16-bit and 64-bit arithmetic.
    pub round_16_64: Rounding,
    /// Subnormals of 32-bit arithmetic.
    pub denormals_32: Denormals,
    /// Subnormals of 16-bit and 64-bit arithmetic.
    pub denormals_16_64: Denormals,
}

/// A kernel descriptor. What depends on the processor's generation is `None` if that is unknown or has no such thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Bytes of LDS that a workgroup has without what a launch adds.
    pub group_segment_fixed_size: u32,
    /// Bytes of scratch memory of a lane, without a dynamic stack.
    pub private_segment_fixed_size: u32,
    /// Bytes of the kernel's arguments; 0 may mean that the compiler doesn't say.
    pub kernarg_size: u32,
    /// From the descriptor to the first instruction.
    pub entry_offset: i64,
    /// `compute_pgm_rsrc1`.
    pub rsrc1: u32,
    /// `compute_pgm_rsrc2`.
    pub rsrc2: u32,
    /// `compute_pgm_rsrc3`.
    pub rsrc3: u32,
    /// `kernel_code_properties`.
    pub properties: u16,
    /// `kernarg_preload`.
    pub kernarg_preload: u16,
    generation: Option<Generation>,
}

impl Descriptor {
    /// The descriptor in these bytes, of a kernel for a processor of that generation.
    pub fn new(bytes: &[u8; DESCRIPTOR_BYTES], generation: Option<Generation>) -> Descriptor {
        fn at<const N: usize>(bytes: &[u8; DESCRIPTOR_BYTES], at: usize) -> [u8; N] {
            std::array::from_fn(|i| bytes[at + i])
        }
        let word = |offset| u32::from_le_bytes(at(bytes, offset));
        let half = |offset| u16::from_le_bytes(at(bytes, offset));
        Descriptor {
            group_segment_fixed_size: word(0),
            private_segment_fixed_size: word(4),
            kernarg_size: word(8),
            entry_offset: i64::from_le_bytes(at(bytes, 16)),
            rsrc3: word(44),
            rsrc1: word(48),
            rsrc2: word(52),
            properties: half(56),
            kernarg_preload: half(58),
            generation,
        }
    }

    /// All fields that descriptors of this generation have, by LLVM's names, with their values. Those that every
    /// generation has, if this one is unknown.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let has = |field: &&Field| match self.generation {
            Some(generation) => (field.first..=field.last).contains(&generation),
            None => (field.first, field.last) == (Gfx6, Gfx125),
        };
        FIELDS.iter().filter(has).map(|field| (field.name, self.bits(field)))
    }

    /// The field of that name, if descriptors of this generation have it.
    pub fn field(&self, name: &str) -> Option<u32> {
        self.fields().find(|&(n, _)| n == name).map(|(_, value)| value)
    }

    fn bits(&self, field: &Field) -> u32 {
        let word = match field.word {
            Word::Rsrc1 => self.rsrc1,
            Word::Rsrc2 => self.rsrc2,
            Word::Rsrc3 => self.rsrc3,
            Word::Properties => u32::from(self.properties),
            Word::Preload => u32::from(self.kernarg_preload),
        };
        word >> field.shift & ((1 << field.width) - 1)
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.field(name).map(|value| value != 0)
    }

    /// Lanes of a wave.
    pub fn wavefront_size(&self) -> Option<u32> {
        if self.generation? < Gfx10 {
            return Some(64);
        }
        Some(if self.flag("enable_wavefront_size32")? { 32 } else { 64 })
    }

    /// VGPRs of a lane, AGPRs of the same file included, rounded up to the granule in which they are encoded.
    pub fn vgprs(&self) -> Option<u32> {
        let granule = match self.generation? {
            Gfx6 | Gfx7 | Gfx8 | Gfx9 => 4,
            Gfx90a => 8,
            Gfx10 | Gfx11 | Gfx12 => 256 / self.wavefront_size()?,
            Gfx125 => 16,
        };
        Some((self.field("granulated_workitem_vgpr_count")? + 1) * granule)
    }

    /// The first AGPR's number in the file of VGPRs and AGPRs: the VGPRs that are no AGPRs.
    pub fn accum_offset(&self) -> Option<u32> {
        Some((self.field("accum_offset")? + 1) * 4)
    }

    /// SGPRs of a wave, with VCC and other registers that are taken from them, rounded up to the granule in which they
    /// are encoded. From gfx10 on, every wave has all of them and descriptors don't say.
    pub fn sgprs(&self) -> Option<u32> {
        let said = self.generation? < Gfx10;
        said.then_some((self.field("granulated_wavefront_sgpr_count")? + 1) * 8)
    }

    /// VGPRs that the two halves of a wave of 64 lanes share.
    pub fn shared_vgprs(&self) -> Option<u32> {
        Some(self.field("shared_vgpr_count")? * 8)
    }

    /// SGPRs that are set before a wave starts, without workgroup numbers and what else the hardware adds.
    pub fn user_sgprs(&self) -> Option<u32> {
        self.field("user_sgpr_count")
    }

    /// Which of a workgroup's numbers a wave gets: x, y, z.
    pub fn workgroup_ids(&self) -> [bool; 3] {
        [7, 8, 9].map(|bit| self.rsrc2 >> bit & 1 != 0)
    }

    /// Of how many dimensions a lane gets its number: 1 to 3.
    pub fn workitem_id_dimensions(&self) -> Option<u32> {
        Some(self.field("enable_vgpr_workitem_id")? + 1).filter(|&n| n <= 3)
    }

    /// Whether waves have scratch memory.
    pub fn has_scratch(&self) -> bool {
        self.rsrc2 & 1 != 0
    }

    /// Whether scratch memory may grow beyond its fixed size.
    pub fn uses_dynamic_stack(&self) -> bool {
        self.properties >> 11 & 1 != 0
    }

    /// Whether a workgroup has the two CUs of a WGP, not one.
    pub fn wgp_mode(&self) -> Option<bool> {
        self.flag("wgp_mode")
    }

    /// Dwords of arguments that are in SGPRs before a wave starts.
    pub fn preloaded_kernargs(&self) -> Option<u32> {
        self.field("kernarg_preload_spec_length")
    }

    /// The floating point mode.
    pub fn float_mode(&self) -> FloatMode {
        let rounding = |shift: u32| match self.rsrc1 >> shift & 3 {
            0 => Rounding::NearestEven,
            1 => Rounding::PlusInfinity,
            2 => Rounding::MinusInfinity,
            _ => Rounding::Zero,
        };
        let denormals = |shift: u32| match self.rsrc1 >> shift & 3 {
            0 => Denormals::FlushBoth,
            1 => Denormals::FlushResults,
            2 => Denormals::FlushOperands,
            _ => Denormals::Keep,
        };
        FloatMode {
            round_32: rounding(12),
            round_16_64: rounding(14),
            denormals_32: denormals(16),
            denormals_16_64: denormals(18),
        }
    }
}
