//! Lowers a graph to kernel requests: fusion, and the form of each activation.
//!
//! Nodes are visited in order. One that another node's kernel takes over (a *part*) makes no step of its own; the
//! [`Fusion`] pass decides which. Every other node (a *root*) makes the step for itself and its parts.

use super::fusion::{Fusion, needed_nodes};
use super::rope::RopeTables;
use cranelift_entity::{PrimaryMap, entity_impl};
use hrx_ir::graph::{Graph, Input, KvCache, Node, Op, RopeSpec, RopeStyle, Rows, Tensor};
use hrx_ir::quant::CHUNK;
use hrx_ir::tile::{Content, Elem};
use hrx_templates as kt;
use hrx_templates::{Output, Real, Request, Slot, TargetShape, TemplateError, WeightType};
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
    /// Positions that the KV cache has room for.
    NCtx,
    /// Elements from one head of a KV cache of this head size to the next.
    HeadStride(u32),
    /// A weight of the model.
    Weight(Tensor),
    /// An input of the step.
    Input(Input),
    /// Cosines of a rope table.
    Cos(usize),
    /// Sines of a rope table.
    Sin(usize),
    /// The keys of a layer's cache.
    Keys(u32),
    /// The values of a layer's cache.
    Values(u32),
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
    /// The layers' caches.
    pub caches: Vec<KvCache>,
    /// Where the wanted output is.
    pub output: Buf,
}

/// The element type of KV caches.
pub const CACHE_ELEM: Elem = Elem::F16;

/// Tokens of a launch for which prefill kernels are cut.
const PREFILL_TOKENS: u32 = 64;

/// Lowers the part of a graph that its output `output` needs.
///
/// # Errors
/// If no kernel supports what the graph asks for.
pub fn lower(graph: &Graph, output: Tensor, mode: Mode, shape: &TargetShape) -> Result<Lowered, TemplateError> {
    let needed = needed_nodes(graph, output);
    let fusion = Fusion::find(graph, &needed, output);
    let mut l = Lowerer {
        graph,
        output,
        mode,
        shape: *shape,
        parts: fusion.parts,
        wanted: HashMap::new(),
        places: HashMap::new(),
        steps: Vec::new(),
        bufs: PrimaryMap::new(),
        ropes: RopeTables::default(),
    };
    let roots: Vec<Node> = graph.nodes.keys().filter(|n| needed.contains(n) && !l.parts.contains(n)).collect();
    l.want(output, Output::F32);
    for &node in &roots {
        l.want_inputs(node);
    }
    for &node in &roots {
        l.node(node)?;
    }
    let output = l.f32(output);
    Ok(Lowered {
        steps: l.steps,
        bufs: l.bufs,
        ropes: l.ropes,
        caches: graph.caches().map(|(_, c)| c).collect(),
        output,
    })
}

pub(super) fn weight_type(graph: &Graph, t: Tensor) -> WeightType {
    match graph.weight(t).map(|w| w.content) {
        Some(Content::Quant(f)) => WeightType::Quant(f),
        Some(Content::Elem(e)) => WeightType::Float(e),
        None => unreachable!("the graph's verifier holds matrices to weights"),
    }
}

pub(super) fn linear_input(graph: &Graph, weight: Tensor) -> Output {
    kt::Linear::input(weight_type(graph, weight))
}

struct Lowerer<'g> {
    graph: &'g Graph,
    output: Tensor,
    mode: Mode,
    shape: TargetShape,
    parts: HashSet<Node>,
    /// The forms in which each activation is read.
    wanted: HashMap<Tensor, Vec<Output>>,
    /// Where each form of an activation is: one buffer, or codes and scales.
    places: HashMap<(Tensor, Output), Vec<Buf>>,
    steps: Vec<Step>,
    bufs: PrimaryMap<Buf, BufData>,
    ropes: RopeTables,
}

/// A linear layer as its kernel sees it: the product, and what its root adds to it.
struct LinearParts {
    x: Tensor,
    weight: Tensor,
    up: Option<(Tensor, kt::Activation)>,
    bias: Option<Tensor>,
    residual: Option<Tensor>,
    scale: Option<f32>,
    softcap: Option<f32>,
}

impl<'g> Lowerer<'g> {
    /// With one token and its output wanted, selecting rows changes nothing.
    fn resolve(&self, t: Tensor) -> Tensor {
        match self.graph.producer_op(t) {
            Some(&Op::SelectRows { x, .. }) if self.mode == Mode::Decode => self.resolve(x),
            _ => t,
        }
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

    /// The linear layer that a root is about, if it is about one.
    fn linear_parts(&self, node: Node) -> Option<LinearParts> {
        let plain = |t: Tensor| match self.part_op(t) {
            Some(&Op::Linear { x, weight, bias }) => {
                Some(LinearParts { x, weight, up: None, bias, residual: None, scale: None, softcap: None })
            }
            _ => None,
        };
        match *self.graph.op(node) {
            Op::Linear { x, weight, bias } => {
                Some(LinearParts { x, weight, up: None, bias, residual: None, scale: None, softcap: None })
            }
            Op::Glu { gate, up, act } => match (plain(gate), plain(up)) {
                (Some(g), Some(u)) => Some(LinearParts { up: Some((u.weight, activation(act))), ..g }),
                _ => None,
            },
            Op::Add { a, b } => match (plain(a), plain(b)) {
                (Some(l), _) => Some(LinearParts { residual: Some(b), ..l }),
                (None, Some(l)) => Some(LinearParts { residual: Some(a), ..l }),
                _ => None,
            },
            Op::Scale { x, by } => plain(x).map(|l| LinearParts { scale: Some(by), ..l }),
            Op::SoftCap { x, cap } => plain(x).map(|l| LinearParts { softcap: Some(cap), ..l }),
            _ => None,
        }
    }

    /// The norm whose result is `x`, if it goes into the kernels that read it: where there is one token, and all readers
    /// are linear layers.
    fn norm_into(&self, x: Tensor) -> Option<(Tensor, Tensor, f32)> {
        let x = self.resolve(x);
        let linear_only = || self.graph.users(x).iter().all(|&n| matches!(self.graph.op(n), Op::Linear { .. }));
        match self.graph.producer_op(x) {
            Some(&Op::RmsNorm { x: input, weight, eps })
                if self.mode == Mode::Decode
                    && x != self.output
                    && linear_only()
                    && self.graph.cols(weight) == self.graph.cols(input) =>
            {
                Some((input, weight, eps))
            }
            _ => None,
        }
    }

    /// Notes in which forms a root reads its inputs.
    fn want_inputs(&mut self, node: Node) {
        if let Some(l) = self.linear_parts(node) {
            match self.norm_into(l.x) {
                Some((input, ..)) => self.want(input, Output::F32),
                None => self.want(l.x, linear_input(self.graph, l.weight)),
            }
            if let Some(r) = l.residual {
                self.want(r, Output::F32);
            }
            return;
        }
        // Parts are looked through: their inputs are the kernel's.
        let mut work = self.graph.op(node).operands();
        while let Some(t) = work.pop() {
            match self.part_op(t) {
                Some(op) => work.extend(op.operands()),
                None if self.graph.producer(t).is_some() && self.graph.cache(t).is_none() => self.want(t, Output::F32),
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
            Output::Q8 => vec![buf(shape.cols), buf(4 * (shape.cols / CHUNK))],
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
            if matches!(operand, Operand::Buf(_) | Operand::Keys(_) | Operand::Values(_)) {
                let out = matches!(slot, Slot::Out | Slot::OutCodes | Slot::OutScales | Slot::Cache);
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
        if direct == Output::F32 && wanted.contains(&Output::Q8) {
            let from = bufs[0];
            let bufs = self.make(t, Output::Q8);
            let k = self.graph.cols(t);
            let quantize = kt::Rowwise { k, op: kt::RowOp::Copy, indexed: false, output: Output::Q8 };
            let rows = self.rows(t);
            let of = move |s| match s {
                Slot::NTokens => Some(Operand::RowCount(rows)),
                Slot::X => Some(Operand::Buf(from)),
                _ => None,
            };
            self.step(node, quantize.into(), &with_out(&of, &bufs));
        }
    }

    fn node(&mut self, node: Node) -> Result<(), TemplateError> {
        let graph = self.graph;
        let t = graph.result(node);
        if let Some(l) = self.linear_parts(node) {
            return self.linear(node, t, &l);
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
                    table: weight_type(graph, table),
                    scale: (scale != 1.0).then_some(Real(scale)),
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
            Op::Add { a, b } => {
                for (x, residual) in [(a, b), (b, a)] {
                    if let Some(&Op::RmsNorm { x, weight, eps }) = self.part_op(x) {
                        self.norm(node, t, [x, weight], eps, Some(residual));
                        return Ok(());
                    }
                }
                self.rowwise(node, t, kt::RowOp::Add, [Some(a), Some(b)]);
            }
            Op::Glu { gate, up, act } => self.rowwise(node, t, kt::RowOp::Glu(activation(act)), [Some(gate), Some(up)]),
            Op::Scale { x, by } => self.rowwise(node, t, kt::RowOp::Scale(Real(by)), [Some(x), None]),
            Op::SoftCap { x, cap } => self.rowwise(node, t, kt::RowOp::Softcap(Real(cap)), [Some(x), None]),
            Op::SelectRows { x, rows: which } => {
                if self.mode == Mode::Decode {
                    return Ok(());
                }
                let (x, which) = (self.f32(x), self.input(which));
                let select = |output| kt::Rowwise { k, op: kt::RowOp::Copy, indexed: true, output }.into();
                self.produce(node, t, forms(k.is_multiple_of(CHUNK)), select, &|s| match s {
                    Slot::NTokens => Some(Operand::RowCount(rows)),
                    Slot::NRows => Some(Operand::RowCount(Rows::Tokens)),
                    Slot::X => Some(Operand::Buf(x)),
                    Slot::Rows => Some(which),
                    _ => None,
                });
            }
            Op::Rope { x, spec, .. } => {
                let head_dim = spec.head_dim;
                let output = kt::RopeOutput::F32;
                self.rope(node, x, Some(spec), head_dim, output, |l, request, of| {
                    l.produce(node, t, &[Output::F32], |_| request.clone(), of)
                });
            }
            Op::KvStore { k, v, positions, cache } => self.kv_store(node, [k, v, positions, cache]),
            Op::Attention { q, positions, cache, n_head, n_kv_head, head_dim, scale, window, softcap } => {
                let tokens = if self.mode == Mode::Decode { 1 } else { PREFILL_TOKENS };
                let tiling = kt::AttentionTiling::choose(&self.shape, n_head / n_kv_head, head_dim, tokens);
                let attention = move |output| {
                    Request::from(kt::Attention {
                        heads: n_head,
                        kv_heads: n_kv_head,
                        head_dim,
                        cache: CACHE_ELEM,
                        window,
                        scale: Real(scale),
                        softcap: softcap.map(Real),
                        output,
                        tiling,
                    })
                };
                let (q, positions) = (self.f32(q), self.input(positions));
                let layer = self.layer(cache);
                // A program writes whole heads.
                let forms = forms(head_dim.is_multiple_of(CHUNK));
                self.produce(node, t, forms, attention, &|s| match s {
                    Slot::NTokens => Some(Operand::RowCount(rows)),
                    Slot::NCtx => Some(Operand::NCtx),
                    Slot::HeadStride => Some(Operand::HeadStride(head_dim)),
                    Slot::Positions => Some(positions),
                    Slot::X => Some(Operand::Buf(q)),
                    Slot::KeyCache => Some(Operand::Keys(layer)),
                    Slot::ValueCache => Some(Operand::Values(layer)),
                    _ => None,
                });
            }
            Op::Linear { .. } => unreachable!("linear roots were handled before"),
        }
        Ok(())
    }

    fn input(&self, t: Tensor) -> Operand {
        match self.graph.tensors[t].kind {
            hrx_ir::graph::TensorKind::Input(i) => Operand::Input(i),
            _ => unreachable!("the graph's verifier holds ids, positions and rows to inputs"),
        }
    }

    fn layer(&self, cache: Tensor) -> u32 {
        match self.graph.cache(cache) {
            Some(c) => c.layer,
            None => unreachable!("the graph's verifier holds caches to states"),
        }
    }

    /// A norm of whole rows or of each head, with a residual added where one is given.
    fn norm(&mut self, node: Node, t: Tensor, [x, weight]: [Tensor; 2], eps: f32, residual: Option<Tensor>) {
        if residual.is_none() && self.norm_into(t).is_some() {
            return;
        }
        let graph = self.graph;
        let rows = self.rows(t);
        let (k, group) = (graph.cols(t), graph.cols(weight));
        let residual = residual.map(|r| self.f32(r));
        let x = self.f32(x);
        let forms = forms(residual.is_none() && k.is_multiple_of(CHUNK) && group == k);
        let request = |output| match k == group {
            true => kt::RmsNorm { k, eps: Real(eps), residual: residual.is_some(), indexed: false, output }.into(),
            // Each head: the walk over heads without a rotation.
            false => kt::Rope {
                heads: k / group,
                head_dim: group,
                n_rot: 0,
                rotation: kt::Rotation::None,
                norm: Some(Real(eps)),
                scale: None,
                output: kt::RopeOutput::F32,
            }
            .into(),
        };
        self.produce(node, t, forms, request, &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::NormWeight => Some(Operand::Weight(weight)),
            Slot::Residual => residual.map(Operand::Buf),
            _ => None,
        });
    }

    fn rowwise(&mut self, node: Node, t: Tensor, op: kt::RowOp, [x, y]: [Option<Tensor>; 2]) {
        let rows = self.rows(t);
        let k = self.graph.cols(t);
        let [x, y] = [x, y].map(|v| v.map(|v| self.f32(v)));
        let forms = forms(k.is_multiple_of(CHUNK));
        let request = |output| kt::Rowwise { k, op, indexed: false, output }.into();
        self.produce(node, t, forms, request, &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X => x.map(Operand::Buf),
            Slot::Y => y.map(Operand::Buf),
            _ => None,
        });
    }

    fn linear(&mut self, node: Node, t: Tensor, l: &LinearParts) -> Result<(), TemplateError> {
        let graph = self.graph;
        let rows = self.rows(t);
        let norm = self.norm_into(l.x);
        let weight = weight_type(graph, l.weight);
        let (n, k) = (graph.cols(t), graph.cols(l.x));
        // Few outputs want the kernel that decode uses.
        let many = match self.mode {
            Mode::Decode => false,
            Mode::Prefill => rows == Rows::Tokens,
            Mode::Logits => true,
        };
        let tiling = kt::LinearTiling::choose(&self.shape, if many { PREFILL_TOKENS } else { 1 });
        let request = |output| {
            Request::from(kt::Linear {
                gated: l.up.map(|(up, activation)| kt::Gated { up: weight_type(graph, up), activation }),
                norm: norm.map(|(_, _, eps)| Real(eps)),
                bias: l.bias.is_some(),
                scale: l.scale.map(Real),
                softcap: l.softcap.map(Real),
                residual: l.residual.is_some(),
                output,
                ..kt::Linear::new(n, k, weight, tiling)
            })
        };
        let x = match norm {
            Some((input, ..)) => vec![self.f32(input)],
            None => {
                let x = self.resolve(l.x);
                self.places[&(x, kt::Linear::input(weight))].clone()
            }
        };
        let residual = l.residual.map(|r| self.f32(r));
        let forms = forms(l.residual.is_none() && n.is_multiple_of(tiling.program_rows));
        self.produce(node, t, forms, request, &|s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::X | Slot::XCodes => Some(Operand::Buf(x[0])),
            Slot::XScales => x.get(1).copied().map(Operand::Buf),
            Slot::NormWeight => norm.map(|(_, w, _)| Operand::Weight(w)),
            Slot::Weight(0) => Some(Operand::Weight(l.weight)),
            Slot::Weight(_) => l.up.map(|(up, _)| Operand::Weight(up)),
            Slot::Bias => l.bias.map(Operand::Weight),
            Slot::Residual => residual.map(Operand::Buf),
            _ => None,
        });
        Ok(())
    }

    /// A rotation (or none: `spec` absent) of heads, with the norm of each head where that is a part of it.
    fn rope(
        &mut self,
        node: Node,
        x: Tensor,
        spec: Option<RopeSpec>,
        head_dim: u32,
        output: kt::RopeOutput,
        add: impl FnOnce(&mut Self, Request, &dyn Fn(Slot) -> Option<Operand>),
    ) {
        let graph = self.graph;
        let heads = graph.cols(x) / head_dim;
        let (x, norm) = match self.part_op(x) {
            Some(&Op::RmsNorm { x, weight, eps }) if spec.is_some() => (x, Some((weight, eps))),
            _ => (x, None),
        };
        let rotation = match spec.map(|s| s.style) {
            None => kt::Rotation::None,
            Some(RopeStyle::Normal) => kt::Rotation::Normal,
            Some(RopeStyle::Neox) => kt::Rotation::Neox,
        };
        let table = spec.map(|s| self.ropes.index_of(s));
        let request = kt::Rope {
            heads,
            head_dim,
            n_rot: spec.map_or(0, |s| s.n_rot),
            rotation,
            norm: norm.map(|(_, eps)| Real(eps)),
            scale: None,
            output,
        };
        let rows = self.rows(graph.result(node));
        let rows = if rows == Rows::Cached { Rows::Tokens } else { rows };
        let x = self.f32(x);
        add(self, request.into(), &move |s| match s {
            Slot::NTokens => Some(Operand::RowCount(rows)),
            Slot::NCtx => Some(Operand::NCtx),
            Slot::HeadStride => Some(Operand::HeadStride(head_dim)),
            Slot::X => Some(Operand::Buf(x)),
            Slot::NormWeight => norm.map(|(w, _)| Operand::Weight(w)),
            Slot::Cos => table.map(Operand::Cos),
            Slot::Sin => table.map(Operand::Sin),
            _ => None,
        });
    }

    /// Keys and values into the cache, keys rotated on the way where the rotation is a part.
    fn kv_store(&mut self, node: Node, [k, v, positions, cache]: [Tensor; 4]) {
        let layer = self.layer(cache);
        let positions = self.input(positions);
        let head_dim = self.graph.cache(cache).map_or(0, |c| c.head_dim);
        let output = kt::RopeOutput::Cache(CACHE_ELEM);
        let (k, spec) = match self.part_op(k) {
            Some(&Op::Rope { x, spec, .. }) => (x, Some(spec)),
            _ => (k, None),
        };
        for (x, spec, place) in [(k, spec, Operand::Keys(layer)), (v, None, Operand::Values(layer))] {
            self.rope(node, x, spec, head_dim, output, |l, request, of| {
                l.step(node, request, &|s| match s {
                    Slot::Cache => Some(place),
                    Slot::Positions => Some(positions),
                    _ => of(s),
                })
            });
        }
    }
}

/// The forms that a kernel can write its result in: rows of f32, and blocks where it has `q8`.
fn forms(q8: bool) -> &'static [Output] {
    if q8 { &[Output::F32, Output::Q8] } else { &[Output::F32] }
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
    }
}
