//! Passes keep what kernels mean: the interpreter gives the same bytes before and after.

use hrx_compiler::passes::{expand_blocks, expand_math, lower_host, lower_lanes, remove_unused};
use hrx_ir::quant::{FORMATS, Format};
use hrx_ir::tile::interp::{Arg, Memory, Options, run};
use hrx_ir::tile::random::{Options as RandomOptions, random_kernel};
use hrx_ir::tile::{
    Access, BlockPart, Builder, Content, Elem, Extent, GridExpr, Kernel, Op, Param, RunPart, UnaryOp, verify,
};
use proptest::prelude::*;

/// The bytes of all buffers after a run with pseudo-random inputs, NaNs made equal.
fn results(k: &Kernel, rows: u32, seed: u32) -> Vec<Vec<u8>> {
    let mut memory = Memory::new();
    let mut outputs = Vec::new();
    let mut args = Vec::new();
    for p in &k.params {
        args.push(match *p {
            Param::Scalar(_) => Arg::I32(rows as i32),
            Param::View(m) => {
                let d = &k.views[m];
                let size = |e: &Extent| if let Extent::Const(n) = e { *n } else { rows };
                let bytes = (d.dims.iter().map(size).product::<u32>() * d.content.unit_bytes()) as usize;
                let id = if d.access == Access::Out {
                    let id = memory.add_uninit(bytes);
                    outputs.push((id, d.content));
                    id
                } else {
                    let byte = |i: usize| (seed.wrapping_mul(i as u32 * 2 + 1) >> 13) as u8;
                    memory.add((0..bytes).map(byte).collect())
                };
                Arg::buffer(id)
            }
        });
    }
    run(k, &args, &mut memory, &Options::exact()).unwrap_or_else(|e| panic!("{e}\n{k}"));
    let canonical = |(id, content): (_, hrx_ir::tile::Content)| match content {
        hrx_ir::tile::Content::Elem(e) if e.is_float() => {
            let quiet = |x: f64| if x.is_nan() { f64::NAN } else { x };
            memory.elems(id, e).into_iter().flat_map(|x| quiet(x).to_bits().to_le_bytes()).collect()
        }
        _ => memory.bytes(id).to_vec(),
    };
    outputs.into_iter().map(canonical).collect()
}

fn check(k: &Kernel) {
    verify(k).unwrap_or_else(|e| panic!("{e}\n{k}"));
}

/// A kernel that stores one part of each block of a matrix.
fn reads(format: &'static Format, part: BlockPart) -> Kernel {
    let mut b = Builder::new("part");
    let blocks = b.quant_param(format, &[3.into(), 4.into()]);
    let (zero, four, one) = (b.index(0), b.index(4), b.index(1));
    let ty = {
        let v = b.load_block(blocks, [zero, zero], part, 3);
        b.ty(v)
    };
    let n = ty.shape.last();
    let out = b.view_param(ty.elem, &[3.into(), (4 * n).into()], Access::Out);
    let width = b.index(i64::from(n));
    b.for_loop([zero, four, one], &[], |b, block, _| {
        let v = b.load_block(blocks, [zero, block], part, 3);
        let at = b.mul(block, width);
        b.store(out, &[zero, at], v, None);
        vec![]
    });
    b.finish()
}

/// Whether the kernel lists such an operation.
fn has(k: &Kernel, is: impl Fn(&Op) -> bool) -> bool {
    k.blocks.values().flat_map(|b| &b.insts).any(|&i| is(&k.insts[i].op))
}

/// Whether the host has to have it expanded.
fn is_read(op: &Op) -> bool {
    match op {
        Op::LoadBlock { part, .. } => !matches!(part, BlockPart::Raw(_)),
        Op::LoadRun { .. } => true,
        _ => false,
    }
}

fn is_math(op: &Op) -> bool {
    matches!(op, Op::Unary { op: UnaryOp::Exp | UnaryOp::Tanh, .. })
}

/// A kernel that stores one part of runs of a matrix with `blocks` blocks a row, from each place on where one may begin
/// and from some behind the row's end. Rows are read from the last one up.
fn runs(format: &'static Format, part: RunPart, chunks: u32, blocks: u32, constant: bool) -> Kernel {
    let mut b = Builder::new("run");
    let given = b.scalar_param(Elem::I32);
    let extent: Extent = if constant { blocks.into() } else { given.into() };
    let content = Content::Quant(format);
    let view = b.strided_param(content, &[3.into(), extent], &[extent, 1.into()], Access::In);
    let multiple = chunks.min(format.chunks());
    let starts = blocks * format.chunks() / multiple + 2;
    let (elem, each) = part.of_chunk(format);
    let out = b.view_param(elem, &[starts.into(), 3.into(), (each * chunks).into()], Access::Out);
    b.grid(0, GridExpr::constant(starts));
    let (pid, by, zero) = (b.program_id(0), b.index(i64::from(multiple)), b.index(0));
    let (places, two) = (b.iota(3), b.index(2));
    let rows = b.sub(two, places);
    let chunk = b.mul(pid, by);
    let v = b.load_run(view, [rows, chunk], part, 3, chunks);
    let v = b.reshape(v, &[1, 3, each * chunks]);
    b.store(out, &[pid, zero, zero], v, None);
    b.finish()
}

#[test]
fn expanding_runs_keeps_every_part_of_every_format() {
    for format in FORMATS {
        for &part in RunPart::ALL {
            for (shift, constant) in (0..7).flat_map(|n| [(n, false), (n, true)]) {
                // The arguments give a scalar and each extent the same number.
                let blocks = 3;
                let before = runs(format, part, 1 << shift, blocks, constant);
                check(&before);
                let mut after = before.clone();
                expand_blocks(&mut after);
                check(&after);
                assert!(!has(&after, is_read), "{} {part:?} is left", format.name);
                let what = format!("{} {part:?} of {} chunks", format.name, 1 << shift);
                for seed in [1, 123_456_789] {
                    assert_eq!(results(&before, blocks, seed), results(&after, blocks, seed), "{what}");
                }
                let lanes = lower_lanes(before);
                check(&lanes);
                assert!(has(&lanes, |op| matches!(op, Op::LoadRun { .. })), "{what}: lanes read runs");
            }
        }
    }
}

#[test]
fn a_run_far_behind_the_rows_end_is_zero_and_a_negative_one_stays_inside() {
    let format = Format::from_name("q8_0").expect("a format");
    for (chunks, first) in [(1, i32::MAX), (64, i32::MAX - 63), (4, -4), (64, i32::MIN)] {
        let mut b = Builder::new("far");
        let n = b.scalar_param(Elem::I32);
        let view = b.strided_param(Content::Quant(format), &[1.into(), n.into()], &[1.into(), 1.into()], Access::In);
        let out = b.view_param(Elem::F32, &[1.into(), chunks.into()], Access::Out);
        let (zero, first_chunk) = (b.index(0), b.index(first.into()));
        let v = b.load_run(view, [zero, first_chunk], RunPart::Scales, 1, chunks);
        b.store(out, &[zero, zero], v, None);
        let mut k = b.finish();
        expand_blocks(&mut k);
        check(&k);
        // The interpreter faults if it leaves the view.
        let found = results(&k, 3, 7);
        if first > 0 {
            assert!(found[0].iter().all(|&b| b == 0), "{chunks} chunks from {first} on");
        }
    }
}

#[test]
fn expanding_blocks_keeps_every_part_of_every_format() {
    for format in FORMATS {
        let chunks = 0..format.chunks();
        let parts = chunks.flat_map(|c| [BlockPart::Codes(c), BlockPart::Values(c)]);
        for part in parts.chain([BlockPart::Scales, BlockPart::Offsets]) {
            let before = reads(format, part);
            check(&before);
            let mut after = before.clone();
            expand_blocks(&mut after);
            check(&after);
            assert!(!has(&after, is_read), "{} {part:?} is left", format.name);
            for seed in [1, 77, 123_456_789, 3_000_000_001] {
                assert_eq!(results(&before, 3, seed), results(&after, 3, seed), "{} {part:?}", format.name);
            }
        }
    }
}

fn instructions(k: &Kernel) -> usize {
    k.blocks.values().map(|b| b.insts.len()).sum()
}

#[test]
fn unused_instructions_go_and_used_ones_stay() {
    let mut b = Builder::new("k");
    let out = b.view_param(hrx_ir::tile::Elem::I32, &[1.into()], Access::Out);
    let (zero, one) = (b.index(0), b.index(1));
    let used = b.add(one, one);
    let unused = b.mul(used, used);
    b.sub(unused, one);
    let tile = b.reshape(used, &[1]);
    b.store(out, &[zero], tile, None);
    let before = b.finish();
    let mut after = before.clone();
    remove_unused(&mut after);
    check(&after);
    assert_eq!(instructions(&before) - instructions(&after), 2);
    assert_eq!(results(&before, 1, 1), results(&after, 1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn passes_keep_the_results_of_random_kernels(
        words in prop::collection::vec(any::<u32>(), 0..120), rows in 1..10u32, seed: u32,
    ) {
        let before = random_kernel(&words, RandomOptions { approximate: false, ..RandomOptions::default() });
        let want = results(&before, rows, seed);
        let mut cleaned = before.clone();
        remove_unused(&mut cleaned);
        check(&cleaned);
        prop_assert!(instructions(&cleaned) <= instructions(&before));
        prop_assert_eq!(&results(&cleaned, rows, seed), &want);
        for after in [lower_host(before.clone()), lower_lanes(before)] {
            check(&after);
            prop_assert_eq!(&results(&after, rows, seed), &want);
        }
    }

    #[test]
    fn nothing_is_left_to_expand(words in prop::collection::vec(any::<u32>(), 0..120)) {
        let before = random_kernel(&words, RandomOptions::default());
        let mut after = before.clone();
        expand_math(&mut after);
        check(&after);
        prop_assert!(!has(&after, is_math));
        let (host, lanes) = (lower_host(before.clone()), lower_lanes(before));
        check(&host);
        check(&lanes);
        prop_assert!(!has(&host, |op| is_math(op) || is_read(op)));
        prop_assert!(!has(&lanes, is_math));
    }
}
