//! Mixtures of experts.

use super::Mlp;
use crate::models::Problem;
use crate::models::builder::{Bias, ModelBuilder};
use hrx_ir::graph::{Activation, Limit, NormKind, Op, Routing, Scoring, Tensor};

/// What a router reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Router {
    /// What the experts read.
    Block,
    /// The residual stream, normed without a weight, divided by the square root of its width, times
    /// `ffn_gate_inp.scale`.
    Residual,
}

/// A network beside the experts that every token takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shared {
    /// The network.
    pub(crate) mlp: Mlp,
    /// Whether its result is multiplied by the sigmoid of `ffn_gate_inp_shexp`.
    pub(crate) gated: bool,
}

/// A mixture of experts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moe {
    /// Experts.
    pub(crate) n_expert: u32,
    /// Columns inside an expert.
    pub(crate) n_ff: u32,
    /// How they are chosen and weighted.
    pub(crate) routing: Routing,
    /// What the router reads.
    pub(crate) router: Router,
    /// Bias of the router's logits.
    pub(crate) router_bias: Bias,
    /// Biases of the experts.
    pub(crate) bias: Bias,
    /// Whether `exp_probs_b`, added to the scores that experts are chosen by, is needed or taken where it is present.
    pub(crate) choice_bias: Bias,
    /// The nonlinearity.
    pub(crate) act: Activation,
    /// Bounds of the gated product.
    pub(crate) limit: Limit,
    /// A network that every token takes.
    pub(crate) shared: Option<Shared>,
}

impl Moe {
    /// Experts of `expert_feed_forward_length` columns, or the layer's `feed_forward_length` where the file doesn't
    /// say; chosen by scores whose weights sum to 1 if `normalize` says so.
    pub(crate) fn new(m: &ModelBuilder<'_>, layer: u32, scoring: Scoring, normalize: bool) -> Result<Moe, Problem> {
        let (keys, config) = (m.keys(), m.config());
        let n_expert = config.n_expert;
        if n_expert == 0 {
            return Err(match keys.get("expert_count") {
                None => keys.missing("expert_count"),
                Some(_) => keys.wrong("expert_count", 0, "at least 1"),
            });
        }
        let n_used = config.n_expert_used.at(layer);
        if n_used == 0 {
            return Err(match keys.get("expert_used_count") {
                None => keys.missing("expert_used_count"),
                Some(_) => keys.wrong("expert_used_count", config.n_expert_used.describe(layer), "at least 1"),
            });
        }
        let blocks = config.n_layer + config.n_layer_nextn;
        let n_ff = match keys.per_layer("expert_feed_forward_length", blocks)?.map(|n| n.at(layer)) {
            None | Some(0) => m.n_ff(layer)?,
            Some(n) => n,
        };
        let groups = groups(m, n_used)?;
        Ok(Moe {
            n_expert,
            n_ff,
            routing: Routing { n_used, scoring, normalize, scale: 1.0, groups },
            router: Router::Block,
            router_bias: Bias::IfPresent,
            bias: Bias::IfPresent,
            choice_bias: Bias::IfPresent,
            act: Activation::Silu,
            limit: Limit::Off,
            shared: None,
        })
    }

    /// As [`new`](Self::new), with the routing that `expert_gating_func`, `expert_weights_norm` and
    /// `expert_weights_scale` describe; `scoring` is for files without the first.
    pub(crate) fn described(m: &ModelBuilder<'_>, layer: u32, scoring: Scoring) -> Result<Moe, Problem> {
        const FUNCTION: &str = "expert_gating_func";
        let keys = m.keys();
        let scoring = match keys.u32(FUNCTION)? {
            None | Some(0) => scoring,
            Some(1) => Scoring::Softmax,
            Some(2) => Scoring::Sigmoid,
            Some(3) => Scoring::SoftmaxOfChosen,
            Some(n) => return Err(keys.wrong(FUNCTION, n, "1 (softmax), 2 (sigmoid) or 3 (softmax of the chosen)")),
        };
        let mut moe = Moe::new(m, layer, scoring, keys.bool("expert_weights_norm")?.unwrap_or(false))?;
        moe.routing.scale = keys.positive_or_none("expert_weights_scale")?.unwrap_or(1.0);
        Ok(moe)
    }

    /// With `count` shared experts, which are one network.
    pub(crate) fn with_shared(self, m: &ModelBuilder<'_>, count: u32) -> Result<Moe, Problem> {
        let Some(n_ff) = self.n_ff.checked_mul(count) else {
            let want = format!("fewer networks of {} columns", self.n_ff);
            return Err(m.keys().wrong("expert_shared_count", count, want));
        };
        Ok(if n_ff == 0 { self } else { self.with_shared_of(n_ff, false) })
    }

    /// With a network of `n_ff` columns that every token takes.
    pub(crate) fn with_shared_of(self, n_ff: u32, gated: bool) -> Moe {
        let mlp = Mlp { suffix: "_shexp", ..Mlp::sized(n_ff, self.act) };
        Moe { shared: Some(Shared { mlp, gated }), ..self }
    }

    /// `x` is the residual stream, `h` what is normed of it.
    pub(super) fn run(&self, m: &mut ModelBuilder<'_>, layer: u32, x: Tensor, h: Tensor) -> Result<Tensor, Problem> {
        let n_embd = m.config().n_embd;
        let &Moe { n_expert, n_ff, act, limit, bias, .. } = self;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let logits = self.logits(m, layer, x, h)?;
        let choice = match self.choice_bias {
            Bias::Required => Some(m.tensor(&name("exp_probs_b.bias"), &[n_expert])?),
            Bias::IfPresent => m.optional(&name("exp_probs_b.bias"), &[n_expert])?,
        };
        let routes = m.graph.push(Op::Route { logits, bias: choice, routing: self.routing })?;
        let fused = name("ffn_gate_up_exps");
        let (gate, up) = if m.has(&format!("{fused}.weight")) {
            let group = n_ff.checked_mul(2).unwrap_or(0);
            let both = m.expert_linear(h, &fused, [n_embd, group, n_expert], routes, bias)?;
            let part = |start| Op::Columns { x: both, group, start, len: n_ff };
            (m.graph.push(part(0))?, m.graph.push(part(n_ff))?)
        } else {
            let sizes = [n_embd, n_ff, n_expert];
            let gate = m.expert_linear(h, &name("ffn_gate_exps"), sizes, routes, bias)?;
            (gate, m.expert_linear(h, &name("ffn_up_exps"), sizes, routes, bias)?)
        };
        let inner = m.graph.push(Op::Glu { gate, up, act, limit })?;
        let parts = m.expert_linear(inner, &name("ffn_down_exps"), [n_ff, n_embd, n_expert], routes, bias)?;
        let out = m.graph.push(Op::ExpertSum { x: parts, routes })?;
        match &self.shared {
            Some(shared) => {
                let beside = shared.run(m, layer, h)?;
                Ok(m.graph.add(out, beside)?)
            }
            None => Ok(out),
        }
    }

    fn logits(&self, m: &mut ModelBuilder<'_>, layer: u32, x: Tensor, h: Tensor) -> Result<Tensor, Problem> {
        let (n_embd, name) = (m.config().n_embd, format!("blk.{layer}.ffn_gate_inp"));
        match self.router {
            Router::Block => m.linear(h, &name, self.n_expert, self.router_bias),
            Router::Residual => {
                let eps = m.norm_eps()?;
                let normed = m.graph.normalize(x, NormKind::Rms, n_embd, eps)?;
                let scaled = m.graph.scale(normed, 1.0 / (n_embd as f32).sqrt())?;
                let scale = m.tensor(&format!("{name}.scale"), &[n_embd])?;
                let read = m.graph.mul(scaled, scale)?;
                let weight = m.tensor(&format!("{name}.weight"), &[n_embd, self.n_expert])?;
                Ok(m.graph.linear(read, weight, None)?)
            }
        }
    }
}

impl Shared {
    fn run(&self, m: &mut ModelBuilder<'_>, layer: u32, h: Tensor) -> Result<Tensor, Problem> {
        let out = self.mlp.run(m, layer, h)?;
        if !self.gated {
            return Ok(out);
        }
        let gate = m.linear(h, &format!("blk.{layer}.ffn_gate_inp_shexp"), 1, Bias::IfPresent)?;
        let gate = m.graph.act(gate, Activation::Sigmoid)?;
        Ok(m.graph.mul(out, gate)?)
    }
}

/// Groups of experts, and how many of them are open to a token.
fn groups(m: &ModelBuilder<'_>, n_used: u32) -> Result<[u32; 2], Problem> {
    let (keys, n_expert) = (m.keys(), m.config().n_expert);
    let count = keys.u32("expert_group_count")?.unwrap_or(0);
    if count <= 1 {
        return Ok([1, 1]);
    }
    if !n_expert.is_multiple_of(count) || n_expert / count < 2 {
        let want = format!("a divisor of the {n_expert} experts that leaves at least 2 a group");
        return Err(keys.wrong("expert_group_count", count, want));
    }
    let open = keys.require_size("expert_group_used_count")?;
    if open > count || n_used > n_expert / count * open {
        let want = format!("at most the {count} groups, and enough for the {n_used} experts used");
        return Err(keys.wrong("expert_group_used_count", open, want));
    }
    Ok([count, open])
}
