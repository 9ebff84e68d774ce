//! Mixtures of experts: routes, products with chosen experts' matrices, weighed sums.

use crate::support::*;
use hrx_ir::quant::Format;
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{
    Activation, ExpertRows, ExpertSum, Experts, Gated, Linear, LinearCut, LinearTiling, MatrixTiling, Output, Real,
    Route, Routing, RowCut, RowsTiling, Scoring, Slot, Template, WeightType,
};

fn softmax(x: &[f64]) -> Vec<f64> {
    let sum: f64 = x.iter().map(|x| x.exp()).sum();
    x.iter().map(|x| x.exp() / sum).collect()
}

/// The indices of the n largest in falling order.
fn best(x: &[f64], n: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|&a, &b| x[b].total_cmp(&x[a]).then(a.cmp(&b)));
    order.truncate(n);
    order
}

fn routed(p: &Route, logits: &[f64], bias: &[f64]) -> Vec<f64> {
    let scores = match p.scoring {
        Scoring::Softmax => softmax(logits),
        Scoring::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
        Scoring::SoftmaxOfChosen => logits.to_vec(),
    };
    let mut ranked: Vec<f64> = scores.iter().zip(bias).map(|(s, b)| if p.bias { s + b } else { *s }).collect();
    let [groups, open] = p.groups.map(|n| n as usize);
    let size = ranked.len() / groups;
    if groups > 1 {
        let sums: Vec<f64> = ranked.chunks(size).map(|g| best(g, 2).iter().map(|&i| g[i]).sum()).collect();
        let open = best(&sums, open);
        ranked.iter_mut().enumerate().filter(|(i, _)| !open.contains(&(i / size))).for_each(|(_, s)| *s = -1e30);
    }
    let chosen = best(&ranked, p.used as usize);
    let mut weights: Vec<f64> = chosen.iter().map(|&e| scores[e]).collect();
    if p.scoring == Scoring::SoftmaxOfChosen {
        weights = softmax(&weights);
    }
    let sum = if p.normalize { weights.iter().sum() } else { 1.0 };
    chosen.iter().map(|&e| e as f64).chain(weights.iter().map(|w| w / sum * f64::from(p.scale.0))).collect()
}

#[test]
fn the_best_experts_are_chosen() {
    let mut r = Random::new(1);
    let base = Route {
        experts: 8,
        used: 3,
        scoring: Scoring::Softmax,
        bias: false,
        normalize: true,
        scale: Real(1.0),
        groups: [1, 1],
        cut: Route::cut(8),
    };
    let of = |experts, used| Route { experts, used, cut: Route::cut(experts), ..base.clone() };
    let cases = [
        base.clone(),
        of(60, 4),
        of(128, 8),
        of(512, 10),
        Route { scoring: Scoring::SoftmaxOfChosen, normalize: false, ..of(32, 4) },
        Route { scoring: Scoring::Sigmoid, bias: true, scale: Real(2.5), ..of(256, 8) },
        Route { scoring: Scoring::Sigmoid, bias: true, groups: [4, 2], ..of(64, 6) },
        Route { groups: [2, 1], normalize: false, ..of(8, 2) },
        Route { cut: RowCut { piece: 256, waves: 2 }, ..of(200, 5) },
        of(1, 1),
    ];
    for p in cases {
        let (t, n) = (3, p.experts as usize);
        let logits: Vec<f64> = r.f32s(t * n).iter().map(|v| rounded(Elem::F32, 4.0 * v)).collect();
        let bias = r.f32s(n);
        let want: Vec<f64> = logits.chunks(n).flat_map(|l| routed(&p, l, &bias)).collect();
        let args = [
            (Slot::NTokens, Data::Scalar(t as i32)),
            (Slot::X, f32s(&logits)),
            (Slot::Bias, f32s(&bias)),
            (Slot::Out, Data::Room(Elem::F32, want.len())),
        ];
        for (options, tolerance) in [(Options::default(), 1e-6), (Options::exact(), 1e-5)] {
            check(&p.name(), &launch(&p, &args, &options).elems(Slot::Out), &want, tolerance);
        }
    }
}

#[test]
fn of_equal_experts_the_first_is_chosen() {
    let p = Route {
        experts: 6,
        used: 4,
        scoring: Scoring::Softmax,
        bias: false,
        normalize: true,
        scale: Real(1.0),
        groups: [1, 1],
        cut: Route::cut(6),
    };
    let run = |logits: [f64; 6]| {
        let args = [(Slot::NTokens, Data::Scalar(1)), (Slot::X, f32s(&logits)), (Slot::Out, Data::Room(Elem::F32, 8))];
        launch(&p, &args, &Options::exact()).elems(Slot::Out)
    };
    assert_eq!(run([1.0, 2.0, 2.0, 1.0, 2.0, 1.0])[..4], [1.0, 2.0, 4.0, 0.0]);
    // Whatever comes in, what goes out are experts.
    assert!(run([f64::NAN; 6])[..4].iter().all(|&e| (0.0..6.0).contains(&e)));
}

#[test]
fn results_are_weighed_and_summed() {
    let mut r = Random::new(2);
    for (k, used, residual, cut) in [
        (45, 3, false, RowCut::VECTORS),
        (64, 8, true, RowCut::VECTORS),
        (200, 2, true, RowCut { piece: 128, waves: 1 }),
    ] {
        let (t, n, s) = (3, k as usize, used as usize);
        let p = ExpertSum { k, used, residual, cut };
        let (x, routes, base) = (r.f32s(t * s * n), r.f32s(t * 2 * s), r.f32s(t * n));
        let mut want = if residual { base.clone() } else { vec![0.0; t * n] };
        for (i, want) in want.iter_mut().enumerate() {
            let (row, col) = (i / n, i % n);
            *want += (0..s).map(|e| routes[row * 2 * s + s + e] * x[(row * s + e) * n + col]).sum::<f64>();
        }
        let args = [
            (Slot::NTokens, Data::Scalar(t as i32)),
            (Slot::X, f32s(&x)),
            (Slot::Routes, f32s(&routes)),
            (Slot::Residual, f32s(&base)),
            (Slot::Out, Data::Room(Elem::F32, t * n)),
        ];
        for (options, tolerance) in [(Options::default(), 1e-6), (Options::exact(), 1e-5)] {
            check(&p.name(), &launch(&p, &args, &options).elems(Slot::Out), &want, tolerance);
        }
    }
}

/// A matrix of a type, and the values that it stands for.
fn matrix(r: &mut Random, ty: WeightType, rows: usize, k: usize) -> (Data, Vec<f64>) {
    match ty {
        WeightType::Float(e) => {
            let v = r.values(e, rows * k);
            (Data::Elems(e, v.clone()), v)
        }
        WeightType::Quant(f) => {
            let bytes = r.blocks(f, rows * k / f.block as usize);
            let mut values = vec![0f32; rows * k];
            f.dequantize_row(&bytes, &mut values);
            (Data::Bytes(bytes), values.into_iter().map(f64::from).collect())
        }
    }
}

fn check_experts(p: &Linear, seed: u64) {
    check_experts_of(p, seed, |args| args);
}

/// With arguments that are brought to another form first.
pub fn check_experts_of(p: &Linear, seed: u64, bring: impl Fn(Vec<(Slot, Data)>) -> Vec<(Slot, Data)>) {
    let e = p.experts.expect("a product with experts");
    let mut r = Random::new(seed);
    let t = if e.grouped { 40 } else { 3 };
    let (used, count) = (e.used as usize, e.count as usize);
    let (n, k, rows) = (p.n as usize, p.k as usize, t * used);
    let mut x = r.f32s(if e.own { rows } else { t } * k);
    let form = if p.input == Output::F32 { Output::Q8 } else { p.input };
    let (codes, scales) = to_blocks(form, &x);
    if p.input != Output::F32 {
        x = from_blocks(form, &codes, &scales);
    }
    let mut routes = some_routes(&mut r, t, &e);
    let logits: Vec<f64> = r.f32s(t * count).iter().map(|x| 4.0 * x).collect();
    if let Some(Routing { scoring, normalize, scale }) = e.routing {
        let cut = Route::cut(e.count);
        let (experts, used, groups) = (e.count, e.used, [1, 1]);
        let router = Route { experts, used, scoring, bias: false, normalize, scale, groups, cut };
        routes = logits.chunks(count).flat_map(|logits| routed(&router, logits, &vec![0.0; count])).collect();
    }
    let (stored, norm_weight) = (x.clone(), r.f32s(k));
    if let Some(eps) = p.norm {
        x = rms_norm(&x, &norm_weight, f64::from(eps.0));
    }
    let (weight, values) = matrix(&mut r, p.weight, count * n, k);
    let (up, up_values) = p.gated.as_ref().map_or((Data::Scalar(0), vec![]), |g| matrix(&mut r, g.up, count * n, k));
    let (bias, scale) = (r.f32s(count * n), r.f32s(count));
    let mut want = Vec::new();
    for row in 0..rows {
        let (token, slot) = (row / used, row % used);
        let expert = if e.routed { routes[token * 2 * used + slot] as usize } else { slot };
        let x = &x[if e.own { row } else { token } * k..][..k];
        let product =
            |w: &[f64], j: usize| w[(expert * n + j) * k..][..k].iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
        want.extend((0..n).map(|j| {
            let mut y = product(&values, j);
            y *= if e.scale { scale[expert] } else { 1.0 };
            y += if p.bias { bias[expert * n + j] } else { 0.0 };
            if p.gated.is_some() { silu(y) * product(&up_values, j) } else { y }
        }));
    }
    let residual = r.f32s(t * n);
    if e.summed {
        let weighed = |token: usize, j: usize| -> f64 {
            let weight = |s: usize| routes[token * 2 * used + used + s];
            (0..used).map(|s| weight(s) * want[(token * used + s) * n + j]).sum()
        };
        let added = |at: usize| if p.residual { residual[at] } else { 0.0 };
        want = (0..t * n).map(|at| weighed(at / n, at % n) + added(at)).collect();
    }
    let (lists, counts) = turned(&routes, t, &e);
    let args = [
        (Slot::ExpertRows, i32s(&lists)),
        (Slot::Counts, i32s(&counts)),
        (Slot::NTokens, Data::Scalar(rows as i32)),
        (Slot::NRows, Data::Scalar(t as i32)),
        (Slot::X, f32s(&stored)),
        (Slot::NormWeight, f32s(&norm_weight)),
        (Slot::Logits, f32s(&logits)),
        (Slot::Choice, Data::Room(Elem::F32, t * 2 * used)),
        (Slot::XCodes, Data::Elems(Elem::I8, codes)),
        (Slot::XScales, f32s(&scales)),
        (Slot::Routes, f32s(&routes)),
        (Slot::ExpertScale, f32s(&scale)),
        (Slot::Weight(0), weight),
        (Slot::Weight(1), up),
        (Slot::Bias, f32s(&bias)),
        (Slot::Residual, f32s(&residual)),
        (Slot::Out, Data::Room(Elem::F32, want.len())),
    ];
    let args = bring(args.to_vec());
    // A matrix unit's factors are f16.
    let least = match p.tiling {
        LinearCut::Matrix(_) => 2e-3,
        LinearCut::Rows(RowsTiling { fixed: true, .. }) => 1e-4,
        _ => 0.0,
    };
    for (options, tolerance) in [(Options::default(), 1e-6f64), (Options::exact(), 2e-5)] {
        let done = launch(p, &args, &options);
        check(&p.name(), &done.elems(Slot::Out), &want, tolerance.max(least));
        if e.routing.is_some() {
            check(&p.name(), &done.elems(Slot::Choice), &routes, tolerance);
        }
    }
}

/// Routes of t tokens: different experts, then weights.
fn some_routes(r: &mut Random, t: usize, e: &Experts) -> Vec<f64> {
    let one = |r: &mut Random| {
        let mut all: Vec<f64> = (0..e.count).map(f64::from).collect();
        let numbers: Vec<f64> = (0..e.used).map(|_| all.swap_remove(r.bits() as usize % all.len())).collect();
        [numbers, r.f32s(e.used as usize)].concat()
    };
    (0..t).flat_map(|_| one(r)).collect()
}

/// For each expert the rows that go to it, and how many; what is behind them is no row.
fn turned(routes: &[f64], t: usize, e: &Experts) -> (Vec<i32>, Vec<i32>) {
    let used = e.used as usize;
    let (mut lists, mut counts) = (Vec::new(), Vec::new());
    for expert in 0..e.count {
        let is_it = |row: &usize| routes[row / used * 2 * used + row % used] == f64::from(expert);
        let mut rows: Vec<i32> = (0..t * used).filter(is_it).map(|row| row as i32).collect();
        counts.push(rows.len() as i32);
        rows.resize(t, i32::MAX);
        lists.extend(rows);
    }
    (lists, counts)
}

#[test]
fn routes_are_turned_round() {
    let mut r = Random::new(3);
    for (t, count, used) in [(1, 4, 2), (31, 5, 1), (32, 8, 8), (70, 16, 3)] {
        let e = Experts { grouped: true, ..Experts::routed(count, used) };
        let routes = some_routes(&mut r, t, &e);
        let p = ExpertRows { experts: count, used };
        let before = vec![i32::MAX; t * count as usize];
        let args = [
            (Slot::NTokens, Data::Scalar(t as i32)),
            (Slot::Routes, f32s(&routes)),
            (Slot::Out, i32s(&before)),
            (Slot::Counts, Data::Room(Elem::I32, count as usize)),
        ];
        let done = launch(&p, &args, &Options::exact());
        let (lists, counts) = turned(&routes, t, &e);
        let whole = |x: Vec<f64>| x.into_iter().map(|x| x as i32).collect::<Vec<i32>>();
        assert!(whole(done.elems(Slot::Out)) == lists, "{}: lists of {t} tokens", p.name());
        assert_eq!(whole(done.elems(Slot::Counts)), counts);
    }
}

#[test]
fn groups_of_rows_are_multiplied_together() {
    let q4 = WeightType::Quant(Format::from_name("q4_0").expect("a format"));
    let f16 = WeightType::Float(Elem::F16);
    let vectors: LinearCut = LinearTiling { tokens: 4, rows: 4, program_rows: 32, unroll: 1 }.into();
    let matrix: LinearCut = MatrixTiling { m: 16, n: 16, k: 32, waves: 1 }.into();
    let experts = Experts { grouped: true, ..Experts::routed(5, 2) };
    for tiling in [vectors, matrix] {
        let of = |n, k, weight, e: Experts| Linear {
            input: Output::F32,
            experts: Some(e),
            ..Linear::new(n, k, weight, tiling)
        };
        check_experts(&of(45, 64, q4, Experts { own: true, ..experts }), 6);
        check_experts(&Linear { bias: true, ..of(32, 64, f16, Experts { scale: true, ..experts }) }, 7);
        let gated = Some(Gated { up: q4, activation: Activation::Silu });
        check_experts(&Linear { gated, ..of(48, 96, q4, experts) }, 8);
    }
}

#[test]
fn products_are_with_the_chosen_experts() {
    let q4 = WeightType::Quant(Format::from_name("q4_0").expect("a format"));
    let q6 = WeightType::Quant(Format::from_name("q6_k").expect("a format"));
    let bf16 = WeightType::Float(Elem::BF16);
    let vectors: LinearCut = LinearTiling { tokens: 1, rows: 4, program_rows: 32, unroll: 1 }.into();
    let waves: LinearCut = RowsTiling { rows: 8, chunks: 2, waves: 1, fixed: false }.into();
    let experts = Experts::routed(5, 2);
    for tiling in [vectors, waves] {
        let of = |n, k, weight, e: Experts| Linear {
            input: Output::F32,
            experts: Some(e),
            ..Linear::new(n, k, weight, tiling)
        };
        check_experts(&of(32, 64, q4, experts), 1);
        // Rows that are no whole groups stay inside their expert.
        check_experts(&of(45, 64, q4, Experts { own: true, ..experts }), 2);
        let all = Experts { routed: false, own: true, ..Experts::routed(3, 3) };
        check_experts(&of(24, 40, bf16, all), 3);
        check_experts(&Linear { bias: true, ..of(40, 256, q6, Experts { scale: true, ..experts }) }, 4);
        let gated = Some(Gated { up: q4, activation: Activation::Silu });
        check_experts(&Linear { gated, ..of(33, 256, q6, Experts { used: 1, ..experts }) }, 5);
    }
}

/// Numbers of experts that are gone through one, two and four at a time; one step of a row and several; rows that are no
/// whole groups.
#[test]
fn experts_results_are_weighed_and_summed() {
    let of = |name: &str| WeightType::Quant(Format::from_name(name).expect("a format"));
    let experts = Experts { own: true, summed: true, ..Experts::routed(9, 2) };
    for (used, rows, chunks, waves) in [(1, 8, 2, 1), (2, 16, 4, 2), (3, 8, 2, 1), (8, 8, 2, 2)] {
        let tiling = RowsTiling { rows, chunks, waves, fixed: rows % 2 == 0 };
        let linear = |n, k, weight| Linear {
            input: Output::F32,
            experts: Some(Experts { used, ..experts }),
            ..Linear::new(n, k, weight, tiling)
        };
        check_experts(&linear(32, 64, of("q4_0")), 9);
        check_experts(&Linear { residual: true, ..linear(45, 256, of("q4_k")) }, 10);
        check_experts(&Linear { residual: true, ..linear(40, 512, of("q6_k")) }, 11);
        check_experts(&linear(16, 96, WeightType::Float(Elem::F16)), 12);
    }
}

/// Products that norm the row which a token's experts share, and that choose the experts: as many as lanes, and other numbers.
#[test]
fn products_norm_their_row_and_choose_their_experts() {
    let of = |name: &str| WeightType::Quant(Format::from_name(name).expect("a format"));
    let routing = |scoring, normalize, scale| Some(Routing { scoring, normalize, scale: Real(scale) });
    for (count, used, routing) in [
        (32, 4, routing(Scoring::Softmax, true, 1.0)),
        (5, 3, routing(Scoring::SoftmaxOfChosen, false, 1.0)),
        (64, 8, routing(Scoring::Sigmoid, true, 2.5)),
        (40, 1, routing(Scoring::Softmax, false, 1.0)),
        (7, 2, None),
    ] {
        let experts = Experts { routing, ..Experts::routed(count, used) };
        let tiling = RowsTiling { rows: 8, chunks: 4, waves: 2, fixed: true };
        let gated = Some(Gated { up: of("q6_k"), activation: Activation::Silu });
        let linear = Linear { input: Output::F32, experts: Some(experts), ..Linear::new(19, 256, of("q4_k"), tiling) };
        check_experts(&Linear { gated, norm: Some(Real(1e-5)), ..linear.clone() }, 20);
        check_experts(&Linear { bias: true, ..linear }, 21);
    }
}
