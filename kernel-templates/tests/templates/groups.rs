//! Rows combined with a number a group, put together anew, and normed in groups.

use crate::support::*;
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{
    Activation, Combine, GroupNorm, Limit, Output, Parts, Real, Regroup, RowCut, RowOp, Rowwise, Slot,
};
use hrx_templates::{Spread, Template};

/// For vectors, and for waves: a piece longer than the rows, and one that leaves a rest.
const CUTS: [RowCut; 3] = [RowCut::VECTORS, RowCut { piece: 128, waves: 1 }, RowCut { piece: 64, waves: 2 }];

fn check_out(template: &impl Template, args: &[(Slot, Data)], want: &[f64], tolerance: f64) {
    for (options, tolerance) in [(Options::default(), tolerance), (Options::exact(), 5.0 * tolerance)] {
        check(&template.name(), &launch(template, args, &options).elems(Slot::Out), want, tolerance);
    }
}

#[test]
fn rows_are_combined_with_a_number_a_group() {
    let mut r = Random::new(1);
    for cut in CUTS {
        for (t, groups, group) in [(2, 45, 1), (3, 4, 24), (1, 3, 200), (2, 1, 70)] {
            for (combine, weight) in [(Combine::Add, false), (Combine::Mul, true)] {
                let p = Spread { combine, groups, group, weight, cut };
                let (n, g) = (groups as usize, group as usize);
                let (x, y) = (r.f32s(t * n * g), r.f32s(if weight { n } else { t * n }));
                let of = |i: usize| y[if weight { i / g % n } else { i / g }];
                let apply = |(i, x): (usize, &f64)| if combine == Combine::Add { x + of(i) } else { x * of(i) };
                let want: Vec<f64> = x.iter().enumerate().map(apply).collect();
                let args = [
                    (Slot::NTokens, Data::Scalar(t as i32)),
                    (Slot::X, f32s(&x)),
                    (if weight { Slot::Weight(0) } else { Slot::Y }, f32s(&y)),
                    (Slot::Out, Data::Room(Elem::F32, x.len())),
                ];
                check_out(&p, &args, &want, 1e-7);
            }
        }
    }
}

#[test]
fn parts_are_put_together_anew() {
    let mut r = Random::new(2);
    for cut in CUTS {
        for (t, groups, of, start, len) in [(2, 3, 40, 8, 20), (1, 1, 200, 0, 150), (3, 5, 4, 3, 1)] {
            let p = Regroup { groups, parts: Parts::Columns { of, start, len }, cut };
            let x = r.f32s(t * (groups * of) as usize);
            let part = start as usize..(start + len) as usize;
            let want: Vec<f64> = x.chunks(of as usize).flat_map(|g| g[part.clone()].to_vec()).collect();
            let out = (Slot::Out, Data::Room(Elem::F32, want.len()));
            check_out(&p, &[(Slot::NTokens, Data::Scalar(t as i32)), (Slot::X, f32s(&x)), out], &want, 0.0);
        }
        for (t, groups, first, second) in [(2, 4, 40, 9), (1, 1, 130, 64)] {
            let p = Regroup { groups, parts: Parts::Both { first, second }, cut };
            let (x, y) = (r.f32s(t * (groups * first) as usize), r.f32s(t * (groups * second) as usize));
            let pairs = x.chunks(first as usize).zip(y.chunks(second as usize));
            let want: Vec<f64> = pairs.flat_map(|(a, b)| [a, b].concat()).collect();
            let args = [
                (Slot::NTokens, Data::Scalar(t as i32)),
                (Slot::X, f32s(&x)),
                (Slot::Y, f32s(&y)),
                (Slot::Out, Data::Room(Elem::F32, want.len())),
            ];
            check_out(&p, &args, &want, 0.0);
        }
    }
}

#[test]
fn groups_are_normed() {
    let mut r = Random::new(3);
    for cut in CUTS {
        for (t, groups, group, centred) in [(2, 3, 40, true), (1, 1, 200, true), (3, 5, 64, false), (2, 2, 7, true)] {
            for (weight, bias) in [(false, false), (true, false), (true, true)] {
                let p = GroupNorm { groups, group, centred, eps: Real(1e-3), weight, bias, cut };
                let (k, g) = ((groups * group) as usize, group as usize);
                // A mean far from zero: it has to be taken off before squares are summed.
                let x: Vec<f64> = r.f32s(t * k).iter().map(|v| rounded(Elem::F32, v + 3.0)).collect();
                let (w, v) = (r.f32s(k), r.f32s(k));
                let normed = x.chunks(g).flat_map(|x| {
                    let mean = if centred { x.iter().sum::<f64>() / g as f64 } else { 0.0 };
                    let square = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / g as f64;
                    x.iter().map(move |x| (x - mean) / (square + f64::from(1e-3f32)).sqrt()).collect::<Vec<f64>>()
                });
                let part = |used: bool, v: &[f64], i: usize, none: f64| if used { v[i % k] } else { none };
                let want: Vec<f64> =
                    normed.enumerate().map(|(i, y)| y * part(weight, &w, i, 1.0) + part(bias, &v, i, 0.0)).collect();
                let args = [
                    (Slot::NTokens, Data::Scalar(t as i32)),
                    (Slot::X, f32s(&x)),
                    (Slot::NormWeight, f32s(&w)),
                    (Slot::Bias, f32s(&v)),
                    (Slot::Out, Data::Room(Elem::F32, x.len())),
                ];
                check_out(&p, &args, &want, 1e-5);
            }
        }
    }
}

#[test]
fn activations_and_limits_follow_their_formulas() {
    let mut r = Random::new(4);
    let n = 64;
    let x: Vec<f64> = r.f32s(n).iter().map(|v| rounded(Elem::F32, 6.0 * v)).collect();
    let y: Vec<f64> = r.f32s(n).iter().map(|v| rounded(Elem::F32, 6.0 * v)).collect();
    let rows = |op| Rowwise { k: n as u32, op, indexed: false, output: Output::F32, cut: RowCut::VECTORS };
    let args = |x: &[f64]| {
        vec![
            (Slot::NTokens, Data::Scalar(1)),
            (Slot::X, f32s(x)),
            (Slot::Y, f32s(&y)),
            (Slot::Out, Data::Room(Elem::F32, n)),
        ]
    };
    for act in Activation::ALL {
        let want: Vec<f64> = x.iter().map(|&x| activated(act, x)).collect();
        check_out(&rows(RowOp::Act(act)), &args(&x), &want, 2e-7);
        let wide: Vec<f64> = x.iter().map(|x| rounded(Elem::F32, 20.0 * x)).collect();
        let want: Vec<f64> = wide.iter().map(|&x| activated(act, x)).collect();
        check_out(&rows(RowOp::Act(act)), &args(&wide), &want, 2e-7);
        let l = 1.5;
        for limit in [Limit::Off, Limit::Gate(Real(1.5)), Limit::Activated(Real(1.5)), Limit::GatePlusOne(Real(1.5))] {
            let gated = |(&x, &y): (&f64, &f64)| match limit {
                Limit::Off => activated(act, x) * y,
                Limit::Gate(_) => activated(act, x.min(l)) * y.clamp(-l, l),
                Limit::Activated(_) => activated(act, x).min(l) * y.clamp(-l, l),
                Limit::GatePlusOne(_) => activated(act, x.min(l)) * (y.clamp(-l, l) + 1.0),
            };
            let want: Vec<f64> = x.iter().zip(&y).map(gated).collect();
            check_out(&rows(RowOp::Glu(act, limit)), &args(&x), &want, 4e-7);
        }
    }
    let want: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x * y).collect();
    check_out(&rows(RowOp::Mul), &args(&x), &want, 1e-7);
}
