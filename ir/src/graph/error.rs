//! What can be wrong with a graph or its text.

use super::Tensor;
use std::fmt;

/// The rule that a graph breaks; the stable part of [`GraphError`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// An operand is of a kind that the operation takes: an activation, a weight, an input, a cache.
    OperandKind,
    /// The rows and columns of operands fit each other.
    OperandShape,
    /// A row divides into heads, and query heads into groups that share a key/value head.
    Heads,
    /// Sizes are positive and fit 32 bits.
    Size,
    /// Numbers are finite and in the range that the operation is defined for.
    Number,
    /// A row of a quantised weight is a whole number of blocks.
    WholeBlocks,
    /// A weight's name, an input and an output's name occur once.
    Unique,
    /// A name can be written in quotes.
    Name,
    /// An operand is defined before its use.
    Order,
    /// A cache is stored to once in a step, and read after that.
    CacheChain,
    /// A tensor's recorded shape and kind, its producer and users are those that its operation gives.
    Result,
    /// A graph has outputs, which are activations of the output rows.
    Output,
}

impl Rule {
    /// The rule's name.
    pub fn name(self) -> &'static str {
        match self {
            Rule::OperandKind => "operand-kind",
            Rule::OperandShape => "operand-shape",
            Rule::Heads => "heads",
            Rule::Size => "size",
            Rule::Number => "number",
            Rule::WholeBlocks => "whole-blocks",
            Rule::Unique => "unique",
            Rule::Name => "name",
            Rule::Order => "order",
            Rule::CacheChain => "cache-chain",
            Rule::Result => "result",
            Rule::Output => "output",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A graph breaks a rule: which tensor, which rule, and what was found.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {rule}: {detail}", match tensor { Some(t) => t.to_string(), None => "graph".into() })]
pub struct GraphError {
    /// The tensor that the offending operation or declaration makes; none where it is the graph as a whole.
    pub tensor: Option<Tensor>,
    /// The rule.
    pub rule: Rule,
    /// What was found and what was wanted.
    pub detail: String,
}

/// Text that is not a graph.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct ParseError {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What was found and what was wanted.
    pub what: String,
}
