//! How long kernels take to compile, on one thread: those that decode and prefill steps of a model of 135 million
//! parameters are made of. `cargo bench -p hrx-compiler`.

use criterion::{Criterion, criterion_group, criterion_main};
use hrx_compiler::{Target, compile};
use hrx_ir::tile::Elem;
use hrx_templates::{
    Activation, Attention, AttentionSizes, AttentionTiling, Gated, Linear, LinearTiling, Output, Real, Request,
    RmsNorm, Rope, RopeOutput, Rotation, RowCut, TargetShape, Template, WeightType,
};
use std::time::Duration;

const WIDTH: u32 = 576;
const FEED_FORWARD: u32 = 1536;
const HEADS: u32 = 9;
const KV_HEADS: u32 = 3;
const HEAD_DIM: u32 = 64;
const EPS: Real = Real(1e-5);

/// Tokens of a prefill launch that tilings are chosen for.
const MANY: u32 = 64;

fn weight(name: &str) -> WeightType {
    WeightType::from_name(name).unwrap_or_else(|| panic!("{name} is no weight type"))
}

fn attention(shape: &TargetShape, tokens: u32) -> Request {
    let (heads, kv_heads, head_dim, value_dim) = (HEADS, KV_HEADS, HEAD_DIM, HEAD_DIM);
    let sizes = AttentionSizes { heads, kv_heads, head_dim, value_dim, shared: false, cache: Elem::F16 };
    let tiling = AttentionTiling { parted: false, ..AttentionTiling::choose(shape, &sizes, tokens) };
    Attention { output: Output::Q8, ..Attention::new(&sizes, Real(0.125), tiling) }.into()
}

/// The gate and up projections of a feed-forward layer with the activation between them.
fn gated(format: &str, norm: Option<Real>, tiling: LinearTiling) -> Request {
    let up = weight(format);
    let gated = Some(Gated { up, activation: Activation::Silu });
    Linear { gated, norm, output: Output::Q8, ..Linear::new(FEED_FORWARD, WIDTH, up, tiling) }.into()
}

fn requests(shape: &TargetShape) -> Vec<(String, Request)> {
    let [one, many] = [1, MANY].map(|tokens| LinearTiling::choose(shape, tokens));
    let mut list: Vec<(String, Request)> = Vec::new();
    // K-quants need whole blocks of 256, which the model's width has not: they multiply the feed-forward layer's result.
    for format in ["q4_1", "q8_0", "f16"] {
        list.push((format!("decode/matvec_{format}"), Linear::new(WIDTH, WIDTH, weight(format), one).into()));
        list.push((format!("prefill/matmul_{format}"), Linear::new(WIDTH, WIDTH, weight(format), many).into()));
    }
    for format in ["q4_k", "q6_k"] {
        list.push((format!("decode/matvec_{format}"), Linear::new(WIDTH, FEED_FORWARD, weight(format), one).into()));
        list.push((format!("prefill/matmul_{format}"), Linear::new(WIDTH, FEED_FORWARD, weight(format), many).into()));
    }
    list.push(("decode/norm_gated_q4_1".into(), gated("q4_1", Some(EPS), one)));
    list.push(("prefill/gated_q4_1".into(), gated("q4_1", None, many)));
    list.push(("decode/attention".into(), attention(shape, 1)));
    list.push(("prefill/attention".into(), attention(shape, MANY)));
    let norm =
        RmsNorm { k: WIDTH, eps: EPS, residual: false, indexed: false, output: Output::Q8, cut: RowCut::VECTORS };
    list.push(("prefill/rms_norm".into(), norm.into()));
    let rope = Rope {
        heads: KV_HEADS,
        head_dim: HEAD_DIM,
        start: 0,
        n_rot: HEAD_DIM,
        rotation: Rotation::Normal,
        norm: None,
        scale: None,
        output: RopeOutput::Cache(Elem::F16),
        program_heads: KV_HEADS,
    };
    list.push(("decode/rope_store".into(), rope.into()));
    list
}

fn compile_time(c: &mut Criterion) {
    let target = Target::host().expect("a host that code is generated for");
    let shape = TargetShape::vectors(target.vector_lanes(), target.vector_registers());
    let mut group = c.benchmark_group("compile");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    for (name, request) in requests(&shape) {
        let kernel = request.kernel().unwrap_or_else(|e| panic!("{name}: {e}"));
        group.bench_function(name, |b| b.iter(|| compile(&kernel, &target).map(|c| c.object.len())));
    }
    group.finish();
}

criterion_group!(benches, compile_time);
criterion_main!(benches);
