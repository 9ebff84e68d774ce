//! The operations of a graph.

use super::Tensor;
use super::spec::{Activation, KeyHeads, Limit, NormKind, RopeSpec, Routing};

/// One operation. `[r, c]` are rows and columns; [`result_shape`](super::result_shape) has the rules.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// Rows of a table: `table[ids[r]] * scale`.
    Embed {
        /// A weight `[n_vocab, c]`.
        table: Tensor,
        /// The input of token ids or of positions.
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
    /// A norm of each `group` consecutive elements of a row, without a weight.
    Normalize {
        /// `[r, c]`, with c a multiple of `group`.
        x: Tensor,
        /// Which.
        kind: NormKind,
        /// Elements normed together.
        group: u32,
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
        /// `[tokens, n_kv_head * value_dim]`; none where values are a part of the keys.
        v: Option<Tensor>,
        /// The input of positions.
        positions: Tensor,
        /// The cache as the step finds it.
        cache: Tensor,
    },
    /// Softmax attention over the cached positions up to and with the row's own. Query head `h` reads key/value head
    /// `h / (n_head / n_kv_head)`. The weight of position j for a row at position p is the softmax over j of
    /// `s(scale * q·k[j])`, with `s(x) = cap * tanh(x / cap)` where there is a soft cap, for `p - window < j <= p`. A sink
    /// is one more score of each query head, which takes its part of the softmax and has no value.
    Attention {
        /// `[tokens, n_head * head_dim]`.
        q: Tensor,
        /// The input of positions.
        positions: Tensor,
        /// The cache after the step's store.
        cache: Tensor,
        /// Query heads.
        n_head: u32,
        /// A weight of one score for each query head.
        sinks: Option<Tensor>,
        /// Key/value heads; those of the cache.
        n_kv_head: u32,
        /// Elements of a query's head; those of a key in the cache. The result's heads have those of a value.
        head_dim: u32,
        /// What the products of queries and keys are multiplied by.
        scale: f32,
        /// How many positions a row sees, its own included. None: all.
        window: Option<u32>,
        /// Bound of the scores.
        softcap: Option<f32>,
    },
    /// Gated linear unit, `act(gate) * up`, with bounds where there are.
    Glu {
        /// `[r, c]`.
        gate: Tensor,
        /// As `gate`.
        up: Tensor,
        /// The nonlinearity.
        act: Activation,
        /// Bounds.
        limit: Limit,
    },
    /// A function of each element.
    Act {
        /// `[r, c]`.
        x: Tensor,
        /// The function.
        act: Activation,
    },
    /// Sum.
    Add {
        /// `[r, c]`.
        a: Tensor,
        /// As `a`, or a weight or an activation with fewer columns: see [`Op::Mul`].
        b: Tensor,
    },
    /// Product.
    Mul {
        /// `[r, c]`.
        a: Tensor,
        /// An activation `[r, n]` or a weight `[1, n]` for all rows, with c a multiple of n: each of its elements is for
        /// `c / n` neighbours.
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
    /// `x * (1 + by * ln(floor(position / every) + 1))`: attention's temperature in long contexts.
    PositionScale {
        /// `[tokens, c]`.
        x: Tensor,
        /// The input of positions.
        positions: Tensor,
        /// The factor of the logarithm.
        by: f32,
        /// Positions of one step of the staircase.
        every: u32,
    },
    /// Of each `group` consecutive elements of a row the `len` from `start` on.
    Columns {
        /// `[r, c]`, with c a multiple of `group`.
        x: Tensor,
        /// Elements of a group.
        group: u32,
        /// The first one taken.
        start: u32,
        /// How many are taken.
        len: u32,
    },
    /// Groups of two rows one behind the other: the first of a, the first of b, the second of a, …
    Concat {
        /// `[r, groups * n]`.
        a: Tensor,
        /// `[r, groups * m]`.
        b: Tensor,
        /// Groups of each.
        groups: u32,
    },
    /// The experts of each row with their weights: `[r, 2 * n_used]`, first the experts' numbers, then the weights.
    Route {
        /// `[r, n_expert]`.
        logits: Tensor,
        /// A weight `[1, n_expert]`, added to the scores that experts are chosen by.
        bias: Option<Tensor>,
        /// How they are chosen.
        routing: Routing,
    },
    /// Linear layers of chosen experts: part s of a result's row is `x_s weight[e]^T`, times `scale[e]`, plus `bias[e]`,
    /// where e is expert s of the row. Without routes expert s is number s.
    ExpertLinear {
        /// `[r, k]` for all experts, or `[r, n_used * k]`, a part for each.
        x: Tensor,
        /// A weight `[n_expert * n, k]`, expert after expert.
        weight: Tensor,
        /// How many experts there are.
        n_expert: u32,
        /// `[r, 2 * n_used]`, from [`Op::Route`].
        routes: Option<Tensor>,
        /// A weight `[1, n_expert]`.
        scale: Option<Tensor>,
        /// A weight `[n_expert, n]`.
        bias: Option<Tensor>,
    },
    /// The parts of a row, each times its expert's weight, summed in order: `[r, n]`.
    ExpertSum {
        /// `[r, n_used * n]`.
        x: Tensor,
        /// `[r, 2 * n_used]`, from [`Op::Route`].
        routes: Tensor,
    },
    /// A causal convolution along the sequence, column by column: with `taps` rows of history,
    /// `y[t, c] = act(bias[c] + sum over j < taps of weight[c, j] * x[t - taps + 1 + j, c])`. The state holds the last
    /// `taps - 1` rows of x, zeros before the first; the operation leaves it with those of the step.
    ShortConv {
        /// `[tokens, c]`.
        x: Tensor,
        /// A weight `[c, taps]`.
        weight: Tensor,
        /// A weight `[1, c]`.
        bias: Option<Tensor>,
        /// The layer's [`ConvState`](super::ConvState).
        state: Tensor,
        /// The function behind it.
        act: Option<Activation>,
    },
    /// A linear recurrence along the sequence. Each value head has a matrix S `[key_dim, value_dim]`, zeros at first; for
    /// each token, with the scalars a = exp(decay) and beta of the head and its rows k, q, v:
    ///
    /// ```text
    /// S = a * S
    /// u = v                       without beta (Mamba 2)
    /// u = beta * (v - S^T k)      with beta (the gated delta rule)
    /// S = S + k u^T
    /// y = S^T q
    /// ```
    Recurrence {
        /// `[tokens, n_key_head * key_dim]`.
        q: Tensor,
        /// As `q`.
        k: Tensor,
        /// `[tokens, n_head * value_dim]`.
        v: Tensor,
        /// `[tokens, n_head]`.
        decay: Tensor,
        /// `[tokens, n_head]`.
        beta: Option<Tensor>,
        /// The layer's [`RecurrentState`](super::RecurrentState), which is left with the last S.
        state: Tensor,
        /// Which key head a value head has.
        key_heads: KeyHeads,
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
            Op::Normalize { .. } => "normalize",
            Op::Linear { .. } => "linear",
            Op::Rope { .. } => "rope",
            Op::KvStore { .. } => "kv_store",
            Op::Attention { .. } => "attention",
            Op::Glu { .. } => "glu",
            Op::Act { .. } => "act",
            Op::Add { .. } => "add",
            Op::Mul { .. } => "mul",
            Op::Scale { .. } => "scale",
            Op::SoftCap { .. } => "soft_cap",
            Op::PositionScale { .. } => "position_scale",
            Op::Columns { .. } => "columns",
            Op::Concat { .. } => "concat",
            Op::Route { .. } => "route",
            Op::ExpertLinear { .. } => "expert_linear",
            Op::ExpertSum { .. } => "expert_sum",
            Op::ShortConv { .. } => "short_conv",
            Op::Recurrence { .. } => "recurrence",
            Op::SelectRows { .. } => "select_rows",
        }
    }

    /// All operands: those that the text form lists, then the named ones.
    pub fn operands(&self) -> Vec<Tensor> {
        let mut list = self.listed();
        list.extend(self.named().into_iter().map(|(_, t)| t));
        list
    }

    /// The operands that the text form lists, in its order; optional ones last.
    pub fn listed(&self) -> Vec<Tensor> {
        match *self {
            Op::Embed { table, ids, .. } => vec![table, ids],
            Op::RmsNorm { x, weight, .. } => vec![x, weight],
            Op::Linear { x, weight, bias } => [x, weight].into_iter().chain(bias).collect(),
            Op::Rope { x, positions, spec } => {
                [x, positions].into_iter().chain(spec.factors).chain(spec.long_factors).collect()
            }
            Op::KvStore { k, v, positions, cache } => [k].into_iter().chain(v).chain([positions, cache]).collect(),
            Op::Attention { q, positions, cache, sinks, .. } => {
                [q, positions, cache].into_iter().chain(sinks).collect()
            }
            Op::Glu { gate, up, .. } => vec![gate, up],
            Op::Add { a, b } | Op::Mul { a, b } | Op::Concat { a, b, .. } => vec![a, b],
            Op::Normalize { x, .. }
            | Op::Act { x, .. }
            | Op::Scale { x, .. }
            | Op::SoftCap { x, .. }
            | Op::Columns { x, .. } => vec![x],
            Op::PositionScale { x, positions, .. } => vec![x, positions],
            Op::Route { logits, bias, .. } => [logits].into_iter().chain(bias).collect(),
            Op::ExpertLinear { x, weight, .. } => vec![x, weight],
            Op::ExpertSum { x, routes } => vec![x, routes],
            Op::ShortConv { x, weight, state, bias, .. } => [x, weight, state].into_iter().chain(bias).collect(),
            Op::Recurrence { q, k, v, decay, state, beta, .. } => {
                [q, k, v, decay, state].into_iter().chain(beta).collect()
            }
            Op::SelectRows { x, rows } => vec![x, rows],
        }
    }

    /// The operands that the text form names, those that are there.
    pub fn named(&self) -> Vec<(&'static str, Tensor)> {
        match *self {
            Op::ExpertLinear { routes, scale, bias, .. } => {
                let all = [("routes", routes), ("expert_scale", scale), ("bias", bias)];
                all.into_iter().filter_map(|(key, t)| Some((key, t?))).collect()
            }
            _ => vec![],
        }
    }

    /// The state that the operation changes in place.
    pub fn advances(&self) -> Option<Tensor> {
        match *self {
            Op::ShortConv { state, .. } | Op::Recurrence { state, .. } => Some(state),
            _ => None,
        }
    }
}
