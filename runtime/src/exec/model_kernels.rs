//! The kernels that generation with a model needs, from its graph alone: no device is opened, and no memory for weights
//! or caches is taken.

use super::drafts::Drafts;
use super::lower::Activations;
use super::target_shape;
use crate::error::Error;
use crate::session::Outputs;
use hrx_compiler::Target;
use hrx_ir::graph::Graph;
use hrx_ir::tile::Kernel;
use hrx_templates::{Request, Template};
use std::collections::HashMap;

/// The most tokens of a step, as sessions have it by default. It decides no kernel.
pub const BATCH: u32 = 512;

/// A kernel with how often the model's steps launch it.
#[derive(Clone, Debug)]
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

/// The kernels of generation with a model on a target, each once, in order of first use.
///
/// # Errors
/// If a template refuses its facts.
pub fn model_kernels(graph: &Graph, target: &Target) -> Result<Vec<ModelKernel>, Error> {
    let drafts = Drafts::new(graph, Outputs::Last, [BATCH, 1], Activations::default(), &target_shape(target))?;
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
