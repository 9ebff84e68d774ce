//! Moves between lanes, against where each lane's value must come from.

use super::support::{Bench, Shape, assemble};

/// What lanes have after an instruction from v2 (100 + lane) to v3 (lane, at first), with all lanes active.
fn moved(chip: &'static str, instruction: &str) -> Vec<u32> {
    let old = chip.starts_with("gfx9");
    let lanes = if old { 64 } else { 32 };
    let load = if old { "s_load_dwordx2" } else { "s_load_b64" };
    let store = if old { "global_store_dword" } else { "global_store_b32" };
    let add = if old { "v_add_u32" } else { "v_add_nc_u32" };
    let instruction = instruction.replace("; ", "\n");
    let text = format!(
        "{load} s[4:5], s[0:1], 0x0\nv_lshlrev_b32 v1, 2, v0\n{add} v2, 100, v0\nv_mov_b32 v3, v0\n{instruction}\n\
         s_waitcnt lgkmcnt(0)\n{store} v1, v3, s[4:5]\n"
    );
    let text = text.replacen("100", "0x64", 1);
    let mut bench = Bench::new(chip);
    let out = bench.room(4 * lanes);
    let run = bench.launch(&assemble(Shape { kernarg: 8, ..Shape::of(chip) }, &text), 1, lanes as u32).expect("runs");
    assert!(run.reports.is_empty(), "{:#?}", run.reports);
    bench.read(out, lanes as usize)
}

/// The lane that each lane's value came from; none where it kept its own.
fn sources(chip: &'static str, instruction: &str) -> Vec<Option<u32>> {
    moved(chip, instruction).into_iter().map(|v| v.checked_sub(100)).collect()
}

fn expect(chip: &'static str, instruction: &str, from: impl Fn(u32) -> Option<u32>) {
    let got = sources(chip, instruction);
    let want: Vec<Option<u32>> = (0..got.len() as u32).map(from).collect();
    assert_eq!(got, want, "{chip}: {instruction}");
}

#[test]
fn dpp() {
    let rest = "row_mask:0xf bank_mask:0xf";
    for chip in ["gfx1100", "gfx942"] {
        let dpp = |control: &str| format!("s_nop 4; v_mov_b32_dpp v3, v2 {control} {rest}");
        expect(chip, &dpp("quad_perm:[3,2,1,0]"), |l| Some(l ^ 3));
        expect(chip, &dpp("row_shl:3"), |l| (l % 16 + 3 < 16).then_some(l + 3));
        expect(chip, &dpp("row_shr:1"), |l| (l % 16 >= 1).then(|| l - 1));
        expect(chip, &dpp("row_ror:4"), |l| Some(l & !15 | ((l % 16 + 12) % 16)));
        expect(chip, &dpp("row_mirror"), |l| Some(l & !15 | (15 - l % 16)));
        expect(chip, &dpp("row_half_mirror"), |l| Some(l & !7 | (7 - l % 8)));
    }
    let zero = "v_mov_b32_dpp v3, v2 row_shl:3 row_mask:0xf bank_mask:0xf bound_ctrl:1";
    let got = moved("gfx1100", zero);
    assert!((0..32).all(|l| got[l] == if l % 16 + 3 < 16 { 103 + l as u32 } else { 0 }), "{got:?}");
    let masked = "v_mov_b32_dpp v3, v2 quad_perm:[0,0,0,0] row_mask:0x1 bank_mask:0x5";
    expect("gfx1100", masked, |l| (l < 16 && l / 4 % 2 == 0).then_some(l & !3));
    expect("gfx1100", "v_mov_b32_dpp v3, v2 row_share:5 row_mask:0xf bank_mask:0xf", |l| Some(l & !15 | 5));
    expect("gfx1100", "v_mov_b32_dpp v3, v2 row_xmask:6 row_mask:0xf bank_mask:0xf", |l| Some(l ^ 6));
    expect("gfx1100", "v_mov_b32_dpp v3, v2 dpp8:[7,6,5,4,3,2,1,0]", |l| Some(l ^ 7));
    expect("gfx942", "s_nop 4; v_mov_b32_dpp v3, v2 row_bcast:15 row_mask:0xf bank_mask:0xf", |l| {
        (l >= 16).then(|| (l & !15) - 1)
    });
    expect("gfx942", "s_nop 4; v_mov_b32_dpp v3, v2 row_bcast:31 row_mask:0xf bank_mask:0xf", |l| {
        (l >= 32).then_some(31)
    });
    expect("gfx942", "s_nop 4; v_mov_b32_dpp v3, v2 wave_shr:1 row_mask:0xf bank_mask:0xf", |l| l.checked_sub(1));
    // Sources are read before results are written, also from the register that is written.
    expect("gfx1100", "v_mov_b32_dpp v2, v2 row_ror:1 row_mask:0xf bank_mask:0xf; v_mov_b32 v3, v2", |l| {
        Some(l & !15 | ((l % 16 + 15) % 16))
    });
}

#[test]
fn lanes_that_are_not_active() {
    // Lane 5 is off: lane 4 keeps what it had, or gets zero, or lane 5's value all the same.
    let with = |more: &str| {
        format!(
            "s_mov_b32 exec_lo, 0xffffffdf; v_mov_b32_dpp v3, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf {more}; s_mov_b32 exec_lo, -1"
        )
    };
    assert_eq!(moved("gfx1100", &with(""))[4..6], [4, 5]);
    assert_eq!(moved("gfx1100", &with("bound_ctrl:1"))[4..6], [0, 5]);
    assert_eq!(moved("gfx1100", &with("fi:1"))[4..6], [105, 5]);
}

#[test]
fn permutations() {
    expect("gfx1100", "s_mov_b32 s6, 0x76543210; s_mov_b32 s7, 0xfedcba98; v_permlanex16_b32 v3, v2, s6, s7", |l| {
        Some(l ^ 16)
    });
    expect("gfx1100", "s_mov_b32 s6, 0x89abcdef; s_mov_b32 s7, 0x01234567; v_permlane16_b32 v3, v2, s6, s7", |l| {
        Some(l & 16 | (15 - l % 16))
    });
    expect("gfx1100", "v_xor_b32 v4, 28, v1; ds_bpermute_b32 v3, v4, v2", |l| Some(l ^ 7));
    expect("gfx1100", "v_xor_b32 v4, 4, v1; ds_permute_b32 v3, v4, v2", |l| Some(l ^ 1));
    expect("gfx1100", "ds_swizzle_b32 v3, v2 offset:swizzle(SWAP,8)", |l| Some(l ^ 8));
    expect("gfx1100", "ds_swizzle_b32 v3, v2 offset:swizzle(BROADCAST,8,3)", |l| Some(l & !7 | 3));
    expect("gfx1100", "ds_swizzle_b32 v3, v2 offset:swizzle(QUAD_PERM,3,0,1,2)", |l| Some(l & !3 | (l + 3) & 3));
    expect("gfx942", "v_xor_b32 v4, 0x80, v1; ds_bpermute_b32 v3, v4, v2", |l| Some(l ^ 32));
    expect("gfx1100", "v_readlane_b32 s6, v2, 9; v_mov_b32 v3, s6", |_| Some(9));
    expect("gfx1100", "v_readfirstlane_b32 s6, v2; v_mov_b32 v3, s6", |_| Some(0));
    let written = moved("gfx1100", "s_movk_i32 s6, 0x7b; v_writelane_b32 v3, s6, 11");
    assert!((0..32).all(|l| written[l] == if l == 11 { 0x7b } else { l as u32 }));
    expect("gfx1100", "v_swap_b32 v3, v2", Some);
    let counts = moved("gfx1100", "v_mbcnt_lo_u32_b32 v3, 0x0f0f0f0f, 0");
    assert!((0..32).all(|l| counts[l] == (0x0f0f_0f0f_u32 & ((1_u64 << l) - 1) as u32).count_ones()));
}

#[test]
fn registers_by_numbers() {
    // v4 to v7 hold the lane's number and 100, 200, 300, 400 more.
    let fill: String = (0..4).map(|r| format!("v_add_nc_u32 v{}, {:#x}, v0; ", 4 + r, 100 * (r + 1))).collect();
    let want = |more: u32| (0..32).map(|l| l + more).collect::<Vec<_>>();
    assert_eq!(moved("gfx1100", &format!("{fill}s_mov_b32 m0, 2; v_movrels_b32 v3, v4")), want(300));
    let to = format!("{fill}s_mov_b32 m0, 1; v_movreld_b32 v4, v7; v_mov_b32 v3, v5");
    assert_eq!(moved("gfx1100", &to), want(400));
    let both = format!("{fill}s_mov_b32 m0, 1; v_movrelsd_b32 v5, v4; v_mov_b32 v3, v6");
    assert_eq!(moved("gfx1100", &both), want(200));
    let apart = format!("{fill}s_mov_b32 m0, 0x20003; v_movrelsd_2_b32 v4, v4; v_mov_b32 v3, v6");
    assert_eq!(moved("gfx1100", &apart), want(400));
    // The same of scalars.
    let scalars = "s_mov_b32 s20, 7; s_mov_b32 s21, 8; s_mov_b32 m0, 1; ";
    let from = format!("{scalars}s_movrels_b32 s22, s20; v_mov_b32 v3, s22");
    assert_eq!(moved("gfx1100", &from), vec![8; 32]);
    let to = format!("{scalars}s_movreld_b32 s21, s20; v_mov_b32 v3, s22");
    assert_eq!(moved("gfx1100", &to), vec![7; 32]);
}

#[test]
fn loads_to_lds() {
    // Lanes' words to LDS from 256 on; each reads its neighbour's.
    let text = "s_load_dwordx4 s[4:7], s[0:1], 0x0\nv_and_b32 v0, 0x3ff, v0\nv_lshlrev_b32 v1, 2, v0\n\
                v_xor_b32 v2, 4, v1\ns_mov_b32 m0, 0xf8\ns_waitcnt lgkmcnt(0)\n\
                global_load_lds_dword v1, s[4:5] offset:8\ns_waitcnt vmcnt(0)\n\
                ds_read_b32 v3, v2 offset:256\ns_waitcnt lgkmcnt(0)\nglobal_store_dword v1, v3, s[6:7]\n";
    let shape = Shape { lds: 1024, kernarg: 16, ..Shape::of("gfx942") };
    let mut bench = Bench::new("gfx942");
    bench.words(&(0..66).collect::<Vec<u32>>());
    let out = bench.room(256);
    let run = bench.launch(&assemble(shape, text), 1, 64).expect("runs");
    assert!(run.reports.is_empty(), "{:#?}", run.reports);
    assert_eq!(bench.read(out, 64), (0..64).map(|l| (l ^ 1) + 2).collect::<Vec<u32>>());
}
