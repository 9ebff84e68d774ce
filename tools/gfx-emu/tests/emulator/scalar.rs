//! Scalar operations on special and random values, each against a formula of the ISA documents.

use super::support::{Bench, Shape, assemble};

/// Operands, the destination's old value, and the condition bit.
#[derive(Clone, Copy, Debug)]
struct In {
    a: u64,
    b: u64,
    d: u64,
    c: bool,
}

/// The result, and the condition bit where it is written.
type Out = (u64, Option<bool>);
type Model = fn(In) -> Out;

const LOW: u64 = 0xffff_ffff;

fn w(x: u64) -> u64 {
    x & LOW
}

fn i(x: u64) -> i64 {
    i64::from(x as u32 as i32)
}

/// The low words of a whole number, and a condition.
fn word(x: i64, scc: bool) -> Out {
    (x as u64 & LOW, Some(scc))
}

fn kept(x: u64) -> Out {
    (x, None)
}

/// A result whose condition is that it is not zero.
fn nonzero(x: u64) -> Out {
    (x, Some(x != 0))
}

fn condition(c: bool) -> Out {
    (0, Some(c))
}

/// Bits `at` and up of `size`, with as many as `bits`, by asking for each bit of the result.
fn field(a: u64, which: u64, size: u64, signed: bool) -> u64 {
    let (at, bits) = (which % size, which >> 16 & 0x7f);
    let bit = |n: u64| {
        if n < size {
            a >> n & 1
        } else if signed {
            a >> (size - 1) & 1
        } else {
            0
        }
    };
    let mut out = 0;
    for n in 0..size {
        let from = if n < bits { at + n } else { at + bits - 1 };
        let set = if n < bits || (signed && bits > 0) { bit(from) } else { 0 };
        out |= set << n;
    }
    out
}

/// The position of the first bit for which something holds, from one end; -1 if there is none.
fn first(size: u64, is: impl Fn(u64) -> bool) -> u64 {
    (0..size).find(|&n| is(n)).unwrap_or(LOW)
}

fn bit(x: u64, n: u64) -> bool {
    x >> n & 1 == 1
}

fn values(seed: u64) -> Vec<In> {
    const SPECIAL: [u64; 14] = [
        0,
        1,
        u64::MAX,
        0x8000_0000,
        0x7fff_ffff,
        0xffff_ffff,
        0x8000_0000_0000_0000,
        0x7fff_ffff_ffff_ffff,
        0x0000_8000_ffff_7fff,
        0x0010_0004_0010_0004,
        0x001f_001f_0020_0000,
        0x3f80_0000,
        0xff80_0000,
        0x0007_0003,
    ];
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 31
    };
    let mut value = || {
        let x = next();
        match x % 4 {
            0 => SPECIAL[(x >> 8) as usize % SPECIAL.len()],
            1 => (x >> 8) % 70,
            _ => next(),
        }
    };
    (0..160).map(|n| In { a: value(), b: value(), d: value(), c: n % 2 == 1 }).collect()
}

/// Runs instructions with operands in s[20:21] (A) and s[22:23] (B), the result in s[24:25] (D).
fn check(chip: &'static str, cases: &[(&str, Model)]) {
    let old = chip.starts_with("gfx9");
    let waits = match chip {
        c if c.starts_with("gfx12") => "s_wait_kmcnt 0",
        _ => "s_waitcnt lgkmcnt(0)",
    };
    let (load, store, add) = if old {
        (["s_load_dwordx4", "s_load_dwordx8"], "global_store_dwordx3", "v_add_u32")
    } else {
        (["s_load_b128", "s_load_b256"], "global_store_b96", "v_add_nc_u32")
    };
    let group = if chip.starts_with("gfx12") { "ttmp9" } else { "s2" };
    // Each workgroup has 32 bytes of operands, and 16 bytes of results for each case.
    let mut text = format!(
        "{} s[4:7], s[0:1], 0x0\n{waits}\ns_lshl_b32 s8, {group}, 5\ns_add_u32 s4, s4, s8\ns_addc_u32 s5, s5, 0\n{} s[12:19], s[4:5], 0x0\n{waits}\n\
         s_mul_i32 s9, {group}, {}\nv_mov_b32 v1, s9\n",
        load[0],
        load[1],
        16 * cases.len()
    );
    for (instruction, _) in cases {
        text += "s_mov_b64 s[20:21], s[12:13]\ns_mov_b64 s[22:23], s[14:15]\ns_mov_b64 s[24:25], s[16:17]\ns_cmp_lg_u32 s18, 0\n";
        let wide =
            |text: &str, name: &str, low: u32| text.replace(&format!("{name}64"), &format!("s[{low}:{}]", low + 1));
        let line = wide(&wide(&wide(instruction, "A", 20), "B", 22), "D", 24);
        text += &line.replace("A32", "s20").replace("B32", "s22").replace("D32", "s24").replace("; ", "\n");
        text += "\ns_cselect_b32 s26, 1, 0\nv_mov_b32 v2, s24\nv_mov_b32 v3, s25\nv_mov_b32 v4, s26\n";
        text += &format!("{store} v1, v[2:4], s[6:7]\n{add} v1, 16, v1\n");
    }
    let hsaco = assemble(Shape { kernarg: 16, ..Shape::of(chip) }, &text);
    let inputs = values(chip.len() as u64 + cases.len() as u64);
    let mut bench = Bench::new(chip);
    let words = inputs
        .iter()
        .flat_map(|x| [x.a, x.b, x.d, u64::from(x.c)].into_iter().flat_map(|v| [v as u32, (v >> 32) as u32]));
    bench.words(&words.collect::<Vec<_>>());
    let out = bench.words(&vec![0; 4 * cases.len() * inputs.len()]);
    let run = bench.launch(&hsaco, inputs.len() as u32, 1).expect("runs");
    assert!(run.reports.is_empty(), "{:#?}", run.reports);
    let got = bench.read(out, 4 * cases.len() * inputs.len());
    let mut failures = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        for (case, (name, model)) in cases.iter().enumerate() {
            let words = &got[4 * (at * cases.len() + case)..][..3];
            let (result, scc) = model(*input);
            let whole = u64::from(words[0]) | u64::from(words[1]) << 32;
            // A result of 32 bits leaves the other half; no result leaves both.
            let is_wide = name.contains("D64") || name.contains("s25");
            let want = if is_wide { result } else { result & LOW | input.d & !LOW };
            let want = if name.contains("D32") || is_wide { want } else { input.d };
            let scc = scc.unwrap_or(input.c);
            if (whole, words[2] != 0) != (want, scc) && failures.len() < 20 {
                failures
                    .push(format!("{chip}: {name}: {input:x?}: got {whole:x} {}, not {want:x} {scc}", words[2] != 0));
            }
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Arithmetic, by the names that gfx9 and gfx11 share.
const ARITHMETIC: &[(&str, Model)] = &[
    ("s_add_u32 D32, A32, B32", |x| word((w(x.a) + w(x.b)) as i64, w(x.a) + w(x.b) > LOW)),
    ("s_sub_u32 D32, A32, B32", |x| word(w(x.a) as i64 - w(x.b) as i64, w(x.b) > w(x.a))),
    ("s_add_i32 D32, A32, B32", |x| {
        let sum = i(x.a) + i(x.b);
        word(sum, i64::from(sum as i32) != sum)
    }),
    ("s_sub_i32 D32, A32, B32", |x| {
        let difference = i(x.a) - i(x.b);
        word(difference, i64::from(difference as i32) != difference)
    }),
    ("s_addc_u32 D32, A32, B32", |x| {
        let sum = w(x.a) + w(x.b) + u64::from(x.c);
        word(sum as i64, sum > LOW)
    }),
    ("s_subb_u32 D32, A32, B32", |x| {
        let rest = w(x.a) as i64 - w(x.b) as i64 - i64::from(x.c);
        word(rest, rest < 0)
    }),
    ("s_addk_i32 D32, 0x8123", |x| {
        let sum = i(x.d) - 0x7edd;
        word(sum, sum < -0x8000_0000)
    }),
    ("s_mulk_i32 D32, 0xfff3", |x| kept((i(x.d) * -13) as u64 & LOW)),
    ("s_mul_i32 D32, A32, B32", |x| kept((i(x.a) * i(x.b)) as u64 & LOW)),
    ("s_mul_hi_u32 D32, A32, B32", |x| kept(((u128::from(w(x.a)) * u128::from(w(x.b))) >> 32) as u64)),
    ("s_mul_hi_i32 D32, A32, B32", |x| kept((i(x.a) * i(x.b)).div_euclid(1 << 32) as u64 & LOW)),
    ("s_abs_i32 D32, A32", |x| nonzero(i(x.a).unsigned_abs())),
    ("s_absdiff_i32 D32, A32, B32", |x| {
        let difference = (x.a as u32).wrapping_sub(x.b as u32);
        nonzero(if difference >= 1 << 31 { u64::from(difference.wrapping_neg()) } else { difference.into() })
    }),
    ("s_min_i32 D32, A32, B32", |x| word(i(x.a).min(i(x.b)), i(x.a) < i(x.b))),
    ("s_max_i32 D32, A32, B32", |x| word(i(x.a).max(i(x.b)), i(x.a) >= i(x.b))),
    ("s_min_u32 D32, A32, B32", |x| (w(x.a).min(w(x.b)), Some(w(x.a) < w(x.b)))),
    ("s_max_u32 D32, A32, B32", |x| (w(x.a).max(w(x.b)), Some(w(x.a) >= w(x.b)))),
    ("s_lshl1_add_u32 D32, A32, B32", |x| word((2 * w(x.a) + w(x.b)) as i64, 2 * w(x.a) + w(x.b) > LOW)),
    ("s_lshl2_add_u32 D32, A32, B32", |x| word((4 * w(x.a) + w(x.b)) as i64, 4 * w(x.a) + w(x.b) > LOW)),
    ("s_lshl3_add_u32 D32, A32, B32", |x| word((8 * w(x.a) + w(x.b)) as i64, 8 * w(x.a) + w(x.b) > LOW)),
    ("s_lshl4_add_u32 D32, A32, B32", |x| word((16 * w(x.a) + w(x.b)) as i64, 16 * w(x.a) + w(x.b) > LOW)),
];

const BITS: &[(&str, Model)] = &[
    ("s_and_b32 D32, A32, B32", |x| nonzero(w(x.a & x.b))),
    ("s_and_b64 D64, A64, B64", |x| nonzero(x.a & x.b)),
    ("s_or_b32 D32, A32, B32", |x| nonzero(w(x.a | x.b))),
    ("s_xor_b64 D64, A64, B64", |x| nonzero((x.a | x.b) - (x.a & x.b))),
    ("s_nand_b32 D32, A32, B32", |x| nonzero(LOW - w(x.a & x.b))),
    ("s_nor_b64 D64, A64, B64", |x| nonzero(u64::MAX - (x.a | x.b))),
    ("s_xnor_b32 D32, A32, B32", |x| nonzero(LOW - w(x.a ^ x.b))),
    ("s_not_b32 D32, A32", |x| nonzero(LOW - w(x.a))),
    ("s_not_b64 D64, A64", |x| nonzero(u64::MAX - x.a)),
    ("s_lshl_b32 D32, A32, B32", |x| nonzero(w(w(x.a) << (x.b % 32)))),
    ("s_lshl_b64 D64, A64, B32", |x| nonzero((u128::from(x.a) << (x.b % 64)) as u64)),
    ("s_lshr_b32 D32, A32, B32", |x| nonzero(w(x.a) >> (x.b % 32))),
    ("s_lshr_b64 D64, A64, B32", |x| nonzero(x.a / (1 << (x.b % 64)))),
    ("s_ashr_i32 D32, A32, B32", |x| nonzero(w((i(x.a) >> (x.b % 32)) as u64))),
    ("s_ashr_i64 D64, A64, B32", |x| nonzero((i128::from(x.a as i64) >> (x.b % 64)) as u64)),
    ("s_bfe_u32 D32, A32, B32", |x| nonzero(field(w(x.a), x.b, 32, false))),
    ("s_bfe_i32 D32, A32, B32", |x| nonzero(field(w(x.a), x.b, 32, true))),
    ("s_bfe_u64 D64, A64, B32", |x| nonzero(field(x.a, w(x.b), 64, false))),
    ("s_bfe_i64 D64, A64, B32", |x| nonzero(field(x.a, w(x.b), 64, true))),
    ("s_bfm_b32 D32, A32, B32", |x| {
        let (bits, at) = (x.a % 32, x.b % 32);
        kept((0..32).filter(|n| (at..at + bits).contains(n)).fold(0, |m, n| m | 1 << n))
    }),
    ("s_bfm_b64 D64, A32, B32", |x| {
        let (bits, at) = (x.a % 64, x.b % 64);
        kept((0..64).filter(|n| (at..at + bits).contains(n)).fold(0, |m, n| m | 1 << n))
    }),
    ("s_brev_b32 D32, A32", |x| kept((0..32).fold(0, |m, n| m | u64::from(bit(x.a, n)) << (31 - n)))),
    ("s_brev_b64 D64, A64", |x| kept((0..64).fold(0, |m, n| m | u64::from(bit(x.a, n)) << (63 - n)))),
    ("s_bcnt0_i32_b32 D32, A32", |x| nonzero((0..32).filter(|&n| !bit(x.a, n)).count() as u64)),
    ("s_bcnt1_i32_b32 D32, A32", |x| nonzero((0..32).filter(|&n| bit(x.a, n)).count() as u64)),
    ("s_bcnt0_i32_b64 D32, A64", |x| nonzero((0..64).filter(|&n| !bit(x.a, n)).count() as u64)),
    ("s_bcnt1_i32_b64 D32, A64", |x| nonzero((0..64).filter(|&n| bit(x.a, n)).count() as u64)),
    ("s_bitset0_b32 D32, A32", |x| kept(w(x.d) & !(1 << (x.a % 32)))),
    ("s_bitset1_b32 D32, A32", |x| kept(w(x.d) | 1 << (x.a % 32))),
    ("s_bitset0_b64 D64, A32", |x| kept(x.d & !(1 << (x.a % 64)))),
    ("s_bitset1_b64 D64, A32", |x| kept(x.d | 1 << (x.a % 64))),
    ("s_bitreplicate_b64_b32 D64, A32", |x| kept((0..64).fold(0, |m, n| m | u64::from(bit(x.a, n / 2)) << n))),
    ("s_quadmask_b32 D32, A32", |x| {
        nonzero((0..8).fold(0, |m, q| m | u64::from((0..4).any(|n| bit(x.a, 4 * q + n))) << q))
    }),
    ("s_quadmask_b64 D64, A64", |x| {
        nonzero((0..16).fold(0, |m, q| m | u64::from((0..4).any(|n| bit(x.a, 4 * q + n))) << q))
    }),
    ("s_wqm_b32 D32, A32", |x| {
        nonzero((0..32).fold(0, |m, n| m | u64::from((0..4).any(|k| bit(x.a, n / 4 * 4 + k))) << n))
    }),
    ("s_wqm_b64 D64, A64", |x| {
        nonzero((0..64).fold(0, |m, n| m | u64::from((0..4).any(|k| bit(x.a, n / 4 * 4 + k))) << n))
    }),
    ("s_sext_i32_i8 D32, A32", |x| kept(w(((x.a % 256) as i64 - if bit(x.a, 7) { 256 } else { 0 }) as u64))),
    ("s_sext_i32_i16 D32, A32", |x| kept(w(((x.a % 65536) as i64 - if bit(x.a, 15) { 65536 } else { 0 }) as u64))),
    ("s_pack_ll_b32_b16 D32, A32, B32", |x| kept(x.a % 65536 + (x.b % 65536) * 65536)),
    ("s_pack_lh_b32_b16 D32, A32, B32", |x| kept(x.a % 65536 + (w(x.b) / 65536) * 65536)),
    ("s_pack_hh_b32_b16 D32, A32, B32", |x| kept(w(x.a) / 65536 + (w(x.b) / 65536) * 65536)),
    ("s_mov_b32 D32, A32", |x| kept(w(x.a))),
    ("s_mov_b64 D64, A64", |x| kept(x.a)),
    ("s_movk_i32 D32, 0x8001", |_| kept(0xffff_8001)),
    ("s_cmov_b32 D32, A32", |x| kept(if x.c { w(x.a) } else { w(x.d) })),
    ("s_cmov_b64 D64, A64", |x| kept(if x.c { x.a } else { x.d })),
    ("s_cmovk_i32 D32, 0x7001", |x| kept(if x.c { 0x7001 } else { w(x.d) })),
    ("s_cselect_b32 D32, A32, B32", |x| kept(w(if x.c { x.a } else { x.b }))),
    ("s_cselect_b64 D64, A64, B64", |x| kept(if x.c { x.a } else { x.b })),
];

const COMPARISONS: &[(&str, Model)] = &[
    ("s_cmp_eq_i32 A32, B32", |x| condition(w(x.a) == w(x.b))),
    ("s_cmp_lg_i32 A32, B32", |x| condition(w(x.a) != w(x.b))),
    ("s_cmp_gt_i32 A32, B32", |x| condition(i(x.a) > i(x.b))),
    ("s_cmp_ge_i32 A32, B32", |x| condition(i(x.a) >= i(x.b))),
    ("s_cmp_lt_i32 A32, B32", |x| condition(i(x.a) < i(x.b))),
    ("s_cmp_le_i32 A32, B32", |x| condition(i(x.a) <= i(x.b))),
    ("s_cmp_eq_u32 A32, A32", |_| condition(true)),
    ("s_cmp_lg_u32 A32, B32", |x| condition(w(x.a) != w(x.b))),
    ("s_cmp_gt_u32 A32, B32", |x| condition(w(x.a) > w(x.b))),
    ("s_cmp_ge_u32 A32, B32", |x| condition(w(x.a) >= w(x.b))),
    ("s_cmp_lt_u32 A32, B32", |x| condition(w(x.a) < w(x.b))),
    ("s_cmp_le_u32 A32, B32", |x| condition(w(x.a) <= w(x.b))),
    ("s_cmp_eq_u64 A64, B64", |x| condition(x.a == x.b)),
    ("s_cmp_lg_u64 A64, B64", |x| condition(x.a != x.b)),
    ("s_bitcmp0_b32 A32, B32", |x| condition(!bit(x.a, x.b % 32))),
    ("s_bitcmp1_b32 A32, B32", |x| condition(bit(x.a, x.b % 32))),
    ("s_bitcmp0_b64 A64, B32", |x| condition(!bit(x.a, x.b % 64))),
    ("s_bitcmp1_b64 A64, B32", |x| condition(bit(x.a, x.b % 64))),
    ("s_cmp_gt_i32 A32, -7", |x| condition(i(x.a) > -7)),
    ("s_cmp_lt_u32 A32, -7", |x| condition(w(x.a) < 0xffff_fff9)),
];

/// Comparisons with 16 bits of the instruction, which gfx12 has no more.
const SHORT_COMPARISONS: &[(&str, Model)] = &[
    ("s_cmpk_eq_i32 A32, 0x7", |x| condition(w(x.a) == 7)),
    ("s_cmpk_lg_i32 A32, 0xffff", |x| condition(w(x.a) != LOW)),
    ("s_cmpk_gt_i32 A32, 0x8000", |x| condition(i(x.a) > -0x8000)),
    ("s_cmpk_ge_i32 A32, 0x7", |x| condition(i(x.a) >= 7)),
    ("s_cmpk_lt_i32 A32, 0xfffe", |x| condition(i(x.a) < -2)),
    ("s_cmpk_le_i32 A32, 0x7fff", |x| condition(i(x.a) <= 0x7fff)),
    ("s_cmpk_eq_u32 A32, 0xffff", |x| condition(w(x.a) == 0xffff)),
    ("s_cmpk_lg_u32 A32, 0x7", |x| condition(w(x.a) != 7)),
    ("s_cmpk_gt_u32 A32, 0xffff", |x| condition(w(x.a) > 0xffff)),
    ("s_cmpk_ge_u32 A32, 0x8000", |x| condition(w(x.a) >= 0x8000)),
    ("s_cmpk_lt_u32 A32, 0x8000", |x| condition(w(x.a) < 0x8000)),
    ("s_cmpk_le_u32 A32, 0x7", |x| condition(w(x.a) <= 7)),
];

/// A new EXEC of 32 lanes and its old value, in one result: what was in the low half, what is in the high half.
fn exec32(before: u64, after: u64) -> Out {
    (w(before) | w(after) << 32, Some(w(after) != 0))
}

const EXEC_11: &[(&str, Model)] = &[
    ("s_mov_b32 exec_lo, B32; s_and_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, x.a & x.b)
    }),
    ("s_mov_b32 exec_lo, B32; s_or_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, x.a | x.b)
    }),
    ("s_mov_b32 exec_lo, B32; s_xor_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, x.a ^ x.b)
    }),
    ("s_mov_b32 exec_lo, B32; s_nand_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, !(x.a & x.b))
    }),
    ("s_mov_b32 exec_lo, B32; s_nor_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, !(x.a | x.b))
    }),
    ("s_mov_b32 exec_lo, B32; s_xnor_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, !(x.a ^ x.b))
    }),
    ("s_mov_b32 exec_lo, B32; s_and_not0_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, !x.a & x.b)
    }),
    ("s_mov_b32 exec_lo, B32; s_or_not0_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, !x.a | x.b)
    }),
    ("s_mov_b32 exec_lo, B32; s_and_not1_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, x.a & !x.b)
    }),
    ("s_mov_b32 exec_lo, B32; s_or_not1_saveexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.b, x.a | !x.b)
    }),
    ("s_mov_b32 exec_lo, B32; s_and_not0_wrexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(!x.a & x.b, !x.a & x.b)
    }),
    ("s_mov_b32 exec_lo, B32; s_and_not1_wrexec_b32 D32, A32; s_mov_b32 s25, exec_lo; s_mov_b32 exec_lo, 1", |x| {
        exec32(x.a & !x.b, x.a & !x.b)
    }),
    ("s_and_not1_b32 D32, A32, B32", |x| nonzero(w(x.a & !x.b))),
    ("s_or_not1_b64 D64, A64, B64", |x| nonzero(x.a | !x.b)),
    ("s_ctz_i32_b32 D32, A32", |x| kept(first(32, |n| bit(x.a, n)))),
    ("s_ctz_i32_b64 D32, A64", |x| kept(first(64, |n| bit(x.a, n)))),
    ("s_clz_i32_u32 D32, A32", |x| kept(first(32, |n| bit(x.a, 31 - n)))),
    ("s_clz_i32_u64 D32, A64", |x| kept(first(64, |n| bit(x.a, 63 - n)))),
    ("s_cls_i32 D32, A32", |x| kept(first(32, |n| bit(x.a, 31 - n) != bit(x.a, 31)))),
    ("s_cls_i32_i64 D32, A64", |x| kept(first(64, |n| bit(x.a, 63 - n) != bit(x.a, 63)))),
    ("s_pack_hl_b32_b16 D32, A32, B32", |x| kept(w(x.a) / 65536 + (x.b % 65536) * 65536)),
];

const EXEC_9: &[(&str, Model)] = &[
    // Of 64 lanes: what EXEC was, and then what it is, each with the condition.
    ("s_mov_b64 exec, B64; s_and_saveexec_b64 D64, A64; s_mov_b64 exec, 1", |x| (x.b, Some(x.a & x.b != 0))),
    ("s_mov_b64 exec, B64; s_and_saveexec_b64 s[30:31], A64; s_mov_b64 D64, exec; s_mov_b64 exec, 1", |x| {
        nonzero(x.a & x.b)
    }),
    ("s_mov_b64 exec, B64; s_andn2_saveexec_b64 s[30:31], A64; s_mov_b64 D64, exec; s_mov_b64 exec, 1", |x| {
        nonzero(x.a & !x.b)
    }),
    ("s_mov_b64 exec, B64; s_orn2_saveexec_b64 s[30:31], A64; s_mov_b64 D64, exec; s_mov_b64 exec, 1", |x| {
        nonzero(x.a | !x.b)
    }),
    ("s_mov_b64 exec, B64; s_andn1_saveexec_b64 s[30:31], A64; s_mov_b64 D64, exec; s_mov_b64 exec, 1", |x| {
        nonzero(!x.a & x.b)
    }),
    ("s_mov_b64 exec, B64; s_andn1_wrexec_b64 D64, A64; s_mov_b64 exec, 1", |x| nonzero(!x.a & x.b)),
    ("s_mov_b64 exec, B64; s_andn2_wrexec_b64 D64, A64; s_mov_b64 exec, 1", |x| nonzero(x.a & !x.b)),
    ("s_andn2_b64 D64, A64, B64", |x| nonzero(x.a & !x.b)),
    ("s_orn2_b32 D32, A32, B32", |x| nonzero(w(x.a | !x.b))),
    ("s_ff0_i32_b32 D32, A32", |x| kept(first(32, |n| !bit(x.a, n)))),
    ("s_ff0_i32_b64 D32, A64", |x| kept(first(64, |n| !bit(x.a, n)))),
    ("s_ff1_i32_b32 D32, A32", |x| kept(first(32, |n| bit(x.a, n)))),
    ("s_ff1_i32_b64 D32, A64", |x| kept(first(64, |n| bit(x.a, n)))),
    ("s_flbit_i32_b32 D32, A32", |x| kept(first(32, |n| bit(x.a, 31 - n)))),
    ("s_flbit_i32_b64 D32, A64", |x| kept(first(64, |n| bit(x.a, 63 - n)))),
    ("s_flbit_i32 D32, A32", |x| kept(first(32, |n| bit(x.a, 31 - n) != bit(x.a, 31)))),
    ("s_flbit_i32_i64 D32, A64", |x| kept(first(64, |n| bit(x.a, 63 - n) != bit(x.a, 63)))),
];

#[test]
fn scalars_of_gfx11() {
    check("gfx1100", &[ARITHMETIC, BITS, COMPARISONS, SHORT_COMPARISONS, EXEC_11].concat());
}

#[test]
fn scalars_of_gfx9() {
    check("gfx942", &[ARITHMETIC, BITS, COMPARISONS, SHORT_COMPARISONS, EXEC_9].concat());
}

#[test]
fn scalars_of_gfx12() {
    let own: &[(&str, Model)] = &[
        ("s_add_nc_u64 D64, A64, B64", |x| kept((u128::from(x.a) + u128::from(x.b)) as u64)),
        ("s_sub_nc_u64 D64, A64, B64", |x| kept((i128::from(x.a) - i128::from(x.b)) as u64)),
        ("s_mul_u64 D64, A64, B64", |x| kept((u128::from(x.a) * u128::from(x.b)) as u64)),
    ];
    let renamed: Vec<(String, Model)> =
        ARITHMETIC.iter().map(|(name, model)| (name.replace("s_addk_i32", "s_addk_co_i32"), *model)).collect();
    let renamed: Vec<(&str, Model)> = renamed.iter().map(|(name, model)| (name.as_str(), *model)).collect();
    check("gfx1201", &[&renamed[..], BITS, COMPARISONS, EXEC_11, own].concat());
}

fn f(x: u64) -> f32 {
    f32::from_bits(x as u32)
}

/// Results in binary64 first where that is exact enough to round once more; NaNs are made zero by a choice.
#[test]
fn scalar_fractions_of_gfx11_5() {
    let cases: &[(&str, Model)] = &[
        ("s_add_f32 D32, A32, B32; s_cmp_u_f32 D32, D32; s_cselect_b32 D32, 0, D32; s_cmp_lg_u32 s18, 0", |x| {
            number((f64::from(f(x.a)) + f64::from(f(x.b))) as f32)
        }),
        ("s_sub_f32 D32, A32, B32; s_cmp_u_f32 D32, D32; s_cselect_b32 D32, 0, D32; s_cmp_lg_u32 s18, 0", |x| {
            number((f64::from(f(x.a)) - f64::from(f(x.b))) as f32)
        }),
        ("s_mul_f32 D32, A32, B32; s_cmp_u_f32 D32, D32; s_cselect_b32 D32, 0, D32; s_cmp_lg_u32 s18, 0", |x| {
            number((f64::from(f(x.a)) * f64::from(f(x.b))) as f32)
        }),
        ("s_cvt_f32_i32 D32, A32", |x| kept((i(x.a) as f32).to_bits().into())),
        ("s_cvt_f32_u32 D32, A32", |x| kept((w(x.a) as f32).to_bits().into())),
        ("s_cvt_i32_f32 D32, A32", |x| {
            let n = f64::from(f(x.a)).trunc();
            kept(if n.is_nan() { 0 } else { n.clamp(-2_147_483_648.0, 2_147_483_647.0) as i64 as u64 & LOW })
        }),
        ("s_cmp_lt_f32 A32, B32", |x| condition(f(x.a).partial_cmp(&f(x.b)) == Some(std::cmp::Ordering::Less))),
        ("s_cmp_nlt_f32 A32, B32", |x| condition(f(x.a).partial_cmp(&f(x.b)) != Some(std::cmp::Ordering::Less))),
        ("s_cmp_lg_f32 A32, B32", |x| condition(f(x.a).partial_cmp(&f(x.b)).is_some_and(|o| o.is_ne()))),
        ("s_cmp_u_f32 A32, B32", |x| condition(f(x.a).partial_cmp(&f(x.b)).is_none())),
        ("s_floor_f32 D32, A32; s_cmp_u_f32 D32, D32; s_cselect_b32 D32, 0, D32; s_cmp_lg_u32 s18, 0", |x| {
            number(f64::from(f(x.a)).floor() as f32)
        }),
        ("s_rndne_f32 D32, A32; s_cmp_u_f32 D32, D32; s_cselect_b32 D32, 0, D32; s_cmp_lg_u32 s18, 0", |x| {
            number(f64::from(f(x.a)).round_ties_even() as f32)
        }),
    ];
    check("gfx1151", cases);
}

/// A number's bits, or zero.
fn number(x: f32) -> Out {
    kept(if x.is_nan() { 0 } else { x.to_bits().into() })
}
