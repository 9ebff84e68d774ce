//! Which nodes of a graph become part of another node's kernel.

use super::attention::turns_own_heads;
use super::experts::chosen_by_products;
use super::{linear_input, weight_type};
use hrx_ir::graph::{Graph, Limit, Node, Op, Tensor};
use hrx_templates as kt;
use hrx_templates::{Output, TargetShape};
use std::collections::HashSet;

/// The nodes that an output depends on.
pub(super) fn needed_nodes(graph: &Graph, output: Tensor) -> HashSet<Node> {
    let mut needed = HashSet::new();
    let mut work = vec![output];
    while let Some(t) = work.pop() {
        if let Some(node) = graph.producer(t)
            && needed.insert(node)
        {
            work.extend(graph.op(node).operands());
        }
    }
    needed
}

/// Which nodes are part of another's kernel.
pub(super) struct Fusion {
    pub(super) parts: HashSet<Node>,
}

impl Fusion {
    /// Looks for the patterns that kernels have an epilogue or prologue for. On waves with single tokens, `single`, products
    /// with experts weigh and sum their results, and attention turns and stores its token's own heads.
    pub(super) fn find(
        graph: &Graph,
        needed: &HashSet<Node>,
        output: Tensor,
        activations: Output,
        single: Option<&TargetShape>,
    ) -> Fusion {
        let mut f = Fusion { parts: HashSet::new() };
        // The producer of a tensor if nothing else reads it.
        let only = |t: Tensor| {
            let users = graph.users(t).iter().filter(|n| needed.contains(n)).count();
            graph.producer(t).filter(|_| users == 1 && t != output)
        };
        for node in graph.nodes.keys().filter(|n| needed.contains(n)) {
            match *graph.op(node) {
                Op::Glu { gate, up, limit: Limit::Off, .. } => {
                    if let (Some(g), Some(u)) = (only(gate), only(up))
                        && g != u
                        && (gated_pair(graph, g, u, activations) || expert_pair(graph, g, u))
                    {
                        f.parts.extend([g, u]);
                        f.parts.extend(single.and_then(|shape| chosen_with(graph, g, shape)));
                    }
                }
                Op::Add { a, b } if a != b && graph.shape(a) == graph.shape(b) && graph.weight(b).is_none() => {
                    let fits = |n: &Node| !f.parts.contains(n) && takes_residual(graph, *n);
                    if let Some(n) = [a, b].into_iter().filter_map(only).find(fits) {
                        f.parts.insert(n);
                    }
                }
                Op::Add { a, b } if weight_of_row(graph, a, b) => {
                    let scaled = |n: &Node| match *graph.op(*n) {
                        Op::Mul { a, .. } => graph.producer(a).is_some_and(|n| f.parts.contains(&n)),
                        _ => false,
                    };
                    f.parts.extend(only(a).filter(scaled));
                }
                Op::Mul { a, b } if weight_of_row(graph, a, b) => {
                    let norm = |n: &Node| matches!(graph.op(*n), Op::Normalize { .. });
                    f.parts.extend(only(a).filter(norm));
                }
                Op::ExpertSum { x, routes } if single.is_some() => {
                    f.parts.extend(only(x).filter(|&n| is_summed(graph, n, routes)));
                }
                Op::SoftCap { x, .. } | Op::Scale { x, .. } => {
                    if let Some(n) = only(x).filter(|&n| matches!(graph.op(n), Op::Linear { .. })) {
                        f.parts.insert(n);
                    }
                }
                Op::Rope { x, spec, .. } => {
                    let per_head = |n: &Node| matches!(*graph.op(*n), Op::RmsNorm { weight, .. } if graph.cols(weight) == spec.head_dim);
                    if let Some(n) = only(x).filter(per_head) {
                        f.parts.insert(n);
                    }
                }
                Op::KvStore { k, .. } => {
                    if let Some(n) = only(k).filter(|&n| matches!(graph.op(n), Op::Rope { .. })) {
                        f.parts.insert(n);
                    }
                }
                Op::Attention { q, cache, .. }
                    if single.is_some_and(|shape| turns_own_heads(graph, graph.op(node), shape)) =>
                {
                    // What turns a tensor that nothing else reads.
                    let turns = |t: Tensor| {
                        let node = only(t)?;
                        match *graph.op(node) {
                            Op::Rope { spec, .. } => Some((node, spec)),
                            _ => None,
                        }
                    };
                    if let Some(store) = only(cache)
                        && let Op::KvStore { k, v: Some(_), .. } = *graph.op(store)
                        && turns(q).map(|(_, spec)| spec) == turns(k).map(|(_, spec)| spec)
                    {
                        f.parts.insert(store);
                        f.parts.extend(turns(q).map(|(node, _)| node));
                    }
                }
                _ => {}
            }
        }
        f
    }
}

/// The router whose choice a gated product, of which this is the first factor, can make itself: on chips that make numbers of
/// its row.
fn chosen_with(graph: &Graph, product: Node, shape: &TargetShape) -> Option<Node> {
    let Op::ExpertLinear { weight, routes: Some(routes), .. } = *graph.op(product) else { return None };
    let router = graph.producer(routes)?;
    let Op::Route { logits, bias, routing } = *graph.op(router) else { return None };
    let numbers = kt::RowsTiling::makes_numbers(shape, weight_type(graph, weight), graph.cols(weight));
    (numbers && chosen_by_products(&routing, bias.is_some(), graph.cols(logits))).then_some(router)
}

/// Whether a node is a product with experts that can be weighed and summed by these routes.
fn is_summed(graph: &Graph, node: Node, routes: Tensor) -> bool {
    match *graph.op(node) {
        Op::ExpertLinear { x, weight, routes: by, scale: None, bias: None, .. } => {
            by == Some(routes) && graph.cols(x) != graph.cols(weight)
        }
        _ => false,
    }
}

/// Whether two linear layers of one input can be one gated kernel.
fn gated_pair(graph: &Graph, gate: Node, up: Node, activations: Output) -> bool {
    match (graph.op(gate), graph.op(up)) {
        (Op::Linear { x, weight, bias: None }, Op::Linear { x: y, weight: v, bias: None }) => {
            x == y && linear_input(graph, *weight, activations) == linear_input(graph, *v, activations)
        }
        _ => false,
    }
}

/// Whether two products with experts can be one gated kernel.
fn expert_pair(graph: &Graph, gate: Node, up: Node) -> bool {
    match (graph.op(gate), graph.op(up)) {
        (
            Op::ExpertLinear { x, routes, scale: None, bias: None, .. },
            Op::ExpertLinear { x: y, routes: s, scale: None, bias: None, .. },
        ) => x == y && routes == s,
        _ => false,
    }
}

/// Whether `b` is a weight with an element for each column of `a`.
fn weight_of_row(graph: &Graph, a: Tensor, b: Tensor) -> bool {
    graph.weight(b).is_some() && graph.cols(a) == graph.cols(b)
}

/// Whether a node's kernel can add a residual to its result.
fn takes_residual(graph: &Graph, node: Node) -> bool {
    match *graph.op(node) {
        Op::Linear { .. } | Op::ExpertSum { .. } => true,
        Op::RmsNorm { x, weight, .. } => graph.cols(weight) == graph.cols(x),
        _ => false,
    }
}
