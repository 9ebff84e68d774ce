//! What steps of a model have to do at the least, whoever does it: bytes of memory and operations. From the graph alone.
//!
//! Counted are weights, read once a step (of embeddings the rows of the tokens; of experts those that are chosen, as many
//! different ones as can be expected of choices that are equally likely), and the cache: what attention sees is read once a
//! step, what is new is written. Activations are not, as they may stay on the chip. An operation is a multiplication or an
//! addition of a product: two for each element of a weight and row.

use crate::exec::lower::CACHE_ELEM;
use hrx_ir::graph::{Graph, Op, Rows, Tensor};
use hrx_ir::tile::Content;
use std::ops::AddAssign;

/// What has to be done at the least.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Work {
    /// Bytes of weights that are read.
    pub weights: f64,
    /// Bytes of the cache that are read and written.
    pub cache: f64,
    /// Multiplications and additions of products.
    pub operations: f64,
}

impl Work {
    /// All bytes.
    pub fn bytes(&self) -> f64 {
        self.weights + self.cache
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        self.weights += other.weights;
        self.cache += other.cache;
        self.operations += other.operations;
    }
}

/// A step: tokens behind those that are in the context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepSize {
    /// Tokens in the context before.
    pub first: u32,
    /// Tokens of the step.
    pub tokens: u32,
    /// Rows of output that are wanted.
    pub outputs: u32,
}

/// What a step has to do.
pub fn step(graph: &Graph, size: StepSize) -> Work {
    let mut work = Work::default();
    for node in graph.nodes.values() {
        work += operation(graph, &node.op, node.result, size);
    }
    work
}

/// What tokens given one behind another have to do, in steps of at most `batch`, where the last one's output is wanted.
pub fn tokens(graph: &Graph, first: u32, count: u32, batch: u32) -> Work {
    let mut work = Work::default();
    let mut done = 0;
    while done < count {
        let tokens = batch.max(1).min(count - done);
        work += step(graph, StepSize { first: first + done, tokens, outputs: 1 });
        done += tokens;
    }
    work
}

/// What `count` tokens of each of some sequences have to do, one of each in a step. Weights are read once a step.
pub fn generation(graph: &Graph, first: u32, count: u32, sequences: u32) -> Work {
    let mut work = Work::default();
    for i in 0..count {
        work += step(graph, StepSize { first: first + i, tokens: sequences, outputs: sequences });
    }
    work
}

fn operation(graph: &Graph, op: &Op, result: Tensor, size: StepSize) -> Work {
    let rows = |t: Tensor| match graph.shape(t).rows {
        Rows::Tokens => f64::from(size.tokens),
        Rows::Outputs => f64::from(size.outputs),
        Rows::Const(n) => f64::from(n),
        Rows::Cached => 0.0,
    };
    let cols = |t: Tensor| f64::from(graph.cols(t));
    match *op {
        Op::Embed { table, .. } => Work { weights: rows(result) * row_bytes(graph, table), ..Work::default() },
        Op::Linear { x, weight, .. } => Work {
            weights: rows(weight) * row_bytes(graph, weight),
            operations: 2.0 * rows(x) * rows(weight) * cols(weight),
            ..Work::default()
        },
        Op::ExpertLinear { x, weight, n_expert, routes, .. } => {
            let n = f64::from(n_expert);
            let used = routes.map_or(n, |r| cols(r) / 2.0);
            let one = rows(weight) / n;
            // Of n experts each row takes `used`; that one is taken by none of the rows is as likely as this.
            let read = n * (1.0 - (1.0 - used / n).powf(rows(x)));
            Work {
                weights: read * one * row_bytes(graph, weight),
                operations: 2.0 * rows(x) * used * one * cols(weight),
                ..Work::default()
            }
        }
        Op::KvStore { cache, .. } => {
            Work { cache: rows_of_cache(graph, cache) * f64::from(size.tokens), ..Work::default() }
        }
        Op::Attention { q, cache, n_head, head_dim, window, .. } => {
            let value_dim = graph.cache(graph.root(cache)).map_or(head_dim, |c| c.value_dim);
            // The rows of the last layer that are wanted are the last ones.
            let queries = rows(q) as u64;
            let end = u64::from(size.first) + u64::from(size.tokens);
            let sees = |position: u64| window.map_or(position + 1, |w| (position + 1).min(u64::from(w)));
            let seen: u64 = (end - queries.min(end)..end).map(sees).sum();
            let read = window.map_or(end, |w| end.min(u64::from(w) + queries.saturating_sub(1)));
            let products = seen as f64 * f64::from(n_head) * f64::from(head_dim + value_dim);
            Work { cache: rows_of_cache(graph, cache) * read as f64, operations: 2.0 * products, ..Work::default() }
        }
        _ => Work::default(),
    }
}

/// Bytes of a row of a weight.
fn row_bytes(graph: &Graph, weight: Tensor) -> f64 {
    let cols = f64::from(graph.cols(weight));
    graph.weight(weight).map_or(0.0, |w| match w.content {
        Content::Quant(format) => cols / f64::from(format.block) * f64::from(format.block_bytes),
        Content::Elem(elem) => cols * f64::from(elem.bytes()),
    })
}

/// Bytes of the keys and values of a position.
fn rows_of_cache(graph: &Graph, cache: Tensor) -> f64 {
    let bytes = f64::from(CACHE_ELEM.bytes());
    graph.cache(graph.root(cache)).map_or(0.0, |c| {
        let dims = if c.shared { c.head_dim } else { c.head_dim + c.value_dim };
        bytes * f64::from(c.n_kv_head) * f64::from(dims)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::ModelGraph;
    use crate::synthetic::Synthetic;

    fn graph(name: &str) -> Graph {
        let model: Synthetic = name.parse().expect("a model");
        ModelGraph::from_gguf(&model.gguf().expect("a file")).expect("a graph").graph
    }

    fn near(found: f64, wanted: f64) {
        assert!((found / wanted - 1.0).abs() < 0.01, "{found:e} {wanted:e}");
    }

    #[test]
    fn a_token_reads_all_weights_of_a_dense_model_and_its_cache() {
        let qwen = graph("qwen3-8b:q8_0");
        let one = step(&qwen, StepSize { first: 0, tokens: 1, outputs: 1 });
        // 8.19 G parameters, of which the embeddings' 0.62 are read in one row.
        near(one.weights, (8.19e9 - 0.62e9) * 34.0 / 32.0);
        near(one.operations, 2.0 * (8.19e9 - 0.62e9));
        let deep = step(&qwen, StepSize { first: 16_383, tokens: 1, outputs: 1 });
        // 36 layers, 8 heads of 128, keys and values, 2 bytes; one more is written than read.
        near(deep.cache, 36.0 * 8.0 * 256.0 * 2.0 * 16_385.0);
        near(deep.operations - one.operations, 36.0 * 32.0 * 256.0 * 2.0 * 16_383.0);
        assert_eq!(deep.weights, one.weights);
    }

    #[test]
    fn a_prompt_reads_weights_once_a_step() {
        let qwen = graph("qwen3-8b:f16");
        let [one, four] = [2048, 512].map(|batch| tokens(&qwen, 0, 2048, batch));
        near(four.weights, 4.0 * one.weights);
        near(one.operations, four.operations);
        // The last layer's network and the output are for one row alone.
        near(one.operations, 2048.0 * 2.0 * 6.75e9 + 36.0 * 32.0 * 256.0 * 2048.0 * 2049.0);
    }

    #[test]
    fn experts_that_are_not_chosen_are_not_read() {
        let moe = graph("qwen3-30b-a3b:q8_0");
        let one = tokens(&moe, 0, 1, 1);
        // 3.03 G active parameters without the embeddings, and the routers in F32.
        let routers = 48.0 * 128.0 * 2048.0 * 4.0;
        near(one.weights, 3.03e9 * 34.0 / 32.0 + routers);
        let all = tokens(&moe, 0, 512, 512);
        // Of the last layer's 128 experts the one row that is wanted takes 8.
        let last = 128.0 * 3.0 * 2048.0 * 768.0 * (1.0 - 8.0 / 128.0);
        near(all.weights, (30.5e9 - 0.31e9 - last) * 34.0 / 32.0 + routers);
    }

    #[test]
    fn windows_bound_what_is_read() {
        let oss = graph("gpt-oss-20b:mxfp4");
        let [far, further] = [10_000, 20_000].map(|first| step(&oss, StepSize { first, tokens: 1, outputs: 1 }).cache);
        // Half of the 24 layers see everything.
        near(further - far, 12.0 * 8.0 * 128.0 * 2.0 * 10_000.0);
    }
}
