//! The kernels that the golden models need on targets.

use crate::golden::{Golden, real_model_path};
use crate::turns::all;
use hrx::exec::{Activations, Drafts, target_shape};
use hrx::models::ModelGraph;
use hrx::{Error, Outputs};
use hrx_compiler::Target;
use hrx_ir::graph::Graph;
use hrx_ir::tile::Kernel;
use hrx_templates::{Linear, LinearCut, Output, Request, Template};
use std::collections::HashMap;
use std::path::PathBuf;

/// The graphs of the compact goldens whose turn it is of so many; with `HRX_ALL=1` those of all goldens that are there
/// and of the real models.
pub fn graphs(turns: u64) -> Vec<Graph> {
    let golden = if all() { Golden::locate() } else { Golden::compact() };
    let goldens = golden.models().expect("goldens").into_iter().enumerate().filter(|(i, m)| m.is_due(*i, turns));
    let mut paths: Vec<PathBuf> = goldens.map(|(_, m)| golden.path(&m)).collect();
    if all() {
        let real = golden.published_models().expect("real models").into_iter().map(|m| real_model_path(&m.model));
        paths.extend(real);
    }
    paths.iter().map(|p| ModelGraph::open(p).unwrap_or_else(|e| panic!("{e}")).graph).collect()
}

/// What a target needs for a model, whether logits are computed or hidden states. Products of one token are added with
/// 8-bit activations: sessions don't ask GPUs for these yet, and they are where dot products of bytes are.
fn requests(graph: &Graph, target: &Target) -> Result<Vec<Request>, Error> {
    let mut requests = Vec::new();
    for outputs in [Outputs::Last, Outputs::Hidden] {
        requests.extend(Drafts::new(graph, outputs, [512, 1], Activations::F32, &target_shape(target))?.requests());
    }
    let quantised = |l: &Linear| {
        let weights = [Some(l.weight), l.gated.as_ref().map(|g| g.up)];
        weights.into_iter().flatten().all(|w| Linear::input(w) == Output::Q8)
    };
    let with_bytes = |request: &Request| match request {
        Request::Linear(l) if matches!(l.tiling, LinearCut::Rows(_)) && l.experts.is_none() && quantised(l) => {
            Some(Linear { input: Output::Q8, norm: None, ..l.clone() }.into())
        }
        _ => None,
    };
    let more: Vec<Request> = requests.iter().filter_map(with_bytes).collect();
    requests.extend(more);
    Ok(requests)
}

/// Each kernel that one of the targets needs for those models, with the places of the targets that need it.
pub fn kernels(graphs: &[Graph], targets: &[Target]) -> Vec<(Kernel, Vec<usize>)> {
    let mut at: HashMap<Request, usize> = HashMap::new();
    let mut found: Vec<(Kernel, Vec<usize>)> = Vec::new();
    for (number, target) in targets.iter().enumerate() {
        for request in graphs.iter().flat_map(|g| requests(g, target).expect("lowered")) {
            let i = *at.entry(request).or_insert_with_key(|request| {
                found.push((request.kernel().expect("a kernel"), Vec::new()));
                found.len() - 1
            });
            let needed_by = &mut found[i].1;
            if needed_by.last() != Some(&number) {
                needed_by.push(number);
            }
        }
    }
    found
}
