//! Graph IR: one step of a model as operations over named tensors.
//!
//! A step takes `n_tokens` token ids with their positions, and the indices of the `n_outputs` rows whose logits are
//! wanted. Every activation is a matrix of f32 with a constant number of columns; its number of [rows](Rows) is one of
//! these two, so nothing in a graph depends on the size of a batch or on the length of the context.
//!
//! ```text
//! graph "tiny" {
//!   t0: [tokens, 1] = input tokens
//!   t1: [64, 32] = weight "token_embd.weight" q8_0
//!   t2: [tokens, 32] = embed t1, t0 scale=1.0
//!   t3: [1, 32] = weight "output_norm.weight" f32
//!   t4: [tokens, 32] = rms_norm t2, t3 eps=1e-5
//!   t5: [outputs, 1] = input output_rows
//!   t6: [outputs, 32] = select_rows t4, t5
//!   t7: [outputs, 64] = linear t6, t1
//!   output "logits" t7
//! }
//! ```
//!
//! * [`Graph`] holds tensors and operations; both are walked in order, a tensor knows its producer and its users.
//! * [`Builder`] appends to a graph and checks each operation by the rules of [`result_shape`].
//! * [`verify`] checks a whole graph, [`parse`] reads the text form that `Display` writes.
//! * [`Interp`] runs a graph in f64: the oracle for everything that runs it faster.
//!
//! Memory is not part of a graph, with one exception: a [`State`] outlives the step. [`Op::KvStore`] gives a KV cache
//! after the store as a new tensor, so that the order of stores and of the attention that reads them is data flow. The
//! states of convolutions and recurrences are read and changed by one operation.

mod builder;
mod error;
mod interp;
mod op;
mod parse;
mod print;
mod shape;
mod spec;
mod tensor;
mod verify;

#[cfg(test)]
mod tests;

pub use builder::Builder;
pub use error::{GraphError, ParseError, Rule};
pub use interp::{Interp, InterpError, Matrix, WeightSource};
pub use op::Op;
pub use parse::parse;
pub use shape::result_shape;
pub use spec::{Activation, KeyHeads, Limit, NormKind, RopeSpec, RopeStyle, Routing, Scoring, Yarn};
pub use tensor::{
    ConvState, Graph, Input, KvCache, Node, NodeData, Output, RecurrentState, Rows, Shape, State, Tensor, TensorData,
    TensorKind, Weight,
};
pub use verify::verify;

/// The name of the output that holds the logits, `[n_outputs, n_vocab]`.
pub const LOGITS: &str = "logits";

/// The name of the output that holds the last hidden state after its norm, `[n_outputs, n_embd]`.
pub const HIDDEN: &str = "hidden";
