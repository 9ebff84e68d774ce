//! One name for operations that generations call differently.

/// Endings and beginnings that say nothing new, with what they are replaced by.
const REPLACED: &[(&str, &str)] = &[
    ("_num_", "_"),
    ("v_add_nc_", "v_add_"),
    ("v_sub_nc_", "v_sub_"),
    ("v_subrev_nc_", "v_subrev_"),
    ("s_add_co_ci_u32", "s_addc_u32"),
    ("s_sub_co_ci_u32", "s_subb_u32"),
    ("s_add_co_", "s_add_"),
    ("s_sub_co_", "s_sub_"),
    ("s_addk_co_", "s_addk_"),
    ("_and_not1_", "_andn2_"),
    ("_or_not1_", "_orn2_"),
    ("_and_not0_", "_andn1_"),
    ("_or_not0_", "_orn1_"),
    ("s_ctz_i32_b", "s_ff1_i32_b"),
    ("s_clz_i32_u32", "s_flbit_i32_b32"),
    ("s_clz_i32_u64", "s_flbit_i32_b64"),
    ("s_cls_i32", "s_flbit_i32"),
    ("v_ctz_i32_b32", "v_ffbl_b32"),
    ("v_clz_i32_u32", "v_ffbh_u32"),
    ("v_cls_i32", "v_ffbh_i32"),
    ("v_addc_co_u32", "v_add_co_ci_u32"),
    ("v_subb_co_u32", "v_sub_co_ci_u32"),
    ("v_subbrev_co_u32", "v_subrev_co_ci_u32"),
    ("v_mad_co_", "v_mad_"),
    ("_dx9_zero_", "_legacy_"),
    ("v_cmp_ne_f", "v_cmp_lg_f"),
    ("v_mad_legacy_u16", "v_mad_u16"),
    ("v_mad_legacy_i16", "v_mad_i16"),
    ("v_mad_legacy_f16", "v_mad_f16"),
    ("v_fma_legacy_f16", "v_fma_f16"),
    ("v_div_fixup_legacy_f16", "v_div_fixup_f16"),
    ("v_sub_co_i32", "v_sub_i32"),
    ("v_cvt_pk_norm_", "v_cvt_pknorm_"),
    ("s_quadmask", "s_quadmask"),
];

/// The name that tables have.
pub fn canonical(name: &str) -> String {
    let mut name = name.to_owned();
    for (from, to) in REPLACED {
        // gfx12's shifts of 16 bits and others keep theirs.
        if name.contains(from) {
            name = name.replacen(from, to, 1);
        }
    }
    name
}
