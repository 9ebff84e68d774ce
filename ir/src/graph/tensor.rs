//! Tensors, the operations between them, and the graph that holds both.

use super::Op;
use crate::tile::Content;
use cranelift_entity::{PrimaryMap, entity_impl};
use std::fmt;

/// A tensor. Displays as `t0`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tensor(u32);
entity_impl!(Tensor, "t");

/// An operation of a graph, in the order of execution.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node(u32);
entity_impl!(Node, "n");

/// How many rows a tensor has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rows {
    /// A constant: weights.
    Const(u32),
    /// The tokens of the step.
    Tokens,
    /// The rows whose logits are wanted.
    Outputs,
    /// The positions that a cache has room for.
    Cached,
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rows::Const(n) => write!(f, "{n}"),
            Rows::Tokens => f.write_str("tokens"),
            Rows::Outputs => f.write_str("outputs"),
            Rows::Cached => f.write_str("cached"),
        }
    }
}

/// Rows and columns; elements of a row are neighbours in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Number of rows.
    pub rows: Rows,
    /// Number of columns.
    pub cols: u32,
}

impl Shape {
    /// A shape of these extents.
    pub fn new(rows: Rows, cols: u32) -> Shape {
        Shape { rows, cols }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.rows, self.cols)
    }
}

/// A matrix of the model file. The tensor's columns are GGML's dimension 0, its rows dimension 1 (1 for a vector).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Weight {
    /// The tensor's name in the file.
    pub name: String,
    /// What a row is made of: floating-point elements or blocks of a quantised format.
    pub content: Content,
}

/// What a step is given: a column of `i32`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// The ids of the step's tokens, `[tokens, 1]`.
    Tokens,
    /// The position of each token in its sequence, from 0, `[tokens, 1]`.
    Positions,
    /// The rows whose logits are wanted, as indices into the tokens, `[outputs, 1]`.
    OutputRows,
}

impl Input {
    /// All of them.
    pub const ALL: [Input; 3] = [Input::Tokens, Input::Positions, Input::OutputRows];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Input::Tokens => "tokens",
            Input::Positions => "positions",
            Input::OutputRows => "output_rows",
        }
    }

    /// The shape of the input.
    pub fn shape(self) -> Shape {
        match self {
            Input::Tokens | Input::Positions => Shape::new(Rows::Tokens, 1),
            Input::OutputRows => Shape::new(Rows::Outputs, 1),
        }
    }
}

/// The keys and values of one layer, kept between steps. Row `p` of both holds position `p`; a row of keys is
/// `n_kv_head` heads of `head_dim`, which are the columns of the tensor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct KvCache {
    /// The layer, from 0.
    pub layer: u32,
    /// Key/value heads.
    pub n_kv_head: u32,
    /// Elements of a key's head.
    pub head_dim: u32,
    /// Elements of a value's head.
    pub value_dim: u32,
    /// Whether a value is the first `value_dim` elements of its key (multi-head latent attention), and not kept.
    pub shared: bool,
}

impl KvCache {
    /// A cache whose keys and values have one size.
    pub fn new(layer: u32, n_kv_head: u32, head_dim: u32) -> KvCache {
        KvCache { layer, n_kv_head, head_dim, value_dim: head_dim, shared: false }
    }
}

/// The last inputs of a layer's short convolution: `taps - 1` rows, the oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConvState {
    /// The layer, from 0.
    pub layer: u32,
    /// Columns of the convolution.
    pub cols: u32,
    /// Rows that one output sees, its own included: at least 2.
    pub taps: u32,
}

/// The matrices of a layer's recurrence, head after head: `[n_head * key_dim, value_dim]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RecurrentState {
    /// The layer, from 0.
    pub layer: u32,
    /// Value heads.
    pub n_head: u32,
    /// Rows of a head's matrix.
    pub key_dim: u32,
    /// Columns of a head's matrix.
    pub value_dim: u32,
}

/// What outlives a step. A layer has at most one of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// Keys and values by position.
    Kv(KvCache),
    /// A convolution's last inputs.
    Conv(ConvState),
    /// A recurrence's matrices.
    Recurrent(RecurrentState),
}

impl State {
    /// The name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            State::Kv(_) => "kv_cache",
            State::Conv(_) => "conv_state",
            State::Recurrent(_) => "recurrent_state",
        }
    }

    /// The layer it is of.
    pub fn layer(&self) -> u32 {
        match self {
            State::Kv(c) => c.layer,
            State::Conv(c) => c.layer,
            State::Recurrent(c) => c.layer,
        }
    }

    /// Rows and columns; none where they are zero or do not fit 32 bits.
    pub fn shape(&self) -> Option<Shape> {
        let (rows, cols) = match *self {
            State::Kv(c) => {
                let values = c.n_kv_head.checked_mul(c.value_dim).filter(|&n| n > 0)?;
                let keys = c.n_kv_head.checked_mul(c.head_dim).filter(|&n| n > 0)?;
                (Rows::Cached, if c.shared && values > keys { 0 } else { keys })
            }
            State::Conv(c) => (Rows::Const(c.taps.checked_sub(1)?), c.cols),
            State::Recurrent(c) => (Rows::Const(c.n_head.checked_mul(c.key_dim)?), c.value_dim),
        };
        (rows != Rows::Const(0) && cols > 0).then_some(Shape { rows, cols })
    }
}

/// What a tensor is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TensorKind {
    /// Constant data of the model.
    Weight(Weight),
    /// An argument of the step.
    Input(Input),
    /// What outlives the step: as the step finds it where no node produces it, else as [`Op::KvStore`] leaves it.
    State(State),
    /// The f32 result of an operation.
    Activation,
}

/// A tensor's kind and shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorData {
    /// What it is.
    pub kind: TensorKind,
    /// Rows and columns.
    pub shape: Shape,
    /// The node that makes it; none for weights, inputs and caches as the step finds them.
    pub producer: Option<Node>,
    /// The nodes that read it, in order, each once.
    pub users: Vec<Node>,
}

/// An operation and the tensor it makes.
#[derive(Clone, PartialEq, Debug)]
pub struct NodeData {
    /// The operation with its operands.
    pub op: Op,
    /// Its result.
    pub result: Tensor,
}

/// A tensor that the step is run for, under a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// What it is called, e.g. [`LOGITS`](super::LOGITS).
    pub name: String,
    /// The tensor.
    pub tensor: Tensor,
}

/// One step of a model. Tensors and nodes are in the order of their definition, which is an order of execution.
#[derive(Clone, PartialEq, Debug)]
pub struct Graph {
    /// A name for people.
    pub name: String,
    /// All tensors.
    pub tensors: PrimaryMap<Tensor, TensorData>,
    /// All operations.
    pub nodes: PrimaryMap<Node, NodeData>,
    /// What the step is run for.
    pub outputs: Vec<Output>,
}

impl Graph {
    /// A graph of nothing.
    pub fn new(name: &str) -> Graph {
        Graph { name: name.into(), tensors: PrimaryMap::new(), nodes: PrimaryMap::new(), outputs: Vec::new() }
    }

    /// A tensor's rows and columns.
    pub fn shape(&self, t: Tensor) -> Shape {
        self.tensors[t].shape
    }

    /// A tensor's number of columns.
    pub fn cols(&self, t: Tensor) -> u32 {
        self.tensors[t].shape.cols
    }

    /// The node that makes a tensor; none for weights, inputs and caches as the step finds them.
    pub fn producer(&self, t: Tensor) -> Option<Node> {
        self.tensors[t].producer
    }

    /// The operation that makes a tensor.
    pub fn producer_op(&self, t: Tensor) -> Option<&Op> {
        self.tensors[t].producer.map(|n| &self.nodes[n].op)
    }

    /// The nodes that read a tensor, in order, each once. Outputs don't count.
    pub fn users(&self, t: Tensor) -> &[Node] {
        &self.tensors[t].users
    }

    /// The operation of a node.
    pub fn op(&self, n: Node) -> &Op {
        &self.nodes[n].op
    }

    /// The tensor that a node makes.
    pub fn result(&self, n: Node) -> Tensor {
        self.nodes[n].result
    }

    /// The weight that a tensor is.
    pub fn weight(&self, t: Tensor) -> Option<&Weight> {
        match &self.tensors[t].kind {
            TensorKind::Weight(w) => Some(w),
            _ => None,
        }
    }

    /// The cache that a tensor is, before or after a store.
    pub fn cache(&self, t: Tensor) -> Option<KvCache> {
        match self.tensors[t].kind {
            TensorKind::State(State::Kv(c)) => Some(c),
            _ => None,
        }
    }

    /// The state that a tensor is, before or after a step's change.
    pub fn state(&self, t: Tensor) -> Option<State> {
        match self.tensors[t].kind {
            TensorKind::State(s) => Some(s),
            _ => None,
        }
    }

    /// Whether the model has states that are not kept by position: a sequence can't be cut back then.
    pub fn is_recurrent(&self) -> bool {
        self.states().any(|(_, s)| !matches!(s, State::Kv(_)))
    }

    /// The tensor of an input, if the graph has it.
    pub fn input(&self, input: Input) -> Option<Tensor> {
        self.tensors.iter().find(|(_, d)| d.kind == TensorKind::Input(input)).map(|(t, _)| t)
    }

    /// The tensor of the output of that name.
    pub fn output(&self, name: &str) -> Option<Tensor> {
        self.outputs.iter().find(|o| o.name == name).map(|o| o.tensor)
    }

    /// All weights with their tensors.
    pub fn weights(&self) -> impl Iterator<Item = (Tensor, &Weight)> {
        self.tensors.keys().filter_map(|t| Some((t, self.weight(t)?)))
    }

    /// All states as the step finds them.
    pub fn states(&self) -> impl Iterator<Item = (Tensor, State)> {
        let found = |t: &Tensor| self.producer(*t).is_none();
        self.tensors.keys().filter(found).filter_map(|t| Some((t, self.state(t)?)))
    }

    /// The KV caches as the step finds them, one a layer that has one.
    pub fn caches(&self) -> impl Iterator<Item = (Tensor, KvCache)> {
        self.states().filter_map(|(t, _)| Some((t, self.cache(t)?)))
    }

    /// The cache tensor as the step finds it, followed back from any state of it; other tensors are their own root.
    pub fn root(&self, mut t: Tensor) -> Tensor {
        while let Some(Op::KvStore { cache, .. }) = self.producer_op(t) {
            t = *cache;
        }
        t
    }

    /// Appends a tensor that no node makes.
    pub(super) fn declare(&mut self, kind: TensorKind, shape: Shape) -> Tensor {
        self.tensors.push(TensorData { kind, shape, producer: None, users: Vec::new() })
    }

    /// Appends an operation whose result is of this kind and shape.
    pub(super) fn append(&mut self, op: Op, kind: TensorKind, shape: Shape) -> Tensor {
        let node = self.nodes.next_key();
        for t in op.operands() {
            let users = &mut self.tensors[t].users;
            if users.last() != Some(&node) {
                users.push(node);
            }
        }
        let result = self.tensors.push(TensorData { kind, shape, producer: Some(node), users: Vec::new() });
        self.nodes.push(NodeData { op, result });
        result
    }
}
