//! Groups against their parts, launched one by one.

use crate::support::*;
use hrx_ir::quant::Format;
use hrx_ir::tile::Elem;
use hrx_ir::tile::interp::Options;
use hrx_templates::{
    Group, Linear, LinearCut, MatrixTiling, Output, Real, Request, Rope, RopeOutput, Rotation, RowsTiling, Slot,
    Template, WeightType,
};

/// A kernel with the data of its arguments, by the name of each operand.
struct Part {
    request: Request,
    args: Vec<(Slot, &'static str, Data)>,
}

impl Part {
    fn data(&self, slot: Slot) -> (&'static str, Data) {
        let of = self.args.iter().find(|(s, ..)| *s == slot).unwrap_or_else(|| panic!("no {slot:?}"));
        (of.1, of.2.clone())
    }
}

/// Launches parts together, and holds what each writes to what it writes alone. Returns the group.
fn check_group(parts: &[Part], shared: usize) -> Group {
    let slots: Vec<Vec<Slot>> = parts.iter().map(|p| p.request.slots()).collect();
    let operands: Vec<Vec<&str>> =
        parts.iter().zip(&slots).map(|(p, slots)| slots.iter().map(|&s| p.data(s).0).collect()).collect();
    let pairs: Vec<(&Request, &[&str])> =
        parts.iter().zip(&operands).map(|(p, o)| (&p.request, o.as_slice())).collect();
    let (group, order) = Group::new(&pairs);
    let all: usize = slots.iter().map(Vec::len).sum();
    assert_eq!(order.len(), all - shared, "{}", group.name());
    let all = || parts.iter().flat_map(|p| &p.args);
    let args: Vec<(Slot, Data)> = group
        .slots()
        .into_iter()
        .zip(&order)
        .map(|(slot, name)| {
            let of = all().find(|(s, n, _)| *s == slot && n == name).expect("each operand is some part's");
            (slot, of.2.clone())
        })
        .collect();
    let together = launch(&group, &args, &Options::exact());
    for part in parts {
        let args: Vec<(Slot, Data)> = part.request.slots().into_iter().map(|s| (s, part.data(s).1)).collect();
        let alone = launch(&part.request, &args, &Options::exact());
        for out in [Slot::Out, Slot::Cache] {
            let Some((_, name, _)) = part.args.iter().find(|(s, ..)| *s == out) else { continue };
            let nth = order.iter().zip(group.slots()).filter(|(_, s)| *s == out).position(|(n, _)| n == name);
            let got = together.elems_of(out, nth.expect("outputs are nobody else's"));
            assert!(got == alone.elems(out), "{}: {name} differs", group.name());
        }
    }
    group
}

fn product(r: &mut Random, names: [&'static str; 2], linear: Linear, t: usize, x: &[f64], norm: &[f64]) -> Part {
    let (n, k) = (linear.n as usize, linear.k as usize);
    let WeightType::Quant(format) = linear.weight else { panic!("these are quantised") };
    let args = vec![
        (Slot::NTokens, "tokens", Data::Scalar(t as i32)),
        (Slot::X, "x", f32s(x)),
        (Slot::NormWeight, "norm", f32s(norm)),
        (Slot::Weight(0), names[0], Data::Bytes(r.blocks(format, n * k / format.block as usize))),
        (Slot::Out, names[1], Data::Room(Elem::F32, t * n)),
    ];
    Part { request: linear.into(), args }
}

#[test]
fn products_of_one_input_share_a_launch() {
    let mut r = Random::new(1);
    let rows: LinearCut = RowsTiling { rows: 4, chunks: 2, waves: 2, fixed: false }.into();
    let matrix: LinearCut = MatrixTiling { m: 16, n: 32, k: 32, waves: 2 }.into();
    for (tiling, norm, t) in [(rows, Some(Real(1e-5)), 1), (rows, None, 3), (matrix, None, 19)] {
        let k = 256;
        let (x, w) = (r.f32s(t * k), r.f32s(k));
        let mut part = |names, n, format: &str| {
            let weight = WeightType::Quant(Format::from_name(format).expect("a format"));
            let linear = Linear { input: Output::F32, norm, ..Linear::new(n, k as u32, weight, tiling) };
            product(&mut r, names, linear, t, &x, &w)
        };
        let parts = [part(["wq", "q"], 40, "q4_1"), part(["wk", "k"], 12, "q4_1"), part(["wv", "v"], 12, "q6_k")];
        // The number of tokens, the input, and with a norm its weights.
        check_group(&parts, 2 * if norm.is_some() { 3 } else { 2 });
    }
}

#[test]
fn heads_are_turned_and_stored_in_one_launch() {
    let mut r = Random::new(2);
    let (t, n_ctx, d) = (3usize, 64, 16usize);
    let positions = i32s(&[4, 9, 63]);
    let (cos, sin) = (f32s(&r.f32s(t * d / 2)), f32s(&r.f32s(t * d / 2)));
    let mut part = |names: [&'static str; 2], heads: u32, rotation, output| {
        let n_rot = if rotation == Rotation::None { 0 } else { d as u32 };
        let head_dim = d as u32;
        let (norm, scale) = (None, None);
        let rope = Rope { heads, head_dim, start: 0, n_rot, rotation, norm, scale, output, program_heads: 1 };
        let row = heads as usize * d;
        let mut args = vec![
            (Slot::NTokens, "tokens", Data::Scalar(t as i32)),
            (Slot::NCtx, "context", Data::Scalar(n_ctx)),
            (Slot::HeadStride, "stride", Data::Scalar(n_ctx * d as i32)),
            (Slot::X, names[0], f32s(&r.f32s(t * row))),
            (Slot::Cos, "cos", cos.clone()),
            (Slot::Sin, "sin", sin.clone()),
            (Slot::Positions, "positions", positions.clone()),
        ];
        args.push(match output {
            RopeOutput::F32 => (Slot::Out, names[1], Data::Room(Elem::F32, t * row)),
            RopeOutput::Cache(e) | RopeOutput::KeyPanels(e) | RopeOutput::ValuePanels(e) => {
                (Slot::Cache, names[1], Data::Elems(e, vec![7.0; n_ctx as usize * row]))
            }
        });
        Part { request: rope.into(), args }
    };
    let cache = RopeOutput::Cache(Elem::F16);
    let parts = [
        part(["q", "turned"], 6, Rotation::Neox, RopeOutput::F32),
        part(["k", "keys"], 2, Rotation::Neox, cache),
        part(["v", "values"], 2, Rotation::None, cache),
    ];
    // Twice the tokens, the angles once, the cache's sizes and the positions once.
    let group = check_group(&parts, 2 + 2 + 3);
    assert_eq!(
        group.name(),
        "group7_rope_neox16_h6_d16_g1_and_rope_neox16_h2_d16_to_f16_g1_and_rope_none_h2_d16_to_f16_g1"
    );
}

/// What is shared is the same kind of argument: rows of other lengths are others, even in the same memory.
#[test]
fn arguments_of_other_shapes_are_not_shared() {
    let mut r = Random::new(3);
    let rope = |heads, head_dim| Rope {
        heads,
        head_dim,
        start: 0,
        n_rot: 0,
        rotation: Rotation::None,
        norm: None,
        scale: None,
        output: RopeOutput::F32,
        program_heads: 1,
    };
    let x = r.f32s(2 * 24);
    let part = |rope: Rope, out| {
        let args = vec![
            (Slot::NTokens, "tokens", Data::Scalar(2)),
            (Slot::X, "x", f32s(&x)),
            (Slot::Out, out, Data::Room(Elem::F32, x.len())),
        ];
        Part { request: rope.into(), args }
    };
    check_group(&[part(rope(3, 8), "a"), part(rope(2, 12), "b")], 1);
    check_group(&[part(rope(3, 8), "a"), part(rope(3, 8), "b")], 2);
}
