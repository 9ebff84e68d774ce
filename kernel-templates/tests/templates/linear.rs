use crate::support::*;
use hrx_ir::quant::{FORMATS, Format};
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{
    Activation, Gated, Linear, LinearTiling, MatrixTiling, Output, Real, RmsNorm, RowCut, RowsTiling, Slot, Template,
    WeightType,
};
use proptest::prelude::*;

fn tiling(tokens: u32, rows: u32) -> LinearTiling {
    LinearTiling { tokens, rows, program_rows: 32, unroll: 2 }
}

/// A random weight matrix: its data and its values.
fn weights(r: &mut Random, ty: WeightType, n: usize, k: usize) -> (Data, Vec<f64>) {
    match ty {
        WeightType::Quant(f) => {
            let bytes = r.blocks(f, n * k / f.block as usize);
            let mut values = vec![0.0; n * k];
            f.dequantize_row(&bytes, &mut values);
            (Data::Bytes(bytes), values.into_iter().map(f64::from).collect())
        }
        WeightType::Float(e) => {
            let values = r.values(e, n * k);
            (Data::Elems(e, values.clone()), values)
        }
    }
}

/// All inputs that the facts ask for, and the result in f64.
pub fn case(l: &Linear, t: usize, seed: u64) -> (Vec<(Slot, Data)>, Vec<f64>) {
    let mut r = Random::new(seed);
    let (n, k) = (l.n as usize, l.k as usize);
    let mut args = vec![(Slot::NTokens, Data::Scalar(t as i32))];
    let mut x = r.f32s(t * k);
    if let Some(eps) = l.norm {
        let w = r.f32s(k);
        args.extend([(Slot::X, f32s(&x)), (Slot::NormWeight, f32s(&w))]);
        x = rms_norm(&x, &w, f64::from(eps.0));
    }
    if l.input != Output::F32 {
        let (codes, scales) = to_blocks(l.input, &x);
        x = from_blocks(l.input, &codes, &scales);
        args.extend([(Slot::XCodes, Data::Elems(Elem::I8, codes)), (Slot::XScales, f32s(&scales))]);
    } else if l.norm.is_none() {
        args.push((Slot::X, f32s(&x)));
    }
    let (data, w) = weights(&mut r, l.weight, n, k);
    args.push((Slot::Weight(0), data));
    let mut y = matmul(&x, &w, k);
    if l.bias {
        let bias = r.f32s(n);
        y.chunks_mut(n).for_each(|row| row.iter_mut().zip(&bias).for_each(|(y, b)| *y += b));
        args.push((Slot::Bias, f32s(&bias)));
    }
    if let Some(g) = &l.gated {
        let (data, w) = weights(&mut r, g.up, n, k);
        args.push((Slot::Weight(1), data));
        y.iter_mut().zip(matmul(&x, &w, k)).for_each(|(y, up)| *y = activated(g.activation, *y) * up);
    }
    y.iter_mut().for_each(|y| {
        *y *= l.scale.map_or(1.0, |s| f64::from(s.0));
        *y = l.softcap.map_or(*y, |c| f64::from(c.0) * (*y / f64::from(c.0)).tanh());
    });
    if l.residual {
        let residual = r.f32s(t * n);
        y.iter_mut().zip(&residual).for_each(|(y, r)| *y += r);
        args.push((Slot::Residual, f32s(&residual)));
    }
    args.extend(written(l.output, t * n));
    (args, y)
}

/// The product with each form of input that its weights can be read with where they are not packed.
fn forms(l: &Linear) -> Vec<Linear> {
    let read = |input| Linear { input, ..l.clone() };
    match l.input {
        Output::F32 => vec![l.clone()],
        _ => vec![read(Output::Q8), read(Output::F32)],
    }
}

/// Compares with the reference in each form of input, tightly in the interpreter's f64, loosely in f32.
fn check_case(l: &Linear, t: usize, seed: u64) {
    forms(l).iter().for_each(|l| check_form(l, t, seed));
}

fn check_form(l: &Linear, t: usize, seed: u64) {
    let (args, want) = case(l, t, seed);
    // A norm's rounding to f32 may tip a code over; the sum then differs by a step of one input. A matrix unit's tile has
    // f16 factors.
    let f32s = [Some(l.weight), l.gated.as_ref().map(|g| g.up)].contains(&Some(WeightType::Float(Elem::F32)));
    // Numbers of 15 bits are off by half a unit.
    let (tight, loose) = if matches!(l.tiling, hrx_templates::LinearCut::Matrix(_)) && !f32s {
        (2e-3, 2e-3)
    } else if matches!(l.tiling, hrx_templates::LinearCut::Rows(RowsTiling { fixed: true, .. })) {
        if l.input == Output::F32 && matches!(l.weight, WeightType::Quant(_)) { (1e-4, 1e-4) } else { (3e-6, 2e-5) }
    } else if l.norm.is_some() && l.input == Output::Q8 {
        (1e-2, 1e-2)
    } else {
        (3e-6, 2e-5)
    };
    for (options, tolerance) in [(Options::default(), tight), (Options::exact(), loose)] {
        let done = launch(l, &args, &options);
        check_written(&l.name(), &done, l.output, &want, tolerance);
    }
}

pub fn all_types() -> impl Iterator<Item = WeightType> {
    let floats = [Elem::F32, Elem::F16, Elem::BF16].map(WeightType::Float);
    FORMATS.iter().map(WeightType::Quant).chain(floats)
}

/// Formats that have between them each way to make codes and scales, blocks of each size, and groups of both.
const KINDS: [&str; 11] =
    ["q4_0", "q5_1", "q8_0", "q3_k", "q4_k", "q6_k", "iq1_m", "iq2_xs", "iq4_xs", "tq1_0", "nvfp4"];

/// For tests of what a format's description does not change: one type of each kind, with `HRX_ALL=1` all of them.
fn types_of_each_kind() -> impl Iterator<Item = WeightType> {
    let all = std::env::var_os("HRX_ALL").is_some_and(|v| v == "1");
    all_types().filter(move |t| all || matches!(t, WeightType::Float(_)) || KINDS.contains(&t.name()))
}

/// A k that has a rest for every unrolling: 3 blocks, or for floats a masked tail.
pub fn awkward_k(ty: WeightType) -> u32 {
    match ty {
        WeightType::Quant(f) if f.block == 32 => 96,
        WeightType::Quant(f) => f.block,
        WeightType::Float(_) => 45,
    }
}

#[test]
fn every_weight_type_multiplies_one_token() {
    for ty in all_types() {
        check_case(&Linear::new(32, awkward_k(ty), ty, tiling(1, 4)), 1, 1);
    }
}

#[test]
fn outputs_and_tokens_need_not_be_multiples_of_the_tiles() {
    for ty in types_of_each_kind() {
        // 37 has no whole groups of rows; 5 tokens leave one over.
        check_case(&Linear::new(37, awkward_k(ty), ty, tiling(4, 2)), 5, 2);
    }
    let q = WeightType::Quant(&FORMATS[1]);
    for t in 1..=4 {
        check_case(&Linear::new(4, 64, q, tiling(2, 4)), t, 3);
        check_case(&Linear::new(1, 32, q, tiling(3, 1)), t, 4);
    }
    // Programs of two blocks, whole groups of rows, a rest of the second block.
    let wide = LinearTiling { tokens: 2, rows: 8, program_rows: 64, unroll: 3 };
    check_case(&Linear::new(104, 256, q, wide), 3, 5);
}

#[test]
fn several_k_blocks_add_up() {
    let blocks_of_256 = |t: &WeightType| matches!(t, WeightType::Quant(f) if f.block == 256);
    for ty in types_of_each_kind().filter(blocks_of_256) {
        check_case(&Linear::new(8, 512, ty, tiling(2, 2)), 2, 6);
    }
}

#[test]
fn epilogues_follow_their_formula() {
    let q = |name| WeightType::Quant(hrx_ir::quant::Format::from_name(name).expect("a format"));
    let base = Linear::new(40, 64, q("q4_1"), tiling(2, 4));
    check_case(&Linear { bias: true, residual: true, ..base.clone() }, 3, 7);
    check_case(&Linear { scale: Some(Real(0.5)), softcap: Some(Real(2.0)), ..base.clone() }, 2, 8);
    check_case(&Linear { softcap: Some(Real(2.0)), residual: true, bias: true, ..base }, 1, 9);
    for (activation, gate, up) in
        [(Activation::Silu, "q4_1", "q8_0"), (Activation::GeluTanh, "q6_k", "q4_k"), (Activation::Silu, "q4_0", "q6_k")]
    {
        let gated = Some(Gated { up: q(up), activation });
        let l = Linear { gated, output: Output::Q8, ..Linear::new(64, 256, q(gate), tiling(2, 2)) };
        check_case(&l, 3, 10);
        check_case(&Linear { n: 33, output: Output::F32, residual: true, ..l }, 1, 11);
    }
    // Only f32 is read by both.
    let gated = Some(Gated { up: WeightType::Float(Elem::F16), activation: Activation::Silu });
    check_case(&Linear { gated, input: Output::F32, ..Linear::new(35, 64, q("q5_1"), tiling(2, 4)) }, 3, 14);
    let gated = Some(Gated { up: WeightType::Float(Elem::BF16), activation: Activation::Silu });
    check_case(&Linear { gated, ..Linear::new(35, 24, WeightType::Float(Elem::F16), tiling(2, 4)) }, 3, 12);
}

/// Runs with some slots' data replaced, and gives the outputs' values.
pub fn outputs(l: &Linear, args: &[(Slot, Data)]) -> Vec<f64> {
    let done = launch(l, args, &Options::exact());
    match l.output {
        Output::F32 => done.elems(Slot::Out),
        Output::Q8 | Output::Q15 => [done.elems(Slot::OutCodes), done.elems(Slot::OutScales)].concat(),
    }
}

#[test]
fn a_fused_norm_gives_the_same_bits_as_a_norm_before() {
    for ty in types_of_each_kind().filter(|t| !matches!(t, WeightType::Float(Elem::F32))) {
        let k = if matches!(ty, WeightType::Float(_)) { 45 } else { awkward_k(ty) };
        let fused = Linear { norm: Some(Real(1e-5)), ..Linear::new(37, k, ty, tiling(1, 4)) };
        for (fused, t) in forms(&fused).into_iter().flat_map(|f| [(f.clone(), 1), (f, 3)]) {
            let (mut args, _) = case(&fused, t, 13);
            check_form(&fused, t, 13);
            let norm = RmsNorm {
                k,
                eps: Real(1e-5),
                residual: false,
                indexed: false,
                output: fused.input,
                cut: RowCut::VECTORS,
            };
            let mut norm_args = args.clone();
            norm_args.retain(|(s, _)| *s != Slot::Out);
            let n = t * k as usize;
            norm_args.extend([
                (Slot::Out, Data::Room(Elem::F32, if norm.output == Output::F32 { n } else { 0 })),
                (Slot::OutCodes, Data::Room(Elem::I8, if norm.output == Output::Q8 { n } else { 0 })),
                (Slot::OutScales, Data::Room(Elem::F32, if norm.output == Output::Q8 { n / 32 } else { 0 })),
            ]);
            let normed = launch(&norm, &norm_args, &Options::exact());
            let together = outputs(&fused, &args);
            args.retain(|(s, _)| ![Slot::X, Slot::XCodes, Slot::XScales].contains(s));
            args.extend([
                (Slot::X, normed.data(Slot::Out)),
                (Slot::XCodes, normed.data(Slot::OutCodes)),
                (Slot::XScales, normed.data(Slot::OutScales)),
            ]);
            assert_eq!(outputs(&Linear { norm: None, ..fused.clone() }, &args), together, "{}", fused.name());
        }
    }
}

#[test]
fn tilings_are_chosen_within_the_registers() {
    use hrx_templates::TargetShape;
    for (lanes, registers) in [(4, 16), (8, 16), (16, 32), (1, 2)] {
        for tokens in [1, 2, 3, 16, 512] {
            let shape = TargetShape::vectors(lanes, registers);
            let t = LinearTiling::choose(&shape, tokens);
            assert!(t.tokens <= tokens);
            let sums = t.rows * t.tokens * 8u32.div_ceil(lanes);
            assert!(sums <= registers || t.rows * t.tokens == 1, "{t:?} for {shape:?}");
            Linear::new(64, 64, WeightType::Float(Elem::F16), t).kernel().expect("a chosen tiling is supported");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn tilings_and_batches_change_no_bit(
        which in 0..FORMATS.len() + 3, form in 0usize..2, n in 1u32..70, t in 1usize..6, seed in 0u64..1000,
        tokens in 1u32..6, rows_log in 0u32..4, unroll in 1u32..5,
    ) {
        let ty = all_types().nth(which).expect("formats and floats");
        let k = awkward_k(ty);
        let reference = Linear::new(n, k, ty, LinearTiling { tokens: 1, rows: 1, program_rows: 32, unroll: 1 });
        let reference = forms(&reference).into_iter().cycle().nth(form).expect("at least one form");
        let tiled = LinearTiling { tokens, rows: 1 << rows_log, program_rows: 32, unroll };
        let (args, _) = case(&reference, t, seed);
        prop_assert_eq!(outputs(&reference, &args), outputs(&Linear { tiling: tiled.into(), ..reference.clone() }, &args));
    }
}

/// Cuts for waves: lanes along K only, lanes along rows too, several waves, steps longer than a row.
const ROWS: [RowsTiling; 4] = [
    RowsTiling { rows: 1, chunks: 1, waves: 1, fixed: false },
    RowsTiling { rows: 16, chunks: 2, waves: 2, fixed: false },
    RowsTiling { rows: 8, chunks: 8, waves: 4, fixed: false },
    RowsTiling { rows: 4, chunks: 32, waves: 1, fixed: false },
];

#[test]
fn waves_multiply_rows_of_every_weight_type() {
    for (i, ty) in all_types().enumerate() {
        // 19 rows leave some over, and so does K.
        let k = if let WeightType::Quant(f) = ty { (3 * f.block).max(96) } else { 96 };
        let t = ROWS[i % ROWS.len()];
        check_case(&Linear::new(19, k, ty, t), 2, 20 + i as u64);
        if types_of_each_kind().any(|t| t == ty) {
            check_case(&Linear::new(19, k, ty, ROWS[(i + 1) % ROWS.len()]), 1, 40 + i as u64);
        }
    }
}

/// Rows of numbers of 15 bits in local memory: one step or several, waves that share rows and waves that share a row's
/// chunks, pieces that are staged together and in a loop, and rows that end inside a step.
#[test]
fn waves_multiply_rows_of_numbers() {
    let cut = |rows, chunks, waves| RowsTiling { rows, chunks, waves, fixed: true };
    let cuts = [cut(8, 4, 2), cut(16, 8, 4), cut(4, 32, 1), cut(8, 64, 4), cut(2, 1, 1)];
    for (i, format) in Format::all().enumerate() {
        let k = (3 * format.block).max(96);
        let l = Linear::new(19, k, WeightType::Quant(format), cuts[i % cuts.len()]);
        check_form(&Linear { input: Output::F32, ..l }, 2, 120 + i as u64);
    }
    let q = |name| WeightType::from_name(name).expect("a format");
    let gated = Some(Gated { up: q("q6_k"), activation: Activation::Silu });
    let l = Linear { input: Output::F32, gated, ..Linear::new(40, 1024, q("q4_k"), cut(16, 8, 2)) };
    check_form(&Linear { norm: Some(Real(1e-5)), ..l }, 1, 170);
    let long = Linear { input: Output::F32, residual: true, ..Linear::new(8, 5632, q("q8_0"), cut(8, 16, 2)) };
    check_form(&long, 2, 171);
    // Float weights, and activations that are bytes already, are multiplied as with any cut.
    check_case(&Linear::new(19, 96, WeightType::Float(Elem::F16), cut(8, 2, 2)), 2, 172);
    check_case(&Linear::new(19, 96, q("q5_1"), cut(8, 2, 2)), 2, 173);
}

/// Rows of zeros, and of numbers so small that their inverse is none.
#[test]
fn rows_of_numbers_may_be_as_small_as_they_like() {
    let t = RowsTiling { rows: 4, chunks: 2, waves: 1, fixed: true };
    let l = Linear { input: Output::F32, ..Linear::new(4, 64, WeightType::from_name("q8_0").expect("a format"), t) };
    for x in [0.0, 1e-42, 1e-33] {
        let (mut args, _) = case(&l, 1, 180);
        for (slot, data) in &mut args {
            if *slot == Slot::X {
                *data = f32s(&[x; 64]);
            }
        }
        let y = outputs(&l, &args);
        assert!(y.iter().all(|y| y.abs() < 1e-25), "{y:?}");
    }
}

#[test]
fn waves_do_what_comes_before_and_after_a_product() {
    let q = |name| WeightType::from_name(name).expect("a format");
    let t = RowsTiling { rows: 32, chunks: 4, waves: 2, fixed: false };
    let base = Linear::new(64, 256, q("q4_1"), t);
    check_case(&Linear { bias: true, scale: Some(Real(0.5)), residual: true, ..base.clone() }, 3, 60);
    check_case(&Linear { softcap: Some(Real(3.0)), output: Output::Q8, ..base.clone() }, 1, 61);
    let gated = Some(Gated { up: q("q6_k"), activation: Activation::Silu });
    check_case(&Linear { gated, ..Linear::new(40, 256, q("q4_k"), t) }, 2, 62);
    check_case(&Linear { norm: Some(Real(1e-5)), ..base }, 1, 63);
}

#[test]
fn a_norm_on_waves_is_the_norm_alone_but_for_rounding() {
    for k in [96, 160, 1120] {
        let t = RowsTiling { rows: 4, chunks: 2, waves: 2, fixed: false };
        let fused = Linear { norm: Some(Real(1e-5)), ..Linear::new(7, k, WeightType::Float(Elem::F16), t) };
        let (args, _) = case(&fused, 1, 70);
        let cut = RowCut::choose(&waves_shape(32), k);
        let norm = RmsNorm { k, eps: Real(1e-5), residual: false, indexed: false, output: Output::F32, cut };
        let mut norm_args: Vec<(Slot, Data)> =
            args.iter().filter(|(s, _)| matches!(s, Slot::NTokens | Slot::X | Slot::NormWeight)).cloned().collect();
        norm_args.push((Slot::Out, Data::Room(Elem::F32, k as usize)));
        let x = launch(&norm, &norm_args, &Options::exact()).elems(Slot::Out);
        let mut plain_args: Vec<(Slot, Data)> =
            args.iter().filter(|(s, _)| !matches!(s, Slot::X | Slot::NormWeight)).cloned().collect();
        plain_args.push((Slot::X, f32s(&x)));
        let plain = Linear { norm: None, ..fused.clone() };
        check(&fused.name(), &outputs(&fused, &args), &outputs(&plain, &plain_args), 2e-6);
    }
}

#[test]
fn a_matrix_unit_multiplies_many_tokens() {
    for (i, ty) in all_types().filter(|t| t.name() != "f32").enumerate() {
        let tile = MatrixTiling { m: 16, n: 32, k: if i % 2 == 0 { 32 } else { 64 }, waves: 1 << (i % 3) };
        let k = if let WeightType::Quant(f) = ty { 96u32.next_multiple_of(f.block) } else { 96 };
        let l = Linear { input: Output::F32, ..Linear::new(40, k, ty, tile) };
        check_form(&l, 21, 80 + i as u64);
    }
    let q = |name| WeightType::from_name(name).expect("a format");
    let tile = MatrixTiling { m: 32, n: 16, k: 32, waves: 2 };
    let base = Linear { input: Output::F32, ..Linear::new(32, 64, q("q5_0"), tile) };
    check_form(&Linear { bias: true, scale: Some(Real(0.5)), residual: true, ..base.clone() }, 33, 90);
    check_form(&Linear { softcap: Some(Real(3.0)), ..base.clone() }, 2, 91);
    let gated = Some(Gated { up: q("q8_0"), activation: Activation::GeluTanh });
    check_form(&Linear { gated, ..base }, 16, 92);
}

/// Tiles of `f32` weights round nothing; a second matrix of another type is multiplied with them.
#[test]
fn f32_weights_are_multiplied_as_they_are_in_tiles() {
    let f32s = WeightType::Float(Elem::F32);
    for (tokens, n, k, waves) in [(16, 32, 32, 1), (21, 40, 96, 2), (40, 130, 160, 4)] {
        let tile = MatrixTiling { m: 16, n: 32, k: 32, waves };
        let base = Linear { input: Output::F32, ..Linear::new(n, k, f32s, tile) };
        check_form(&base, tokens, 93);
        check_form(&Linear { bias: true, residual: true, ..base.clone() }, tokens, 94);
        let gated = Some(Gated { up: WeightType::Float(Elem::F16), activation: Activation::Silu });
        check_form(&Linear { gated, ..base }, tokens, 95);
    }
}
