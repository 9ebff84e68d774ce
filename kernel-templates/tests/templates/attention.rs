use crate::support::*;
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{
    Attention, AttentionCut, AttentionJoin, AttentionSizes, AttentionTiling, Output, Real, Slot, TargetShape, Template,
    TileAttention, WaveAttention,
};
use proptest::prelude::*;

const TILING: AttentionTiling =
    AttentionTiling { group: 2, tokens: 1, tile: 8, keys: 4, depth: 16, panels: false, parted: false };
const PANELS: AttentionTiling = AttentionTiling { panels: true, ..TILING };

pub const BASE: Attention = Attention {
    heads: 4,
    kv_heads: 2,
    head_dim: 16,
    value_dim: 16,
    shared: false,
    sinks: false,
    sequences: false,
    own: None,
    cache: Elem::F16,
    window: None,
    scale: Real(0.25),
    softcap: None,
    output: Output::F32,
    tiling: AttentionCut::Vectors(TILING),
};

pub const N_CTX: usize = 128;

/// Elements from one panel of a cache to the next, if each head's are so many: more than there are, as other layers' are
/// there too.
fn panel_stride(heads: usize, d: usize) -> usize {
    64 * heads * d + 32
}

/// A cache of rows `[heads, n_ctx, d]` in panels: of 64 positions, in which rows of keys are 64 positions, and rows of
/// values a block of elements.
fn in_panels(cache: &[f64], [heads, d]: [usize; 2], stride: usize, keys: bool) -> Vec<f64> {
    let n_ctx = cache.len() / heads / d;
    let block = [64, 32, 16, 8].into_iter().find(|b| d % b == 0).expect("heads are multiples of 8");
    let mut out = vec![77.0; n_ctx / 64 * stride];
    for (i, &v) in cache.iter().enumerate() {
        let (head, position, element) = (i / d / n_ctx, i / d % n_ctx, i % d);
        let (panel, place) = (position / 64, position % 64);
        let within = match keys {
            true => element * 64 + place,
            false => (element / block * 64 + place) * block + element % block,
        };
        out[panel * stride + head * 64 * d + within] = v;
    }
    out
}

/// The arguments with caches as the cut has them.
fn as_stored(a: &Attention, mut args: Vec<(Slot, Data)>) -> Vec<(Slot, Data)> {
    if !matches!(&a.tiling, AttentionCut::Vectors(t) if t.panels) {
        return args;
    }
    let heads = a.kv_heads as usize;
    let dims = [a.head_dim as usize, a.value_dim as usize];
    let stride = panel_stride(heads, dims[0].max(dims[1]));
    for (slot, data) in &mut args {
        let keys = *slot == Slot::KeyCache;
        if let (Slot::KeyCache | Slot::ValueCache, Data::Elems(_, v)) = (*slot, data) {
            *v = in_panels(v, [heads, if keys { dims[0] } else { dims[1] }], stride, keys);
        }
    }
    args.push((Slot::PanelStride, Data::Scalar(stride as i32)));
    args
}

/// Inputs for tokens at these positions, over caches filled up to the last of them and zero behind.
pub fn case(a: &Attention, positions: &[i32], seed: u64) -> (Vec<(Slot, Data)>, Vec<f64>) {
    let mut r = Random::new(seed);
    let (t, h, hk, d) = (positions.len(), a.heads as usize, a.kv_heads as usize, a.head_dim as usize);
    let dv = a.value_dim as usize;
    let q: Vec<f64> = r.f32s(t * h * d).iter().map(|v| rounded(Elem::F32, 3.0 * v)).collect();
    let end = *positions.iter().max().expect("some tokens") as usize + 1;
    let n_ctx = N_CTX.max(end.next_multiple_of(64));
    let mut cache = |d: usize| {
        let mut c = r.values(a.cache, hk * n_ctx * d);
        c.chunks_mut(n_ctx * d).for_each(|head| head[end * d..].fill(0.0));
        c
    };
    let (keys, values) = (cache(d), cache(dv));
    let sinks = r.f32s(h);
    let mut want = Vec::new();
    for (t, &p) in positions.iter().enumerate() {
        for head in 0..h {
            let q = &q[(t * h + head) * d..][..d];
            let kv = head / (h / hk) * n_ctx;
            let first = a.window.map_or(0, |w| (p + 1 - w as i32).max(0)) as usize;
            let line = |c: &[f64], j: usize, d: usize| c[(kv + j) * d..][..d].to_vec();
            let scores: Vec<f64> = (first..=p as usize)
                .map(|j| {
                    let s = f64::from(a.scale.0) * line(&keys, j, d).iter().zip(q).map(|(k, q)| k * q).sum::<f64>();
                    a.softcap.map_or(s, |c| f64::from(c.0) * (s / f64::from(c.0)).tanh())
                })
                .collect();
            let sink = a.sinks.then_some(sinks[head]);
            let largest = scores.iter().copied().chain(sink).fold(f64::MIN, f64::max);
            let weights: Vec<f64> = scores.iter().map(|s| (s - largest).exp()).collect();
            let total: f64 = weights.iter().sum::<f64>() + sink.map_or(0.0, |s| (s - largest).exp());
            let mut out = vec![0.0; dv];
            for (j, w) in (first..).zip(&weights) {
                let value = if a.shared { line(&keys, j, d)[..dv].to_vec() } else { line(&values, j, dv) };
                out.iter_mut().zip(value).for_each(|(o, v)| *o += w / total * v);
            }
            want.extend(out);
        }
    }
    let mut args = vec![
        (Slot::NTokens, Data::Scalar(t as i32)),
        (Slot::NCtx, Data::Scalar(n_ctx as i32)),
        (Slot::HeadStride, Data::Scalar((n_ctx * d) as i32)),
        (Slot::ValueStride, Data::Scalar((n_ctx * dv) as i32)),
        (Slot::Sinks, f32s(&sinks)),
        (Slot::Positions, i32s(positions)),
        (Slot::X, f32s(&q)),
        (Slot::KeyCache, Data::Elems(a.cache, keys)),
        (Slot::ValueCache, Data::Elems(a.cache, values)),
    ];
    args.extend(written(a.output, t * h * dv));
    (args, want)
}

fn sizes(a: &Attention) -> AttentionSizes {
    let &Attention { heads, kv_heads, head_dim, value_dim, shared, cache, .. } = a;
    AttentionSizes { heads, kv_heads, head_dim, value_dim, shared, cache }
}

/// Launches attention, and what joins its parts where it has them.
pub fn attend(a: &Attention, args: &[(Slot, Data)], options: &Options) -> Done {
    let parts = a.tiling.parts();
    let args = as_stored(a, args.to_vec());
    if parts == 1 {
        return launch(a, &args, options);
    }
    let Some((_, Data::Elems(_, q))) = args.iter().find(|(s, _)| *s == Slot::X) else { panic!("no queries") };
    let rows = q.len() / a.head_dim as usize * parts as usize;
    let part = Attention { sinks: false, output: Output::F32, ..a.clone() };
    let mut args = args;
    // Of a part of which nothing is seen a cut for vectors writes its total alone.
    let room = |n| match a.tiling {
        AttentionCut::Vectors(_) => Data::Elems(Elem::F32, vec![f64::NAN; n]),
        _ => Data::Room(Elem::F32, n),
    };
    args.push((Slot::PartSums, room(rows * a.value_dim as usize)));
    args.push((Slot::PartTotals, room(rows * 2)));
    let done = launch(&part, &args, options);
    let join = AttentionJoin::of(&part, &waves_shape(32), a.sinks, a.output);
    let written = [Slot::PartSums, Slot::PartTotals];
    args.iter_mut().filter(|(s, _)| written.contains(s)).for_each(|(s, data)| *data = done.data(*s));
    launch(&join, &args, options)
}

fn check_attention(a: &Attention, positions: &[i32], seed: u64) {
    let (args, want) = case(a, positions, seed);
    for (options, tolerance) in [(Options::default(), 1e-6), (Options::exact(), 1e-5)] {
        let done = attend(a, &args, &options);
        check_written(&a.name(), &done, a.output, &want, tolerance);
    }
}

/// Cuts for vectors with keys in rows and in panels, and with parts as programs.
fn of_vectors(t: AttentionTiling) -> [AttentionTiling; 4] {
    let [rows, panels] = [false, true].map(|panels| AttentionTiling { panels, ..t });
    let parted = |t| AttentionTiling { parted: true, tokens: 1, ..t };
    [rows, panels, parted(rows), parted(panels)]
}

#[test]
fn one_token_sees_all_up_to_its_position() {
    for (number, tiling) in of_vectors(TILING).into_iter().enumerate() {
        let some: &[i32] = if number == 0 { &[0, 6, 7, 8, 15, 16, 100, 127] } else { &[0, 8, 100] };
        for &position in some {
            check_attention(&Attention { tiling: tiling.into(), ..BASE }, &[position], 1);
        }
    }
}

#[test]
fn prefill_is_causal_in_any_order() {
    for t in [TILING, PANELS] {
        let tiling = AttentionTiling { tokens: 4, ..t };
        check_attention(&Attention { tiling: tiling.into(), ..BASE }, &[0, 1, 2, 3, 4], 2);
        check_attention(&Attention { tiling: tiling.into(), ..BASE }, &[70, 3, 41, 40, 127, 0], 3);
        check_attention(
            &Attention { tiling: AttentionTiling { tile: 64, keys: 32, ..tiling }.into(), ..BASE },
            &[70, 3],
            3,
        );
    }
}

#[test]
fn windows_end_at_any_place_of_a_tile() {
    for (number, t) in of_vectors(TILING).into_iter().enumerate() {
        // The first is looked at closely; what the others have in common with it need not be again.
        let (windows, positions): (&[u32], &[i32]) = match number {
            0 => (&[1, 7, 8, 9, 20], &[0, 7, 8, 19, 20, 27, 28, 127]),
            _ => (&[9], &[0, 20, 127]),
        };
        for &window in windows {
            let a = Attention { window: Some(window), tiling: t.into(), ..BASE };
            for &position in positions {
                check_attention(&a, &[position], 4);
            }
            let tiling = AttentionTiling { tokens: if t.parted { 1 } else { 3 }, ..t };
            check_attention(&Attention { tiling: tiling.into(), ..a }, &[0, 127, 60, 8], 5);
        }
    }
}

/// Parts end at 512, 1024, … 4096, 5120: those of a token, all by one program or each by its own, come to the same bits,
/// also where a window begins behind some of them, and are right.
#[test]
fn parts_of_vectors_come_to_the_same_bits() {
    let small = Attention { heads: 2, kv_heads: 1, head_dim: 8, value_dim: 8, ..BASE };
    let tiling = AttentionTiling { tile: 64, keys: 32, depth: 8, ..TILING };
    let kinds = [
        (small.clone(), vec![511, 512, 1030], [false, true]),
        (Attention { window: Some(600), sinks: true, ..small.clone() }, vec![1300], [true; 2]),
        (Attention { value_dim: 40, head_dim: 24, ..small.clone() }, vec![700], [true; 2]),
        (Attention { heads: 1, ..small.clone() }, vec![5200], [true; 2]),
    ];
    for (a, positions, panels) in kinds {
        for panels in panels.into_iter().collect::<std::collections::BTreeSet<_>>() {
            let t = AttentionTiling { panels, group: a.heads, ..tiling };
            let of = |t: AttentionTiling| Attention { tiling: t.into(), ..a.clone() };
            let (args, want) = case(&of(t), &positions, 71);
            let run = |t| attend(&of(t), &args, &Options::exact()).elems(Slot::Out);
            let one = run(AttentionTiling { tokens: 2, ..t });
            check(&of(t).name(), &one, &want, 1e-5);
            assert_eq!(one, run(AttentionTiling { parted: true, group: 1, keys: 8, ..t }), "{}", of(t).name());
        }
    }
}

#[test]
fn heads_groups_caches_and_caps_of_all_kinds() {
    let shape = TargetShape::vectors(8, 16);
    let tiled =
        |a: Attention, tokens| Attention { tiling: AttentionTiling::choose(&shape, &sizes(&a), tokens).into(), ..a };
    let wide = Attention { heads: 4, kv_heads: 1, head_dim: 256, value_dim: 256, cache: Elem::F32, ..BASE };
    check_attention(&tiled(wide, 1), &[50], 6);
    let single = Attention { heads: 3, kv_heads: 3, head_dim: 24, value_dim: 24, cache: Elem::BF16, ..BASE };
    check_attention(&tiled(single, 8), &[30, 31, 32], 7);
    let many = Attention { heads: 32, kv_heads: 2, head_dim: 8, value_dim: 8, softcap: Some(Real(2.0)), ..BASE };
    check_attention(&tiled(many, 1), &[37], 8);
    let gemma = Attention {
        heads: 6,
        kv_heads: 2,
        head_dim: 64,
        value_dim: 64,
        softcap: Some(Real(50.0)),
        window: Some(17),
        ..BASE
    };
    check_attention(&tiled(Attention { output: Output::Q8, ..gemma.clone() }, 1), &[33], 9);
    check_attention(&tiled(Attention { output: Output::Q15, ..gemma.clone() }, 1), &[33], 10);
    check_attention(&tiled(gemma, 4), &[33, 34, 35], 10);
}

#[test]
fn large_scores_neither_overflow_nor_vanish() {
    check_attention(&Attention { scale: Real(300.0), ..BASE }, &[90], 11);
}

#[test]
fn tilings_are_chosen_within_the_registers() {
    for (lanes, registers) in [(4, 16), (8, 16), (16, 32), (1, 2)] {
        for (group, head_dim, tokens) in
            [(1, 64, 1), (3, 64, 512), (4, 256, 64), (7, 128, 2), (16, 80, 8), (12, 8, 1), (16, 1024, 64)]
        {
            for shared in [false, true] {
                let shape = TargetShape::vectors(lanes, registers);
                let a = Attention { heads: group, kv_heads: 1, head_dim, value_dim: head_dim, shared, ..BASE };
                let tiling = AttentionTiling::choose(&shape, &sizes(&a), tokens);
                let a = Attention { tiling: tiling.into(), ..a };
                let kernel = a.kernel().expect("a chosen tiling is supported");
                hrx_ir::tile::verify(&kernel).expect("it has room");
                let lines = tiling.group * tiling.tokens;
                assert!(tiling.depth == 8 || lines * tiling.depth <= registers * lanes, "{tiling:?} for {shape:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn tilings_and_batches_change_no_bit(
        positions in prop::collection::vec(0i32..128, 1..6), window in prop::option::of(1u32..40),
        group_log in 0u32..2, tokens in 1u32..5, keys_log in 0u32..4, depth_log in 3u32..5, seed in 0u64..1000,
        panels: bool, parted: bool,
    ) {
        let base = AttentionTiling { panels, ..TILING };
        let one = Attention { window, tiling: AttentionTiling { group: 1, keys: 1, depth: 8, ..base }.into(), ..BASE };
        let tokens = if parted { 1 } else { tokens };
        let tiling =
            AttentionTiling { group: 1 << group_log, tokens, keys: 1 << keys_log, depth: 1 << depth_log, parted, ..base };
        let (args, _) = case(&one, &positions, seed);
        let run = |a: &Attention| attend(a, &args, &Options::exact()).elems(Slot::Out);
        prop_assert_eq!(run(&one), run(&Attention { tiling: tiling.into(), ..one.clone() }));
    }
}

#[test]
fn waves_attend_as_vectors_do() {
    let cut = |group, positions, waves| AttentionCut::from(WaveAttention { group, positions, waves, parts: 1 });
    let a = Attention { tiling: cut(2, 16, 2), ..BASE };
    check_attention(&a, &[0, 5, 15, 16, 127], 20);
    let window = Attention { window: Some(17), softcap: Some(Real(50.0)), tiling: cut(1, 8, 1), ..BASE };
    check_attention(&window, &[3, 40, 127], 21);
    let wide = Attention { heads: 6, kv_heads: 2, head_dim: 64, value_dim: 64, tiling: cut(3, 32, 4), ..BASE };
    check_attention(&wide, &[77], 22);
    check_attention(&Attention { output: Output::Q8, ..wide.clone() }, &[33], 23);
    let odd = Attention {
        heads: 3,
        kv_heads: 3,
        head_dim: 24,
        value_dim: 24,
        cache: Elem::BF16,
        tiling: cut(1, 16, 1),
        ..BASE
    };
    check_attention(&odd, &[70, 8], 24);
}

/// Positions cut into parts: fewer steps than parts, as many, and a rest; with a window that begins inside a step.
#[test]
fn parts_of_positions_are_brought_together() {
    for (parts, positions, waves) in [(2, 8, 1), (4, 16, 2), (16, 8, 1)] {
        let tiling = WaveAttention { group: 2, positions, waves, parts }.into();
        let a = Attention { head_dim: 32, value_dim: 32, tiling, ..BASE };
        check_attention(&a, &[0, 7, 8, 63, 64, 127], 30);
        check_attention(&Attention { window: Some(19), softcap: Some(Real(50.0)), ..a.clone() }, &[3, 21, 127], 31);
        check_attention(&Attention { sinks: true, ..a.clone() }, &[0, 90], 32);
        check_attention(&Attention { sinks: true, scale: Real(60.0), ..a.clone() }, &[17], 33);
        check_attention(&Attention { output: Output::Q8, ..a.clone() }, &[77], 34);
        check_attention(&Attention { value_dim: 8, shared: true, ..a.clone() }, &[40], 35);
    }
}

#[test]
fn chosen_cuts_of_waves_are_supported() {
    for (lanes, group, head_dim) in [(32, 1, 64), (32, 3, 64), (32, 8, 128), (64, 4, 256), (64, 16, 128), (32, 7, 80)] {
        let shape = waves_shape(lanes);
        for (kv_heads, tokens) in [(1, 1), (8, 1), (8, 64)] {
            let heads = group * kv_heads;
            let value_dim = head_dim;
            let sizes = AttentionSizes { heads, kv_heads, head_dim, value_dim, shared: false, cache: Elem::F16 };
            let tiling = AttentionCut::choose(&shape, &sizes, tokens);
            let a = Attention { heads, kv_heads, head_dim, value_dim, tiling, ..BASE };
            a.kernel().expect("a chosen cut is supported");
            if let AttentionCut::Tile(t) = tiling {
                assert!(tokens > 1 && t.group * t.tokens >= 16, "{t:?}");
                continue;
            }
            // One token has few programs, so its positions are shared out; many tokens are enough.
            assert_eq!(tiling.parts() > 1, tokens == 1, "{tiling:?}");
            AttentionJoin::of(&a, &shape, true, Output::F32).kernel().expect("what joins its parts is supported");
        }
    }
}

/// Cuts for vectors and for waves of an attention.
fn cuts(a: &Attention) -> Vec<Attention> {
    let [rows, panels, _, parted] = of_vectors(AttentionTiling { depth: 8, ..TILING });
    let parted = AttentionTiling { panels: panels.panels && !a.shared, ..parted };
    let vectors = [rows, panels, parted].into_iter().filter(|t| !(t.panels && a.shared)).map(AttentionCut::from);
    let waves = WaveAttention { group: 1, positions: 8, waves: 1, parts: 1 }.into();
    vectors.chain([waves]).map(|tiling| Attention { tiling, ..a.clone() }).collect()
}

#[test]
fn sinks_take_their_part() {
    for a in cuts(&Attention { sinks: true, ..BASE }) {
        for position in [0, 9, 100] {
            check_attention(&a, &[position], 12);
        }
        check_attention(&Attention { window: Some(8), ..a.clone() }, &[33, 2, 127], 13);
        // Far above and far below the scores.
        check_attention(&Attention { scale: Real(60.0), ..a.clone() }, &[17], 14);
    }
}

#[test]
fn values_have_their_own_size_or_lie_in_keys() {
    for shared in [false, true] {
        let latent = Attention { heads: 4, kv_heads: 1, head_dim: 72, value_dim: 64, shared, ..BASE };
        for a in cuts(&latent) {
            check_attention(&a, &[40, 41, 7], 15);
        }
    }
    // A long head is taken apart.
    let long = Attention { heads: 2, kv_heads: 1, head_dim: 288, value_dim: 256, shared: true, ..BASE };
    for a in cuts(&long) {
        check_attention(&a, &[20], 17);
        check_attention(&Attention { value_dim: 64, ..a.clone() }, &[9], 18);
    }
    for a in cuts(&Attention { value_dim: 32, sinks: true, ..BASE }) {
        check_attention(&a, &[31, 32], 16);
    }
}

/// Tiles of all ratios of heads to tokens, lengths of steps and ways of values; more tokens than a tile has, windows that
/// begin inside a step, and heads of several pieces.
#[test]
fn tiles_attend_as_vectors_do() {
    let cut = |group, tokens, keys, waves, turned| -> AttentionCut {
        TileAttention { group, tokens, keys, waves, turned, parts: 1 }.into()
    };
    for turned in [false, true] {
        let a = Attention { tiling: cut(2, 8, 16, 1, turned), ..BASE };
        check_tile(&a, &[0], 40);
        check_tile(&a, &[0, 1, 2, 3, 4, 5, 6, 7, 8], 41);
        check_tile(&a, &(100..128).collect::<Vec<_>>(), 42);
        let window =
            Attention { window: Some(19), softcap: Some(Real(50.0)), tiling: cut(1, 16, 32, 1, turned), ..BASE };
        check_tile(&window, &(7..57).collect::<Vec<_>>(), 43);
        check_tile(&Attention { window: Some(1), ..window.clone() }, &[30, 31, 32, 33], 44);
        let sinks = Attention { sinks: true, tiling: cut(2, 16, 64, 2, turned), ..BASE };
        check_tile(&sinks, &(40..60).collect::<Vec<_>>(), 45);
        let wide = Attention { heads: 6, head_dim: 112, value_dim: 80, tiling: cut(1, 32, 32, 4, turned), ..BASE };
        check_tile(&wide, &(60..97).collect::<Vec<_>>(), 46);
        // Two waves share the sums of a row.
        let long = Attention { heads: 2, kv_heads: 1, head_dim: 128, value_dim: 128, ..BASE };
        let long = Attention { tiling: cut(2, 16, 16, 4, turned), ..long };
        check_tile(&long, &(0..20).collect::<Vec<_>>(), 49);
        // Steps of which one token sees nothing.
        check_tile(&a, &[3, 90, 91, 127], 47);
    }
}

/// One token's heads as rows, more and fewer than fragments have, and its positions in parts: fewer steps than parts, as
/// many, and a rest.
#[test]
fn tiles_of_one_token_attend_in_parts() {
    let cut = |group, keys, waves, parts| -> AttentionCut {
        TileAttention { group, tokens: 1, keys, waves, turned: false, parts }.into()
    };
    for (keys, waves, parts) in [(16, 1, 2), (32, 2, 4), (16, 2, 16)] {
        let a = Attention { heads: 6, kv_heads: 2, head_dim: 32, value_dim: 32, ..BASE };
        let a = Attention { tiling: cut(3, keys, waves, parts), ..a };
        check_tile(&a, &[0, 15, 16, 63, 64, 127], 60);
        check_tile(&Attention { window: Some(19), softcap: Some(Real(50.0)), ..a.clone() }, &[3, 21, 127], 61);
        check_tile(&Attention { sinks: true, ..a.clone() }, &[0, 90], 62);
        let all = Attention { heads: 16, kv_heads: 1, value_dim: 48, tiling: cut(16, keys, waves, parts), ..a };
        check_tile(&all, &[77], 63);
    }
}

/// Queries and weights are rounded to `f16`: an error of 2^-11 of a weight, and of a score of some units.
fn check_tile(a: &Attention, positions: &[i32], seed: u64) {
    let (args, want) = case(a, positions, seed);
    for options in [Options::default(), Options::exact()] {
        check(&a.name(), &attend(a, &args, &options).elems(Slot::Out), &want, 2e-3);
    }
}

#[test]
fn tiles_refuse_what_they_have_no_way_for() {
    let tiling: AttentionCut =
        TileAttention { group: 2, tokens: 8, keys: 16, waves: 1, turned: false, parts: 1 }.into();
    let a = Attention { tiling, ..BASE };
    a.kernel().expect("supported");
    let of = |t: TileAttention| Attention { tiling: t.into(), ..BASE };
    let t = TileAttention { group: 2, tokens: 8, keys: 16, waves: 1, turned: false, parts: 1 };
    for (bad, reason) in [
        (Attention { head_dim: 24, ..a.clone() }, "fragments"),
        (Attention { shared: true, ..a.clone() }, "apart"),
        (Attention { cache: Elem::BF16, ..a.clone() }, "f16"),
        (Attention { output: Output::Q8, value_dim: 32, ..a.clone() }, "f32"),
        (Attention { head_dim: 512, value_dim: 512, tiling: TileAttention { keys: 64, ..t }.into(), ..BASE }, "local"),
        (of(TileAttention { group: 3, ..t }), "power of two"),
        (of(TileAttention { tokens: 4, ..t }), "rows"),
        (of(TileAttention { keys: 8, ..t }), "keys"),
        (of(TileAttention { waves: 3, ..t }), "waves"),
    ] {
        let e = bad.kernel().expect_err("refused").to_string();
        assert!(e.contains(reason), "{e} does not speak of {reason}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn what_shares_a_tile_changes_no_bit_of_a_token(start in 0i32..90, n in 1i32..20, window in prop::option::of(1u32..40)) {
        let t = |group, tokens| TileAttention { group, tokens, keys: 16, waves: 1, turned: false, parts: 1 };
        let a = |t: TileAttention| Attention { window, tiling: t.into(), ..BASE };
        let positions: Vec<i32> = (start..start + n).collect();
        let (args, _) = case(&a(t(1, 16)), &positions, 48);
        let run = |a: &Attention| launch(a, &args, &Options::exact()).elems(Slot::Out);
        let [one, two, three] = [t(1, 16), t(2, 16), t(2, 8)].map(|t| run(&a(t)));
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(&one, &three);
    }
}

/// A sequence that begins at some row of a cache, whatever lies before and behind it, has the bits of one that is alone.
#[test]
fn sequences_of_a_cache_do_not_see_each_other() {
    const FIRST: usize = 64;
    let positions: Vec<i32> = (9..25).collect();
    let wave = |parts| WaveAttention { group: 2, positions: 8, waves: 1, parts }.into();
    let tile = TileAttention { group: 2, tokens: 8, keys: 16, waves: 1, turned: false, parts: 1 }.into();
    let [rows, panels, parted_rows, parted] = of_vectors(TILING).map(AttentionCut::from);
    for tiling in [rows, panels, parted_rows, parted, wave(1), wave(4), tile] {
        for window in [None, Some(3), Some(13)] {
            let alone = Attention { window, tiling, ..BASE };
            let (args, _) = case(&alone, &positions, 50);
            let moved = |data: &Data| -> Data {
                let Data::Elems(elem, v) = data else { panic!("not a cache") };
                let d = alone.head_dim as usize;
                let head = |h: &[f64]| [vec![77.0; FIRST * d], h[..(N_CTX - FIRST) * d].to_vec()].concat();
                let mut rows: Vec<Vec<f64>> = v.chunks(N_CTX * d).map(head).collect();
                rows.iter_mut().for_each(|h| h[(FIRST + 25) * d..].fill(77.0));
                Data::Elems(*elem, rows.concat())
            };
            let mut beside: Vec<(Slot, Data)> = args
                .iter()
                .map(|(slot, data)| match slot {
                    Slot::KeyCache | Slot::ValueCache => (*slot, moved(data)),
                    Slot::Positions => (*slot, i32s(&positions.iter().map(|p| p + FIRST as i32).collect::<Vec<_>>())),
                    _ => (*slot, data.clone()),
                })
                .collect();
            beside.push((Slot::Firsts, i32s(&vec![FIRST as i32; positions.len()])));
            let one = attend(&alone, &args, &Options::exact()).elems(Slot::Out);
            let other = attend(&Attention { sequences: true, ..alone.clone() }, &beside, &Options::exact());
            assert_eq!(one, other.elems(Slot::Out), "{}", alone.name());
        }
    }
}
