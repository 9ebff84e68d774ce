//! A program: the launches of one kind of step, recorded on a device.

use super::inputs::StepInputs;
use super::kernels::KernelStore;
use super::lower::{Lowered, Operand, StepKind, lower};
use super::plan::{Plan, plan};
use super::rope::TableIndices;
use super::schedule::{by_stage, stages};
use super::weights::Weights;
use crate::device::{Arg, Buffer, Launch, LaunchTime, Recorded, Var};
use crate::error::Error;
use hrx_ir::graph::{Graph, Rows, Tensor};
use hrx_templates::{Request, TargetShape, Template};
use std::collections::HashMap;

/// The run-time variables of a program, in the order in which a replay takes them.
const TOKENS: Var = Var(0);
const OUTPUTS: Var = Var(1);

/// A lowered graph with its stages and memory plan, not yet on a device.
pub struct Draft {
    lowered: Lowered,
    stages: Vec<usize>,
    plan: Plan,
    max_tokens: u32,
    max_outputs: u32,
}

/// Where the operands of steps are, but for [inputs](StepInputs). All steps of a session use the same.
pub struct Bindings {
    /// Rows of the caches: the positions that all sequences have room for.
    pub n_ctx: u32,
    /// Elements from one panel of the caches to the next.
    pub panel_stride: u32,
    /// Weights by tensor.
    pub weights: Weights,
    /// Keys and values by layer; values that are a part of keys have no memory.
    pub caches: HashMap<u32, [Buffer; 2]>,
    /// The last inputs of each layer's convolution.
    pub conv_states: HashMap<u32, Buffer>,
    /// The matrices of each layer's recurrence.
    pub recurrent: HashMap<u32, Buffer>,
    /// Activations of the program that runs.
    pub arena: Buffer,
}

impl Draft {
    /// Lowers the part of the graph that `output` needs, for steps of up to this many tokens and outputs.
    pub fn new(
        graph: &Graph,
        output: Tensor,
        shape: &TargetShape,
        of: StepKind,
        [max_tokens, max_outputs]: [u32; 2],
    ) -> Draft {
        let lowered = lower(graph, output, shape, of);
        let stages = stages(&lowered.steps);
        let plan = plan(&lowered, &stages, max_tokens, max_outputs);
        Draft { lowered, stages, plan, max_tokens, max_outputs }
    }

    /// Bytes of activation memory.
    pub fn arena_bytes(&self) -> u64 {
        self.plan.bytes
    }

    /// The lowered graph.
    pub fn lowered(&self) -> &Lowered {
        &self.lowered
    }

    /// The kernels of all steps.
    pub fn requests(&self) -> Vec<Request> {
        self.lowered.steps.iter().map(|s| s.request.clone()).collect()
    }

    /// Records the program. `tables` gives the index in the inputs of each of its tables by position.
    ///
    /// # Errors
    /// If a kernel can't be made, or the device refuses.
    ///
    /// # Panics
    /// If the bindings lack something that the graph refers to.
    pub fn record(
        &self,
        store: &KernelStore,
        bindings: &Bindings,
        inputs: &StepInputs,
        tables: &TableIndices,
    ) -> Result<Program, Error> {
        let kernels = store.get(&self.requests())?;
        let arg = |operand: &Operand| match *operand {
            Operand::RowCount(Rows::Outputs) => Arg::Var(OUTPUTS),
            Operand::RowCount(_) => Arg::Var(TOKENS),
            Operand::RowsTimes(Rows::Outputs, n) => Arg::Times(OUTPUTS, n),
            Operand::RowsTimes(_, n) => Arg::Times(TOKENS, n),
            Operand::NCtx => Arg::I32(bindings.n_ctx as i32),
            Operand::HeadStride(head_dim) => Arg::I32((bindings.n_ctx * head_dim) as i32),
            Operand::PanelStride => Arg::I32(bindings.panel_stride as i32),
            Operand::Weight(t) => Arg::Buffer(bindings.weights.stored[&t].clone()),
            Operand::Packed(t) => Arg::Buffer(bindings.weights.packed[&t].clone()),
            Operand::Input(i) => Arg::Buffer(inputs.input(i)),
            Operand::CacheRows => Arg::Buffer(inputs.cache_rows()),
            Operand::Firsts => Arg::Buffer(inputs.firsts()),
            Operand::Cos(i) => Arg::Buffer(inputs.rope(tables.ropes[i])[0].clone()),
            Operand::Sin(i) => Arg::Buffer(inputs.rope(tables.ropes[i])[1].clone()),
            Operand::Keys(layer) => Arg::Buffer(bindings.caches[&layer][0].clone()),
            Operand::Values(layer) => Arg::Buffer(bindings.caches[&layer][1].clone()),
            Operand::ConvState(layer) => Arg::Buffer(bindings.conv_states[&layer].clone()),
            Operand::Recurrent(layer) => Arg::Buffer(bindings.recurrent[&layer].clone()),
            Operand::PositionScale(i) => Arg::Buffer(inputs.scale(tables.scales[i])),
            Operand::Buf(b) => {
                let at = self.plan.offsets[b];
                Arg::Buffer(bindings.arena.part(at, bindings.arena.len() - at))
            }
        };
        let launch =
            |i: usize| Launch { kernel: kernels[i], args: self.lowered.steps[i].operands.iter().map(arg).collect() };
        let stages = by_stage(&self.stages);
        let launches = stages.iter().map(|s| s.iter().map(|&i| launch(i)).collect()).collect();
        // SAFETY: the plan gives each buffer the rows it has in a step of at most `max_tokens` and `max_outputs`, which
        // `replay` checks, and no two buffers in use at one stage the same bytes; weights and caches have the shapes of
        // the graph that the kernels were made for; what a stage writes no other step of it reads.
        let recorded = unsafe { store.device().record(launches)? };
        let at = self.plan.offsets[self.lowered.output];
        Ok(Program {
            recorded,
            output: bindings.arena.part(at, bindings.arena.len() - at),
            max_tokens: self.max_tokens,
            max_outputs: self.max_outputs,
            launches: self.lowered.steps.len(),
            stages: stages.len(),
        })
    }
}

/// A recorded program.
pub struct Program {
    recorded: Box<dyn Recorded>,
    output: Buffer,
    max_tokens: u32,
    max_outputs: u32,
    launches: usize,
    stages: usize,
}

impl Program {
    /// Runs one step, whose inputs have been written. The device may still be at it when this returns; what it is asked
    /// for next comes behind.
    ///
    /// # Errors
    /// If the step is larger than the program was made for, or the device fails.
    pub fn start(&mut self, tokens: u32, outputs: u32) -> Result<(), Error> {
        self.check(tokens, outputs)?;
        Ok(self.recorded.start(&[tokens as i32, outputs as i32])?)
    }

    /// Runs one step to its end, with the time of each launch.
    ///
    /// # Errors
    /// As [`start`](Program::start).
    pub fn profile(&mut self, tokens: u32, outputs: u32) -> Result<Vec<LaunchTime>, Error> {
        self.check(tokens, outputs)?;
        Ok(self.recorded.profile(&[tokens as i32, outputs as i32])?)
    }

    fn check(&self, tokens: u32, outputs: u32) -> Result<(), Error> {
        if tokens > self.max_tokens || outputs > self.max_outputs {
            let (t, o) = (self.max_tokens, self.max_outputs);
            return Err(Error::Invalid(format!(
                "a step of {tokens} tokens and {outputs} outputs; the program has room for {t} and {o}"
            )));
        }
        Ok(())
    }

    /// Where the output's rows are after a step.
    pub fn output(&self) -> &Buffer {
        &self.output
    }

    /// The most tokens of a step.
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens
    }

    /// Launches of a step.
    pub fn launches(&self) -> usize {
        self.launches
    }

    /// Stages of a step: how often all threads meet.
    pub fn stages(&self) -> usize {
        self.stages
    }
}

/// The names of a draft's kernels in order of first use, with how many launches each has in a step.
pub fn kernel_counts(draft: &Draft) -> Vec<(String, usize)> {
    let mut order: Vec<(String, usize)> = Vec::new();
    let mut at: HashMap<String, usize> = HashMap::new();
    for step in &draft.lowered.steps {
        let name = step.request.name();
        match at.get(&name) {
            Some(&i) => order[i].1 += 1,
            None => {
                at.insert(name.clone(), order.len());
                order.push((name, 1));
            }
        }
    }
    order
}
