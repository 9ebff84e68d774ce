//! A kernel of each family of templates, small, and cut so that all GPUs can compile it. Folders of file tests have them
//! all, with heads, written by hand, that say what a maker's instructions are to be.

use crate::filetest::TestFile;
use hrx_ir::tile::Elem;
use hrx_templates::{
    Activation, ArgMax, Attention, AttentionCut, AttentionSizes, Embed, Gated, Limit, Linear, MatrixTiling, Output,
    Real, Request, RmsNorm, Rope, RopeOutput, Rotation, RowCut, RowOp, RowsTiling, Rowwise, Template, TileAttention,
    WaveAttention, WeightType,
};
use std::path::Path;

fn weight(name: &str) -> WeightType {
    WeightType::from_name(name).expect("a type")
}

/// Attention of four heads over two, cut in some way.
fn attention(tiling: impl Into<AttentionCut>) -> Request {
    let sizes = AttentionSizes { heads: 4, kv_heads: 2, head_dim: 64, value_dim: 64, shared: false, cache: Elem::F16 };
    Attention::new(&sizes, Real(0.125), tiling).into()
}

/// A file's name and what it is made of.
fn files() -> Vec<(&'static str, Request)> {
    let cut = RowCut { piece: 512, waves: 2 };
    let rows = RowsTiling { rows: 16, chunks: 8, waves: 2, fixed: false };
    let tile = MatrixTiling { m: 32, n: 32, k: 32, waves: 2 };
    vec![
        (
            "rms_norm",
            RmsNorm { k: 1024, eps: Real(1e-5), residual: false, indexed: false, output: Output::F32, cut }.into(),
        ),
        ("linear_rows_f16", Linear::new(32, 512, weight("f16"), rows).into()),
        (
            "linear_rows_q4_k_f32",
            Linear { input: Output::F32, norm: Some(Real(1e-5)), ..Linear::new(32, 512, weight("q4_k"), rows) }.into(),
        ),
        ("linear_rows_q8_0", Linear::new(32, 512, weight("q8_0"), rows).into()),
        ("linear_tile_f16", Linear::new(64, 64, weight("f16"), tile).into()),
        (
            "linear_tile_q4_k_gated",
            Linear {
                input: Output::F32,
                gated: Some(Gated { up: weight("q4_k"), activation: Activation::Silu }),
                ..Linear::new(64, 256, weight("q4_k"), MatrixTiling { waves: 4, ..tile })
            }
            .into(),
        ),
        (
            "rope_neox_to_cache",
            Rope {
                heads: 2,
                head_dim: 64,
                start: 0,
                n_rot: 64,
                rotation: Rotation::Neox,
                norm: Some(Real(1e-6)),
                scale: None,
                output: RopeOutput::Cache(Elem::F16),
                program_heads: 1,
            }
            .into(),
        ),
        ("attention", attention(WaveAttention { group: 2, positions: 16, waves: 2, parts: 1 })),
        (
            "attention_tile",
            attention(TileAttention { group: 2, tokens: 16, keys: 32, waves: 2, parts: 1, turned: false }),
        ),
        ("embed_q8_0", Embed { rows: 100, k: 512, table: weight("q8_0"), scale: None, cut }.into()),
        (
            "rowwise_glu",
            Rowwise { k: 512, op: RowOp::Glu(Activation::Silu, Limit::Off), indexed: false, output: Output::Q8, cut }
                .into(),
        ),
        ("argmax", ArgMax { k: 1000, cut }.into()),
    ]
}

/// Holds the kernels of a folder of file tests to what the templates make now; with `HRX_UPDATE=1` writes them there.
/// Gives the names of files that differ.
///
/// # Panics
/// If a template refuses, or a file can't be written.
pub fn differing(folder: &Path) -> Vec<&'static str> {
    let update = std::env::var_os("HRX_UPDATE").is_some_and(|v| v == "1");
    let mut differing = Vec::new();
    for (name, request) in files() {
        let path = folder.join(format!("{name}.tile"));
        let body = request.kernel().unwrap_or_else(|e| panic!("{name}: {e}")).to_string();
        let text = std::fs::read_to_string(&path).unwrap_or_else(|_| "// test: verify\n".into());
        let file = TestFile::parse(&text);
        if file.body == body {
            continue;
        }
        if update {
            std::fs::write(&path, TestFile { body, ..file }.text()).unwrap_or_else(|e| panic!("{name}: {e}"));
        } else {
            differing.push(name);
        }
    }
    differing
}

/// The files that a folder should have and those it has, each sorted.
///
/// # Panics
/// If it can't be read.
pub fn names(folder: &Path) -> [Vec<String>; 2] {
    let mut names: Vec<String> = files().iter().map(|(name, _)| format!("{name}.tile")).collect();
    let entries = std::fs::read_dir(folder).expect("the folder");
    let mut found: Vec<String> =
        entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    found.sort_unstable();
    [names, found]
}
