use crate::support::*;
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{Real, Rope, RopeOutput, Rotation, Slot, Template};

/// Rotated heads in f64, and the tables.
fn reference(p: &Rope, x: &[f64], w: &[f64], positions: &[i32]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
    let (d, rot) = (p.head_dim as usize, p.n_rot as usize);
    let row = d * p.heads as usize;
    let angle = |t: usize, i: usize| f64::from(positions[t]) * 10000f64.powf(-2.0 * i as f64 / rot as f64);
    let table = |f: fn(f64) -> f64| -> Vec<f64> {
        (0..positions.len()).flat_map(|t| (0..rot / 2).map(move |i| rounded(Elem::F32, f(angle(t, i))))).collect()
    };
    let (cos, sin) = (table(f64::cos), table(f64::sin));
    let mut y = match p.norm {
        Some(eps) => rms_norm(x, w, f64::from(eps.0)),
        None => x.to_vec(),
    };
    for (t, row) in y.chunks_mut(row).enumerate() {
        for head in row.chunks_mut(d) {
            for i in 0..rot / 2 {
                let (a, b) = if p.rotation == Rotation::Normal { (2 * i, 2 * i + 1) } else { (i, i + rot / 2) };
                let (c, s) = (cos[t * rot / 2 + i], sin[t * rot / 2 + i]);
                let (a, b) = (p.start as usize + a, p.start as usize + b);
                (head[a], head[b]) = (head[a] * c - head[b] * s, head[b] * c + head[a] * s);
            }
        }
    }
    y.iter_mut().for_each(|v| *v *= p.scale.map_or(1.0, |s| f64::from(s.0)));
    (y, cos, sin)
}

fn check_rope(p: &Rope, positions: &[i32], seed: u64) {
    let mut r = Random::new(seed);
    let (t, h, d, n_ctx) = (positions.len(), p.heads as usize, p.head_dim as usize, 128);
    let (x, w) = (r.f32s(t * h * d), r.f32s(d));
    let (want, cos, sin) = reference(p, &x, &w, positions);
    let mut args = vec![
        (Slot::NTokens, Data::Scalar(t as i32)),
        (Slot::NCtx, Data::Scalar(n_ctx)),
        (Slot::HeadStride, Data::Scalar(n_ctx * d as i32)),
        (Slot::X, f32s(&x)),
        (Slot::NormWeight, f32s(&w)),
        (Slot::Cos, f32s(&cos)),
        (Slot::Sin, f32s(&sin)),
        (Slot::Positions, i32s(positions)),
    ];
    let n_ctx = n_ctx as usize;
    // Other layers' are between a panel and the next.
    let stride = 64 * h * d + 32;
    args.push((Slot::PanelStride, Data::Scalar(stride as i32)));
    match p.output {
        RopeOutput::F32 => args.push((Slot::Out, Data::Room(Elem::F32, x.len()))),
        // What lies in the cache before must stay, so it holds something.
        RopeOutput::Cache(e) => args.push((Slot::Cache, Data::Elems(e, vec![7.0; h * n_ctx * d]))),
        RopeOutput::KeyPanels(e) | RopeOutput::ValuePanels(e) => {
            args.push((Slot::Cache, Data::Elems(e, vec![7.0; stride * n_ctx / 64])))
        }
    }
    let done = launch(p, &args, &Options::default());
    let block = [64, 32, 16, 8].into_iter().find(|b| d % b == 0).unwrap_or(1);
    // Where an element of a head at a position is.
    type Place = Box<dyn Fn(usize, usize, usize) -> usize>;
    let panel = move |head, position| position / 64 * stride + head * 64 * d;
    let (elem, place, len): (Elem, Place, usize) = match p.output {
        RopeOutput::F32 => return check(&p.name(), &done.elems(Slot::Out), &want, 1e-6),
        RopeOutput::Cache(e) => {
            (e, Box::new(move |head, position, i| (head * n_ctx + position) * d + i), h * n_ctx * d)
        }
        RopeOutput::KeyPanels(e) => {
            (e, Box::new(move |head, position, i| panel(head, position) + i * 64 + position % 64), stride * n_ctx / 64)
        }
        RopeOutput::ValuePanels(e) => {
            let row = move |position, i| i / block * 64 + position % 64;
            (
                e,
                Box::new(move |h, position, i| panel(h, position) + row(position, i) * block + i % block),
                stride * n_ctx / 64,
            )
        }
    };
    let mut cache = vec![7.0; len];
    for (t, &position) in positions.iter().enumerate() {
        for head in 0..h {
            let (position, want) = (position as usize, &want[(t * h + head) * d..][..d]);
            (0..d).for_each(|i| cache[place(head, position, i)] = want[i]);
        }
    }
    let tolerance = [1e-6, 1e-3, 8e-3][[Elem::F32, Elem::F16, Elem::BF16].iter().position(|e| *e == elem).unwrap_or(0)];
    check(&p.name(), &done.elems(Slot::Cache), &cache, tolerance);
    let kept = done.elems(Slot::Cache).iter().filter(|v| **v == 7.0).count();
    assert_eq!(kept, len - t * h * d, "{}: only the tokens' positions are written", p.name());
}

const BASE: Rope = Rope {
    heads: 3,
    head_dim: 16,
    start: 0,
    n_rot: 16,
    rotation: Rotation::Normal,
    norm: None,
    scale: None,
    output: RopeOutput::F32,
    program_heads: 3,
};

#[test]
fn both_rotations_turn_rows() {
    for rotation in [Rotation::Normal, Rotation::Neox] {
        for (start, n_rot) in [(0, 2), (0, 10), (0, 16), (4, 12), (6, 4)] {
            check_rope(&Rope { rotation, start, n_rot, ..BASE }, &[0, 1, 33], 1);
            let more = Rope { norm: Some(Real(1e-6)), scale: Some(Real(0.25)), heads: 1, program_heads: 1, ..BASE };
            check_rope(&Rope { rotation, start, n_rot, ..more }, &[5], 2);
        }
    }
}

#[test]
fn keys_and_values_go_to_their_positions() {
    for e in [Elem::F32, Elem::F16, Elem::BF16] {
        for output in [RopeOutput::Cache(e), RopeOutput::KeyPanels(e), RopeOutput::ValuePanels(e)] {
            check_rope(&Rope { output, ..BASE }, &[63, 0, 120], 3);
            check_rope(&Rope { output, rotation: Rotation::Neox, norm: Some(Real(1e-6)), ..BASE }, &[7, 8], 4);
            check_rope(&Rope { output, rotation: Rotation::None, n_rot: 0, ..BASE }, &[63, 64], 5);
            check_rope(&Rope { output, rotation: Rotation::None, n_rot: 0, head_dim: 80, ..BASE }, &[1], 6);
        }
    }
}

#[test]
fn wide_and_odd_heads_turn() {
    check_rope(
        &Rope { head_dim: 256, n_rot: 256, heads: 2, program_heads: 2, rotation: Rotation::Neox, ..BASE },
        &[40],
        6,
    );
    check_rope(&Rope { head_dim: 80, n_rot: 32, ..BASE }, &[9, 2], 7);
}
