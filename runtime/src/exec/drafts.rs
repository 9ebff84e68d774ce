//! The programs of a session before they are on a device: what kernels a model needs, without memory for it.

use super::lower::{Activations, Mode, StepKind};
use super::program::Draft;
use crate::error::Error;
use crate::session::Outputs;
use hrx_ir::graph::{Graph, HIDDEN, LOGITS, Tensor};
use hrx_templates::{Request, TargetShape};

/// The most tokens of a step whose outputs are all wanted: their rows of logits are large.
const OUTPUT_BATCH: u32 = 32;

/// The two programs of a session.
pub struct Drafts {
    /// One token of each of some sequences.
    pub decode: Draft,
    /// Several tokens of one.
    pub batch: Draft,
    /// The graph's output that both compute.
    pub output: Tensor,
    /// The most tokens of a step.
    pub max_tokens: u32,
    /// The most rows of output of a step.
    pub max_outputs: u32,
}

impl Drafts {
    /// Lowers a model's graph for steps of up to `n_batch` tokens of one of `n_seq` sequences, or one token of each.
    ///
    /// # Errors
    /// If the graph has no such output, or there is no kernel of this form.
    pub fn new(
        graph: &Graph,
        outputs: Outputs,
        [n_batch, n_seq]: [u32; 2],
        activations: Activations,
        shape: &TargetShape,
    ) -> Result<Drafts, Error> {
        let name = if outputs == Outputs::Hidden { HIDDEN } else { LOGITS };
        let output = graph.output(name).ok_or_else(|| Error::Invalid(format!("the model has no output {name}")))?;
        let (mode, [max_tokens, max_outputs]) = match outputs {
            Outputs::Last => (Mode::Prefill, [n_batch, 1]),
            Outputs::All | Outputs::Hidden => (Mode::Logits, [n_batch.min(OUTPUT_BATCH); 2]),
        };
        let steps = |mode| StepKind { mode, activations, sequences: n_seq > 1 };
        let decode = Draft::new(graph, output, shape, steps(Mode::Decode), [n_seq; 2]);
        let batch = Draft::new(graph, output, shape, steps(mode), [max_tokens, max_outputs]);
        Ok(Drafts { decode, batch, output, max_tokens, max_outputs })
    }

    /// The kernels of all steps of both programs, repeated where they are.
    pub fn requests(&self) -> Vec<Request> {
        self.decode.requests().into_iter().chain(self.batch.requests()).collect()
    }
}
