//! What is said of files that are wrong.

use super::{BASIC, File, GgufRows, with_experts};
use crate::gguf::write::OwnedValue;
use crate::gguf::{GgmlType, ValueType};
use crate::models::weight_content;

#[test]
fn wrong_metadata_is_named() {
    type Change = fn(&mut File);
    let cases: &[(Change, &str)] = &[
        (|f| f.keys[0].1 = "gpt5".into(), "unknown architecture `gpt5`, want one of llama, "),
        (|f| f.keys[0].1 = "gpt5".into(), "mamba2 (docs/models.md says which models these are)"),
        (|f| f.keys.clear(), "metadata has no key `general.architecture`"),
        (
            |f| {
                f.unset("block_count");
            },
            "metadata has no key `llama.block_count`",
        ),
        (
            |f| {
                f.unset("head_count");
            },
            "metadata has no key `llama.attention.head_count`",
        ),
        (
            |f| {
                f.unset("rms_epsilon");
            },
            "metadata has no key `llama.attention.layer_norm_rms_epsilon`",
        ),
        (
            |f| {
                f.set("block_count", "two");
            },
            "metadata key `llama.block_count` is string, want uint32",
        ),
        (
            |f| {
                f.set("block_count", 0u32);
            },
            "`llama.block_count` is 0, want at least 1",
        ),
        (
            |f| {
                f.set("block_count", u32::MAX);
            },
            "no tensor `blk.1.attn_norm.weight`",
        ),
        (
            |f| {
                f.set("embedding_length", 0u32);
            },
            "`llama.embedding_length` is 0, want at least 1",
        ),
        (
            |f| {
                f.set("attention.head_count", 3u32);
            },
            "`llama.attention.head_count` is 3, want a divisor of the 8",
        ),
        (
            |f| {
                f.set("attention.head_count_kv", 3u32);
            },
            "head_count_kv` is 3, want a divisor of the 2 query heads",
        ),
        (
            |f| {
                f.set("attention.head_count_kv", vec![1u32, 2]);
            },
            "is an array of 2, want one of 1, the layers",
        ),
        (
            |f| {
                f.set("attention.head_count_kv", vec![0u32]);
            },
            "is 0 for layer 0, want a divisor of the 2 query heads",
        ),
        (
            |f| {
                f.set("attention.value_length", 8u32);
            },
            "tensor `blk.0.attn_v.weight` has dimensions [8, 4], want [8, 8]",
        ),
        (
            |f| {
                f.set("attention.key_length", u32::MAX);
            },
            "2 heads of 4294967295 to fit 32 bits",
        ),
        (
            |f| {
                f.set("attention.layer_norm_rms_epsilon", f32::NAN);
            },
            "is NaN, want a number of at least 0",
        ),
        (
            |f| {
                f.set("attention.causal", false);
            },
            "`llama.attention.causal` is false, want true",
        ),
        (
            |f| {
                f.set("expert_count", 8u32);
            },
            "metadata has no key `llama.expert_used_count`",
        ),
        (
            |f| {
                f.set("rope.dimension_count", 3u32);
            },
            "is 3, want an even number of at most 4",
        ),
        (
            |f| {
                f.set("rope.dimension_count", 6u32);
            },
            "is 6, want an even number of at most 4",
        ),
        (
            |f| {
                f.set("rope.freq_base", -1.0f32);
            },
            "`llama.rope.freq_base` is -1, want a positive number",
        ),
        (
            |f| {
                f.set("rope.scaling.type", "ntk");
            },
            "`llama.rope.scaling.type` is `ntk`, want none, linear, yarn or longrope",
        ),
        (
            |f| {
                f.set("rope.scaling.factor", f32::INFINITY);
            },
            "factor` is inf, want a positive number",
        ),
        (
            |f| {
                f.set("rope.scaling.attn_factor", -2.0f32);
            },
            "attn_factor` is -2, want a positive number",
        ),
        (
            |f| {
                f.set("vocab_size", 6u32);
            },
            "tensor `token_embd.weight` has dimensions [8, 5], want [8, 6]",
        ),
        (
            |f| f.keys.push(("tokenizer.ggml.tokens".into(), vec!["a", "b"].into())),
            "tensor `token_embd.weight` has dimensions [8, 5], want [8, 2]",
        ),
        (
            |f| f.keys.push(("tokenizer.ggml.tokens".into(), OwnedValue::Array(ValueType::String, vec![]))),
            "`tokenizer.ggml.tokens` is an array of 0, want one of at least 1",
        ),
    ];
    for (change, want) in cases {
        let mut f = File::new("llama", 1);
        change(&mut f);
        let error = f.error();
        assert!(error.starts_with("<memory>: ") && error.contains(want), "{error}\nwant {want}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn wrong_tensors_are_named() {
    // Every tensor that an architecture needs is missed, by name and wanted shape.
    for architecture in BASIC {
        let names: Vec<(String, Vec<u64>)> =
            File::new(architecture, 2).tensors.into_iter().map(|(name, dims, _)| (name, dims)).collect();
        for (name, dims) in names {
            let error = File::new(architecture, 2).remove(&name).error();
            assert!(error.contains(&format!("no tensor `{name}`")), "{error}");
            // The table's size is looked up before its shape is known.
            assert!(error.contains(&format!("{dims:?}")) || name == "token_embd.weight", "{error}");
            let mut f = File::new(architecture, 2);
            f.remove(&name).add(&name, &[dims[0] + 1, *dims.get(1).unwrap_or(&1)]);
            let error = f.error();
            assert!(error.contains(&format!("tensor `{name}` has dimensions [{}, ", dims[0] + 1)), "{error}");
        }
    }
    let mut f = File::new("llama", 1);
    f.remove("blk.0.attn_q.weight").add("blk.0.attn_q.weight", &[8, 8, 2]);
    assert!(f.error().contains("`blk.0.attn_q.weight` has dimensions [8, 8, 2], want [8, 8]"), "{}", f.error());
    let mut f = File::new("llama", 1);
    f.add("blk.0.attn_sinks.weight", &[2]).add("blk.1.x", &[2]);
    let want = "<memory>: tensor `blk.0.attn_sinks.weight` and 1 more are no part of a llama model as it is known here";
    assert_eq!(f.error(), want);
    let mut f = File::new("qwen2", 1);
    f.add("rope_freqs.weight", &[2]);
    assert!(f.error().contains("tensor `rope_freqs.weight` is no part of a qwen2 model"), "{}", f.error());
}

#[test]
fn types_that_cannot_be_read_are_named() {
    let with = |ty| {
        let mut f = File::new("llama", 1);
        f.set("embedding_length", 256u32).set("attention.key_length", 4u32);
        for (name, dims, _) in &mut f.tensors {
            let wide = !name.contains("ffn_down") && !name.contains("attn_output");
            dims[if wide { 0 } else { 1 }] = 256;
        }
        let table = f.tensors.iter_mut().find(|t| t.0 == "token_embd.weight").unwrap();
        table.2 = ty;
        f
    };
    let error = with(GgmlType::Q8_1).error();
    assert!(error.contains("tensor `token_embd.weight` is of type Q8_1, want one of F32, F16, Q4_0, "), "{error}");
    let readable: Vec<&str> = GgmlType::ALL
        .iter()
        .filter(|&&ty| weight_content(ty).is_some() && with(ty).model().graph.nodes.len() > 9)
        .map(|ty| ty.name())
        .collect();
    let unreadable = ["Q8_1", "I8", "I16", "I32", "I64", "F64", "Q2_0"];
    let want: Vec<&str> = GgmlType::ALL.iter().map(|t| t.name()).filter(|n| !unreadable.contains(n)).collect();
    assert_eq!(readable, want);
    // A vector that a norm or a sum reads has plain elements.
    let mut f = with(GgmlType::F32);
    f.tensors.iter_mut().find(|t| t.0 == "output_norm.weight").unwrap().2 = GgmlType::Q8_0;
    assert!(f.error().contains("operand-shape: rms_norm: weight"), "{}", f.error());
}

#[test]
fn rows_are_checked_against_the_file() {
    use hrx_ir::graph::WeightSource;
    let gguf = File::new("llama", 1).gguf();
    let row = |name: &str, row, n| GgufRows(&gguf).row(name, row, &mut vec![0.0; n]);
    assert_eq!(row("token_embd.weight", 4, 8), Ok(()));
    assert_eq!(row("token_embd.weight", 5, 8).unwrap_err(), "the tensor has no such row");
    assert_eq!(row("token_embd.weight", u32::MAX, 8).unwrap_err(), "the tensor has no such row");
    assert_eq!(row("token_embd.weight", 0, 7).unwrap_err(), "rows have 8 elements, 7 are wanted");
    assert_eq!(row("nothing", 0, 8).unwrap_err(), "the file has no such tensor");
}

#[test]
fn contradictions_of_experts_are_named() {
    let error = |key: &str, value: u32| {
        let mut f = with_experts(false);
        f.set("expert_group_count", 2u32).set("expert_group_used_count", 1u32).set(key, value);
        f.error()
    };
    for (key, value, want) in [
        ("expert_count", 0, "`llama.expert_used_count` is 2, want at most the 0 experts"),
        ("expert_used_count", 0, "`llama.expert_used_count` is 0, want at least 1"),
        ("expert_used_count", 5, "`llama.expert_used_count` is 5, want at most the 4 experts"),
        ("expert_group_count", 3, "`llama.expert_group_count` is 3, want a divisor of the 4 experts"),
        ("expert_group_count", 4, "is 4, want a divisor of the 4 experts that leaves at least 2 a group"),
        ("expert_group_used_count", 3, "`llama.expert_group_used_count` is 3, want at most the 2 groups"),
        ("expert_group_used_count", 0, "`llama.expert_group_used_count` is 0, want at least 1"),
        (
            "expert_feed_forward_length",
            7,
            "tensor `blk.0.ffn_gate_exps.weight` has dimensions [8, 6, 4], want [8, 7, 4]",
        ),
    ] {
        let found = error(key, value);
        assert!(found.contains(want), "{found}\nwant {want}");
    }
}

/// What architectures ask of the metadata before they look at a tensor of a layer.
#[test]
fn metadata_of_one_architecture_is_checked() {
    type Change = for<'a> fn(&'a mut File) -> &'a mut File;
    let ssm: Change = |f| {
        for (key, n) in [("conv_kernel", 4u32), ("inner_size", 16), ("state_size", 4), ("time_step_rank", 4)] {
            f.set(&format!("ssm.{key}"), n);
        }
        f.set("ssm.group_count", 2u32)
    };
    let cases: &[(&str, Change, Change, &str)] = &[
        ("mamba2", |f| f, |f| f, "metadata has no key `mamba2.ssm.conv_kernel`"),
        ("mamba2", ssm, |f| f, "no tensor `blk.0.ssm_in.weight`, want it with dimensions [8, 52]"),
        ("mamba2", ssm, |f| f.set("ssm.conv_kernel", 1u32), "`mamba2.ssm.conv_kernel` is 1, want at least 2"),
        ("mamba2", ssm, |f| f.set("ssm.time_step_rank", 3u32), "is 3, want a divisor of the 16 inner columns"),
        ("qwen35", ssm, |f| f.set("ssm.group_count", 3u32), "is 3, want a divisor of the 4 heads"),
        ("qwen35", ssm, |f| f.set("ssm.state_size", u32::MAX), "`qwen35.ssm.state_size` is 4294967295, want 2 groups"),
        ("qwen35", ssm, |f| f.set("full_attention_interval", 0u32), "attention_interval` is 0, want at least 1"),
        ("lfm2", |f| f, |f| f.set("shortconv.l_cache", 1u32), "`lfm2.shortconv.l_cache` is 1, want at least 2"),
        ("granite", |f| f, |f| f, "metadata has no key `granite.logit_scale`"),
        ("cohere2", |f| f, |f| f, "metadata has no key `cohere2.attention.sliding_window`"),
        ("gemma4", |f| f, |f| f, "metadata has no key `gemma4.attention.sliding_window_pattern`"),
        ("gpt2", |f| f, |f| f, "no tensor `position_embd.weight`, want it with dimensions [8, 64]"),
        ("starcoder2", |f| f, |f| f, "metadata has no key `starcoder2.attention.layer_norm_epsilon`"),
        ("deepseek2", |f| f, |f| f, "metadata has no key `deepseek2.attention.kv_lora_rank`"),
        ("qwen3moe", |f| f, |f| f, "metadata has no key `qwen3moe.expert_count`"),
        (
            "glm4moe",
            |f| f.set("expert_count", 4u32).set("expert_used_count", 2u32),
            |f| f.set("expert_gating_func", 9u32),
            "`glm4moe.expert_gating_func` is 9, want 1 (softmax), 2 (sigmoid) or 3",
        ),
        (
            "gemma4",
            |f| f.set("attention.sliding_window_pattern", vec![true, false]),
            |f| f.set("attention.shared_kv_layers", 2u32).add("blk.0.attn_q_norm.weight", &[4]),
            "`gemma4.attention.shared_kv_layers` is 2, want so few that layer 0 can read an earlier one of its kind",
        ),
        (
            "step35",
            |f| f.set("attention.sliding_window", 8u32),
            |f| f.set("swiglu_clamp_exp", vec![1.0f32]),
            "`step35.swiglu_clamp_exp` is an array of 1, want one of 2, the layers",
        ),
        (
            "maple",
            |f| f.set("attention.sliding_window_pattern", vec![true, false]),
            |f| f.set("swiglu_clamp_exp", -1.0f32),
            "`maple.swiglu_clamp_exp` is -1, want a number of at least 0",
        ),
    ];
    for (architecture, good, bad, want) in cases {
        let mut f = File::new(architecture, 2);
        good(&mut f);
        bad(&mut f);
        let error = f.error();
        assert!(error.contains(want) && error.lines().count() == 1, "{error}\nwant {want}");
    }
}
