//! What instructions do, by their mnemonics.

use super::asm::Op;
use crate::target::Chip;
use serde::Serialize;

/// Kinds of instructions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Vector arithmetic on binary32.
    ValuF32,
    /// Vector arithmetic on binary16 or bfloat16.
    ValuF16,
    /// Vector arithmetic on binary64.
    ValuF64,
    /// Vector arithmetic on two packed values a register, or on two registers.
    ValuPacked,
    /// Dot products in a lane.
    ValuDot,
    /// Reciprocals, roots, exponentials, logarithms, sines.
    ValuTrans,
    /// Conversions.
    ValuConvert,
    /// Comparisons and choices.
    ValuSelect,
    /// Moves between lanes.
    ValuLanes,
    /// Other vector work on integers and bits.
    ValuInt,
    /// Matrix products.
    Matrix,
    /// Scalar arithmetic.
    Salu,
    /// Scalar loads.
    Smem,
    /// Loads from memory by lanes.
    VmemLoad,
    /// Stores to memory by lanes.
    VmemStore,
    /// Atomics on memory.
    VmemAtomic,
    /// Loads from a lane's scratch memory.
    ScratchLoad,
    /// Stores to a lane's scratch memory.
    ScratchStore,
    /// Images and textures.
    Image,
    /// Reads of LDS.
    LdsRead,
    /// Writes of LDS.
    LdsWrite,
    /// Atomics on LDS and counters.
    LdsAtomic,
    /// Moves between lanes through LDS's crossbar.
    LdsLanes,
    /// Jumps and ends.
    Branch,
    /// Waits for memory or for results.
    Wait,
    /// Barriers of the workgroup.
    Barrier,
    /// Write-backs and invalidations of caches, prefetches.
    Cache,
    /// Hints to the scheduler, and no-operations.
    Hint,
    /// Exports, messages and all else.
    Other,
}

impl Class {
    /// All of them, in the order that reports have.
    pub const ALL: [Class; 29] = [
        Class::ValuF32,
        Class::ValuF16,
        Class::ValuF64,
        Class::ValuPacked,
        Class::ValuDot,
        Class::ValuTrans,
        Class::ValuConvert,
        Class::ValuSelect,
        Class::ValuLanes,
        Class::ValuInt,
        Class::Matrix,
        Class::Salu,
        Class::Smem,
        Class::VmemLoad,
        Class::VmemStore,
        Class::VmemAtomic,
        Class::ScratchLoad,
        Class::ScratchStore,
        Class::Image,
        Class::LdsRead,
        Class::LdsWrite,
        Class::LdsAtomic,
        Class::LdsLanes,
        Class::Branch,
        Class::Wait,
        Class::Barrier,
        Class::Cache,
        Class::Hint,
        Class::Other,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Class::ValuF32 => "VALU f32",
            Class::ValuF16 => "VALU f16",
            Class::ValuF64 => "VALU f64",
            Class::ValuPacked => "VALU packed",
            Class::ValuDot => "VALU dot",
            Class::ValuTrans => "VALU trans",
            Class::ValuConvert => "VALU convert",
            Class::ValuSelect => "VALU select",
            Class::ValuLanes => "VALU lanes",
            Class::ValuInt => "VALU int",
            Class::Matrix => "matrix",
            Class::Salu => "SALU",
            Class::Smem => "SMEM",
            Class::VmemLoad => "VMEM load",
            Class::VmemStore => "VMEM store",
            Class::VmemAtomic => "VMEM atomic",
            Class::ScratchLoad => "scratch load",
            Class::ScratchStore => "scratch store",
            Class::Image => "image",
            Class::LdsRead => "LDS read",
            Class::LdsWrite => "LDS write",
            Class::LdsAtomic => "LDS atomic",
            Class::LdsLanes => "LDS lanes",
            Class::Branch => "branch",
            Class::Wait => "wait",
            Class::Barrier => "barrier",
            Class::Cache => "cache",
            Class::Hint => "hint",
            Class::Other => "other",
        }
    }

    /// Whether the vector ALU does it.
    pub const fn is_valu(self) -> bool {
        (self as u8) < Class::Matrix as u8
    }

    /// Whether it moves bytes between lanes and memory.
    pub const fn is_vmem(self) -> bool {
        matches!(self, Class::VmemLoad | Class::VmemStore | Class::VmemAtomic)
    }

    /// Whether it moves bytes between lanes and LDS.
    pub const fn is_lds(self) -> bool {
        matches!(self, Class::LdsRead | Class::LdsWrite | Class::LdsAtomic)
    }
}

/// How a rule looks at a mnemonic.
enum Find {
    /// It starts so.
    Start(&'static str),
    /// It starts with the one and has the other somewhere.
    Both(&'static str, &'static str),
}

use Find::{Both, Start};

/// Rules in order: the first that fits decides.
const RULES: &[(Find, Class)] = &[
    // Vector, the special before the general.
    (Start("v_wmma"), Class::Matrix),
    (Start("v_swmmac"), Class::Matrix),
    (Start("v_mfma"), Class::Matrix),
    (Start("v_smfmac"), Class::Matrix),
    (Start("v_accvgpr"), Class::ValuInt),
    (Start("v_dot"), Class::ValuDot),
    (Start("v_readlane"), Class::ValuLanes),
    (Start("v_readfirstlane"), Class::ValuLanes),
    (Start("v_writelane"), Class::ValuLanes),
    (Start("v_permlane"), Class::ValuLanes),
    (Start("v_rcp_"), Class::ValuTrans),
    (Start("v_rsq_"), Class::ValuTrans),
    (Start("v_sqrt_"), Class::ValuTrans),
    (Start("v_exp_"), Class::ValuTrans),
    (Start("v_log_"), Class::ValuTrans),
    (Start("v_sin_"), Class::ValuTrans),
    (Start("v_cos_"), Class::ValuTrans),
    (Start("v_tanh_"), Class::ValuTrans),
    (Start("v_prng_"), Class::ValuTrans),
    (Start("v_s_"), Class::ValuTrans),
    (Start("v_cvt"), Class::ValuConvert),
    (Start("v_cmp"), Class::ValuSelect),
    (Start("v_cndmask"), Class::ValuSelect),
    (Start("v_mov"), Class::ValuInt),
    (Start("v_nop"), Class::Hint),
    (Start("v_pipeflush"), Class::Hint),
    (Start("v_fma_mix"), Class::ValuF32),
    (Start("v_mad_mix"), Class::ValuF32),
    (Start("v_pk_"), Class::ValuPacked),
    (Both("v_", "_f64"), Class::ValuF64),
    (Both("v_", "_f32"), Class::ValuF32),
    (Both("v_", "_legacy_f32"), Class::ValuF32),
    (Both("v_", "f16"), Class::ValuF16),
    (Start("v_"), Class::ValuInt),
    // Memory.
    (Start("s_load"), Class::Smem),
    (Start("s_buffer_load"), Class::Smem),
    (Start("s_scratch_load"), Class::Smem),
    (Start("s_scratch_store"), Class::Smem),
    (Start("s_store"), Class::Smem),
    (Start("s_buffer_store"), Class::Smem),
    (Start("s_atomic"), Class::Smem),
    (Start("s_buffer_atomic"), Class::Smem),
    (Start("scratch_load"), Class::ScratchLoad),
    (Start("scratch_store"), Class::ScratchStore),
    (Start("image_"), Class::Image),
    (Start("buffer_gl"), Class::Cache),
    (Start("buffer_inv"), Class::Cache),
    (Start("buffer_wb"), Class::Cache),
    (Start("global_inv"), Class::Cache),
    (Start("global_wb"), Class::Cache),
    (Start("global_prefetch"), Class::Cache),
    (Start("flat_prefetch"), Class::Cache),
    (Start("s_prefetch"), Class::Cache),
    (Both("buffer_", "_atomic"), Class::VmemAtomic),
    (Start("buffer_atomic"), Class::VmemAtomic),
    (Start("global_atomic"), Class::VmemAtomic),
    (Start("flat_atomic"), Class::VmemAtomic),
    (Start("buffer_load"), Class::VmemLoad),
    (Start("global_load"), Class::VmemLoad),
    (Start("flat_load"), Class::VmemLoad),
    (Start("tbuffer_load"), Class::VmemLoad),
    (Start("buffer_store"), Class::VmemStore),
    (Start("global_store"), Class::VmemStore),
    (Start("flat_store"), Class::VmemStore),
    (Start("tbuffer_store"), Class::VmemStore),
    // LDS.
    (Start("ds_bpermute"), Class::LdsLanes),
    (Start("ds_permute"), Class::LdsLanes),
    (Start("ds_swizzle"), Class::LdsLanes),
    (Start("ds_nop"), Class::Hint),
    (Start("ds_read"), Class::LdsRead),
    (Start("ds_load"), Class::LdsRead),
    (Start("ds_write"), Class::LdsWrite),
    (Start("ds_store"), Class::LdsWrite),
    (Start("ds_"), Class::LdsAtomic),
    // Scalar.
    (Start("s_branch"), Class::Branch),
    (Start("s_cbranch"), Class::Branch),
    (Start("s_endpgm"), Class::Branch),
    (Start("s_setpc"), Class::Branch),
    (Start("s_set_pc"), Class::Branch),
    (Start("s_swappc"), Class::Branch),
    (Start("s_swap_pc"), Class::Branch),
    (Start("s_call"), Class::Branch),
    (Start("s_rfe"), Class::Branch),
    (Start("s_trap"), Class::Branch),
    (Start("s_barrier"), Class::Barrier),
    (Start("s_wait_alu"), Class::Wait),
    (Start("s_wait"), Class::Wait),
    (Start("s_sleep"), Class::Wait),
    (Start("s_delay_alu"), Class::Hint),
    (Start("s_nop"), Class::Hint),
    (Start("s_clause"), Class::Hint),
    (Start("s_code_end"), Class::Hint),
    (Start("s_set_inst_prefetch"), Class::Hint),
    (Start("s_inst_prefetch"), Class::Hint),
    (Start("s_setprio"), Class::Hint),
    (Start("s_icache_inv"), Class::Cache),
    (Start("s_dcache"), Class::Cache),
    (Start("s_gl1_inv"), Class::Cache),
    (Start("s_sendmsg"), Class::Other),
    (Start("s_"), Class::Salu),
];

/// The kind of an operation.
pub fn class(name: &str) -> Class {
    let fits = |find: &Find| match find {
        Start(start) => name.starts_with(start),
        Both(start, part) => name.starts_with(start) && name.contains(part),
    };
    RULES.iter().find(|(find, _)| fits(find)).map_or(Class::Other, |&(_, class)| class)
}

/// Words of mnemonics that say how many bytes a lane moves.
const WIDTHS: &[(&str, u32)] = &[
    ("u8", 1),
    ("i8", 1),
    ("b8", 1),
    ("ubyte", 1),
    ("sbyte", 1),
    ("byte", 1),
    ("u16", 2),
    ("i16", 2),
    ("b16", 2),
    ("ushort", 2),
    ("sshort", 2),
    ("short", 2),
    ("b32", 4),
    ("u32", 4),
    ("i32", 4),
    ("f32", 4),
    ("dword", 4),
    ("b64", 8),
    ("u64", 8),
    ("i64", 8),
    ("f64", 8),
    ("dwordx2", 8),
    ("b96", 12),
    ("dwordx3", 12),
    ("b128", 16),
    ("dwordx4", 16),
    ("b256", 32),
    ("dwordx8", 32),
    ("b512", 64),
    ("dwordx16", 64),
];

/// Bytes that each lane moves (the wave, of a scalar load): between registers and memory, scratch or LDS. None if
/// nothing is moved, or if the mnemonic doesn't say, as those with formats don't.
pub fn bytes(name: &str) -> Option<u32> {
    let class = class(name);
    // Transposing loads name the width of elements too.
    let width = |word: &str| WIDTHS.iter().find(|(w, _)| *w == word).map(|&(_, bytes)| bytes);
    let said = name.split('_').filter_map(width).max();
    match class {
        Class::VmemAtomic | Class::LdsAtomic => {
            // gfx9 writes `_x2` for 64 bits and no type for 32; packed halves are 32 bits.
            let wide = name.ends_with("_x2");
            let bytes = if wide { 8 } else { said.unwrap_or(4) };
            (!name.contains("gs_") && !name.contains("ordered")).then_some(bytes)
        }
        Class::VmemLoad | Class::VmemStore | Class::ScratchLoad | Class::ScratchStore | Class::Smem => said,
        Class::LdsRead | Class::LdsWrite => Some(said? * addresses(name)),
        _ => None,
    }
}

/// How many addresses an LDS access has a lane.
pub fn addresses(name: &str) -> u32 {
    let two = ["read2", "write2", "2addr", "read2st64", "write2st64"];
    if name.split('_').any(|word| two.contains(&word)) { 2 } else { 1 }
}

/// Operations of arithmetic on fractions that a lane does, a fused multiply-add being two; those of dot products of
/// whole numbers likewise. Conversions, comparisons, minima and moves are none.
pub fn lane_ops(op: &Op) -> u32 {
    let name = op.name.strip_prefix("v_").unwrap_or_default();
    if let Some(dot) = name.strip_prefix("dot") {
        // `dot4_i32_iu8`: four products, four sums.
        return dot.chars().next().and_then(|c| c.to_digit(10)).map_or(0, |n| 2 * n);
    }
    let (name, each) = match name.strip_prefix("pk_") {
        Some(rest) => (rest, 2),
        None => (name, 1),
    };
    if !["_f16", "_f32", "_f64", "_bf16"].iter().any(|t| name.contains(t)) || class(&op.name) == Class::ValuConvert {
        return 0;
    }
    let verb = name.split('_').next().unwrap_or_default();
    each * match verb {
        "fma" | "fmac" | "fmaak" | "fmamk" | "mad" | "mac" | "madak" | "madmk" => 2,
        "add" | "sub" | "subrev" | "mul" => 1,
        // v_div_fmas is a multiply-add; scale and fixup move exponents.
        "div" if name.starts_with("div_fmas") => 2,
        "rcp" | "rsq" | "sqrt" | "exp" | "log" | "sin" | "cos" | "tanh" => 1,
        _ => 0,
    }
}

/// Operations of a matrix instruction for the whole wave. None if it is no instruction of the chip's table, unless its
/// mnemonic says all: WMMA has one product of the shape that it names.
pub fn matrix_ops(name: &str, chip: Option<&Chip>) -> Option<u64> {
    if let Some(op) = chip.and_then(|c| c.matrix_ops.iter().find(|op| op.mnemonic == name)) {
        return Some(u64::from(op.flops()));
    }
    if !name.starts_with("v_wmma_") && !name.starts_with("v_swmmac_") {
        return None;
    }
    let shape = name.split('_').find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let sides: Option<Vec<u64>> = shape.split('x').map(|side| side.parse().ok()).collect();
    let sides = sides.filter(|s| s.len() == 3)?;
    sides.iter().try_fold(2_u64, |product, &side| product.checked_mul(side))
}

#[cfg(test)]
mod tests {
    use super::super::asm::Inst;
    use super::*;

    #[test]
    fn classes_of_mnemonics() {
        for (class, names) in [
            (Class::ValuF32, "v_add_f32 v_fmac_f32 v_max3_f32 v_mul_legacy_f32 v_fma_mix_f32 v_fma_mixlo_f16"),
            (Class::ValuF16, "v_add_f16 v_fma_f16 v_max_num_f16"),
            (Class::ValuF64, "v_fma_f64 v_rndne_f64"),
            (Class::ValuPacked, "v_pk_fma_f16 v_pk_mul_f32 v_pk_add_u16"),
            (Class::ValuDot, "v_dot4_i32_iu8 v_dot2acc_f32_f16 v_dot4c_i32_i8"),
            (Class::ValuTrans, "v_rcp_f32 v_exp_f32 v_sqrt_f64 v_s_rcp_f32"),
            (Class::ValuConvert, "v_cvt_f32_ubyte0 v_cvt_pk_u8_f32 v_cvt_f32_f16"),
            (Class::ValuSelect, "v_cmp_gt_i32 v_cmpx_lt_f32 v_cndmask_b32"),
            (Class::ValuLanes, "v_readfirstlane_b32 v_permlanex16_b32 v_writelane_b32"),
            (Class::ValuInt, "v_add_nc_u32 v_mov_b32 v_mbcnt_lo_u32_b32 v_perm_b32 v_accvgpr_read_b32"),
            (Class::Matrix, "v_wmma_f32_16x16x16_f16 v_mfma_f32_32x32x8f16 v_swmmac_f32_16x16x32_f16"),
            (Class::Salu, "s_add_i32 s_mov_b32 s_cmp_lt_i32 s_and_saveexec_b64 s_fmac_f32"),
            (Class::Smem, "s_load_b32 s_load_dwordx4 s_buffer_load_b64"),
            (Class::VmemLoad, "global_load_b32 buffer_load_dwordx4 flat_load_ubyte buffer_load_format_xyzw"),
            (Class::VmemStore, "global_store_b32 buffer_store_short_d16_hi tbuffer_store_format_x"),
            (Class::VmemAtomic, "global_atomic_add_f32 buffer_atomic_add flat_atomic_cmpswap_x2"),
            (Class::ScratchLoad, "scratch_load_b32"),
            (Class::ScratchStore, "scratch_store_dwordx2"),
            (Class::Image, "image_sample image_bvh_intersect_ray"),
            (Class::LdsRead, "ds_read_b128 ds_load_2addr_b32 ds_load_u16_d16_hi"),
            (Class::LdsWrite, "ds_write_b8 ds_store_2addr_stride64_b64"),
            (Class::LdsAtomic, "ds_add_u32 ds_max_rtn_f32 ds_append"),
            (Class::LdsLanes, "ds_bpermute_b32 ds_swizzle_b32"),
            (Class::Branch, "s_branch s_cbranch_scc1 s_endpgm s_setpc_b64 s_swappc_b64"),
            (Class::Wait, "s_waitcnt s_waitcnt_vscnt s_wait_loadcnt s_wait_alu s_waitcnt_depctr"),
            (Class::Barrier, "s_barrier s_barrier_wait s_barrier_signal"),
            (Class::Cache, "buffer_gl0_inv buffer_wbl2 global_inv s_dcache_wb buffer_inv"),
            (Class::Hint, "s_nop s_delay_alu s_clause s_code_end v_nop"),
            (Class::Other, "s_sendmsg exp export .long"),
        ] {
            for name in names.split(' ') {
                assert_eq!(super::class(name), class, "{name}");
            }
        }
        assert!(Class::ALL.windows(2).all(|pair| pair[0] < pair[1]), "reports have the order of the definition");
    }

    #[test]
    fn bytes_of_a_lane() {
        for (name, bytes) in [
            ("global_load_b32", Some(4)),
            ("global_load_dwordx3", Some(12)),
            ("buffer_load_u16", Some(2)),
            ("buffer_load_d16_u8", Some(1)),
            ("buffer_load_short_d16_hi", Some(2)),
            ("global_load_d16_hi_b16", Some(2)),
            ("global_load_lds_dwordx4", Some(16)),
            ("buffer_load_format_xyz", None),
            ("global_atomic_add", Some(4)),
            ("global_atomic_add_x2", Some(8)),
            ("global_atomic_cmpswap_b64", Some(8)),
            ("global_atomic_pk_add_f16", Some(4)),
            ("s_load_dwordx8", Some(32)),
            ("s_load_b512", Some(64)),
            ("scratch_load_b64", Some(8)),
            ("ds_read_b128", Some(16)),
            ("ds_read_b64_tr_b16", Some(8)),
            ("ds_read2_b32", Some(8)),
            ("ds_read2st64_b64", Some(16)),
            ("ds_load_2addr_stride64_b32", Some(8)),
            ("ds_store_b8_d16_hi", Some(1)),
            ("ds_write2_b64", Some(16)),
            ("ds_add_rtn_u64", Some(8)),
            ("ds_bpermute_b32", None),
            ("v_add_f32", None),
            ("s_waitcnt", None),
        ] {
            assert_eq!(super::bytes(name), bytes, "{name}");
        }
    }

    #[test]
    fn operations_of_a_lane() {
        for (text, ops) in [
            ("v_fma_f32 v0, v1, v2, v3", 2),
            ("v_fmac_f32_e32 v0, v1, v2", 2),
            ("v_mad_f32 v0, v1, v2, v3", 2),
            ("v_add_f32_dpp v0, v1, v2 row_xmask:1", 1),
            ("v_mul_f16_e32 v0, v1, v2", 1),
            ("v_pk_fma_f16 v0, v1, v2, v3", 4),
            ("v_pk_mul_f32 v[0:1], v[2:3], v[4:5]", 2),
            ("v_fma_mix_f32 v0, v1, v2, v3", 2),
            ("v_dot4_i32_iu8 v0, v1, v2, v3", 8),
            ("v_dot2_f32_f16 v0, v1, v2, v3", 4),
            ("v_dot8_i32_i4 v0, v1, v2, v3", 16),
            ("v_div_fmas_f32 v0, v1, v2, v3", 2),
            ("v_div_scale_f32 v0, null, v1, v2, v3", 0),
            ("v_rcp_f32_e32 v0, v1", 1),
            ("v_max_f32_e32 v0, v1, v2", 0),
            ("v_cvt_f32_f16_e32 v0, v1", 0),
            ("v_cmp_gt_f32_e32 vcc_lo, v0, v1", 0),
            ("v_mad_u32_u24 v0, v1, v2, v3", 0),
            ("v_add_nc_u32_e32 v0, v1, v2", 0),
            ("s_add_f32 s0, s1, s2", 0),
        ] {
            assert_eq!(lane_ops(&Inst::parse(0, 4, text).ops[0]), ops, "{text}");
        }
    }

    #[test]
    fn operations_of_matrix_instructions() {
        let chip = |name| crate::target::amd::find(name);
        assert_eq!(matrix_ops("v_wmma_f32_16x16x16_f16", chip("gfx1100")), Some(8192));
        assert_eq!(matrix_ops("v_wmma_f32_16x16x16_f16", None), Some(8192));
        assert_eq!(matrix_ops("v_mfma_f32_32x32x8f16", chip("gfx90a")), Some(2 * 32 * 32 * 8));
        assert_eq!(matrix_ops("v_mfma_f32_32x32x8f16", None), None, "it may have several blocks");
        assert_eq!(matrix_ops("v_wmma_f32_9999999999x9999999999x9999999999_f16", None), None);
        for chip in crate::target::amd::CHIPS {
            for op in chip.matrix_ops {
                assert_eq!(super::class(op.mnemonic), Class::Matrix, "{}", op.mnemonic);
            }
        }
    }
}
