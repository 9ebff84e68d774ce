//! Matrices packed for vectors, and products with them.

use crate::experts::check_experts_of;
use crate::linear::{all_types, awkward_k, case, outputs};
use crate::support::*;
use hrx_ir::quant::Format;
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{
    Activation, Experts, Gated, Linear, Output, Pack, PanelTiling, Panels, Real, Slot, TargetShape, Template,
    WeightType,
};
use proptest::prelude::*;

const AVX512: Panels = Panels { unsigned: true };
const AVX2: Panels = Panels { unsigned: false };

fn tiling(panels: Panels, tokens: u32) -> PanelTiling {
    PanelTiling { panels, rows: if panels.unsigned { 16 } else { 8 }, tokens, program_rows: 32 }
}

fn q(name: &str) -> WeightType {
    WeightType::Quant(Format::from_name(name).expect("a format"))
}

fn packed_types() -> impl Iterator<Item = WeightType> {
    all_types().filter(|&w| Panels::input(w, Output::F32).is_some())
}

/// The arguments with each matrix packed.
fn packed(l: &Linear, panels: Panels, args: &[(Slot, Data)]) -> Vec<(Slot, Data)> {
    let types = [Some(l.weight), l.gated.as_ref().map(|g| g.up)];
    let n = l.n * l.experts.map_or(1, |e| e.count);
    let pack = |(slot, data): &(Slot, Data)| {
        let Slot::Weight(i) = *slot else { return (*slot, data.clone()) };
        let Some(weight) = types[usize::from(i)] else { return (*slot, data.clone()) };
        let pack = Pack { n, k: l.k, weight, panels };
        let bytes = panels.bytes(weight, [n, l.k]).expect("a packed type") as usize;
        let args = [(Slot::Weight(0), data.clone()), (Slot::Out, Data::Room(Elem::U8, bytes))];
        let done = launch(&pack, &args, &Options::exact());
        (*slot, Data::Bytes(done.elems(Slot::Out).into_iter().map(|b| b as u8).collect()))
    };
    args.iter().map(pack).collect()
}

/// The forms in which packed weights read activations.
fn inputs(weight: WeightType) -> Vec<Output> {
    let mut forms: Vec<Output> =
        [Output::F32, Output::Q8].into_iter().filter_map(|form| Panels::input(weight, form)).collect();
    forms.dedup();
    forms
}

fn check_case(l: &Linear, panels: Panels, tokens: u32, t: usize, seed: u64) {
    for input in inputs(l.weight) {
        check_form(&Linear { input, ..l.clone() }, panels, tokens, t, seed);
    }
}

fn check_form(l: &Linear, panels: Panels, tokens: u32, t: usize, seed: u64) {
    let l = Linear { tiling: tiling(panels, tokens).into(), ..l.clone() };
    let (args, want) = case(&l, t, seed);
    let args = packed(&l, panels, &args);
    for (options, tolerance) in [(Options::default(), 3e-6), (Options::exact(), 2e-5)] {
        let done = launch(&l, &args, &options);
        check_written(&l.name(), &done, l.output, &want, tolerance);
    }
}

/// Of a type, a k of some blocks.
fn some_k(ty: WeightType) -> u32 {
    if let WeightType::Float(_) = ty { 96 } else { awkward_k(ty) }
}

#[test]
fn every_packed_type_is_multiplied() {
    for (i, ty) in packed_types().enumerate() {
        let (panels, tokens) = if i % 2 == 0 { (AVX512, 2) } else { (AVX2, 3) };
        let base = Linear::new(37, some_k(ty), ty, tiling(panels, tokens));
        check_case(&base, panels, tokens, 3, i as u64);
        check_case(&base, if i % 2 == 0 { AVX2 } else { AVX512 }, 1, 1, 40 + i as u64);
    }
}

#[test]
fn epilogues_behind_panels_follow_their_formula() {
    let base = Linear::new(40, 64, q("q4_1"), tiling(AVX512, 4));
    check_case(&Linear { bias: true, residual: true, ..base.clone() }, AVX512, 4, 3, 7);
    check_case(&Linear { scale: Some(Real(0.5)), softcap: Some(Real(2.0)), ..base }, AVX2, 2, 2, 8);
    for (activation, gate, up) in
        [(Activation::Silu, "q4_1", "q8_0"), (Activation::GeluTanh, "q6_k", "q4_k"), (Activation::Silu, "q4_0", "q6_k")]
    {
        let gated = Some(Gated { up: q(up), activation });
        let l = Linear { gated, output: Output::Q8, ..Linear::new(64, 256, q(gate), tiling(AVX512, 2)) };
        check_case(&l, AVX512, 2, 3, 10);
        check_case(&Linear { output: Output::Q15, ..l.clone() }, AVX512, 2, 3, 13);
        check_case(&Linear { n: 33, output: Output::F32, residual: true, ..l }, AVX2, 1, 1, 11);
    }
    let gated = Some(Gated { up: WeightType::Float(Elem::BF16), activation: Activation::Silu });
    check_case(&Linear { gated, ..Linear::new(35, 32, WeightType::Float(Elem::F16), tiling(AVX2, 4)) }, AVX2, 4, 3, 12);
}

#[test]
fn tiles_of_panels_fit_the_registers() {
    for (lanes, registers) in [(4, 16), (8, 16), (16, 32)] {
        for (tokens, nk) in [(1, [640, 640]), (512, [1536, 576]), (512, [100, 28672])] {
            let shape = TargetShape::vectors(lanes, registers).with_byte_dot(true);
            for input in [Output::Q8, Output::Q15] {
                let t = PanelTiling::choose(&shape, nk, input, tokens, 2).expect("vectors have panels");
                let sums = t.rows.div_ceil(lanes) * t.tokens * input.bytes();
                assert!(tokens == 1 || sums <= registers / 2, "{t:?} for {shape:?}");
                let gated = Some(Gated { up: q("q6_k"), activation: Activation::Silu });
                let k = nk[1].next_multiple_of(256);
                let kernel = Linear { gated, input, ..Linear::new(nk[0], k, q("q4_k"), t) }.kernel();
                hrx_ir::tile::verify(&kernel.expect("a chosen tiling is supported")).expect("it verifies");
            }
        }
    }
    assert_eq!(PanelTiling::choose(&waves_shape(32), [64, 64], Output::Q8, 1, 1), None);
}

#[test]
fn packed_experts_are_multiplied() {
    let panels = AVX512;
    let experts = Experts::routed(5, 2);
    let check = |l: &Linear, seed| check_experts_of(l, seed, |args| packed(l, panels, &args));
    for (grouped, tokens) in [(false, 1), (true, 4)] {
        let experts = Experts { grouped, ..experts };
        let of = |n, k, ty, e: Experts| Linear { experts: Some(e), ..Linear::new(n, k, ty, tiling(panels, tokens)) };
        let mxfp4 = of(64, 64, q("mxfp4"), Experts { own: true, ..experts });
        for input in inputs(mxfp4.weight) {
            check(&Linear { input, ..mxfp4.clone() }, 6);
        }
        let scaled = Experts { scale: true, ..experts };
        check(&Linear { bias: true, ..of(96, 64, WeightType::Float(Elem::F16), scaled) }, 7);
        let gated = Some(Gated { up: q("q6_k"), activation: Activation::Silu });
        check(&Linear { gated, ..of(32, 256, q("q4_k"), experts) }, 8);
        let refused = of(48, 64, q("q4_0"), experts).kernel().expect_err("experts share a panel");
        assert!(refused.to_string().contains("whole panels"), "{refused}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn panels_and_batches_change_no_bit(
        which in 0usize..64, n in 1u32..70, t in 1usize..6, seed in 0u64..1000, tokens in 1u32..6, rows_log in 3u32..6,
        unsigned in any::<bool>(), pieces in 1u32..3, form in 0usize..2,
    ) {
        let types: Vec<WeightType> = packed_types().collect();
        let ty = types[which % types.len()];
        let panels = Panels { unsigned };
        let forms = inputs(ty);
        let input = forms[form % forms.len()];
        let reference = Linear { input, ..Linear::new(n, some_k(ty), ty, tiling(AVX512, 1)) };
        let (args, _) = case(&reference, t, seed);
        let tiled = Linear {
            tiling: PanelTiling { panels, rows: 1 << rows_log, tokens, program_rows: 32 * pieces }.into(),
            ..reference.clone()
        };
        let got = outputs(&tiled, &packed(&tiled, panels, &args));
        prop_assert_eq!(outputs(&reference, &packed(&reference, AVX512, &args)), got);
    }
}
