//! Values are followed through assembly.

use super::*;
use crate::hsaco::{Argument, DESCRIPTOR_BYTES, Descriptor, KernelMetadata};
use proptest::prelude::*;

/// A kernel with two pointers as arguments, whose address is in s[0:1].
fn kernel(generation: Generation) -> Kernel<'static> {
    let mut bytes = [0; DESCRIPTOR_BYTES];
    // enable_sgpr_kernarg_segment_ptr.
    bytes[56] = 1 << 3;
    let pointer = |at| Argument { offset: Some(at), value_kind: Some("global_buffer".into()), ..Argument::default() };
    Kernel {
        name: "k",
        descriptor_address: 0,
        descriptor: Descriptor::new(&bytes, Some(generation)),
        metadata: Some(KernelMetadata { args: Some(vec![pointer(0), pointer(8)]), ..KernelMetadata::default() }),
        entry: 0,
        code: &[],
    }
}

/// Follows code of gfx11, of one word each instruction, in waves of 32; the workgroup has 128 work items.
fn followed(lines: &[&str]) -> Followed {
    followed_for(Generation::Gfx11, 32, lines)
}

fn followed_for(generation: Generation, wave: u32, lines: &[&str]) -> Followed {
    let insts: Vec<Inst> = lines.iter().enumerate().map(|(i, text)| Inst::parse(4 * i, 4, text)).collect();
    let flow = Flow::new(&insts);
    let workgroup = Workgroup { work_items: 128, size: Some([128, 1, 1]), at_most: false, waves: 128 / wave };
    follow(&insts, &flow, &kernel(generation), generation, wave, Some(&workgroup)).expect("followed")
}

/// The addresses of the last access relative to lane 0; none if they could not be followed.
fn apart(found: &Followed) -> Option<Vec<i32>> {
    let address = &found.accesses.last()?.addresses.as_ref()?[0];
    (0..32).map(|l| Some(address.of_lane(l).sub(&address.of_lane(0)).as_number()? as i32)).collect()
}

fn each(f: impl Fn(i32) -> i32) -> Option<Vec<i32>> {
    Some((0..32).map(|l| f(l) - f(0)).collect())
}

#[test]
fn an_address_from_the_number_of_the_work_item() {
    let found = followed(&[
        "s_load_b64 s[2:3], s[0:1], 0x8",
        "v_lshlrev_b32_e32 v1, 4, v0",
        "v_and_b32_e32 v1, 0x3ff0, v1",
        "global_load_b128 v[4:7], v1, s[2:3] offset:32",
        "s_endpgm",
    ]);
    assert_eq!(apart(&found), each(|l| 16 * l));
    let address = &found.accesses[0].addresses.as_ref().expect("followed")[0];
    let origins: Vec<_> = address.terms.iter().map(|(s, _)| found.symbols.origin(*s)).collect();
    assert!(origins.contains(&Origin::Argument(8)) && origins.contains(&Origin::Wave(0)), "{origins:?}");
    assert_eq!(address.lanes.at(0), 32);
    assert!(!found.assumes_full_tiles);
}

#[test]
fn what_lanes_load_is_not_known() {
    let found = followed(&[
        "global_load_b32 v1, v0, s[2:3]",
        "v_add_nc_u32_e32 v2, v1, v0",
        "global_load_b32 v3, v2, s[2:3]",
        "s_endpgm",
    ]);
    assert!(found.accesses[0].addresses.is_some() && found.accesses[1].addresses.is_none());
}

#[test]
fn a_pair_reads_what_was_there_before_it() {
    let found = followed(&[
        "v_mov_b32_e32 v1, 0",
        "v_dual_mov_b32 v0, v1 :: v_dual_lshlrev_b32 v1, 2, v0",
        "ds_load_b32 v2, v1",
        "s_endpgm",
    ]);
    assert_eq!(apart(&found), each(|l| 4 * l));
}

#[test]
fn half_registers_dpp_and_clamps_are_not_followed() {
    for odd in [
        "v_mov_b16_e32 v1.l, 0",
        "v_mov_b32_dpp v1, v0 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf",
        "v_add_nc_u32_e64 v1, v0, v0 clamp",
        "v_permlanex16_b32 v1, v0, s0, 0xfedcba98",
        "v_alignbit_b32 v1, v0, v0, 3",
        "ds_bpermute_b32 v1, v0, v0",
        "v_movrels_b32_e32 v1, v0",
    ] {
        let found = followed(&["v_mov_b32_e32 v1, v0", odd, "ds_load_b32 v2, v1", "s_endpgm"]);
        assert_eq!(apart(&found), None, "{odd}");
    }
    let found = followed(&["v_mov_b32_e32 v1, v0", "v_movreld_b32_e32 v5, v0", "ds_load_b32 v2, v1", "s_endpgm"]);
    assert_eq!(apart(&found), None, "any register may have been written");
}

#[test]
fn what_lanes_share_gives_what_they_share() {
    let after = |op: &str| apart(&followed(&["v_mov_b32_e32 v2, s9", op, "ds_load_b32 v3, v1", "s_endpgm"]));
    for op in [
        "v_alignbit_b32 v1, s8, v2, 3",
        "v_mul_f32_e32 v1, s8, v2",
        "v_cvt_f32_u32_e32 v1, v2",
        "v_pk_add_u16 v1, v2, s8",
    ] {
        assert_eq!(after(op), each(|_| 0), "{op}");
    }
    // The other half of the register stays, and lanes had something there.
    for op in ["v_fma_mixlo_f16 v1, s8, v2, 0", "v_add_f16_e32 v1, s8, v2", "v_cvt_pk_fp8_f32 v1, s8, v2"] {
        assert_eq!(after(op), None, "{op}");
    }
    assert_eq!(after("v_mbcnt_lo_u32_b32 v1, -1, 0"), each(|l| l));
    assert_eq!(after("v_mad_co_u64_u32 v[1:2], null, v0, 12, v[2:3]"), each(|l| 12 * l));
}

#[test]
fn a_loop_adds_what_lanes_share() {
    let found = followed(&[
        "v_lshlrev_b32_e32 v1, 2, v0",
        "s_mov_b32 s4, 0",
        "global_load_b32 v2, v1, s[2:3]", // 2
        "v_add_nc_u32_e32 v1, 0x200, v1",
        "s_add_i32 s4, s4, 2",
        "s_cmp_lt_i32 s4, 16",
        "s_cbranch_scc1 65531", // to 2
        "s_endpgm",
    ]);
    assert_eq!(apart(&found), each(|l| 4 * l));
    assert_eq!(found.trips, [Some(8)]);
    assert_eq!(found.moves.get(&Origin::VectorAt(1, 1)).map(|m| m.step), Some(0x200));
    assert_eq!(found.moves.get(&Origin::ScalarAt(1, 4)).map(|m| m.step), Some(2));
}

#[test]
fn a_loop_that_multiplies_differences_is_not_followed() {
    let found = followed(&[
        "v_lshlrev_b32_e32 v1, 2, v0",
        "ds_load_b32 v2, v1", // 1
        "v_lshlrev_b32_e32 v1, 1, v1",
        "s_cmp_lt_i32 s4, s5",
        "s_cbranch_scc1 65532", // to 1
        "s_endpgm",
    ]);
    assert_eq!(apart(&found), None);
    assert_eq!(found.trips, [None]);
}

#[test]
fn iterations_are_counted_only_if_the_end_is_the_only_way_out() {
    let found = followed(&[
        "s_mov_b32 s4, 0",
        "s_add_i32 s4, s4, 1", // 1
        "s_cbranch_vccnz 2",   // to 5
        "s_cmp_lg_u32 s4, 10",
        "s_cbranch_scc1 65532", // to 1
        "s_endpgm",
    ]);
    assert_eq!(found.trips, [None]);
    let count = |compare, jump| followed(&["s_mov_b32 s4, 10", "s_sub_i32 s4, s4, 3", compare, jump, "s_endpgm"]).trips;
    // 7, 4, 1, -2.
    assert_eq!(count("s_cmp_gt_i32 s4, 0", "s_cbranch_scc1 65533"), [Some(4)]);
    assert_eq!(count("s_cmp_lt_i32 s4, 2", "s_cbranch_scc0 65533"), [Some(3)]);
    assert_eq!(count("s_cmp_eq_u32 s4, 7", "s_cbranch_scc1 65533"), [Some(2)]);
    assert_eq!(count("s_cmp_gt_i32 s4, s9", "s_cbranch_scc1 65533"), [None]);
    assert_eq!(count("s_cmp_gt_i32 s4, 0", "s_cbranch_vccnz 65533"), [None]);
}

#[test]
fn a_value_of_some_lanes_is_not_that_of_all() {
    let code = |inside, after| {
        followed(&[
            "v_lshlrev_b32_e32 v1, 2, v0",
            "v_cmp_gt_f32_e32 vcc_lo, v8, v9",
            "s_and_saveexec_b32 s4, vcc_lo",
            "v_add_nc_u32_e32 v1, 64, v1",
            inside,
            "s_or_b32 exec_lo, exec_lo, s4",
            after,
            "s_endpgm",
        ])
    };
    let access = "ds_load_b32 v2, v1";
    assert_eq!(apart(&code(access, "s_nop 0")), each(|l| 4 * l), "the active lanes have it");
    assert_eq!(apart(&code("s_nop 0", access)), None, "the others have another");
    assert_eq!(apart(&code("s_nop 0", "ds_load_b32 v2, v0")), each(|l| l), "and what was not written stays");
}

#[test]
fn a_skipped_part_is_the_same_as_one_of_some_lanes() {
    let found = followed(&[
        "v_mov_b32_e32 v1, 0",
        "v_cmp_gt_f32_e32 vcc_lo, v8, v9",
        "s_and_saveexec_b32 s4, vcc_lo",
        "s_cbranch_execz 1", // to 5
        "v_mov_b32_e32 v1, 64",
        "s_or_b32 exec_lo, exec_lo, s4", // 5
        "ds_load_b32 v2, v1",
        "s_endpgm",
    ]);
    assert_eq!(apart(&found), None, "lanes have either");
    // All lanes of a wave go the same way here.
    let found = followed(&[
        "v_mov_b32_e32 v1, 0",
        "s_cbranch_scc1 1", // to 3
        "v_mov_b32_e32 v1, 64",
        "ds_load_b32 v2, v1", // 3
        "s_endpgm",
    ]);
    assert_eq!(apart(&found), each(|_| 0));
}

#[test]
fn lanes_that_leave_a_loop_keep_their_values() {
    let found = followed(&[
        "v_mov_b32_e32 v1, 0",
        "s_mov_b32 s5, 0",
        "v_add_nc_u32_e32 v1, 4, v1", // 2
        "ds_load_b32 v2, v1",
        "v_cmp_gt_i32_e32 vcc_lo, v8, v1",
        "s_or_b32 s5, vcc_lo, s5",
        "s_and_not1_b32 exec_lo, exec_lo, s5",
        "s_cbranch_execnz 65530", // to 2
        "s_or_b32 exec_lo, exec_lo, s5",
        "ds_load_b32 v2, v1",
        "s_endpgm",
    ]);
    let addresses: Vec<_> = found.accesses.iter().map(|a| a.addresses.is_some()).collect();
    assert_eq!(addresses, [true, false]);
}

#[test]
fn known_masks_say_which_lanes_take_part() {
    let found = followed(&[
        "v_and_b32_e32 v1, 31, v0",
        "v_cmp_gt_u32_e32 vcc_lo, 8, v1",
        "s_and_saveexec_b32 s4, vcc_lo",
        "ds_store_b32 v1, v0",
        "s_or_b32 exec_lo, exec_lo, s4",
        "ds_load_b32 v2, v1",
        "v_cndmask_b32_e32 v3, 0, v1, vcc_lo",
        "ds_load_b32 v2, v3",
        "s_endpgm",
    ]);
    let lanes: Vec<u64> = found.accesses.iter().map(|a| a.lanes).collect();
    assert_eq!(lanes, [0xff, 0xffff_ffff, 0xffff_ffff]);
    assert_eq!(apart(&found), each(|l| if l < 8 { l } else { 0 }));
}

#[test]
fn waves_of_64_have_masks_in_pairs_of_registers() {
    let found = followed_for(
        Generation::Gfx9,
        64,
        &[
            "v_lshlrev_b32_e32 v1, 2, v0",
            "v_cmp_gt_f32_e32 vcc, v8, v9",
            "s_and_saveexec_b64 s[4:5], vcc",
            "v_mov_b32_e32 v1, 0",
            "s_or_b64 exec, exec, s[4:5]",
            "ds_read_b32 v2, v0",
            "ds_read_b32 v2, v1",
            "s_endpgm",
        ],
    );
    assert_eq!((found.accesses[0].lanes, found.accesses[0].addresses.is_some()), (u64::MAX, true));
    assert!(found.accesses[1].addresses.is_none());
}

#[test]
fn lanes_sent_out_of_bounds_take_no_part() {
    let found = followed(&[
        "v_and_b32_e32 v1, 3, v0",
        "v_cmp_eq_u32_e32 vcc_lo, 0, v1",
        "v_cndmask_b32_e32 v2, 0xffff0000, v0, vcc_lo",
        "buffer_store_b32 v4, v2, s[8:11], s5 offen",
        "v_cmp_gt_i32_e32 vcc_lo, s6, v0",
        "v_cndmask_b32_e32 v2, 0xffff0000, v0, vcc_lo",
        "buffer_store_b32 v4, v2, s[8:11], 0 offen",
        "s_endpgm",
    ]);
    assert_eq!(found.accesses[0].lanes, 0x1111_1111);
    assert_eq!((found.accesses[1].lanes, found.assumes_full_tiles), (0xffff_ffff, true));
    assert_eq!(apart(&found), each(|l| l));
}

#[test]
fn calls_may_write_everything() {
    let found = followed(&["s_swappc_b64 s[30:31], s[4:5]", "ds_load_b32 v2, v0", "s_endpgm"]);
    assert_eq!(apart(&found), None);
}

#[test]
fn two_addresses_of_one_instruction() {
    let found = followed(&[
        "v_lshlrev_b32_e32 v1, 3, v0",
        "ds_load_2addr_stride64_b32 v[2:3], v1 offset0:1 offset1:2",
        "s_endpgm",
    ]);
    let addresses = found.accesses[0].addresses.as_ref().expect("followed");
    assert_eq!(addresses[1].sub(&addresses[0]).as_number(), Some(256));
    assert_eq!((addresses[0].lanes.at(0), found.accesses[0].bytes), (256, 4));
}

/// What an operation does.
type Does = fn(u32, u32) -> u32;

/// Operations and what they do, for random programs.
const OPS: &[(&str, Does)] = &[
    ("v_add_nc_u32_e32", |x, y| x.wrapping_add(y)),
    ("v_sub_nc_u32_e32", |x, y| x.wrapping_sub(y)),
    ("v_and_b32_e32", |x, y| x & y),
    ("v_or_b32_e32", |x, y| x | y),
    ("v_xor_b32_e32", |x, y| x ^ y),
    ("v_lshlrev_b32_e32", |x, y| y.wrapping_shl(x)),
    ("v_lshrrev_b32_e32", |x, y| y.wrapping_shr(x)),
    ("v_mul_lo_u32", |x, y| x.wrapping_mul(y)),
    ("v_mul_u32_u24_e32", |x, y| (x & 0xff_ffff).wrapping_mul(y & 0xff_ffff)),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Straight code on the number of the work item, numbers and registers that all lanes share: the differences of
    /// addresses are those that lanes compute, for any values of what is not known.
    #[test]
    fn differences_are_those_that_lanes_compute(
        program in proptest::collection::vec((0..OPS.len(), 0..6_usize, 0..6_usize, 1..5_u16), 1..12),
        numbers in proptest::collection::vec(prop_oneof![0..64_u32, Just(0xffu32), Just(0x3ffu32), any::<u32>()], 2),
        scalars in proptest::collection::vec(any::<u32>(), 2),
        wave in 0..4_u32,
    ) {
        // v0 is the work item, v1 to v3 are 0 first; s8 and s9 are not known.
        let mut lines = vec!["v_mov_b32_e32 v1, 0".to_string(), "v_mov_b32_e32 v2, 0".into(), "v_mov_b32_e32 v3, 0".into()];
        let mut truth: Vec<[u32; 32]> = vec![[0; 32]; 4];
        truth[0] = std::array::from_fn(|l| l as u32 + 32 * wave);
        let operand = |which: usize| match which {
            0..4 => format!("v{which}"),
            4 => format!("{:#x}", numbers[0]),
            _ => "s8".to_string(),
        };
        for &(op, x, y, to) in &program {
            let (name, f) = OPS[op];
            let to = usize::from(to) % 4;
            lines.push(format!("{name} v{to}, {}, {}", operand(x), operand(y)));
            let value = |which: usize, l: usize, truth: &[[u32; 32]]| match which {
                0..4 => truth[which][l],
                4 => numbers[0],
                _ => scalars[0],
            };
            truth[to] = std::array::from_fn(|l| f(value(x, l, &truth), value(y, l, &truth)));
        }
        lines.push("ds_load_b32 v9, v1".into());
        lines.push("s_endpgm".into());
        let found = followed(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        if let Some(address) = &found.accesses[0].addresses {
            // What is not known must be the same in all lanes for differences to be known.
            for l in 0..32 {
                let difference = address[0].of_lane(l).sub(&address[0].of_lane(0));
                if let Some(n) = difference.as_number() {
                    prop_assert_eq!(n, truth[1][l].wrapping_sub(truth[1][0]), "lane {} of {:#?}", l, lines);
                }
            }
        }
    }
}
