//! The sizes of published models, from their `config.json`.

use crate::gguf::write::Builder;

/// Experts of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Experts {
    /// How many there are.
    pub count: u32,
    /// How many a token takes.
    pub used: u32,
}

/// What differs in kind from one family to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Llama 3.
    Llama,
    /// Qwen 3: heads of queries and keys are normed.
    Qwen3,
    /// gpt-oss: biases everywhere, sinks, a window in every second layer, YaRN.
    GptOss,
}

/// The sizes of a model.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What it is called.
    pub name: &'static str,
    /// Its family.
    pub family: Family,
    /// Layers.
    pub layers: u32,
    /// Columns of the hidden state.
    pub embd: u32,
    /// Columns inside the feed-forward network, or inside an expert.
    pub ff: u32,
    /// Query heads.
    pub heads: u32,
    /// Key/value heads.
    pub kv_heads: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Tokens of the vocabulary.
    pub vocab: u32,
    /// The base of rotary frequencies.
    pub rope_base: f32,
    /// Whether the output's matrix is that of the embeddings.
    pub tied: bool,
    /// Its experts, if it has any.
    pub experts: Option<Experts>,
}

const QWEN3_VOCAB: u32 = 151_936;
const LLAMA3_VOCAB: u32 = 128_256;

/// All shapes.
pub static SHAPES: [Shape; 7] = [
    Shape {
        name: "llama3.2-1b",
        family: Family::Llama,
        layers: 16,
        embd: 2048,
        ff: 8192,
        heads: 32,
        kv_heads: 8,
        head_dim: 64,
        vocab: LLAMA3_VOCAB,
        rope_base: 5e5,
        tied: true,
        experts: None,
    },
    Shape {
        name: "llama3.1-8b",
        family: Family::Llama,
        layers: 32,
        embd: 4096,
        ff: 14_336,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        vocab: LLAMA3_VOCAB,
        rope_base: 5e5,
        tied: false,
        experts: None,
    },
    Shape {
        name: "qwen3-0.6b",
        family: Family::Qwen3,
        layers: 28,
        embd: 1024,
        ff: 3072,
        heads: 16,
        kv_heads: 8,
        head_dim: 128,
        vocab: QWEN3_VOCAB,
        rope_base: 1e6,
        tied: true,
        experts: None,
    },
    Shape {
        name: "qwen3-8b",
        family: Family::Qwen3,
        layers: 36,
        embd: 4096,
        ff: 12_288,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        vocab: QWEN3_VOCAB,
        rope_base: 1e6,
        tied: false,
        experts: None,
    },
    Shape {
        name: "qwen3-32b",
        family: Family::Qwen3,
        layers: 64,
        embd: 5120,
        ff: 25_600,
        heads: 64,
        kv_heads: 8,
        head_dim: 128,
        vocab: QWEN3_VOCAB,
        rope_base: 1e6,
        tied: false,
        experts: None,
    },
    Shape {
        name: "qwen3-30b-a3b",
        family: Family::Qwen3,
        layers: 48,
        embd: 2048,
        ff: 768,
        heads: 32,
        kv_heads: 4,
        head_dim: 128,
        vocab: QWEN3_VOCAB,
        rope_base: 1e6,
        tied: false,
        experts: Some(Experts { count: 128, used: 8 }),
    },
    Shape {
        name: "gpt-oss-20b",
        family: Family::GptOss,
        layers: 24,
        embd: 2880,
        ff: 2880,
        heads: 64,
        kv_heads: 8,
        head_dim: 64,
        vocab: 201_088,
        rope_base: 150_000.0,
        tied: false,
        experts: Some(Experts { count: 32, used: 4 }),
    },
];

/// A tensor of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its layer, if it is of one.
    pub layer: Option<u32>,
    /// Its dimensions in ggml's order: a row's elements first.
    pub dims: Vec<u64>,
    /// Whether it is a matrix (or one an expert), of the type that the recipe says; else it is F32.
    pub is_matrix: bool,
}

impl Shape {
    /// `general.architecture`.
    pub fn architecture(&self) -> &'static str {
        match (self.family, self.experts) {
            (Family::Llama, _) => "llama",
            (Family::Qwen3, None) => "qwen3",
            (Family::Qwen3, Some(_)) => "qwen3moe",
            (Family::GptOss, _) => "gpt-oss",
        }
    }

    /// Writes what a file of it says of itself.
    pub(super) fn metadata(&self, file: &mut Builder) {
        let arch = self.architecture();
        file.value("general.architecture", arch);
        let mut number = |key: &str, n: u32| {
            file.value(&format!("{arch}.{key}"), n);
        };
        number("block_count", self.layers);
        number("context_length", 131_072);
        number("embedding_length", self.embd);
        number("feed_forward_length", self.ff);
        number("attention.head_count", self.heads);
        number("attention.head_count_kv", self.kv_heads);
        number("attention.key_length", self.head_dim);
        number("attention.value_length", self.head_dim);
        number("rope.dimension_count", self.head_dim);
        number("vocab_size", self.vocab);
        if let Some(Experts { count, used }) = self.experts {
            number("expert_count", count);
            number("expert_used_count", used);
            number("expert_feed_forward_length", self.ff);
        }
        let gpt_oss = self.family == Family::GptOss;
        if gpt_oss {
            number("attention.sliding_window", 128);
            number("rope.scaling.original_context_length", 4096);
        }
        let epsilon = if self.family == Family::Qwen3 { 1e-6f32 } else { 1e-5 };
        file.value(&format!("{arch}.attention.layer_norm_rms_epsilon"), epsilon);
        file.value(&format!("{arch}.rope.freq_base"), self.rope_base);
        if gpt_oss {
            file.value(&format!("{arch}.rope.scaling.type"), "yarn");
            file.value(&format!("{arch}.rope.scaling.factor"), 32.0f32);
        }
    }

    /// Its tensors, in a file's order.
    pub fn tensors(&self) -> Vec<Tensor> {
        let mut list = List { tensors: Vec::new(), layer: None };
        let (e, q, kv) = (self.embd, self.heads * self.head_dim, self.kv_heads * self.head_dim);
        list.matrix("token_embd", &[e, self.vocab]);
        list.vector("output_norm.weight", &[e]);
        if !self.tied {
            list.matrix("output", &[e, self.vocab]);
        }
        let gpt_oss = self.family == Family::GptOss;
        for layer in 0..self.layers {
            list.layer = Some(layer);
            list.vector("attn_norm.weight", &[e]);
            list.vector(if gpt_oss { "post_attention_norm.weight" } else { "ffn_norm.weight" }, &[e]);
            if self.family == Family::Qwen3 {
                list.vector("attn_q_norm.weight", &[self.head_dim]);
                list.vector("attn_k_norm.weight", &[self.head_dim]);
            }
            for (name, from, to) in [("attn_q", e, q), ("attn_k", e, kv), ("attn_v", e, kv), ("attn_output", q, e)] {
                list.matrix(name, &[from, to]);
                if gpt_oss {
                    list.vector(&format!("{name}.bias"), &[to]);
                }
            }
            if gpt_oss {
                list.vector("attn_sinks.weight", &[self.heads]);
            }
            let networks = [("ffn_gate", e, self.ff), ("ffn_up", e, self.ff), ("ffn_down", self.ff, e)];
            let Some(Experts { count, .. }) = self.experts else {
                networks.iter().for_each(|&(name, from, to)| list.matrix(name, &[from, to]));
                continue;
            };
            list.vector("ffn_gate_inp.weight", &[e, count]);
            if gpt_oss {
                list.vector("ffn_gate_inp.bias", &[count]);
            }
            for (name, from, to) in networks {
                list.matrix(&format!("{name}_exps"), &[from, to, count]);
                if gpt_oss {
                    list.vector(&format!("{name}_exps.bias"), &[to, count]);
                }
            }
        }
        list.tensors
    }
}

struct List {
    tensors: Vec<Tensor>,
    layer: Option<u32>,
}

impl List {
    fn add(&mut self, name: &str, dims: &[u32], is_matrix: bool) {
        let name = self.layer.map_or_else(|| name.to_owned(), |layer| format!("blk.{layer}.{name}"));
        let dims = dims.iter().map(|&d| u64::from(d)).collect();
        self.tensors.push(Tensor { name, layer: self.layer, dims, is_matrix });
    }

    fn matrix(&mut self, name: &str, dims: &[u32]) {
        self.add(&format!("{name}.weight"), dims, true);
    }

    /// What is F32 in every recipe: norms, biases, routers.
    fn vector(&mut self, name: &str, dims: &[u32]) {
        self.add(name, dims, false);
    }
}
