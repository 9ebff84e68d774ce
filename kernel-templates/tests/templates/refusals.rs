//! Facts that are not supported are errors that say which and why.

use hrx_ir::quant::Format;
use hrx_ir::tile::Elem;
use hrx_templates::*;

fn refused(t: impl Into<Request>) -> String {
    match t.into().kernel() {
        Ok(k) => panic!("{} is made", k.name),
        Err(e) => e.to_string(),
    }
}

#[test]
fn every_refusal_names_the_fact() {
    let q4_k = WeightType::Quant(Format::from_name("q4_k").expect("a format"));
    let f16 = WeightType::Float(Elem::F16);
    let tiling = LinearTiling { tokens: 2, rows: 4, program_rows: 32, unroll: 2 };
    let linear = Linear::new(64, 256, q4_k, tiling);
    let says = |got: String, want: &str| assert!(got.contains(want), "{got:?} does not say {want:?}");
    says(refused(Linear { k: 96, ..linear.clone() }), "k = 96 of q4_k");
    says(refused(Linear { n: 0, ..linear.clone() }), "0 elements");
    says(refused(Linear { n: 40, output: Output::Q8, ..linear.clone() }), "Q8 output of 40");
    says(refused(Linear { residual: true, output: Output::Q8, ..linear.clone() }), "residual");
    says(refused(Linear { norm: Some(Real(1e-5)), ..linear.clone() }), "norm with 2 tokens");
    says(refused(Linear { tiling: LinearTiling { rows: 3, ..tiling }.into(), ..linear.clone() }), "rows: 3");
    says(refused(Linear { tiling: LinearTiling { tokens: 0, ..tiling }.into(), ..linear.clone() }), "tokens: 0");
    let gated = Some(Gated { up: f16, activation: Activation::Silu });
    says(refused(Linear { gated, ..linear.clone() }), "Q8 input of q4_k and f16");
    says(refused(Linear { weight: WeightType::Float(Elem::I8), ..linear }), "i8");
    let norm =
        RmsNorm { k: 40, eps: Real(1e-5), residual: false, indexed: false, output: Output::Q8, cut: RowCut::VECTORS };
    says(refused(norm.clone()), "Q8 output of 40");
    says(refused(RmsNorm { k: 64, residual: true, ..norm }), "residual");
    says(refused(Embed { rows: 4, k: 32, table: q4_k, scale: None, cut: RowCut::VECTORS }), "k = 32 of q4_k");
    says(refused(Embed { rows: 0, k: 256, table: q4_k, scale: None, cut: RowCut::VECTORS }), "0 rows");
    says(refused(ArgMax { k: u32::MAX, cut: RowCut::VECTORS }), "k = 4294967295");
    says(refused(ArgMax { k: 0, cut: RowCut::VECTORS }), "k = 0");
    says(
        refused(Rowwise { k: 0, op: RowOp::Add, indexed: false, output: Output::F32, cut: RowCut::VECTORS }),
        "0 elements",
    );
    let rope = Rope {
        start: 0,
        heads: 2,
        head_dim: 16,
        n_rot: 16,
        rotation: Rotation::Neox,
        norm: None,
        scale: None,
        output: RopeOutput::F32,
        program_heads: 2,
    };
    says(refused(Rope { n_rot: 18, ..rope.clone() }), "n_rot = 18");
    says(refused(Rope { start: 2, ..rope.clone() }), "n_rot = 16");
    says(refused(Rope { n_rot: 3, ..rope.clone() }), "n_rot = 3");
    says(refused(Rope { rotation: Rotation::None, ..rope.clone() }), "n_rot = 16");
    says(refused(Rope { output: RopeOutput::Cache(Elem::I8), ..rope }), "cache of i8");
    let cut = AttentionTiling { group: 2, tokens: 1, tile: 8, keys: 4, depth: 16, panels: false, parted: false };
    let sizes = AttentionSizes { heads: 4, kv_heads: 2, head_dim: 16, value_dim: 16, shared: false, cache: Elem::F16 };
    let attention = Attention::new(&sizes, Real(1.0), cut);
    says(refused(Attention { kv_heads: 3, ..attention.clone() }), "4 heads over 3");
    says(refused(Attention { head_dim: 20, ..attention.clone() }), "head_dim = 20");
    says(refused(Attention { shared: true, value_dim: 32, ..attention.clone() }), "values of 32 in keys of 16");
    says(refused(Attention { window: Some(0), ..attention.clone() }), "window = 0");
    says(refused(Attention { output: Output::Q8, ..attention.clone() }), "Q8 output of 16");
    for (bad, what) in [
        (AttentionTiling { tile: 12, ..cut }, "tile: 12"),
        (AttentionTiling { parted: true, tokens: 2, ..cut }, "one token"),
    ] {
        says(refused(Attention { tiling: bad.into(), ..attention.clone() }), what);
    }
    let panels = AttentionTiling { panels: true, ..cut };
    says(refused(Attention { shared: true, tiling: panels.into(), ..attention.clone() }), "keys in rows");
    let parted = AttentionTiling { parted: true, ..cut };
    says(refused(Attention { sinks: true, tiling: parted.into(), ..attention }), "joins parts");
}

#[test]
fn names_tell_facts_apart() {
    let tiling = LinearTiling { tokens: 1, rows: 4, program_rows: 32, unroll: 1 };
    let l = Linear::new(64, 64, WeightType::Float(Elem::F16), tiling);
    let gated = |activation| Some(Gated { up: WeightType::Float(Elem::F32), activation });
    let linears = [
        l.clone(),
        Linear { bias: true, ..l.clone() },
        Linear { residual: true, ..l.clone() },
        Linear { output: Output::Q8, ..l.clone() },
        Linear { norm: Some(Real(1e-5)), ..l.clone() },
        Linear { norm: Some(Real(1e-6)), ..l.clone() },
        Linear { scale: Some(Real(-0.25)), ..l.clone() },
        Linear { scale: Some(Real(0.25)), ..l.clone() },
        Linear { softcap: Some(Real(0.25)), ..l.clone() },
        Linear { gated: gated(Activation::Silu), ..l.clone() },
        Linear { gated: gated(Activation::GeluTanh), ..l.clone() },
        Linear { tiling: LinearTiling { tokens: 2, ..tiling }.into(), ..l.clone() },
        Linear { tiling: LinearTiling { rows: 2, ..tiling }.into(), ..l.clone() },
        Linear { tiling: LinearTiling { program_rows: 64, ..tiling }.into(), ..l.clone() },
        Linear { tiling: LinearTiling { unroll: 2, ..tiling }.into(), ..l },
    ];
    let names: std::collections::BTreeSet<String> = linears.iter().map(Template::name).collect();
    assert_eq!(names.len(), linears.len(), "{names:?}");
    assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')), "{names:?}");
}
