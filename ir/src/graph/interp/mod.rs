//! Runs a graph in f64.
//!
//! Every operation is computed as its documentation says, with no thought of speed: weights are fetched row by row, so
//! a model of any size runs in little memory. Results are rounded nowhere but where the graph has f32 data.

mod ops;

use super::tensor::{Graph, Input, Rows, Tensor, TensorKind};
use super::{GraphError, LOGITS, verify};
use cranelift_entity::SecondaryMap;
use std::collections::HashMap;

/// A matrix of f64, row after row.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Matrix {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// `rows * cols` elements.
    pub data: Vec<f64>,
}

impl Matrix {
    /// A matrix of zeros.
    pub fn zeros(rows: usize, cols: usize) -> Matrix {
        Matrix { rows, cols, data: vec![0.0; rows * cols] }
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, r: usize) -> &[f64] {
        &self.data[r * self.cols..][..self.cols]
    }

    /// One row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row_mut(&mut self, r: usize) -> &mut [f64] {
        &mut self.data[r * self.cols..][..self.cols]
    }
}

/// Where weights come from.
pub trait WeightSource {
    /// Writes row `row` of the weight of that name to `out`, whose length is the weight's number of columns, dequantised
    /// as its format's reference does. An error is a text that says what is wrong.
    fn row(&self, name: &str, row: u32, out: &mut [f32]) -> Result<(), String>;
}

impl<F: Fn(&str, u32, &mut [f32]) -> Result<(), String>> WeightSource for F {
    fn row(&self, name: &str, row: u32, out: &mut [f32]) -> Result<(), String> {
        self(name, row, out)
    }
}

/// Why a step cannot be run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InterpError {
    /// The graph breaks a rule.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// The step's arguments don't fit each other, the graph or the caches.
    #[error("{what}: found {found}, want {want}")]
    Argument {
        /// Which argument, and where in it.
        what: String,
        /// What it is.
        found: String,
        /// What would do.
        want: String,
    },
    /// A weight could not be fetched.
    #[error("weight \"{name}\", row {row}: {problem}")]
    Weight {
        /// The weight.
        name: String,
        /// Its row.
        row: u32,
        /// The source's words.
        problem: String,
    },
}

/// Keys and values of one layer; row `p` belongs to position `p`.
#[derive(Clone, Default)]
struct Cache {
    k: Vec<Vec<f64>>,
    v: Vec<Vec<f64>>,
}

/// An interpreter with the state of one sequence.
pub struct Interp<'g> {
    graph: &'g Graph,
    caches: HashMap<u32, Cache>,
    /// Positions `0..held` are in the caches.
    held: usize,
}

/// What a step is given.
struct Arguments<'a> {
    tokens: &'a [i32],
    positions: &'a [i32],
    output_rows: &'a [i32],
}

impl<'g> Interp<'g> {
    /// An interpreter with empty caches. The graph is verified first.
    pub fn new(graph: &'g Graph) -> Result<Interp<'g>, GraphError> {
        verify(graph)?;
        Ok(Interp { graph, caches: HashMap::new(), held: 0 })
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) {
        self.caches.clear();
        self.held = 0;
    }

    /// Runs a step and gives the logits `[n_outputs, n_vocab]` (the first output where none has that name).
    ///
    /// `positions` holds the position of each token. Positions may not leave a gap: each is at most one above those that
    /// the caches hold or that come before it in the step; a smaller one replaces what is held, and forgets nothing.
    /// `output_rows` are indices into `tokens`. Arguments are checked before anything is changed; after an error of the
    /// weight source the caches of some layers hold the step's tokens already.
    pub fn step(
        &mut self,
        weights: &dyn WeightSource,
        tokens: &[i32],
        positions: &[i32],
        output_rows: &[i32],
    ) -> Result<Matrix, InterpError> {
        let wanted = self.graph.output(LOGITS).unwrap_or(self.graph.outputs[0].tensor);
        let mut logits = Matrix::default();
        self.observe(weights, tokens, positions, output_rows, &mut |t, m| {
            if t == wanted {
                logits = m.clone();
            }
        })?;
        Ok(logits)
    }

    /// As [`step`](Interp::step), but shows every activation to `seen` as soon as it is computed.
    pub fn observe(
        &mut self,
        weights: &dyn WeightSource,
        tokens: &[i32],
        positions: &[i32],
        output_rows: &[i32],
        seen: &mut dyn FnMut(Tensor, &Matrix),
    ) -> Result<(), InterpError> {
        let args = Arguments { tokens, positions, output_rows };
        let held = self.check(&args)?;
        let g = self.graph;
        let mut step = ops::Step { graph: g, weights, args, values: SecondaryMap::new(), caches: &mut self.caches };
        for (n, node) in g.nodes.iter() {
            let value = step.run(&node.op)?;
            if g.tensors[node.result].kind == TensorKind::Activation {
                seen(node.result, &value);
                step.values[node.result] = value;
            }
            for t in node.op.operands() {
                // Nobody reads it any more.
                if g.users(t).last() == Some(&n) {
                    step.values[t] = Matrix::default();
                }
            }
        }
        self.held = held;
        Ok(())
    }

    /// Checks the arguments; gives the number of positions held after the step.
    fn check(&self, args: &Arguments<'_>) -> Result<usize, InterpError> {
        let bad = |what: String, found: String, want: String| Err(InterpError::Argument { what, found, want });
        let n = args.tokens.len();
        if args.positions.len() != n {
            return bad("positions".into(), format!("{}", args.positions.len()), format!("one for each of {n} tokens"));
        }
        let mut held = self.held;
        for (i, &p) in args.positions.iter().enumerate() {
            match usize::try_from(p) {
                Ok(p) if p <= held => held = held.max(p + 1),
                _ => return bad(format!("position of token {i}"), p.to_string(), format!("0 to {held}")),
            }
        }
        for (i, &r) in args.output_rows.iter().enumerate() {
            if !usize::try_from(r).is_ok_and(|r| r < n) {
                return bad(format!("output row {i}"), r.to_string(), format!("an index of {n} tokens"));
            }
        }
        let ids = self.graph.input(Input::Tokens);
        for node in self.graph.nodes.values() {
            let super::Op::Embed { table, ids: used, .. } = node.op else { continue };
            let Rows::Const(vocab) = self.graph.shape(table).rows else { continue };
            let outside = |&(_, &id): &(usize, &i32)| !u32::try_from(id).is_ok_and(|id| id < vocab);
            if let Some((i, id)) = args.tokens.iter().enumerate().find(outside).filter(|_| Some(used) == ids) {
                return bad(format!("token {i}"), id.to_string(), format!("an id below {vocab}"));
            }
        }
        Ok(held)
    }
}
