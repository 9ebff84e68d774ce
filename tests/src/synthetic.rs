//! Small models with random weights and any sizes, as GGUF bytes: for shapes that no real or golden model has.

use half::{bf16, f16};
use hrx::gguf::GgmlType;
use hrx::gguf::write::Builder;
use hrx_ir::quant::Format;

/// Pseudo-random numbers (xorshift64*), the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A stream; different seeds, different numbers.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(n)) >> 32) as u32
    }

    /// Between -1 and 1.
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

/// The sizes of a model.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// `general.architecture`.
    pub architecture: &'static str,
    /// Columns of the hidden state.
    pub n_embd: u32,
    /// Layers.
    pub n_layer: u32,
    /// Query heads.
    pub n_head: u32,
    /// Key/value heads.
    pub n_kv_head: u32,
    /// Elements of a head.
    pub head_dim: u32,
    /// Columns inside the feed-forward network.
    pub n_ff: u32,
    /// Tokens of the vocabulary.
    pub n_vocab: u32,
    /// Elements of a head that are rotated.
    pub n_rot: u32,
    /// Positions that a layer with a window sees (gemma3).
    pub window: u32,
    /// The types of matrices, taken in turn.
    pub types: Vec<GgmlType>,
}

/// The bytes of a model with these sizes. Weights are scaled so that activations keep about their size.
///
/// # Panics
/// If a row is no whole number of blocks of its type, or the type is not one that kernels read.
pub fn model(sizes: &Sizes, seed: u64) -> Vec<u8> {
    let mut w = Writer { file: Builder::new(), random: Random::new(seed), types: sizes.types.clone(), next: 0 };
    let s = sizes;
    let arch = s.architecture;
    w.file.value("general.architecture", arch);
    for (key, value) in [
        ("embedding_length", s.n_embd),
        ("block_count", s.n_layer),
        ("attention.head_count", s.n_head),
        ("attention.head_count_kv", s.n_kv_head),
        ("attention.key_length", s.head_dim),
        ("attention.value_length", s.head_dim),
        ("feed_forward_length", s.n_ff),
        ("vocab_size", s.n_vocab),
        ("context_length", 512),
        ("rope.dimension_count", s.n_rot),
    ] {
        w.file.value(&format!("{arch}.{key}"), value);
    }
    w.file.value(&format!("{arch}.attention.layer_norm_rms_epsilon"), 1e-5f32);
    w.file.value(&format!("{arch}.rope.freq_base"), 10000f32);
    if arch == "gemma3" {
        w.file.value("gemma3.attention.sliding_window", s.window);
    }
    let (q, kv) = (s.n_head * s.head_dim, s.n_kv_head * s.head_dim);
    w.matrix("token_embd.weight", s.n_vocab, s.n_embd);
    w.vector("output_norm.weight", s.n_embd, 1.0);
    for layer in 0..s.n_layer {
        let name = |part: &str| format!("blk.{layer}.{part}");
        w.vector(&name("attn_norm.weight"), s.n_embd, 1.0);
        w.vector(&name("ffn_norm.weight"), s.n_embd, 1.0);
        for (part, n) in [("attn_q", q), ("attn_k", kv), ("attn_v", kv)] {
            w.matrix(&name(&format!("{part}.weight")), n, s.n_embd);
            if arch == "qwen2" {
                w.vector(&name(&format!("{part}.bias")), n, 0.0);
            }
        }
        if matches!(arch, "qwen3" | "gemma3") {
            w.vector(&name("attn_q_norm.weight"), s.head_dim, 1.0);
            w.vector(&name("attn_k_norm.weight"), s.head_dim, 1.0);
        }
        if arch == "gemma3" {
            w.vector(&name("post_attention_norm.weight"), s.n_embd, 1.0);
            w.vector(&name("post_ffw_norm.weight"), s.n_embd, 1.0);
        }
        w.matrix(&name("attn_output.weight"), s.n_embd, q);
        w.matrix(&name("ffn_gate.weight"), s.n_ff, s.n_embd);
        w.matrix(&name("ffn_up.weight"), s.n_ff, s.n_embd);
        w.matrix(&name("ffn_down.weight"), s.n_embd, s.n_ff);
    }
    w.file.to_bytes().expect("a valid file")
}

struct Writer {
    file: Builder,
    random: Random,
    types: Vec<GgmlType>,
    next: usize,
}

impl Writer {
    fn vector(&mut self, name: &str, n: u32, middle: f32) {
        let data = (0..n).flat_map(|_| (middle + 0.2 * self.random.signed()).to_le_bytes()).collect();
        self.file.tensor(name, &[u64::from(n)], GgmlType::F32, data);
    }

    fn matrix(&mut self, name: &str, rows: u32, cols: u32) {
        let ty = self.types[self.next % self.types.len()];
        self.next += 1;
        // Uniform numbers have a third of the square of their bound as variance.
        let bound = (3.0 / cols as f32).sqrt();
        let n = rows * cols;
        let data = match ty {
            GgmlType::F32 => (0..n).flat_map(|_| (bound * self.random.signed()).to_le_bytes()).collect(),
            GgmlType::F16 => (0..n).flat_map(|_| f16::from_f32(bound * self.random.signed()).to_le_bytes()).collect(),
            GgmlType::BF16 => (0..n).flat_map(|_| bf16::from_f32(bound * self.random.signed()).to_le_bytes()).collect(),
            _ => {
                let format = Format::from_ggml_id(ty.id()).expect("a type that kernels read");
                assert_eq!(cols % format.block, 0, "{name}: whole blocks of {}", format.name);
                (0..n / format.block).flat_map(|_| format.random_block(bound, || self.random.bits())).collect()
            }
        };
        self.file.tensor(name, &[u64::from(cols), u64::from(rows)], ty, data);
    }
}
