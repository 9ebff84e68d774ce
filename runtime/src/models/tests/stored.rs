//! Weights in one tensor for each expert.

use super::{File, with_experts};
use crate::gguf::GgmlType;
use crate::models::GgufRows;
use hrx_ir::graph::WeightSource;

/// The parts of an expert, with their dimensions.
const PARTS: [(&str, [u64; 2]); 3] = [("gate", [8, 6]), ("up", [8, 6]), ("down", [6, 8])];

/// One layer of so many tensors for each part of experts, of which the metadata say four.
fn apart(count: usize) -> File {
    let mut f = with_experts(false);
    for (part, dims) in PARTS {
        f.remove(&format!("blk.0.ffn_{part}_exps.weight"));
        (0..count).for_each(|e| {
            f.add(&format!("blk.0.ffn_{part}.{e}.weight"), &dims);
        });
    }
    f
}

#[test]
fn experts_may_have_a_tensor_each() {
    let (together, model) = (with_experts(false).model().graph, apart(4).model().graph);
    assert_eq!(model.to_string(), together.to_string(), "the graph is that of the stack");
    let gguf = apart(4).gguf();
    let rows = GgufRows(&gguf);
    for (part, [n_in, n_out]) in PARTS {
        let row = |name: String, row: u64| {
            let mut out = vec![0.0; n_in as usize];
            rows.row(&name, row as u32, &mut out).map(|()| out)
        };
        let stack = format!("blk.0.ffn_{part}_exps.weight");
        for (e, r) in (0..4).flat_map(|e| (0..n_out).map(move |r| (e, r))) {
            let own = row(format!("blk.0.ffn_{part}.{e}.weight"), r);
            assert!(own.is_ok());
            assert_eq!(row(stack.clone(), e * n_out + r), own, "{part} {e} {r}");
        }
        assert_eq!(row(stack, 4 * n_out).unwrap_err(), "the tensor has no such row");
    }
}

#[test]
fn experts_that_make_no_stack_are_named() {
    let gate = "blk.0.ffn_gate_exps.weight";
    for (count, want) in [
        (0, format!("no tensor `{gate}`, want it with dimensions [8, 6, 4]")),
        (3, format!("tensor `{gate}` has dimensions [8, 6, 3], want [8, 6, 4]")),
        (5, format!("tensor `{gate}` has dimensions [8, 6, 5], want [8, 6, 4]")),
    ] {
        let error = apart(count).error();
        assert!(error.ends_with(&want), "{error}");
    }
    let with = |dims: &[u64], ty| {
        let mut f = apart(4);
        f.remove("blk.0.ffn_up.2.weight").add("blk.0.ffn_up.2.weight", dims);
        f.tensors.last_mut().unwrap().2 = ty;
        f.error()
    };
    let error = with(&[8, 7], GgmlType::F32);
    assert!(error.ends_with("tensor `blk.0.ffn_up.2.weight` has dimensions [8, 7], want [8, 6]"), "{error}");
    let error = with(&[8, 6], GgmlType::F16);
    assert!(error.ends_with("tensor `blk.0.ffn_up.2.weight` is of type F16, want one of F32"), "{error}");
    // One of them is not left out where the stack is there too.
    let mut f = with_experts(false);
    f.add("blk.0.ffn_up.0.weight", &[8, 6]);
    assert!(f.error().contains("tensor `blk.0.ffn_up.0.weight` is no part of a llama model"), "{}", f.error());
}
