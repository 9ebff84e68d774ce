//! What operations are told beside their operands.

use super::Tensor;

/// A function of one element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Activation {
    /// `x / (1 + exp(-x))`.
    Silu,
    /// `x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))`.
    GeluTanh,
    /// `x / (1 + exp(-1.702 x))`.
    GeluQuick,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `ln(1 + exp(x))`.
    Softplus,
    /// `max(x, 0)^2`.
    ReluSquared,
}

impl Activation {
    /// All of them.
    pub const ALL: [Activation; 6] = [
        Activation::Silu,
        Activation::GeluTanh,
        Activation::GeluQuick,
        Activation::Sigmoid,
        Activation::Softplus,
        Activation::ReluSquared,
    ];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Activation::Silu => "silu",
            Activation::GeluTanh => "gelu_tanh",
            Activation::GeluQuick => "gelu_quick",
            Activation::Sigmoid => "sigmoid",
            Activation::Softplus => "softplus",
            Activation::ReluSquared => "relu_squared",
        }
    }
}

/// Bounds inside a gated product.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Limit {
    /// None.
    Off,
    /// `act(min(gate, limit)) * clamp(up, -limit, limit)`.
    Gate(f32),
    /// `min(act(gate), limit) * clamp(up, -limit, limit)`.
    Activated(f32),
    /// `act(min(gate, limit)) * (clamp(up, -limit, limit) + 1)`: gpt-oss.
    GatePlusOne(f32),
}

impl Limit {
    /// The bound, if there is one.
    pub fn bound(self) -> Option<f32> {
        match self {
            Limit::Off => None,
            Limit::Gate(x) | Limit::Activated(x) | Limit::GatePlusOne(x) => Some(x),
        }
    }

    /// The key of the bound in the text form.
    pub fn key(self) -> &'static str {
        match self {
            Limit::Off => "",
            Limit::Gate(_) => "limit",
            Limit::Activated(_) => "limit_activated",
            Limit::GatePlusOne(_) => "limit_plus_one",
        }
    }
}

/// A norm without a weight.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + eps)`.
    Rms,
    /// `(x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps)`.
    Layer,
}

impl NormKind {
    /// All of them.
    pub const ALL: [NormKind; 2] = [NormKind::Rms, NormKind::Layer];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            NormKind::Rms => "rms",
            NormKind::Layer => "layer",
        }
    }
}

/// How a router's logits become scores, and the scores of the chosen experts weights.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scoring {
    /// Softmax over all experts; weights are the chosen scores.
    Softmax,
    /// `1 / (1 + exp(-x))` of each; weights are the chosen scores.
    Sigmoid,
    /// Scores are the logits; weights are the softmax over the chosen ones.
    SoftmaxOfChosen,
}

impl Scoring {
    /// All of them.
    pub const ALL: [Scoring; 3] = [Scoring::Softmax, Scoring::Sigmoid, Scoring::SoftmaxOfChosen];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Scoring::Softmax => "softmax",
            Scoring::Sigmoid => "sigmoid",
            Scoring::SoftmaxOfChosen => "softmax_of_chosen",
        }
    }
}

/// How experts are chosen. The `n_used` experts with the largest score (plus the bias, if there is one) are taken, the
/// earlier one of two equal ones, in falling order. Weights are those of [`Scoring`], without the bias; with `normalize`
/// divided by their sum (at least 2^-14); then times `scale`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Routing {
    /// Experts taken for each row.
    pub n_used: u32,
    /// Scores and weights.
    pub scoring: Scoring,
    /// Whether weights are divided by their sum.
    pub normalize: bool,
    /// What weights are multiplied by.
    pub scale: f32,
    /// Groups of neighbouring experts, and how many groups are open: those with the largest sums of their two best
    /// (biased) scores. 1 and 1 for no groups.
    pub groups: [u32; 2],
}

/// Which key head a value head of a recurrence has, where there are fewer key heads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KeyHeads {
    /// Neighbouring value heads share one: value head h has key head `h / (n_head / n_key_head)`.
    Blocked,
    /// Value head h has key head `h % n_key_head`.
    Cyclic,
}

impl KeyHeads {
    /// All of them.
    pub const ALL: [KeyHeads; 2] = [KeyHeads::Blocked, KeyHeads::Cyclic];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            KeyHeads::Blocked => "blocked",
            KeyHeads::Cyclic => "cyclic",
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

/// YaRN (Peng et al. 2023): of each pair's angle a part is scaled and the rest is not. With
/// `corr(b) = n_rot * ln(original / (2 pi b)) / (2 ln freq_base)`, `low = max(0, floor(corr(beta_fast)))` and
/// `high = min(n_rot - 1, ceil(corr(beta_slow)))`, pair `i` has the unscaled angle with the weight
/// `1 - clamp((i - low) / max(0.001, high - low), 0, 1)`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Yarn {
    /// Turns within the original context above which a pair is not scaled.
    pub beta_fast: f32,
    /// Turns within the original context below which a pair is scaled fully.
    pub beta_slow: f32,
}

/// A rotary position embedding (Su et al., RoFormer). Of every head of `head_dim` elements the `n_rot` from `start` on
/// are rotated in pairs; pair `i` (from 0) at position `p` by the angle
///
/// ```text
/// freq_scale * p * freq_base^(-2i / n_rot) / factors[i]
/// ```
///
/// so that `(a, b)` becomes `magnitude * (a cos - b sin, a sin + b cos)`. Without factors they are 1. [`Yarn`] mixes
/// angles with and without `freq_scale`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RopeSpec {
    /// Elements of a head.
    pub head_dim: u32,
    /// The first element of a head that is rotated.
    pub start: u32,
    /// Elements of a head that are rotated; even.
    pub n_rot: u32,
    /// Which elements make a pair, counted from `start`.
    pub style: RopeStyle,
    /// Base of the geometric series of frequencies.
    pub freq_base: f32,
    /// What every angle is multiplied by: 1 / factor of linear position scaling.
    pub freq_scale: f32,
    /// What rotated elements are multiplied by.
    pub magnitude: f32,
    /// A weight of `n_rot / 2` divisors, one a pair (`rope_freqs.weight`).
    pub factors: Option<Tensor>,
    /// Divisors that take the place of `factors` where the context is longer than `original`.
    pub long_factors: Option<Tensor>,
    /// The context that the model was trained for before it was extended; for `yarn` and `long_factors`.
    pub original: u32,
    /// Scaling by frequency.
    pub yarn: Option<Yarn>,
}

impl RopeSpec {
    /// The plain rotation of whole heads.
    pub fn new(head_dim: u32, style: RopeStyle, freq_base: f32) -> RopeSpec {
        RopeSpec {
            head_dim,
            start: 0,
            n_rot: head_dim,
            style,
            freq_base,
            freq_scale: 1.0,
            magnitude: 1.0,
            factors: None,
            long_factors: None,
            original: 0,
            yarn: None,
        }
    }

    /// The divisors for a context of `n_ctx` positions.
    pub fn factors_for(&self, n_ctx: u32) -> Option<Tensor> {
        if n_ctx > self.original { self.long_factors.or(self.factors) } else { self.factors }
    }

    /// The angle of pair `i` at position 1, with the pair's divisor.
    pub fn frequency(&self, i: u32, divisor: f64) -> f64 {
        let n_rot = f64::from(self.n_rot);
        let base = f64::from(self.freq_base);
        let plain = base.powf(-2.0 * f64::from(i) / n_rot) / divisor;
        let scaled = f64::from(self.freq_scale) * plain;
        let Some(yarn) = self.yarn else { return scaled };
        let correction = |beta: f32| {
            let turns = f64::from(self.original) / (2.0 * std::f64::consts::PI * f64::from(beta));
            n_rot * turns.ln() / (2.0 * base.ln())
        };
        let low = correction(yarn.beta_fast).floor().max(0.0);
        let high = correction(yarn.beta_slow).ceil().min(n_rot - 1.0);
        let mix = 1.0 - ((f64::from(i) - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
        scaled * (1.0 - mix) + plain * mix
    }
}
