//! Lowers a graph to kernel requests: fusion, and the form of each activation.
//!
//! Nodes are visited in order. One that another node's kernel takes over (a *part*) makes no step of its own; the
//! `fusion` pass decides which. Every other node (a *root*) makes the step for itself and its parts.

mod activations;
mod attention;
mod experts;
mod fusion;
mod group;
mod linear;
mod rows;

pub use activations::Activations;

use super::rope::RopeTables;
use cranelift_entity::{PrimaryMap, entity_impl};
use fusion::{Fusion, needed_nodes};
use hrx_ir::graph::{Graph, Input, Node, Op, Rows, Tensor};
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::{Content, Elem};
use hrx_templates as kt;
use hrx_templates::{Output, Real, Request, Slot, TargetShape, WeightType};
use std::collections::{HashMap, HashSet};

/// A range of activation memory: rows of one form of one tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Buf(u32);
entity_impl!(Buf, "b");

/// The size of a [`Buf`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufData {
    /// How many rows.
    pub rows: Rows,
    /// Bytes of a row.
    pub row_bytes: u32,
}

/// What an argument of a step is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operand {
    /// The number of rows of the step.
    RowCount(Rows),
    /// The number of rows of the step times a constant.
    RowsTimes(Rows, u32),
    /// Positions that the KV cache has room for.
    NCtx,
    /// Elements from one head of a KV cache of this head size to the next.
    HeadStride(u32),
    /// Elements from one panel of the caches to the next.
    PanelStride,
    /// A weight of the model, as it is in the file.
    Weight(Tensor),
    /// A matrix of the model, packed for the target's vectors.
    Packed(Tensor),
    /// An input of the step.
    Input(Input),
    /// The row of the caches that each token's position is: with one sequence the position.
    CacheRows,
    /// The first row of the caches that each token's sequence has.
    Firsts,
    /// Cosines of a rope table.
    Cos(usize),
    /// Sines of a rope table.
    Sin(usize),
    /// The keys of a layer's cache.
    Keys(u32),
    /// The values of a layer's cache.
    Values(u32),
    /// The last inputs of a layer's convolution.
    ConvState(u32),
    /// The matrices of a layer's recurrence.
    Recurrent(u32),
    /// A factor for each position.
    PositionScale(usize),
    /// An activation.
    Buf(Buf),
}

/// One launch.
#[derive(Clone, Debug)]
pub struct Step {
    /// The kernel.
    pub request: Request,
    /// In the order of the kernel's slots.
    pub operands: Vec<Operand>,
    /// What it reads of what other steps write.
    pub reads: Vec<Operand>,
    /// What it writes.
    pub writes: Vec<Operand>,
    /// The graph's node it is for.
    pub node: Node,
}

/// What kind of steps a program is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// One token, whose output is wanted: norms go into the kernels behind them.
    Decode,
    /// Many tokens, few outputs.
    Prefill,
    /// Many tokens, outputs for all.
    Logits,
}

/// A lowered graph.
#[derive(Debug)]
pub struct Lowered {
    /// In an order of execution.
    pub steps: Vec<Step>,
    /// All activation memory.
    pub bufs: PrimaryMap<Buf, BufData>,
    /// The rotary tables that the steps read.
    pub ropes: RopeTables,
    /// Where the wanted output is.
    pub output: Buf,
}

/// The element type of KV caches.
pub const CACHE_ELEM: Elem = Elem::F16;

/// Tokens of a launch for which prefill kernels are cut.
const PREFILL_TOKENS: u32 = 64;

/// What steps a graph is lowered for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepKind {
    /// Which kind of steps.
    pub mode: Mode,
    /// The form in which products with quantised weights read activations.
    pub activations: Activations,
    /// Whether caches hold several sequences.
    pub sequences: bool,
}

/// Lowers the part of a graph that its output `output` needs. Whether the kernels asked for exist is for their templates
/// to say.
pub fn lower(graph: &Graph, output: Tensor, shape: &TargetShape, of: StepKind) -> Lowered {
    let mode = of.mode;
    // Tiles for matrix units are made of f32 rows.
    let activations = match shape.waves {
        Some(_) if mode != Mode::Decode => Activations::F32,
        _ => of.activations,
    };
    let needed = needed_nodes(graph, output);
    let activations = activations.form(shape);
    let single = (mode == Mode::Decode && shape.waves.is_some()).then_some(shape);
    let fusion = Fusion::find(graph, &needed, output, activations, single);
    let mut l = Lowerer {
        graph,
        output,
        mode,
        sequences: of.sequences,
        shape: *shape,
        activations,
        parts: fusion.parts,
        wanted: HashMap::new(),
        places: HashMap::new(),
        steps: Vec::new(),
        bufs: PrimaryMap::new(),
        ropes: RopeTables::default(),
        expert_rows: HashMap::new(),
    };
    let roots: Vec<Node> = graph.nodes.keys().filter(|n| needed.contains(n) && !l.parts.contains(n)).collect();
    l.want(output, Output::F32);
    for &node in &roots {
        l.want_inputs(node);
    }
    for &node in &roots {
        l.node(node);
    }
    let output = l.f32(output);
    let steps = match &shape.waves {
        Some(waves) => group::group(l.steps, waves),
        None => l.steps,
    };
    Lowered { steps, bufs: l.bufs, ropes: l.ropes, output }
}

/// The type of a weight in its file.
fn weight_type(graph: &Graph, t: Tensor) -> WeightType {
    match graph.weight(t).map(|w| w.content) {
        Some(Content::Quant(f)) => WeightType::Quant(f),
        Some(Content::Elem(e)) => WeightType::Float(e),
        None => unreachable!("the graph's verifier holds matrices to weights"),
    }
}

/// The form in which products with a weight read activations.
fn linear_input(graph: &Graph, weight: Tensor, activations: Output) -> Output {
    match kt::Linear::input(weight_type(graph, weight)) {
        Output::F32 => Output::F32,
        Output::Q8 | Output::Q15 => activations,
    }
}

struct Lowerer<'g> {
    graph: &'g Graph,
    output: Tensor,
    mode: Mode,
    sequences: bool,
    shape: TargetShape,
    /// The form in which products with quantised weights read activations.
    activations: Output,
    parts: HashSet<Node>,
    /// The forms in which each activation is read.
    wanted: HashMap<Tensor, Vec<Output>>,
    /// Where each form of an activation is: one buffer, or codes and scales.
    places: HashMap<(Tensor, Output), Vec<Buf>>,
    steps: Vec<Step>,
    bufs: PrimaryMap<Buf, BufData>,
    ropes: RopeTables,
    /// The rows that go to each expert, and their counts, by routes and number of experts.
    expert_rows: HashMap<(Tensor, u32), [Buf; 2]>,
}

impl<'g> Lowerer<'g> {
    /// With one token and its output wanted, selecting rows changes nothing.
    fn resolve(&self, t: Tensor) -> Tensor {
        match self.graph.producer_op(t) {
            Some(&Op::SelectRows { x, .. }) if self.mode == Mode::Decode => self.resolve(x),
            _ => t,
        }
    }

    /// The type of a weight as kernels read it.
    fn weight_type(&self, t: Tensor) -> WeightType {
        match weight_type(self.graph, t) {
            WeightType::Quant(f) => WeightType::Quant(self.shape.arranged(f).map_or(f, |a| &a.format)),
            float => float,
        }
    }

    fn linear_input(&self, weight: Tensor) -> Output {
        linear_input(self.graph, weight, self.activations)
    }

    fn part_op(&self, t: Tensor) -> Option<&'g Op> {
        self.graph.producer(t).filter(|n| self.parts.contains(n)).map(|n| self.graph.op(n))
    }

    fn want(&mut self, t: Tensor, form: Output) {
        let t = self.resolve(t);
        let forms = self.wanted.entry(t).or_default();
        if !forms.contains(&form) {
            forms.push(form);
        }
    }

    /// Notes in which forms a root reads its inputs.
    fn want_inputs(&mut self, node: Node) {
        if let Some(l) = self.linear_parts(node) {
            match self.norm_into(l.x) {
                Some((input, ..)) => self.want(input, Output::F32),
                None => self.want(l.x, self.layer_input(&l)),
            }
            if let Some(r) = l.residual {
                self.want(r, Output::F32);
            }
            return;
        }
        if let Some(p) = self.expert_parts(node) {
            match self.norm_into(p.x) {
                Some((input, ..)) => self.want(input, Output::F32),
                None => self.want(p.x, self.expert_input(&p)),
            }
            if let Some(routes) = p.routes {
                self.want(self.routing(routes).map_or(routes, |r| r.0), Output::F32);
            }
            return;
        }
        // Parts are looked through: their inputs are the kernel's.
        let mut work = self.graph.op(node).operands();
        while let Some(t) = work.pop() {
            match self.part_op(t) {
                Some(op) => work.extend(op.operands()),
                None if self.graph.producer(t).is_some() && self.graph.state(t).is_none() => self.want(t, Output::F32),
                None => {}
            }
        }
    }

    /// Memory for a tensor in a form.
    fn make(&mut self, t: Tensor, form: Output) -> Vec<Buf> {
        let shape = self.graph.shape(t);
        let rows = if self.mode == Mode::Decode { Rows::Tokens } else { shape.rows };
        let mut buf = |row_bytes| self.bufs.push(BufData { rows, row_bytes });
        let bufs = match form {
            Output::F32 => vec![buf(4 * shape.cols)],
            Output::Q8 | Output::Q15 => vec![buf(form.bytes() * shape.cols), buf(4 * (shape.cols / CHUNK))],
        };
        self.places.insert((t, form), bufs.clone());
        bufs
    }

    fn f32(&mut self, t: Tensor) -> Buf {
        let t = self.resolve(t);
        self.places[&(t, Output::F32)][0]
    }

    fn rows(&self, t: Tensor) -> Rows {
        if self.mode == Mode::Decode { Rows::Tokens } else { self.graph.shape(t).rows }
    }

    /// Adds a step: `of` gives the operand of each of the kernel's slots.
    fn step(&mut self, node: Node, request: Request, of: &dyn Fn(Slot) -> Option<Operand>) {
        let slots = kt::Template::slots(&request);
        let operands: Vec<Operand> = slots
            .iter()
            .map(|&s| of(s).unwrap_or_else(|| unreachable!("{}: no operand for {s:?}", kt::Template::name(&request))))
            .collect();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (slot, &operand) in slots.iter().zip(&operands) {
            // States of convolutions and recurrences are the affair of one step.
            if matches!(operand, Operand::Buf(_) | Operand::Keys(_) | Operand::Values(_)) {
                let out = is_written(*slot, &request);
                if out { writes.push(operand) } else { reads.push(operand) }
            }
        }
        self.steps.push(Step { request, operands, reads, writes, node });
    }

    /// Adds the step that makes `t` in `form`, then the other forms that are wanted of it. `request` gets the form.
    fn produce(
        &mut self,
        node: Node,
        t: Tensor,
        forms: &[Output],
        request: impl Fn(Output) -> Request,
        of: &dyn Fn(Slot) -> Option<Operand>,
    ) {
        let wanted = self.wanted.get(&t).cloned().unwrap_or_default();
        let direct = match wanted.as_slice() {
            [one] if forms.contains(one) => *one,
            _ => Output::F32,
        };
        let bufs = self.make(t, direct);
        self.step(node, request(direct), &with_out(of, &bufs));
        for &output in wanted.iter().filter(|&&form| form != direct) {
            let from = bufs[0];
            let bufs = self.make(t, output);
            let k = self.graph.cols(t);
            let quantize =
                kt::Rowwise { k, op: kt::RowOp::Copy, indexed: false, output, cut: kt::RowCut::choose(&self.shape, k) };
            let rows = self.rows(t);
            let of = move |s| match s {
                Slot::NTokens => Some(Operand::RowCount(rows)),
                Slot::X => Some(Operand::Buf(from)),
                _ => None,
            };
            self.step(node, quantize.into(), &with_out(&of, &bufs));
        }
    }

    fn node(&mut self, node: Node) {
        let graph = self.graph;
        let t = graph.result(node);
        if let Some(l) = self.linear_parts(node) {
            self.linear(node, t, &l);
            return;
        }
        if let Some(p) = self.expert_parts(node) {
            self.expert_linear(node, t, &p);
            return;
        }
        let rows = self.rows(t);
        let k = graph.cols(t);
        match *graph.op(node) {
            Op::Embed { table, ids, scale } => {
                let embed = kt::Embed {
                    rows: match graph.shape(table).rows {
                        Rows::Const(n) => n,
                        _ => unreachable!("tables are weights"),
                    },
                    k,
                    table: self.weight_type(table),
                    scale: (scale != 1.0).then_some(Real(scale)),
                    cut: kt::RowCut::choose(&self.shape, k),
                };
                let input = self.input(ids);
                self.produce(node, t, &[Output::F32], |_| embed.clone().into(), &|s| match s {
                    Slot::NTokens => Some(Operand::RowCount(rows)),
                    Slot::Ids => Some(input),
                    Slot::Table => Some(Operand::Weight(table)),
                    _ => None,
                });
            }
            Op::RmsNorm { x, weight, eps } => self.norm(node, t, [x, weight], eps, None),
            Op::Normalize { .. } => self.normalize(node, t),
            Op::Add { a, b } => {
                for (x, residual) in [(a, b), (b, a)] {
                    match self.part_op(x) {
                        Some(&Op::RmsNorm { x, weight, eps }) => {
                            return self.norm(node, t, [x, weight], eps, Some(residual));
                        }
                        Some(&Op::ExpertSum { x, routes }) => {
                            return self.expert_sum(node, t, [x, routes], Some(residual));
                        }
                        _ => {}
                    }
                }
                self.combine(node, t, kt::Combine::Add, [a, b]);
            }
            Op::Mul { a, b } => self.combine(node, t, kt::Combine::Mul, [a, b]),
            Op::Act { x, act } => self.rowwise(node, t, kt::RowOp::Act(activation(act)), [Some(x), None]),
            Op::Glu { gate, up, act, limit } => {
                let op = kt::RowOp::Glu(activation(act), rows::limit(limit));
                self.rowwise(node, t, op, [Some(gate), Some(up)])
            }
            Op::Scale { x, by } => self.rowwise(node, t, kt::RowOp::Scale(Real(by)), [Some(x), None]),
            Op::SoftCap { x, cap } => self.rowwise(node, t, kt::RowOp::Softcap(Real(cap)), [Some(x), None]),
            Op::PositionScale { x, by, every, .. } => self.position_scale(node, t, x, by, every),
            Op::Columns { x, group, start, len } => {
                let (groups, parts) = (graph.cols(x) / group, kt::Parts::Columns { of: group, start, len });
                self.regroup(node, t, groups, parts, [Some(x), None]);
            }
            Op::Concat { a, b, groups } => {
                let parts = kt::Parts::Both { first: graph.cols(a) / groups, second: graph.cols(b) / groups };
                self.regroup(node, t, groups, parts, [Some(a), Some(b)]);
            }
            Op::SelectRows { x, rows: which } => {
                if self.mode != Mode::Decode {
                    self.select_rows(node, t, [x, which]);
                }
            }
            Op::Route { .. } => self.route(node, t),
            Op::ExpertSum { x, routes } => self.expert_sum(node, t, [x, routes], None),
            Op::ShortConv { .. } => self.short_conv(node, t),
            Op::Recurrence { .. } => self.recurrence(node, t),
            Op::Rope { x, spec, .. } => {
                let head_dim = spec.head_dim;
                let output = kt::RopeOutput::F32;
                self.rope(node, x, Some(spec), head_dim, output, |l, request, of| {
                    l.produce(node, t, &[Output::F32], |_| request.clone(), of)
                });
            }
            Op::KvStore { k, v, cache, .. } => self.kv_store(node, k, v, cache),
            Op::Attention { .. } => self.attention(node),
            Op::Linear { .. } | Op::ExpertLinear { .. } => unreachable!("products were handled before"),
        }
    }

    /// Heads of a program: on waves each head is one.
    fn program_heads(&self, heads: u32) -> u32 {
        if self.shape.waves.is_some() { 1 } else { heads }
    }

    fn input(&self, t: Tensor) -> Operand {
        match self.graph.tensors[t].kind {
            hrx_ir::graph::TensorKind::Input(i) => Operand::Input(i),
            _ => unreachable!("the graph's verifier holds ids, positions and rows to inputs"),
        }
    }

    fn layer(&self, cache: Tensor) -> u32 {
        match self.graph.state(cache) {
            Some(s) => s.layer(),
            None => unreachable!("the graph's verifier holds caches to states"),
        }
    }
}

/// Whether a kernel writes what an argument is.
fn is_written(slot: Slot, request: &Request) -> bool {
    match slot {
        Slot::Out | Slot::OutCodes | Slot::OutScales | Slot::Cache => true,
        Slot::KeyStore | Slot::ValueStore | Slot::Choice => true,
        Slot::PartSums | Slot::PartTotals => matches!(request, Request::Attention(_)),
        // Products read what the turned routes count.
        Slot::Counts => matches!(request, Request::ExpertRows(_)),
        _ => false,
    }
}

/// The forms that a kernel can write its result in: rows of f32, and where it can `blocks`.
fn forms(blocks: bool) -> &'static [Output] {
    if blocks { &[Output::F32, Output::Q8, Output::Q15] } else { &[Output::F32] }
}

/// Adds the output slots to an operand map.
fn with_out<'a>(of: &'a dyn Fn(Slot) -> Option<Operand>, bufs: &'a [Buf]) -> impl Fn(Slot) -> Option<Operand> + 'a {
    move |s| match s {
        Slot::Out | Slot::OutCodes => Some(Operand::Buf(bufs[0])),
        Slot::OutScales => bufs.get(1).copied().map(Operand::Buf),
        s => of(s),
    }
}

fn activation(a: hrx_ir::graph::Activation) -> kt::Activation {
    match a {
        hrx_ir::graph::Activation::Silu => kt::Activation::Silu,
        hrx_ir::graph::Activation::GeluTanh => kt::Activation::GeluTanh,
        hrx_ir::graph::Activation::GeluQuick => kt::Activation::GeluQuick,
        hrx_ir::graph::Activation::Sigmoid => kt::Activation::Sigmoid,
        hrx_ir::graph::Activation::Softplus => kt::Activation::Softplus,
        hrx_ir::graph::Activation::ReluSquared => kt::Activation::ReluSquared,
    }
}
