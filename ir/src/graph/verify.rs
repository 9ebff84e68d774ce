//! Checks a whole graph: what building it step by step guarantees, for graphs that came some other way or were changed.

use super::shape::{Broken, check_declaration, check_name, result_shape};
use super::tensor::{Graph, Output, Rows, Tensor, TensorKind};
use super::{GraphError, Op, Rule};
use cranelift_entity::{EntityRef, SecondaryMap};
use std::collections::HashSet;

/// Checks every rule; the error names the first tensor that breaks one.
pub fn verify(g: &Graph) -> Result<(), GraphError> {
    check_name("graph", &g.name).map_err(|(rule, detail)| GraphError { tensor: None, rule, detail })?;
    check_names(g)?;
    for (t, d) in g.tensors.iter().filter(|(_, d)| d.producer.is_none()) {
        check_declaration(&d.kind, d.shape).map_err(|(rule, detail)| GraphError { tensor: Some(t), rule, detail })?;
    }
    let mut users: SecondaryMap<Tensor, Vec<super::Node>> = SecondaryMap::new();
    let mut last = None;
    for (n, node) in g.nodes.iter() {
        let at = |(rule, detail)| GraphError { tensor: Some(node.result), rule, detail };
        if !g.tensors.is_valid(node.result) || g.producer(node.result) != Some(n) {
            return Err(at((Rule::Result, format!("{} is not recorded as the maker of its result", node.op.name()))));
        }
        if last.is_some_and(|t| t >= node.result) {
            return Err(at((Rule::Order, format!("{} comes after {}", node.result, last.unwrap_or(node.result)))));
        }
        last = Some(node.result);
        for t in node.op.operands() {
            if !g.tensors.is_valid(t) || t >= node.result {
                return Err(at((
                    Rule::Order,
                    format!("{}: operand {t} is not defined before its use", node.op.name()),
                )));
            }
            if users[t].last() != Some(&n) {
                users[t].push(n);
            }
        }
        let (kind, shape) = result_shape(g, &node.op).map_err(at)?;
        let d = &g.tensors[node.result];
        if (&kind, shape) != (&d.kind, d.shape) {
            let detail = format!("{} gives {shape}, recorded is {} or another kind", node.op.name(), d.shape);
            return Err(at((Rule::Result, detail)));
        }
    }
    for (t, d) in g.tensors.iter() {
        let at = |(rule, detail)| GraphError { tensor: Some(t), rule, detail };
        if let Some(n) = d.producer.filter(|&n| n.index() >= g.nodes.len() || g.result(n) != t) {
            return Err(at((Rule::Result, format!("is not what its recorded maker {n} makes"))));
        }
        if d.users != users[t] {
            return Err(at((Rule::Result, format!("recorded users {:?}, found {:?}", d.users, users[t]))));
        }
        let stores = d.users.iter().filter(|&&n| stores_to(g.op(n), t)).count();
        if stores > 1 {
            return Err(at((Rule::CacheChain, format!("is stored to {stores} times in a step"))));
        }
    }
    if g.outputs.is_empty() {
        return Err(GraphError { tensor: None, rule: Rule::Output, detail: "no output".into() });
    }
    for (i, output) in g.outputs.iter().enumerate() {
        check_output(g, &g.outputs[..i], output)?;
    }
    Ok(())
}

/// Weights, inputs and caches occur once.
fn check_names(g: &Graph) -> Result<(), GraphError> {
    let mut seen = HashSet::new();
    for (t, d) in g.tensors.iter().filter(|(_, d)| d.producer.is_none()) {
        let name = match &d.kind {
            TensorKind::Weight(w) => format!("weight \"{}\"", w.name),
            TensorKind::Input(i) => format!("input {}", i.name()),
            TensorKind::State(s) => format!("{} of layer {}", s.name(), s.layer()),
            TensorKind::Activation => continue,
        };
        if seen.contains(&name) {
            return Err(GraphError { tensor: Some(t), rule: Rule::Unique, detail: format!("{name} is there twice") });
        }
        seen.insert(name);
    }
    Ok(())
}

/// The state that an operation changes, as it finds it.
pub(super) fn changed(op: &Op) -> Option<Tensor> {
    match op {
        Op::KvStore { cache, .. } => Some(*cache),
        other => other.advances(),
    }
}

fn stores_to(op: &Op, t: Tensor) -> bool {
    changed(op) == Some(t)
}

/// Whether the state may still be changed.
pub(super) fn check_store(g: &Graph, state: Tensor) -> Result<(), Broken> {
    match g.users(state).iter().find(|&&n| stores_to(g.op(n), state)) {
        Some(&n) => {
            let op = g.op(n).name();
            Err((Rule::CacheChain, format!("state {state} is changed in this step already, by {op} {}", g.result(n))))
        }
        None => Ok(()),
    }
}

/// Checks an output against the graph and the outputs before it.
pub(super) fn check_output(g: &Graph, before: &[Output], output: &Output) -> Result<(), GraphError> {
    let Output { name, tensor } = output;
    let error = |rule, detail| Err(GraphError { tensor: Some(*tensor), rule, detail });
    if !g.tensors.is_valid(*tensor) {
        return error(Rule::Order, format!("output \"{name}\" is not defined"));
    }
    check_name("output", name).or_else(|(rule, detail)| error(rule, detail))?;
    if before.iter().any(|o| o.name == *name) {
        return error(Rule::Unique, format!("output \"{name}\" is there twice"));
    }
    let d = &g.tensors[*tensor];
    if d.kind != TensorKind::Activation || d.shape.rows != Rows::Outputs {
        return error(Rule::Output, format!("output \"{name}\" is {}, want an activation [outputs, n]", d.shape));
    }
    Ok(())
}
