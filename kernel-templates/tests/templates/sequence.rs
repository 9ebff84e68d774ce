//! Convolutions and recurrences along the sequence. One launch over a prompt, and the same prompt in parts, give the same
//! bits.

use crate::support::*;
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{Activation, KeyHeads, Recurrence, ShortConv, Slot, Template};

/// What a launch over some tokens is given: arguments by slot, of tokens `from..to`.
type Part<'a> = dyn Fn(usize, usize) -> Vec<(Slot, Data)> + 'a;

/// Runs a sequence of `t` tokens at once and in parts, holds both to the reference and to one another, and gives the state.
fn check_sequence(p: &impl Template, part: &Part, state: &[f64], t: usize, want: [&[f64]; 2], tolerance: f64) {
    for (options, tolerance, exact) in
        [(Options::default(), tolerance, false), (Options::exact(), 10.0 * tolerance, true)]
    {
        let run = |cuts: &[usize]| {
            let (mut y, mut state, mut from) = (Vec::new(), f32s(state), 0);
            for &to in cuts {
                let mut args = part(from, to);
                args.push((Slot::NTokens, Data::Scalar((to - from) as i32)));
                args.push((Slot::State, state));
                let done = launch(p, &args, &options);
                y.extend(done.elems(Slot::Out));
                state = done.data(Slot::State);
                from = to;
            }
            let Data::Elems(_, state) = state else { unreachable!("a launch leaves elements") };
            [y, state]
        };
        let whole = run(&[t]);
        check(&format!("{}: results", p.name()), &whole[0], want[0], tolerance);
        check(&format!("{}: state", p.name()), &whole[1], want[1], tolerance);
        // In f64 a state is rounded between launches alone.
        assert!(!exact || run(&[1, 3, t]) == whole, "{}: parts give other bits", p.name());
    }
}

fn check_conv(p: &ShortConv, t: usize, seed: u64) {
    let mut r = Random::new(seed);
    let (c, taps) = (p.cols as usize, p.taps as usize);
    let (x, w, bias, before) = (r.f32s(t * c), r.f32s(c * taps), r.f32s(c), r.f32s((taps - 1) * c));
    let rows: Vec<f64> = [before.clone(), x.clone()].concat();
    let mut want = Vec::new();
    for t in 0..t {
        for col in 0..c {
            let products = (0..taps).map(|j| w[col * taps + j] * rows[(t + j) * c + col]);
            let sum = products.sum::<f64>() + if p.bias { bias[col] } else { 0.0 };
            want.push(if p.activation.is_some() { silu(sum) } else { sum });
        }
    }
    let part = |from: usize, to: usize| {
        vec![
            (Slot::X, f32s(&x[from * c..to * c])),
            (Slot::Weight(0), f32s(&w)),
            (Slot::Bias, f32s(&bias)),
            (Slot::Out, Data::Room(Elem::F32, (to - from) * c)),
        ]
    };
    check_sequence(p, &part, &before, t, [&want, &rows[t * c..]], 1e-6);
}

#[test]
fn convolutions_see_the_rows_before() {
    let base = ShortConv { cols: 40, taps: 4, bias: false, activation: None, program_cols: 32, waves: 1 };
    check_conv(&base, 6, 1);
    check_conv(&ShortConv { bias: true, activation: Some(Activation::Silu), ..base.clone() }, 5, 2);
    check_conv(&ShortConv { cols: 128, taps: 3, program_cols: 64, ..base.clone() }, 4, 3);
    check_conv(&ShortConv { cols: 130, taps: 2, program_cols: 128, waves: 2, ..base }, 7, 4);
}

fn check_recurrence(p: &Recurrence, t: usize, seed: u64) {
    let mut r = Random::new(seed);
    let (h, hk, dk, dv) = (p.heads as usize, p.key_heads as usize, p.key_dim as usize, p.value_dim as usize);
    let (q, k, v) = (r.f32s(t * hk * dk), r.f32s(t * hk * dk), r.f32s(t * h * dv));
    let decay: Vec<f64> = r.f32s(t * h).iter().map(|v| rounded(Elem::F32, -v.abs())).collect();
    let beta: Vec<f64> = r.f32s(t * h).iter().map(|v| rounded(Elem::F32, 0.1 * v.abs())).collect();
    let before = r.f32s(h * dk * dv);
    let (mut state, mut want) = (before.clone(), Vec::new());
    for t in 0..t {
        for head in 0..h {
            let share = match p.share {
                KeyHeads::Blocked => head / (h / hk),
                KeyHeads::Cyclic => head % hk,
            };
            let line = |x: &[f64]| x[(t * hk + share) * dk..][..dk].to_vec();
            let (q, k, v) = (line(&q), line(&k), &v[(t * h + head) * dv..][..dv]);
            let s = &mut state[head * dk * dv..][..dk * dv];
            s.iter_mut().for_each(|s| *s *= decay[t * h + head].exp());
            let times = |s: &[f64], by: &[f64], j: usize| (0..dk).map(|i| s[i * dv + j] * by[i]).sum::<f64>();
            let u: Vec<f64> =
                (0..dv).map(|j| if p.delta { beta[t * h + head] * (v[j] - times(s, &k, j)) } else { v[j] }).collect();
            (0..dk * dv).for_each(|i| s[i] += k[i / dv] * u[i % dv]);
            want.extend((0..dv).map(|j| times(s, &q, j)));
        }
    }
    let part = |from: usize, to: usize| {
        let rows = |x: &[f64], n: usize| f32s(&x[from * n..to * n]);
        vec![
            (Slot::Queries, rows(&q, hk * dk)),
            (Slot::Keys, rows(&k, hk * dk)),
            (Slot::X, rows(&v, h * dv)),
            (Slot::Decay, rows(&decay, h)),
            (Slot::Beta, rows(&beta, h)),
            (Slot::Out, Data::Room(Elem::F32, (to - from) * h * dv)),
        ]
    };
    check_sequence(p, &part, &before, t, [&want, &state], 2e-6);
}

#[test]
fn recurrences_carry_a_matrix_a_head() {
    let base = Recurrence {
        heads: 4,
        key_heads: 2,
        share: KeyHeads::Blocked,
        key_dim: 16,
        value_dim: 24,
        delta: true,
        columns: 8,
        waves: 1,
    };
    check_recurrence(&base, 5, 1);
    check_recurrence(&Recurrence { share: KeyHeads::Cyclic, ..base.clone() }, 4, 2);
    check_recurrence(&Recurrence { delta: false, key_heads: 1, key_dim: 12, ..base.clone() }, 6, 3);
    check_recurrence(&Recurrence { key_heads: 4, key_dim: 64, value_dim: 32, columns: 16, ..base.clone() }, 4, 4);
    check_recurrence(&Recurrence { key_dim: 64, value_dim: 16, columns: 16, waves: 2, ..base }, 4, 5);
}
