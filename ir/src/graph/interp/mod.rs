//! Runs a graph in f64.
//!
//! Every operation is computed as its documentation says, with no thought of speed: weights are fetched row by row, so
//! a model of any size runs in little memory. Results are rounded nowhere but where the graph has f32 data.

mod experts;
mod ops;
mod recurrent;

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

/// What the steps so far left.
#[derive(Default)]
struct Memory {
    /// Keys and values by layer.
    caches: HashMap<u32, Cache>,
    /// The other states by their tensor, rows and columns as the graph has them.
    states: HashMap<Tensor, Matrix>,
}

/// An interpreter with the state of one sequence.
pub struct Interp<'g> {
    graph: &'g Graph,
    memory: Memory,
    /// The context that rotations are chosen for.
    n_ctx: u32,
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
        Ok(Interp { graph, memory: Memory::default(), n_ctx: 0, held: 0 })
    }

    /// For a sequence with room for so many positions: it decides between a rotation's factors. 0 without.
    pub fn with_context(self, n_ctx: u32) -> Interp<'g> {
        Interp { n_ctx, ..self }
    }

    /// Forgets the sequence.
    pub fn reset(&mut self) {
        self.memory = Memory::default();
        self.held = 0;
    }

    /// Runs a step and gives the logits `[n_outputs, n_vocab]` (the first output where none has that name).
    ///
    /// `positions` holds the position of each token. Positions may not leave a gap: each is at most one above those that
    /// the caches hold or that come before it in the step; a smaller one replaces what is held, and forgets nothing. With
    /// [recurrent states](Graph::is_recurrent) each is one above the last.
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
        let (values, n_ctx) = (SecondaryMap::new(), self.n_ctx);
        let mut step = ops::Step { graph: g, weights, args, values, n_ctx, memory: &mut self.memory };
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
        let recurrent = self.graph.is_recurrent();
        for (i, &p) in args.positions.iter().enumerate() {
            match usize::try_from(p) {
                Ok(p) if p == held || (p < held && !recurrent) => held = held.max(p + 1),
                _ => {
                    let want = if recurrent { held.to_string() } else { format!("0 to {held}") };
                    return bad(format!("position of token {i}"), p.to_string(), want);
                }
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
            let Rows::Const(rows) = self.graph.shape(table).rows else { continue };
            let outside = |&(_, &id): &(usize, &i32)| !u32::try_from(id).is_ok_and(|id| id < rows);
            let (list, what) = match Some(used) == ids {
                true => (args.tokens, "token"),
                false => (args.positions, "position of token"),
            };
            if let Some((i, id)) = list.iter().enumerate().find(outside) {
                return bad(format!("{what} {i}"), id.to_string(), format!("below {rows}"));
            }
        }
        Ok(held)
    }
}
