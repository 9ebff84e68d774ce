//! The kernels of a model, from its file alone: no device is opened and no memory for weights or caches is taken.

use hrx::Outputs;
use hrx::compiler::Target;
use hrx::exec::{Activations, Drafts};
use hrx::gguf::Gguf;
use hrx::ir::tile::Kernel;
use hrx::models::ModelGraph;
use hrx::templates::{Request, Template};
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

/// The most tokens of a step, as sessions have it by default. It decides no kernel.
pub const BATCH: u32 = 512;

/// A kernel with how often the model's steps launch it.
pub struct ModelKernel {
    /// What it is made from.
    pub request: Request,
    /// In tile IR.
    pub kernel: Kernel,
    /// Launches of a decode step.
    pub decode: usize,
    /// Launches of a prefill step.
    pub prefill: usize,
}

/// Reads a file's graph.
pub fn graph(path: &Path) -> Result<ModelGraph, Box<dyn Error>> {
    Ok(ModelGraph::from_gguf(&Gguf::open(path)?)?)
}

/// The kernels of generation with a model, each once, in order of first use.
pub fn kernels(path: &Path, target: &Target) -> Result<Vec<ModelKernel>, Box<dyn Error>> {
    let graph = graph(path)?.graph;
    let drafts = Drafts::new(&graph, Outputs::Last, BATCH, Activations::default(), target)?;
    let mut found: Vec<ModelKernel> = Vec::new();
    let mut at: HashMap<Request, usize> = HashMap::new();
    let decode = drafts.decode.requests().into_iter().map(|r| (r, [1, 0]));
    let prefill = drafts.batch.requests().into_iter().map(|r| (r, [0, 1]));
    for (request, [d, p]) in decode.chain(prefill) {
        let i = match at.get(&request) {
            Some(&i) => i,
            None => {
                let kernel = request.kernel()?;
                at.insert(request.clone(), found.len());
                found.push(ModelKernel { request, kernel, decode: 0, prefill: 0 });
                found.len() - 1
            }
        };
        found[i].decode += d;
        found[i].prefill += p;
    }
    Ok(found)
}
