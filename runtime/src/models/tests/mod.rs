//! Models of a few numbers, right and wrong. Whole models are compared with reference logits in
//! `tests/golden_graph.rs`.

mod errors;
mod stored;

use super::*;
use crate::gguf::write::{Builder, OwnedValue};
use crate::gguf::{GgmlType, ValueType};
use hrx_ir::graph::{Interp, LOGITS, Op, RopeStyle, parse};

/// The architectures that [`File::new`] makes models of.
const BASIC: [&str; 4] = ["llama", "qwen2", "qwen3", "gemma3"];

/// A file's parts, to be changed before it is written.
struct File {
    keys: Vec<(String, OwnedValue)>,
    tensors: Vec<(String, Vec<u64>, GgmlType)>,
}

impl File {
    /// A small model: 8 columns, 2 heads of 4 on one key/value head, 16 columns in the feed-forward network.
    fn new(architecture: &str, layers: u32) -> File {
        let mut f = File { keys: vec![("general.architecture".into(), architecture.into())], tensors: vec![] };
        for (key, n) in [
            ("block_count", layers),
            ("context_length", 64),
            ("embedding_length", 8),
            ("feed_forward_length", 16),
            ("attention.head_count", 2),
            ("attention.head_count_kv", 1),
        ] {
            f.set(key, n);
        }
        f.set("attention.layer_norm_rms_epsilon", 1e-5f32);
        f.add("token_embd.weight", &[8, 5]).add("output_norm.weight", &[8]);
        for layer in 0..layers {
            for (name, dims) in [
                ("attn_norm.weight", &[8][..]),
                ("attn_q.weight", &[8, 8]),
                ("attn_k.weight", &[8, 4]),
                ("attn_v.weight", &[8, 4]),
                ("attn_output.weight", &[8, 8]),
                ("ffn_norm.weight", &[8]),
                ("ffn_gate.weight", &[8, 16]),
                ("ffn_up.weight", &[8, 16]),
                ("ffn_down.weight", &[16, 8]),
            ] {
                f.add(&format!("blk.{layer}.{name}"), dims);
            }
            let more: &[(&str, &[u64])] = match architecture {
                "qwen2" => &[("attn_q.bias", &[8]), ("attn_k.bias", &[4]), ("attn_v.bias", &[4])],
                "qwen3" => &[("attn_q_norm.weight", &[4]), ("attn_k_norm.weight", &[4])],
                "gemma3" => &[
                    ("attn_q_norm.weight", &[4]),
                    ("attn_k_norm.weight", &[4]),
                    ("post_attention_norm.weight", &[8]),
                    ("post_ffw_norm.weight", &[8]),
                ],
                _ => &[],
            };
            for (name, dims) in more {
                f.add(&format!("blk.{layer}.{name}"), dims);
            }
        }
        f
    }

    /// Sets a key of the architecture.
    fn set(&mut self, key: &str, value: impl Into<OwnedValue>) -> &mut File {
        let Some(OwnedValue::String(name)) = self.keys.first().map(|(_, v)| v.clone()) else {
            panic!("no architecture")
        };
        let key = format!("{}.{key}", String::from_utf8(name).unwrap());
        self.keys.retain(|(k, _)| *k != key);
        self.keys.push((key, value.into()));
        self
    }

    fn unset(&mut self, key: &str) -> &mut File {
        let before = self.keys.len();
        self.keys.retain(|(k, _)| !k.ends_with(key));
        assert_eq!(self.keys.len(), before - 1, "{key}");
        self
    }

    fn add(&mut self, name: &str, dims: &[u64]) -> &mut File {
        self.tensors.push((name.into(), dims.into(), GgmlType::F32));
        self
    }

    fn remove(&mut self, name: &str) -> &mut File {
        let before = self.tensors.len();
        self.tensors.retain(|(n, ..)| n != name);
        assert_eq!(self.tensors.len(), before - 1, "{name}");
        self
    }

    fn gguf(&self) -> Gguf {
        let mut b = Builder::new();
        for (key, value) in &self.keys {
            b.value(key, value.clone());
        }
        for (n, (name, dims, ty)) in self.tensors.iter().enumerate() {
            let elements: u64 = dims.iter().product();
            let data = if *ty == GgmlType::F32 {
                (0..elements).flat_map(|i| (((i * 7 + n as u64) % 11) as f32 / 8.0 - 0.6).to_le_bytes()).collect()
            } else {
                vec![0; ty.bytes_for(elements).unwrap() as usize]
            };
            b.tensor(name, dims, *ty, data);
        }
        Gguf::from_bytes(b.to_bytes().unwrap()).unwrap()
    }

    fn model(&self) -> ModelGraph {
        ModelGraph::from_gguf(&self.gguf()).unwrap_or_else(|e| panic!("{e}"))
    }

    fn error(&self) -> String {
        ModelGraph::from_gguf(&self.gguf()).expect_err("the model is wrong").to_string()
    }
}

/// The attention operations and the rotations of queries, layer after layer.
fn layers(model: &ModelGraph) -> Vec<(f32, Option<u32>, RopeStyle, f32, f32)> {
    let attention = |op: &Op| match *op {
        Op::Attention { q, scale, window, .. } => match model.graph.producer_op(q) {
            Some(Op::Rope { spec, .. }) => Some((scale, window, spec.style, spec.freq_base, spec.freq_scale)),
            _ => None,
        },
        _ => None,
    };
    model.graph.nodes.values().filter_map(|n| attention(&n.op)).collect()
}

#[test]
fn every_architecture_builds_runs_and_round_trips() {
    for architecture in BASIC {
        let gguf = File::new(architecture, 2).gguf();
        let ModelGraph { config, graph } = ModelGraph::from_gguf(&gguf).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((config.n_vocab, config.head_dim, config.n_head.at(1), config.n_kv_head.at(1)), (5, 4, 2, 1));
        assert_eq!(graph.caches().count(), 2);
        assert_eq!(parse(&graph.to_string()).unwrap(), graph);
        let logits = Interp::new(&graph).unwrap().step(&GgufRows(&gguf), &[1, 4], &[0, 1], &[1]).unwrap();
        assert_eq!((logits.rows, logits.cols), (1, 5), "{architecture}");
        assert!(logits.data.iter().all(|x| x.is_finite()), "{architecture}: {:?}", logits.data);
    }
}

#[test]
fn the_head_is_the_embedding_table_unless_there_is_another() {
    let mut f = File::new("llama", 1);
    let head = |model: &ModelGraph| match model.graph.producer_op(model.graph.output(LOGITS).unwrap()) {
        Some(&Op::Linear { weight, .. }) => model.graph.weight(weight).unwrap().name.clone(),
        other => panic!("the head is {other:?}"),
    };
    assert_eq!(head(&f.model()), "token_embd.weight");
    assert_eq!(head(&f.add("output.weight", &[8, 5]).model()), "output.weight");
}

#[test]
fn rotary_metadata_reach_the_graph() {
    let mut f = File::new("llama", 1);
    assert_eq!(layers(&f.model()), [(0.5, None, RopeStyle::Normal, 10000.0, 1.0)]);
    f.set("rope.freq_base", 5e5f32).set("rope.scaling.type", "linear").set("rope.scaling.factor", 4.0f32);
    assert_eq!(layers(&f.model()), [(0.5, None, RopeStyle::Normal, 5e5, 0.25)]);
    f.set("rope.scaling.type", "none").set("attention.scale", 0.125f32);
    assert_eq!(layers(&f.model()), [(0.125, None, RopeStyle::Normal, 5e5, 1.0)]);
    f.unset("rope.scaling.type").unset("rope.scaling.factor").set("rope.scale_linear", 2.0f32);
    assert_eq!(layers(&f.model())[0].4, 0.5);
    let rotated = |f: &File| {
        let model = f.model();
        let spec = model.graph.nodes.values().find_map(|n| match n.op {
            Op::Rope { spec, .. } => Some(spec),
            _ => None,
        });
        (spec.unwrap().n_rot, spec.unwrap().factors.is_some())
    };
    assert_eq!(rotated(&f), (4, false));
    f.set("rope.dimension_count", 2u32).add("rope_freqs.weight", &[1]);
    assert_eq!(rotated(&f), (2, true));
}

#[test]
fn gemma3_alternates_windows_and_rotary_bases() {
    let mut f = File::new("gemma3", 7);
    f.set("rope.freq_base", 1e6f32).set("rope.scaling.type", "linear").set("rope.scaling.factor", 8.0f32);
    let global = (0.5, None, RopeStyle::Neox, 1e6, 0.125);
    assert_eq!(layers(&f.model()), [global; 7], "no window");
    let local = (0.5, Some(16), RopeStyle::Neox, 10000.0, 1.0);
    f.set("attention.sliding_window", 16u32);
    assert_eq!(layers(&f.model()), [local, local, local, local, local, global, local]);
    f.set("attention.sliding_window_pattern", 2u32).set("rope.freq_base_swa", 500.0f32);
    let other = (0.5, Some(16), RopeStyle::Neox, 500.0, 1.0);
    assert_eq!(layers(&f.model()), [other, global, other, global, other, global, other]);
    f.set("attention.sliding_window_pattern", vec![false, true, false, false, false, false, false]);
    assert_eq!(layers(&f.model()), [global, other, global, global, global, global, global]);
    f.set("attention.sliding_window_pattern", vec![true; 3]);
    assert!(f.error().contains("gemma3.attention.sliding_window_pattern` is an array of 3, want one of 7"));

    f.set("attention.sliding_window_pattern", 2u32).set("final_logit_softcapping", 30.0f32);
    let model = f.model();
    let last = model.graph.producer_op(model.graph.output(LOGITS).unwrap());
    assert!(matches!(last, Some(&Op::SoftCap { cap: 30.0, .. })), "{last:?}");
    let first = model.graph.nodes.values().next().map(|n| &n.op);
    assert!(matches!(first, Some(&Op::Embed { scale, .. }) if scale == 8f32.sqrt()), "{first:?}");
}

#[test]
fn biases_and_head_norms_are_used() {
    let count = |f: &File, wanted: fn(&Graph, &Op) -> bool| {
        let graph = f.model().graph;
        graph.nodes.values().filter(|n| wanted(&graph, &n.op)).count()
    };
    let biases = |_: &Graph, op: &Op| matches!(op, Op::Linear { bias: Some(_), .. });
    let head_norms = |g: &Graph, op: &Op| matches!(*op, Op::RmsNorm { weight, .. } if g.cols(weight) == 4);
    assert_eq!(count(&File::new("llama", 1), biases), 0);
    assert_eq!(count(&File::new("qwen2", 1), biases), 3);
    assert_eq!(count(File::new("llama", 1).add("blk.0.ffn_up.bias", &[16]).add("blk.0.attn_k.bias", &[4]), biases), 2);
    assert_eq!(count(&File::new("qwen2", 2), head_norms), 0);
    assert_eq!(count(&File::new("qwen3", 2), head_norms), 4);
}

/// Only the last layer's blocks are spared the rows that nobody wants.
#[test]
fn rows_are_selected_in_the_last_layer() {
    let graph = File::new("qwen3", 3).model().graph;
    let selections: Vec<usize> = (0..graph.nodes.len())
        .filter(|&n| matches!(graph.nodes.values().nth(n).map(|n| &n.op), Some(Op::SelectRows { .. })))
        .collect();
    let attention = graph.nodes.values().enumerate().filter(|(_, n)| matches!(n.op, Op::Attention { .. }));
    let last = attention.map(|(n, _)| n).next_back().unwrap();
    assert_eq!(selections, [last + 1, last + 2]);
}

#[test]
fn sizes_may_differ_by_layer() {
    let mut f = File::new("llama", 2);
    f.set("attention.head_count_kv", vec![1u32, 1]).set("feed_forward_length", vec![16i32, 8]);
    for (part, dims) in [("gate", [8, 8]), ("up", [8, 8]), ("down", [8, 8])] {
        let name = format!("blk.1.ffn_{part}.weight");
        f.remove(&name).add(&name, &dims);
    }
    let config = f.model().config;
    assert_eq!((config.n_kv_head.max(), config.n_ff.at(0), config.n_ff.at(1)), (1, 16, 8));
    f.set("attention.head_count_kv", OwnedValue::Array(ValueType::U32, vec![]));
    assert!(f.error().contains("head_count_kv` is an array of 0, want one of 2, the layers"), "{}", f.error());
}

#[test]
fn blocks_that_predict_further_tokens_are_left_out() {
    let mut f = File::new("llama", 2);
    f.add("blk.1.nextn.hnorm.weight", &[8]);
    assert_eq!(f.model().config.n_layer, 2);
    f.add("blk.2.attn_norm.weight", &[8]).add("blk.2.nextn.eh_proj.weight", &[16, 8]);
    assert!(f.error().contains("tensor `blk.2.attn_norm.weight` is no part of a llama model"), "{}", f.error());
    f.set("block_count", 3u32).set("nextn_predict_layers", 1u32);
    assert_eq!(f.model().config.n_layer, 2);
    assert_eq!(f.model().graph.caches().count(), 2);
    // Lists have a number for each block of the file.
    f.set("attention.head_count_kv", vec![1u32, 1, 1]);
    assert_eq!(f.model().config.n_layer, 2);
    f.add("blk.3.attn_norm.weight", &[8]);
    assert!(f.error().contains("tensor `blk.3.attn_norm.weight` is no part"), "{}", f.error());
    f.set("nextn_predict_layers", 3u32);
    assert!(f.error().contains("`llama.nextn_predict_layers` is 3, want fewer than the 3 blocks"), "{}", f.error());
}

/// One layer of four experts of 6 columns, two of which are used.
fn with_experts(fused: bool) -> File {
    let mut f = File::new("llama", 1);
    f.set("expert_count", 4u32).set("expert_used_count", 2u32).set("expert_feed_forward_length", 6u32);
    for part in ["gate", "up", "down"] {
        f.remove(&format!("blk.0.ffn_{part}.weight"));
    }
    f.add("blk.0.ffn_gate_inp.weight", &[8, 4]).add("blk.0.ffn_down_exps.weight", &[6, 8, 4]);
    match fused {
        true => f.add("blk.0.ffn_gate_up_exps.weight", &[8, 12, 4]),
        false => f.add("blk.0.ffn_gate_exps.weight", &[8, 6, 4]).add("blk.0.ffn_up_exps.weight", &[8, 6, 4]),
    };
    f
}

#[test]
fn experts_may_have_one_tensor_for_gate_and_up() {
    let experts = |f: &File| {
        let graph = f.model().graph;
        let shape = |op: &Op| match *op {
            Op::ExpertLinear { weight, .. } => Some(graph.shape(weight).to_string()),
            Op::Columns { group, start, len, .. } => Some(format!("{start} to {} of {group}", start + len)),
            _ => None,
        };
        graph.nodes.values().filter_map(|n| shape(&n.op)).collect::<Vec<_>>()
    };
    assert_eq!(experts(&with_experts(false)), ["[24, 8]", "[24, 8]", "[32, 6]"]);
    assert_eq!(experts(&with_experts(true)), ["[48, 8]", "0 to 6 of 12", "6 to 12 of 12", "[32, 6]"]);
    for f in [with_experts(false), with_experts(true)] {
        let gguf = f.gguf();
        let graph = f.model().graph;
        let logits = Interp::new(&graph).unwrap().step(&GgufRows(&gguf), &[1, 4], &[0, 1], &[1]).unwrap();
        assert!(logits.data.iter().all(|x| x.is_finite()), "{:?}", logits.data);
    }
}

#[test]
fn scales_of_nvfp4_are_multiplied_with() {
    let scaled = |f: &File| {
        let graph = f.model().graph;
        let is_scale = |t| graph.weight(t).is_some_and(|w| w.name.ends_with(".scale"));
        let scales = |op: &Op| matches!(*op, Op::Mul { b, .. } if is_scale(b));
        let experts = |op: &Op| matches!(op, Op::ExpertLinear { scale: Some(_), .. });
        let count = |wanted: &dyn Fn(&Op) -> bool| graph.nodes.values().filter(|n| wanted(&n.op)).count();
        (count(&scales), count(&experts))
    };
    let mut f = with_experts(false);
    f.add("blk.0.attn_q.scale", &[1]).add("blk.0.ffn_up_exps.scale", &[4]);
    // What activations are rounded by is for others.
    f.add("blk.0.attn_q.input_scale", &[1]);
    assert_eq!(scaled(&f), (1, 1));
    f.remove("blk.0.attn_q.scale").add("blk.0.attn_q.scale", &[8]);
    assert!(f.error().contains("tensor `blk.0.attn_q.scale` has dimensions [8], want [1]"), "{}", f.error());
}
