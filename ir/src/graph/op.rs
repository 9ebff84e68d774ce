//! The operations of a graph.

use super::Tensor;

/// The nonlinearity of a gated feed-forward layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.
    GeluTanh,
}

impl Activation {
    /// All of them.
    pub const ALL: [Activation; 2] = [Activation::Silu, Activation::GeluTanh];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Silu => "silu",
            Activation::GeluTanh => "gelu_tanh",
        }
    }
}

/// Which elements of a head are rotated together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RopeStyle {
    /// Neighbours: pair `i` is elements `2i` and `2i + 1`.
    Normal,
    /// Halves, as in GPT-NeoX: pair `i` is elements `i` and `i + n_rot / 2`.
    Neox,
}

impl RopeStyle {
    /// All of them.
    pub const ALL: [RopeStyle; 2] = [RopeStyle::Normal, RopeStyle::Neox];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            RopeStyle::Normal => "normal",
            RopeStyle::Neox => "neox",
        }
    }

    /// The two elements of pair `i` of a head of which `n_rot` elements are rotated.
    pub fn pair(self, i: u32, n_rot: u32) -> [u32; 2] {
        match self {
            RopeStyle::Normal => [2 * i, 2 * i + 1],
            RopeStyle::Neox => [i, i + n_rot / 2],
        }
    }
}

/// A rotary position embedding (Su et al., RoFormer). Of every head of `head_dim` elements the first `n_rot` are rotated
/// in pairs; pair `i` (from 0) at position `p` by the angle
///
/// ```text
/// freq_scale * p * freq_base^(-2i / n_rot) / factors[i]
/// ```
///
/// so that `(a, b)` becomes `(a cos - b sin, a sin + b cos)`. Without factors they are 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RopeSpec {
    /// Elements of a head.
    pub head_dim: u32,
    /// Elements of a head that are rotated, from its start; even.
    pub n_rot: u32,
    /// Which elements make a pair.
    pub style: RopeStyle,
    /// Base of the geometric series of frequencies.
    pub freq_base: f32,
    /// What every angle is multiplied by: 1 / factor of linear position scaling.
    pub freq_scale: f32,
    /// A weight of `n_rot / 2` divisors, one a pair (`rope_freqs.weight`).
    pub factors: Option<Tensor>,
}

/// One operation. `[r, c]` are rows and columns; [`result_shape`](super::result_shape) has the rules.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// Rows of a table: `table[ids[r]] * scale`.
    Embed {
        /// A weight `[n_vocab, c]`.
        table: Tensor,
        /// The input of token ids.
        ids: Tensor,
        /// What each element is multiplied by.
        scale: f32,
    },
    /// Root-mean-square norm of each group of as many consecutive elements of a row as the weight has:
    /// `x / sqrt(mean(x^2) + eps) * weight`. A weight of a row's length norms whole rows, one of a head's length each head.
    RmsNorm {
        /// `[r, c]`.
        x: Tensor,
        /// A weight `[1, n]`, with c a multiple of n.
        weight: Tensor,
        /// Added to the mean square.
        eps: f32,
    },
    /// Matrix product with the transposed weight, `y[r, j] = sum_i x[r, i] * weight[j, i] + bias[j]`.
    Linear {
        /// `[r, n_in]`.
        x: Tensor,
        /// A weight `[n_out, n_in]`.
        weight: Tensor,
        /// A weight `[1, n_out]`.
        bias: Option<Tensor>,
    },
    /// Rotary position embedding of each head of a row.
    Rope {
        /// `[tokens, heads * head_dim]`.
        x: Tensor,
        /// The input of positions.
        positions: Tensor,
        /// What is rotated, and how far.
        spec: RopeSpec,
    },
    /// The cache with row `positions[r]` of its keys and values replaced by row r of `k` and `v`.
    KvStore {
        /// `[tokens, n_kv_head * head_dim]`.
        k: Tensor,
        /// As `k`.
        v: Tensor,
        /// The input of positions.
        positions: Tensor,
        /// The cache as the step finds it.
        cache: Tensor,
    },
    /// Softmax attention over the cached positions up to and with the row's own. Query head `h` reads key/value head
    /// `h / (n_head / n_kv_head)`. The weight of position j for a row at position p is the softmax over j of
    /// `s(scale * q·k[j])`, with `s(x) = cap * tanh(x / cap)` where there is a soft cap, for `p - window < j <= p`.
    Attention {
        /// `[tokens, n_head * head_dim]`.
        q: Tensor,
        /// The input of positions.
        positions: Tensor,
        /// The cache after the step's store.
        cache: Tensor,
        /// Query heads.
        n_head: u32,
        /// Key/value heads; those of the cache.
        n_kv_head: u32,
        /// Elements of a head; those of the cache.
        head_dim: u32,
        /// What the products of queries and keys are multiplied by.
        scale: f32,
        /// How many positions a row sees, its own included. None: all.
        window: Option<u32>,
        /// Bound of the scores.
        softcap: Option<f32>,
    },
    /// Gated linear unit, `act(gate) * up`.
    Glu {
        /// `[r, c]`.
        gate: Tensor,
        /// As `gate`.
        up: Tensor,
        /// The nonlinearity.
        act: Activation,
    },
    /// Sum.
    Add {
        /// `[r, c]`.
        a: Tensor,
        /// As `a`.
        b: Tensor,
    },
    /// `x * by`.
    Scale {
        /// `[r, c]`.
        x: Tensor,
        /// The factor.
        by: f32,
    },
    /// `cap * tanh(x / cap)`.
    SoftCap {
        /// `[r, c]`.
        x: Tensor,
        /// The bound.
        cap: f32,
    },
    /// The rows whose logits are wanted: `[tokens, c]` becomes `[outputs, c]`.
    SelectRows {
        /// `[tokens, c]`.
        x: Tensor,
        /// The input of output rows.
        rows: Tensor,
    },
}

impl Op {
    /// The name in the text form.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Embed { .. } => "embed",
            Op::RmsNorm { .. } => "rms_norm",
            Op::Linear { .. } => "linear",
            Op::Rope { .. } => "rope",
            Op::KvStore { .. } => "kv_store",
            Op::Attention { .. } => "attention",
            Op::Glu { .. } => "glu",
            Op::Add { .. } => "add",
            Op::Scale { .. } => "scale",
            Op::SoftCap { .. } => "soft_cap",
            Op::SelectRows { .. } => "select_rows",
        }
    }

    /// All operands, in the order of the text form; optional ones last.
    pub fn operands(&self) -> Vec<Tensor> {
        match *self {
            Op::Embed { table, ids, .. } => vec![table, ids],
            Op::RmsNorm { x, weight, .. } => vec![x, weight],
            Op::Linear { x, weight, bias } => [x, weight].into_iter().chain(bias).collect(),
            Op::Rope { x, positions, spec } => [x, positions].into_iter().chain(spec.factors).collect(),
            Op::KvStore { k, v, positions, cache } => vec![k, v, positions, cache],
            Op::Attention { q, positions, cache, .. } => vec![q, positions, cache],
            Op::Glu { gate, up, .. } => vec![gate, up],
            Op::Add { a, b } => vec![a, b],
            Op::Scale { x, .. } | Op::SoftCap { x, .. } => vec![x],
            Op::SelectRows { x, rows } => vec![x, rows],
        }
    }
}
