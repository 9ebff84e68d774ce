//! What kernels look like in the text form.

use hrx_ir::quant::Format;
use hrx_ir::tile::Elem;
use hrx_templates::*;

#[test]
fn a_norm_that_quantises() {
    let norm =
        RmsNorm { k: 576, eps: Real(1e-5), residual: false, indexed: false, output: Output::Q8, cut: RowCut::VECTORS };
    insta::assert_snapshot!(norm.kernel().expect("supported").to_string());
}

#[test]
fn a_product_of_one_token_with_a_residual() {
    let weight = WeightType::Quant(Format::from_name("q6_k").expect("a format"));
    let tiling = LinearTiling { tokens: 1, rows: 4, program_rows: 32, unroll: 1 };
    let l = Linear { residual: true, ..Linear::new(576, 1536, weight, tiling) };
    insta::assert_snapshot!(l.kernel().expect("supported").to_string());
}

#[test]
fn a_store_of_values() {
    let rope = Rope {
        start: 0,
        heads: 3,
        head_dim: 64,
        n_rot: 0,
        rotation: Rotation::None,
        norm: None,
        scale: None,
        output: RopeOutput::Cache(Elem::F16),
        program_heads: 3,
    };
    insta::assert_snapshot!(rope.kernel().expect("supported").to_string());
}
