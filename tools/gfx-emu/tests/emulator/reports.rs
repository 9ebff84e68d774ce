//! A planted bug of each kind that is reported, and the same code without it, of which nothing is.

use super::support::{Bench, Shape, assemble};
use gfx_emu::{Error, Kind, Report};

/// Runs code for gfx1100 with three buffers: 32 words, 32 words, and 256 bytes that nobody wrote.
fn run_with(shape: Shape, text: &str, grid: u32, block: u32) -> Vec<Report> {
    let mut bench = Bench::new(shape.chip);
    bench.words(&(0..32).collect::<Vec<u32>>());
    bench.words(&[7; 32]);
    bench.room(256);
    let run = bench.launch(&assemble(shape, text), grid, block).expect("runs to its end");
    run.reports
}

fn kinds(reports: &[Report]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = reports.iter().map(|r| r.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Code with a bug and code without. `HEAD` brings the buffers' addresses to s[4:9].
fn planted(kind: Kind, shape: Shape, block: u32, wrong: &str, right: &str) {
    let head = |text: &str| {
        text.replace(
            "HEAD",
            "s_load_b128 s[4:7], s[0:1], 0x0\ns_load_b64 s[8:9], s[0:1], 0x10\nWAIT\n\
         v_lshlrev_b32 v1, 2, v0\n",
        )
    };
    let waits = if shape.chip.starts_with("gfx12") { "s_wait_kmcnt 0" } else { "s_waitcnt lgkmcnt(0)" };
    let text = |code: &str| head(code).replace("WAIT", waits);
    let found = run_with(shape, &text(wrong), 1, block);
    assert_eq!(kinds(&found), [kind], "{found:#?}");
    let line = found[0].to_string();
    assert!(!line.contains('\n') && line.starts_with(kind.name()) && line.contains("k+0x"), "{line}");
    let found = run_with(shape, &text(right), 1, block);
    assert!(found.is_empty(), "{found:#?}");
}

const RDNA3: &str = "gfx1100";

#[test]
fn accesses_outside_of_memory() {
    let code = |offset: u32| {
        format!(
            "HEAD\nglobal_load_b32 v2, v1, s[4:5] offset:{offset}\ns_waitcnt vmcnt(0)\nglobal_store_b32 v1, v2, s[8:9]\n"
        )
    };
    planted(Kind::OutOfBounds, Shape::of(RDNA3), 16, &code(68), &code(64));
}

#[test]
fn accesses_outside_of_lds() {
    let code = |offset: u32| format!("v_lshlrev_b32 v1, 2, v0\nds_store_b32 v1, v0 offset:{offset}\n");
    planted(Kind::OutOfBounds, Shape { lds: 128, ..Shape::of(RDNA3) }, 32, &code(4), &code(0));
}

#[test]
fn accesses_outside_of_scratch() {
    let code = |offset: u32| format!("scratch_store_b32 off, v0, off offset:{offset}\n");
    planted(Kind::OutOfBounds, Shape { scratch: 16, ..Shape::of(RDNA3) }, 32, &code(16), &code(12));
}

#[test]
fn scalar_loads_need_aligned_addresses() {
    let code = |offset: u32| {
        format!(
            "HEAD\ns_load_b32 s10, s[4:5], {offset}\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v2, s10\nglobal_store_b32 v1, v2, s[8:9]\n"
        )
    };
    planted(Kind::Misaligned, Shape::of(RDNA3), 32, &code(2), &code(4));
}

#[test]
fn lds_needs_aligned_addresses() {
    let code = |shift: u32| format!("v_lshlrev_b32 v1, {shift}, v0\nds_store_b32 v1, v0\n");
    planted(Kind::Misaligned, Shape { lds: 256, ..Shape::of(RDNA3) }, 2, &code(1), &code(2));
}

#[test]
fn memory_that_was_freed() {
    let text =
        "s_load_b64 s[4:5], s[0:1], 0x0\ns_waitcnt lgkmcnt(0)\nv_mov_b32 v1, 0\nglobal_store_b32 v1, v0, s[4:5]\n";
    let hsaco = assemble(Shape::of(RDNA3), text);
    let mut bench = Bench::new(RDNA3);
    let buffer = bench.room(64);
    assert!(bench.launch(&hsaco, 1, 1).expect("runs").reports.is_empty());
    bench.gpu.free(buffer).expect("freed");
    let found = bench.launch(&hsaco, 1, 1).expect("runs").reports;
    assert_eq!(kinds(&found), [Kind::UseAfterFree]);
    assert!(bench.gpu.free(buffer).is_err(), "it was freed before");
}

#[test]
fn memory_that_nobody_wrote() {
    let code = |from: &str| {
        format!(
            "HEAD\nglobal_load_b32 v2, v1, {from}\ns_waitcnt vmcnt(0)\nglobal_store_b32 v1, v2, s[8:9] offset:128\n"
        )
    };
    planted(Kind::UninitialisedMemory, Shape::of(RDNA3), 32, &code("s[8:9]"), &code("s[6:7]"));
}

#[test]
fn lds_that_nobody_wrote() {
    let code = |first: &str| {
        format!("v_lshlrev_b32 v1, 2, v0\n{first}\ns_waitcnt lgkmcnt(0)\nds_load_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n")
    };
    let shape = Shape { lds: 128, ..Shape::of(RDNA3) };
    planted(Kind::UninitialisedLds, shape, 32, &code(""), &code("ds_store_b32 v1, v0"));
}

#[test]
fn registers_that_nobody_wrote() {
    let code = |first: &str| format!("HEAD\n{first}\nv_add_nc_u32 v2, v3, v0\nglobal_store_b32 v1, v2, s[8:9]\n");
    planted(Kind::UninitialisedRegister, Shape::of(RDNA3), 32, &code(""), &code("v_mov_b32 v3, 1"));
    // Scalars that decide a jump.
    let code = |first: &str| format!("{first}\ns_cmp_eq_u32 s20, 0\ns_cbranch_scc1 1\ns_nop 0\n");
    planted(Kind::UninitialisedRegister, Shape::of(RDNA3), 32, &code(""), &code("s_mov_b32 s20, 0"));
    // What is not used may be anything.
    let unused = run_with(Shape::of(RDNA3), "v_add_nc_u32 v2, v3, v4\ns_add_i32 s20, s21, s22\n", 1, 32);
    assert!(unused.is_empty(), "{unused:#?}");
}

#[test]
fn lds_races() {
    // A wave reads what the other writes.
    let code = |barrier: &str| {
        format!(
            "v_lshlrev_b32 v1, 2, v0\nds_store_b32 v1, v0\ns_waitcnt lgkmcnt(0)\n{barrier}\nv_xor_b32 v1, 0x80, v1\n\
             ds_load_b32 v2, v1\ns_waitcnt lgkmcnt(0)\n"
        )
    };
    let shape = Shape { lds: 256, ..Shape::of(RDNA3) };
    let found = run_with(shape, &code(""), 1, 64);
    assert!(kinds(&found).contains(&Kind::LdsRace), "{found:#?}");
    let found = run_with(shape, &code("s_barrier"), 1, 64);
    assert!(found.is_empty(), "{found:#?}");
    // Two waves write the same; neighbours in one word are no race.
    let both = "v_and_b32 v1, 31, v0\nds_store_b8 v1, v0\n";
    let own = "ds_store_b8 v0, v0\n";
    planted(Kind::LdsRace, shape, 64, both, own);
}

#[test]
fn global_races() {
    let code = |barrier: &str| {
        format!(
            "HEAD\nglobal_store_b32 v1, v0, s[8:9]\ns_waitcnt_vscnt null, 0\n{barrier}\nv_xor_b32 v1, 0x80, v1\n\
             global_load_b32 v2, v1, s[8:9]\ns_waitcnt vmcnt(0)\n"
        )
    };
    let text = |code: &str| {
        code.replace("HEAD", "s_load_b64 s[8:9], s[0:1], 0x10\ns_waitcnt lgkmcnt(0)\nv_lshlrev_b32 v1, 2, v0\n")
    };
    let found = run_with(Shape::of(RDNA3), &text(&code("")), 1, 64);
    assert!(kinds(&found).contains(&Kind::GlobalRace), "{found:#?}");
    let found = run_with(Shape::of(RDNA3), &text(&code("s_barrier")), 1, 64);
    assert!(found.is_empty(), "{found:#?}");
    // Two workgroups write the same word.
    let one = text("HEAD\nglobal_store_b32 v1, v0, s[8:9]\n");
    assert_eq!(kinds(&run_with(Shape::of(RDNA3), &one, 2, 32)), [Kind::GlobalRace]);
    // Atomically, they may.
    let atomic =
        text("HEAD\nglobal_atomic_swap_b32 v1, v0, s[4:5]\n").replace("s[8:9], s[0:1], 0x10", "s[4:5], s[0:1], 0x0");
    let found = run_with(Shape::of(RDNA3), &atomic, 2, 32);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn barriers_that_lanes_or_waves_miss() {
    let masked = "s_mov_b32 exec_lo, 0xffff\ns_barrier\n";
    planted(Kind::BarrierDivergence, Shape::of(RDNA3), 32, masked, "s_barrier\n");
    // The second wave ends before.
    let code =
        |limit: u32| format!("v_readfirstlane_b32 s10, v0\ns_cmp_ge_u32 s10, {limit}\ns_cbranch_scc1 1\ns_barrier\n");
    planted(Kind::BarrierDivergence, Shape::of(RDNA3), 64, &code(32), &code(64));
}

#[test]
fn lds_races_with_what_comes_after_a_signal() {
    // A wave's store after it signalled, and another's load after the barrier: nothing orders them.
    let head = "v_lshlrev_b32 v1, 2, v0\nv_xor_b32 v2, 0x80, v1\n";
    let load = "ds_load_b32 v3, v2\ns_wait_dscnt 0\n";
    let store = "ds_store_b32 v1, v0\ns_wait_dscnt 0\n";
    let (signal, wait) = ("s_barrier_signal -1\n", "s_barrier_wait -1\n");
    let shape = Shape { lds: 256, ..Shape::of("gfx1201") };
    let wrong = [head, signal, store, wait, load].concat();
    let right = [head, store, signal, wait, load].concat();
    planted(Kind::LdsRace, shape, 64, &wrong, &right);
    // A lane's own words are no matter.
    let own = [head, signal, store, wait, "ds_load_b32 v3, v1\ns_wait_dscnt 0\n"].concat();
    let found = run_with(shape, &own, 1, 64);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn registers_beyond_the_count() {
    // The descriptor asks for 128.
    planted(Kind::RegisterCount, Shape::of(RDNA3), 32, "v_mov_b32 v128, 0\n", "v_mov_b32 v127, 0\n");
    let found = run_with(Shape::of(RDNA3), "s_branch 1\nv_mov_b32 v200, 0\n", 1, 32);
    assert!(found.is_empty(), "it is not reached: {found:#?}");
    let accumulators = |n: u32| format!("v_accvgpr_write_b32 a{n}, 0\n");
    let shape = Shape::of("gfx942");
    planted(Kind::RegisterCount, shape, 64, &accumulators(128), &accumulators(127));
}

#[test]
fn waits_for_what_never_comes() {
    let shape = Shape::of("gfx1201");
    planted(Kind::Deadlock, shape, 64, "s_barrier_wait -1\n", "s_barrier_signal -1\ns_barrier_wait -1\n");
}

#[test]
fn registers_before_their_waits() {
    let shape = Shape::of(RDNA3);
    let vector = |left: u32| {
        format!(
            "HEAD\nglobal_load_b32 v2, v1, s[4:5]\nglobal_load_b32 v3, v1, s[6:7]\ns_waitcnt vmcnt({left})\n\
             global_store_b32 v1, v3, s[8:9]\n"
        )
    };
    planted(Kind::MissingWait, shape, 32, &vector(1), &vector(0));
    // The first of two loads is covered by a wait that leaves one.
    let first = vector(1).replace("v1, v3, s[8:9]", "v1, v2, s[8:9]");
    planted(Kind::MissingWait, shape, 32, &vector(1), &first);
    // Scalar loads come in any order.
    let scalar = |left: u32| {
        format!(
            "HEAD\ns_load_b32 s10, s[4:5], 0x0\ns_load_b32 s11, s[4:5], 0x4\ns_waitcnt lgkmcnt({left})\ns_mov_b32 s12, s10\n"
        )
    };
    planted(Kind::MissingWait, shape, 32, &scalar(1), &scalar(0));
    // What is loaded is overwritten.
    let over = |wait: &str| format!("HEAD\nglobal_load_b32 v2, v1, s[4:5]\n{wait}\nv_mov_b32 v2, 0\n");
    planted(Kind::MissingWait, shape, 32, &over(""), &over("s_waitcnt vmcnt(0)"));
    // LDS, with its own counter on gfx12.
    let lds = |wait: &str| {
        format!("v_lshlrev_b32 v1, 2, v0\nds_store_b32 v1, v0\nds_load_b32 v2, v1\n{wait}\nv_add_nc_u32 v2, v2, v2\n")
    };
    let shape = Shape { lds: 128, ..Shape::of("gfx1201") };
    planted(Kind::MissingWait, shape, 32, &lds("s_wait_loadcnt 0"), &lds("s_wait_dscnt 0"));
}

#[test]
fn pairs_of_operations_in_one_bank() {
    // llvm-mc refuses to assemble it: the second operation's first source becomes v5, of the bank of the first's.
    let right = "v_mov_b32 v1, 1\nv_mov_b32 v2, 2\nv_mov_b32 v5, 3\nv_mov_b32 v6, 4\n\
                 v_dual_add_f32 v7, v1, v2 :: v_dual_add_f32 v8, v2, v1\n";
    let hsaco = assemble(Shape::of(RDNA3), right);
    let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| hsaco[at + i]));
    let is_pair = |&at: &usize| word(at) >> 26 == 0b11_0010 && word(at + 4) & 0x1ff == 0x102;
    let at = (0..hsaco.len() - 8).step_by(4).find(is_pair).expect("the pair");
    let (second, mut broken) = (word(at + 4), hsaco.clone());
    broken[at + 4..at + 8].copy_from_slice(&(second & !0x1ff | 0x105).to_le_bytes());
    let bench = Bench::new(RDNA3);
    let found = bench.launch(&broken, 1, 32).expect("runs").reports;
    assert_eq!(kinds(&found), [Kind::VopdBanks], "{found:#?}");
    let found = bench.launch(&hsaco, 1, 32).expect("runs").reports;
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_kind_has_a_planted_bug() {
    let source = include_str!("reports.rs");
    for kind in Kind::ALL {
        assert!(source.contains(&format!("Kind::{kind:?}")), "{kind}");
    }
}

#[test]
fn unknown_instructions_are_errors_when_they_are_reached() {
    let bench = Bench::new(RDNA3);
    let skipped =
        assemble(Shape::of(RDNA3), "s_branch 1\ns_ttracedata\ns_trap 2\ns_nop 0\n".replace("s_trap 2\n", "").as_str());
    assert!(bench.launch(&skipped, 1, 32).is_ok());
    let reached = assemble(Shape::of(RDNA3), "v_swaprel_b32 v0, v1\n");
    let error = bench.launch(&reached, 1, 32).expect_err("not known");
    assert!(matches!(error, Error::Instruction { .. }), "{error}");
    assert!(error.to_string().contains("v_swaprel_b32"), "{error}");
}

#[test]
fn loops_without_end_are_given_up() {
    let bench = Bench::new(RDNA3);
    let error = bench.launch(&assemble(Shape::of(RDNA3), "s_branch -1\n"), 1, 32).expect_err("it does not end");
    assert!(matches!(error, Error::Stuck { .. }), "{error}");
}

#[test]
fn code_for_other_chips_is_refused_by_name() {
    let bench = Bench::new("gfx1201");
    let error = bench.launch(&assemble(Shape::of(RDNA3), "s_nop 0\n"), 1, 32).expect_err("another chip");
    let text = error.to_string();
    assert!(text.contains("gfx1100") && text.contains("gfx1201"), "{text}");
}
