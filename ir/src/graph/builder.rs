//! Making a graph, one checked operation at a time.

use super::shape::{check_declaration, result_shape, state_shape};
use super::tensor::{Graph, Input, KvCache, Output, Rows, Shape, State, Tensor, TensorKind, Weight};
use super::verify::check_output;
use super::{Activation, GraphError, Limit, NormKind, Op, RopeSpec, Rule};
use crate::tile::Content;
use std::collections::HashMap;

/// Appends to a graph. Every method checks the rules of what it appends; an error leaves the graph as it was.
///
/// Weights, inputs and caches are declared at their first use: asking again for the same one gives the same tensor.
pub struct Builder {
    graph: Graph,
    weights: HashMap<String, Tensor>,
    states: HashMap<(&'static str, u32), Tensor>,
}

impl Builder {
    /// A builder of an empty graph.
    pub fn new(name: &str) -> Builder {
        Builder { graph: Graph::new(name), weights: HashMap::new(), states: HashMap::new() }
    }

    /// What has been built so far.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The finished graph, verified as a whole.
    pub fn finish(self) -> Result<Graph, GraphError> {
        super::verify(&self.graph)?;
        Ok(self.graph)
    }

    fn error(&self, (rule, detail): (Rule, String)) -> GraphError {
        GraphError { tensor: Some(self.graph.tensors.next_key()), rule, detail }
    }

    fn declare(&mut self, kind: TensorKind, shape: Shape) -> Result<Tensor, GraphError> {
        check_declaration(&kind, shape).map_err(|e| self.error(e))?;
        Ok(self.graph.declare(kind, shape))
    }

    /// A weight of the model file with `rows` rows of `cols` elements.
    pub fn weight(&mut self, name: &str, content: Content, rows: u32, cols: u32) -> Result<Tensor, GraphError> {
        let kind = TensorKind::Weight(Weight { name: name.into(), content });
        let shape = Shape::new(Rows::Const(rows), cols);
        if let Some(&t) = self.weights.get(name) {
            let d = &self.graph.tensors[t];
            if d.kind == kind && d.shape == shape {
                return Ok(t);
            }
            return Err(
                self.error((Rule::Unique, format!("weight \"{name}\" is {t} already, with another shape or type")))
            );
        }
        let t = self.declare(kind, shape)?;
        self.weights.insert(name.into(), t);
        Ok(t)
    }

    /// An argument of the step.
    pub fn input(&mut self, input: Input) -> Tensor {
        match self.graph.input(input) {
            Some(t) => t,
            None => self.graph.declare(TensorKind::Input(input), input.shape()),
        }
    }

    /// The KV cache of a layer as the step finds it.
    pub fn cache(&mut self, cache: KvCache) -> Result<Tensor, GraphError> {
        self.state(State::Kv(cache))
    }

    /// A layer's state as the step finds it.
    pub fn state(&mut self, state: State) -> Result<Tensor, GraphError> {
        let key = (state.name(), state.layer());
        if let Some(&t) = self.states.get(&key) {
            if self.graph.state(t) == Some(state) {
                return Ok(t);
            }
            return Err(self.error((Rule::Unique, format!("layer {} has a {} already, {t}", key.1, key.0))));
        }
        let shape = state_shape(&state).map_err(|e| self.error(e))?;
        let t = self.declare(TensorKind::State(state), shape)?;
        self.states.insert(key, t);
        Ok(t)
    }

    /// Appends any operation.
    pub fn push(&mut self, op: Op) -> Result<Tensor, GraphError> {
        if let Some(t) = op.operands().into_iter().find(|&t| !self.graph.tensors.is_valid(t)) {
            return Err(self.error((Rule::Order, format!("{}: operand {t} is not defined", op.name()))));
        }
        let (kind, shape) = result_shape(&self.graph, &op).map_err(|e| self.error(e))?;
        if let Some(state) = super::verify::changed(&op) {
            super::verify::check_store(&self.graph, state).map_err(|e| self.error(e))?;
        }
        Ok(self.graph.append(op, kind, shape))
    }

    /// Names a tensor as an output.
    pub fn output(&mut self, name: &str, tensor: Tensor) -> Result<(), GraphError> {
        let output = Output { name: name.into(), tensor };
        check_output(&self.graph, &self.graph.outputs, &output)?;
        self.graph.outputs.push(output);
        Ok(())
    }

    /// [`Op::Embed`] of the step's tokens.
    pub fn embed(&mut self, table: Tensor, scale: f32) -> Result<Tensor, GraphError> {
        let ids = self.input(Input::Tokens);
        self.push(Op::Embed { table, ids, scale })
    }

    /// [`Op::RmsNorm`].
    pub fn rms_norm(&mut self, x: Tensor, weight: Tensor, eps: f32) -> Result<Tensor, GraphError> {
        self.push(Op::RmsNorm { x, weight, eps })
    }

    /// [`Op::Linear`].
    pub fn linear(&mut self, x: Tensor, weight: Tensor, bias: Option<Tensor>) -> Result<Tensor, GraphError> {
        self.push(Op::Linear { x, weight, bias })
    }

    /// [`Op::Rope`] at the step's positions.
    pub fn rope(&mut self, x: Tensor, spec: RopeSpec) -> Result<Tensor, GraphError> {
        let positions = self.input(Input::Positions);
        self.push(Op::Rope { x, positions, spec })
    }

    /// [`Op::Normalize`].
    pub fn normalize(&mut self, x: Tensor, kind: NormKind, group: u32, eps: f32) -> Result<Tensor, GraphError> {
        self.push(Op::Normalize { x, kind, group, eps })
    }

    /// [`Op::KvStore`] at the step's positions.
    pub fn kv_store(&mut self, k: Tensor, v: Option<Tensor>, cache: Tensor) -> Result<Tensor, GraphError> {
        let positions = self.input(Input::Positions);
        self.push(Op::KvStore { k, v, positions, cache })
    }

    /// [`Op::Glu`].
    pub fn glu(&mut self, gate: Tensor, up: Tensor, act: Activation) -> Result<Tensor, GraphError> {
        self.push(Op::Glu { gate, up, act, limit: Limit::Off })
    }

    /// [`Op::Act`].
    pub fn act(&mut self, x: Tensor, act: Activation) -> Result<Tensor, GraphError> {
        self.push(Op::Act { x, act })
    }

    /// [`Op::Add`].
    pub fn add(&mut self, a: Tensor, b: Tensor) -> Result<Tensor, GraphError> {
        self.push(Op::Add { a, b })
    }

    /// [`Op::Mul`].
    pub fn mul(&mut self, a: Tensor, b: Tensor) -> Result<Tensor, GraphError> {
        self.push(Op::Mul { a, b })
    }

    /// [`Op::Columns`] of whole rows.
    pub fn columns(&mut self, x: Tensor, start: u32, len: u32) -> Result<Tensor, GraphError> {
        let group = self.graph.cols(x);
        self.push(Op::Columns { x, group, start, len })
    }

    /// [`Op::Scale`].
    pub fn scale(&mut self, x: Tensor, by: f32) -> Result<Tensor, GraphError> {
        self.push(Op::Scale { x, by })
    }

    /// [`Op::SoftCap`].
    pub fn soft_cap(&mut self, x: Tensor, cap: f32) -> Result<Tensor, GraphError> {
        self.push(Op::SoftCap { x, cap })
    }

    /// [`Op::SelectRows`] of the step's output rows.
    pub fn select_rows(&mut self, x: Tensor) -> Result<Tensor, GraphError> {
        let rows = self.input(Input::OutputRows);
        self.push(Op::SelectRows { x, rows })
    }
}
