//! The rules of each declaration and operation.

use super::tensor::{Graph, Input, KvCache, Rows, Shape, State, Tensor, TensorKind};
use super::{Op, RopeSpec, Routing, Rule};
use crate::tile::Content;

/// A broken rule and what was found; the caller knows for which tensor.
pub(super) type Broken = (Rule, String);

fn want(ok: bool, rule: Rule, detail: impl FnOnce() -> String) -> Result<(), Broken> {
    if ok { Ok(()) } else { Err((rule, detail())) }
}

/// The kind and shape that an operation gives its result, or the rule it breaks. Operands must exist in the graph.
pub fn result_shape(g: &Graph, op: &Op) -> Result<(TensorKind, Shape), (Rule, String)> {
    let c = Checker { g, op };
    let activation = |shape| Ok((TensorKind::Activation, shape));
    match *op {
        Op::Embed { table, ids, scale } => {
            let t = c.weight("table", table)?;
            let positions = g.tensors[ids].kind == TensorKind::Input(Input::Positions);
            c.input("ids", ids, if positions { Input::Positions } else { Input::Tokens })?;
            c.number("scale", scale, f32::MIN..=f32::MAX)?;
            activation(Shape::new(Rows::Tokens, t.cols))
        }
        Op::RmsNorm { x, weight, eps } => {
            let shape = c.activation("x", x)?;
            let n = c.vector("weight", weight)?;
            want(shape.cols.is_multiple_of(n), Rule::OperandShape, || {
                format!(
                    "{}: x {x} has {} columns, which are no multiple of the {n} of weight {weight}",
                    op.name(),
                    shape.cols
                )
            })?;
            c.number("eps", eps, 0.0..=f32::MAX)?;
            activation(shape)
        }
        Op::Normalize { x, group, eps, .. } => {
            let shape = c.activation("x", x)?;
            c.groups(x, shape.cols, group)?;
            c.number("eps", eps, 0.0..=f32::MAX)?;
            activation(shape)
        }
        Op::Linear { x, weight, bias } => {
            let (shape, w) = (c.activation("x", x)?, c.weight("weight", weight)?);
            want(shape.cols == w.cols, Rule::OperandShape, || {
                format!("linear: x {x} has {} columns, weight {weight} {}", shape.cols, w.cols)
            })?;
            let n = c.const_rows(weight);
            if let Some(bias) = bias {
                let len = c.vector("bias", bias)?;
                want(len == n, Rule::OperandShape, || {
                    format!("linear: bias {bias} has {len} elements, weight {weight} {n} rows")
                })?;
            }
            activation(Shape::new(shape.rows, n))
        }
        Op::Rope { x, positions, spec } => {
            let shape = c.tokens("x", x)?;
            c.input("positions", positions, Input::Positions)?;
            c.rope(x, shape.cols, &spec)?;
            activation(shape)
        }
        Op::KvStore { k, v, positions, cache } => {
            c.input("positions", positions, Input::Positions)?;
            let kv = c.cache(cache)?;
            want(g.producer(cache).is_none(), Rule::CacheChain, || {
                format!("kv_store: cache {cache} was stored to already in this step")
            })?;
            want(v.is_none() == kv.shared, Rule::OperandKind, || {
                let has = if kv.shared { "has values in its keys" } else { "wants values" };
                format!("kv_store: cache {cache} {has}")
            })?;
            let values = kv.n_kv_head.saturating_mul(kv.value_dim);
            for (role, t, cols) in [("k", Some(k), g.cols(cache)), ("v", v, values)] {
                let Some(t) = t else { continue };
                let shape = c.tokens(role, t)?;
                want(shape.cols == cols, Rule::OperandShape, || {
                    format!("kv_store: {role} {t} has {} columns, cache {cache} {cols}", shape.cols)
                })?;
            }
            Ok((TensorKind::State(State::Kv(kv)), g.shape(cache)))
        }
        Op::Attention { q, positions, cache, n_head, sinks, n_kv_head, head_dim, scale, window, softcap } => {
            let shape = c.tokens("q", q)?;
            c.input("positions", positions, Input::Positions)?;
            let kv = c.cache(cache)?;
            want(g.producer(cache).is_some(), Rule::CacheChain, || {
                format!("attention: cache {cache} lacks this step's keys and values: a kv_store comes first")
            })?;
            want((n_kv_head, head_dim) == (kv.n_kv_head, kv.head_dim), Rule::Heads, || {
                format!(
                    "attention: {n_kv_head} key/value heads of {head_dim}, cache {cache} has {} of {}",
                    kv.n_kv_head, kv.head_dim
                )
            })?;
            want(n_head > 0 && n_head.is_multiple_of(n_kv_head), Rule::Heads, || {
                format!("attention: {n_head} query heads do not divide among {n_kv_head} key/value heads")
            })?;
            want(n_head.checked_mul(head_dim) == Some(shape.cols), Rule::Heads, || {
                format!("attention: q {q} has {} columns, not {n_head} heads of {head_dim}", shape.cols)
            })?;
            c.number("scale", scale, f32::MIN..=f32::MAX)?;
            want(window != Some(0), Rule::Size, || "attention: a window has at least the row's own position".into())?;
            if let Some(cap) = softcap {
                c.number("softcap", cap, f32::MIN_POSITIVE..=f32::MAX)?;
            }
            if let Some(sinks) = sinks {
                c.vector_of("sinks", sinks, n_head)?;
            }
            let cols = n_head
                .checked_mul(kv.value_dim)
                .ok_or_else(|| (Rule::Size, format!("attention: {n_head} heads of {} make no row", kv.value_dim)))?;
            activation(Shape::new(shape.rows, cols))
        }
        Op::Glu { gate: a, up: b, limit, .. } => {
            let (sa, sb) = (c.activation("gate", a)?, c.activation("up", b)?);
            want(sa == sb, Rule::OperandShape, || format!("{}: {a} is {sa}, {b} is {sb}", op.name()))?;
            if let Some(x) = limit.bound() {
                c.number("limit", x, f32::MIN_POSITIVE..=f32::MAX)?;
            }
            activation(sa)
        }
        Op::Add { a, b } | Op::Mul { a, b } => {
            let sa = c.activation("left", a)?;
            if g.weight(b).is_some() {
                let n = c.vector("right", b)?;
                c.groups(a, sa.cols, sa.cols / n.max(1))?;
                want(sa.cols.is_multiple_of(n), Rule::OperandShape, || {
                    format!("{}: {a} is {sa}, weight {b} has {n} elements", op.name())
                })?;
            } else {
                let sb = c.activation("right", b)?;
                want(sa.rows == sb.rows && sa.cols.is_multiple_of(sb.cols), Rule::OperandShape, || {
                    format!("{}: {a} is {sa}, {b} is {sb}", op.name())
                })?;
            }
            activation(sa)
        }
        Op::Act { x, .. } => activation(c.activation("x", x)?),
        Op::Scale { x, by } => {
            c.number("by", by, f32::MIN..=f32::MAX)?;
            activation(c.activation("x", x)?)
        }
        Op::SoftCap { x, cap } => {
            c.number("cap", cap, f32::MIN_POSITIVE..=f32::MAX)?;
            activation(c.activation("x", x)?)
        }
        Op::PositionScale { x, positions, by, every } => {
            let shape = c.tokens("x", x)?;
            c.input("positions", positions, Input::Positions)?;
            c.number("by", by, f32::MIN..=f32::MAX)?;
            want(every > 0, Rule::Size, || "position_scale: a step of the staircase has positions".into())?;
            activation(shape)
        }
        Op::Columns { x, group, start, len } => {
            let shape = c.activation("x", x)?;
            c.groups(x, shape.cols, group)?;
            want(len > 0 && start.checked_add(len).is_some_and(|end| end <= group), Rule::OperandShape, || {
                format!("columns: {len} from {start} on of groups of {group}")
            })?;
            activation(Shape::new(shape.rows, shape.cols / group * len))
        }
        Op::Concat { a, b, groups } => {
            let (sa, sb) = (c.activation("left", a)?, c.activation("right", b)?);
            let whole = groups > 0 && sa.cols.is_multiple_of(groups) && sb.cols.is_multiple_of(groups);
            want(sa.rows == sb.rows && whole, Rule::OperandShape, || {
                format!("concat: {a} is {sa}, {b} is {sb}, in {groups} groups")
            })?;
            let cols = sa.cols.checked_add(sb.cols);
            let cols = cols.ok_or_else(|| (Rule::Size, format!("concat: {a} and {b} make no row")))?;
            activation(Shape::new(sa.rows, cols))
        }
        Op::Route { logits, bias, routing } => {
            let shape = c.activation("logits", logits)?;
            if let Some(bias) = bias {
                c.vector_of("bias", bias, shape.cols)?;
            }
            c.routing(shape.cols, &routing)?;
            activation(Shape::new(shape.rows, 2 * routing.n_used))
        }
        Op::ExpertLinear { x, weight, n_expert, routes, scale, bias } => {
            let (shape, w) = (c.activation("x", x)?, c.weight("weight", weight)?);
            let rows = c.const_rows(weight);
            want(n_expert > 0 && rows.is_multiple_of(n_expert), Rule::OperandShape, || {
                format!("expert_linear: weight {weight} has {rows} rows, which are not {n_expert} experts'")
            })?;
            let n = rows / n_expert;
            let used = match routes {
                Some(r) => c.routes(r, shape.rows)?,
                None => n_expert,
            };
            let own = w.cols.checked_mul(used) == Some(shape.cols);
            want(own || shape.cols == w.cols, Rule::OperandShape, || {
                let k = w.cols;
                format!("expert_linear: x {x} has {} columns, want {k}, or {k} for each of {used}", shape.cols)
            })?;
            if let Some(scale) = scale {
                c.vector_of("scale", scale, n_expert)?;
            }
            if let Some(bias) = bias {
                let found = c.weight("bias", bias)?;
                want(found == Shape::new(Rows::Const(n_expert), n), Rule::OperandShape, || {
                    format!("expert_linear: bias {bias} is {found}, want [{n_expert}, {n}]")
                })?;
            }
            let cols = used
                .checked_mul(n)
                .ok_or_else(|| (Rule::Size, format!("expert_linear: {used} results of {n} make no row")))?;
            activation(Shape::new(shape.rows, cols))
        }
        Op::ExpertSum { x, routes } => {
            let shape = c.activation("x", x)?;
            let used = c.routes(routes, shape.rows)?;
            want(shape.cols.is_multiple_of(used), Rule::OperandShape, || {
                format!("expert_sum: x {x} has {} columns, no whole parts for {used} experts", shape.cols)
            })?;
            activation(Shape::new(shape.rows, shape.cols / used))
        }
        Op::ShortConv { x, weight, state, bias, .. } => {
            let shape = c.tokens("x", x)?;
            let w = c.weight("weight", weight)?;
            let State::Conv(s) = c.state("state", state, "a conv_state")? else {
                return Err((Rule::OperandKind, format!("short_conv: {state} is no conv_state")));
            };
            let wanted = Shape::new(Rows::Const(s.cols), s.taps);
            want(w == wanted && shape.cols == s.cols, Rule::OperandShape, || {
                format!(
                    "short_conv: x {x} is {shape}, weight {weight} {w}; the state has {} columns, {} taps",
                    s.cols, s.taps
                )
            })?;
            if let Some(bias) = bias {
                c.vector_of("bias", bias, s.cols)?;
            }
            activation(shape)
        }
        Op::Recurrence { q, k, v, decay, beta, state, key_heads: _ } => {
            let State::Recurrent(s) = c.state("state", state, "a recurrent_state")? else {
                return Err((Rule::OperandKind, format!("recurrence: {state} is no recurrent_state")));
            };
            let (sq, sk, sv) = (c.tokens("q", q)?, c.tokens("k", k)?, c.tokens("v", v)?);
            let key_heads = sq.cols / s.key_dim;
            let keys = sq == sk && sq.cols.is_multiple_of(s.key_dim) && s.n_head.is_multiple_of(key_heads.max(1));
            want(keys, Rule::Heads, || {
                format!(
                    "recurrence: q {q} is {sq}, k {k} {sk}; {} heads of the state have keys of {}",
                    s.n_head, s.key_dim
                )
            })?;
            want(Some(sv.cols) == s.n_head.checked_mul(s.value_dim), Rule::Heads, || {
                format!("recurrence: v {v} is {sv}, not {} heads of {}", s.n_head, s.value_dim)
            })?;
            for (role, t) in [("decay", Some(decay)), ("beta", beta)] {
                let Some(t) = t else { continue };
                let found = c.tokens(role, t)?;
                want(found.cols == s.n_head, Rule::Heads, || {
                    format!("recurrence: {role} {t} is {found}, not one for each of {} heads", s.n_head)
                })?;
            }
            activation(sv)
        }
        Op::SelectRows { x, rows } => {
            let shape = c.tokens("x", x)?;
            c.input("rows", rows, Input::OutputRows)?;
            activation(Shape::new(Rows::Outputs, shape.cols))
        }
    }
}

/// Checks a tensor that no node makes.
pub(super) fn check_declaration(kind: &TensorKind, shape: Shape) -> Result<(), Broken> {
    match kind {
        TensorKind::Weight(w) => {
            let Rows::Const(rows) = shape.rows else {
                return Err((
                    Rule::Result,
                    format!("weight \"{}\" has {} rows, not a constant number", w.name, shape.rows),
                ));
            };
            want(rows > 0 && shape.cols > 0, Rule::Size, || format!("weight \"{}\" is empty: {shape}", w.name))?;
            check_name("weight", &w.name)?;
            match w.content {
                Content::Elem(e) => want(e.is_float(), Rule::OperandKind, || {
                    format!("weight \"{}\" is of {e}, not of a floating-point type", w.name)
                }),
                Content::Quant(f) => want(shape.cols.is_multiple_of(f.block), Rule::WholeBlocks, || {
                    format!(
                        "weight \"{}\": a row of {} is no whole number of {} blocks of {}",
                        w.name, shape.cols, f.name, f.block
                    )
                }),
            }
        }
        TensorKind::Input(i) => {
            want(shape == i.shape(), Rule::Result, || format!("input {} is {}, not {shape}", i.name(), i.shape()))
        }
        TensorKind::State(s) => {
            let wanted = state_shape(s)?;
            want(shape == wanted, Rule::Result, || {
                format!("{} of layer {} is {wanted}, not {shape}", s.name(), s.layer())
            })
        }
        TensorKind::Activation => Err((Rule::Result, "an activation that no operation makes".into())),
    }
}

/// Checks that a name can be written in quotes; the text form has no escapes.
pub(super) fn check_name(what: &str, name: &str) -> Result<(), Broken> {
    want(!name.chars().any(|c| c == '"' || c.is_control()), Rule::Name, || {
        format!("{what} name {name:?} has a quote or a control character")
    })
}

/// The shape of a state.
pub(super) fn state_shape(s: &State) -> Result<Shape, Broken> {
    s.shape().ok_or_else(|| (Rule::Size, format!("{} of layer {}: {s:?} has no rows or columns", s.name(), s.layer())))
}

struct Checker<'a> {
    g: &'a Graph,
    op: &'a Op,
}

impl Checker<'_> {
    fn kind_name(&self, t: Tensor) -> &'static str {
        match &self.g.tensors[t].kind {
            TensorKind::Weight(_) => "a weight",
            TensorKind::Input(Input::Tokens) => "the input tokens",
            TensorKind::Input(Input::Positions) => "the input positions",
            TensorKind::Input(Input::OutputRows) => "the input output_rows",
            TensorKind::State(State::Kv(_)) => "a cache",
            TensorKind::State(_) => "a state",
            TensorKind::Activation => "an activation",
        }
    }

    fn kind(&self, role: &str, t: Tensor, ok: bool, wanted: &str) -> Result<Shape, Broken> {
        want(ok, Rule::OperandKind, || {
            format!("{}: {role} {t} is {}, not {wanted}", self.op.name(), self.kind_name(t))
        })?;
        Ok(self.g.shape(t))
    }

    fn activation(&self, role: &str, t: Tensor) -> Result<Shape, Broken> {
        self.kind(role, t, self.g.tensors[t].kind == TensorKind::Activation, "an activation")
    }

    /// An activation that has a row a token.
    fn tokens(&self, role: &str, t: Tensor) -> Result<Shape, Broken> {
        let shape = self.activation(role, t)?;
        want(shape.rows == Rows::Tokens, Rule::OperandShape, || {
            format!("{}: {role} {t} has a row for each of {}, not of tokens", self.op.name(), shape.rows)
        })?;
        Ok(shape)
    }

    fn weight(&self, role: &str, t: Tensor) -> Result<Shape, Broken> {
        self.kind(role, t, self.g.weight(t).is_some(), "a weight")
    }

    /// The length of a weight of one row, unquantised.
    fn vector(&self, role: &str, t: Tensor) -> Result<u32, Broken> {
        let shape = self.weight(role, t)?;
        let plain = matches!(self.g.weight(t).map(|w| w.content), Some(Content::Elem(_)));
        want(plain && shape.rows == Rows::Const(1), Rule::OperandShape, || {
            format!("{}: {role} {t} is {shape}, want one row of floating-point elements", self.op.name())
        })?;
        Ok(shape.cols)
    }

    fn const_rows(&self, weight: Tensor) -> u32 {
        match self.g.shape(weight).rows {
            Rows::Const(n) => n,
            _ => 0,
        }
    }

    fn input(&self, role: &str, t: Tensor, input: Input) -> Result<(), Broken> {
        let wanted = format!("the input {}", input.name());
        self.kind(role, t, self.g.tensors[t].kind == TensorKind::Input(input), &wanted).map(|_| ())
    }

    fn cache(&self, t: Tensor) -> Result<KvCache, Broken> {
        self.kind("cache", t, self.g.cache(t).is_some(), "a cache")?;
        match self.g.cache(t) {
            Some(c) => Ok(c),
            None => Err((Rule::OperandKind, format!("{}: {t} is not a cache", self.op.name()))),
        }
    }

    fn state(&self, role: &str, t: Tensor, wanted: &str) -> Result<State, Broken> {
        self.kind(role, t, self.g.state(t).is_some(), wanted)?;
        match self.g.state(t) {
            Some(s) => Ok(s),
            None => Err((Rule::OperandKind, format!("{}: {t} is not a state", self.op.name()))),
        }
    }

    fn vector_of(&self, role: &str, t: Tensor, n: u32) -> Result<(), Broken> {
        let len = self.vector(role, t)?;
        want(len == n, Rule::OperandShape, || format!("{}: {role} {t} has {len} elements, want {n}", self.op.name()))
    }

    /// That rows divide into groups.
    fn groups(&self, x: Tensor, cols: u32, group: u32) -> Result<(), Broken> {
        want(group > 0 && cols.is_multiple_of(group), Rule::OperandShape, || {
            format!("{}: {x} has {cols} columns, no whole groups of {group}", self.op.name())
        })
    }

    /// The number of experts that a router's result has for each row.
    fn routes(&self, t: Tensor, rows: Rows) -> Result<u32, Broken> {
        let shape = self.activation("routes", t)?;
        want(shape.rows == rows && shape.cols >= 2 && shape.cols.is_multiple_of(2), Rule::OperandShape, || {
            format!("{}: routes {t} is {shape}, want pairs for {rows}", self.op.name())
        })?;
        Ok(shape.cols / 2)
    }

    fn routing(&self, n_expert: u32, r: &Routing) -> Result<(), Broken> {
        let [groups, open] = r.groups;
        let whole = groups > 0 && n_expert.is_multiple_of(groups) && (1..=groups).contains(&open);
        want(whole && (groups == 1 || n_expert / groups >= 2), Rule::Heads, || {
            format!("route: {open} of {groups} groups of {n_expert} experts")
        })?;
        let choice = n_expert / groups * open;
        want((1..=choice).contains(&r.n_used), Rule::Heads, || {
            format!("route: {} experts of {choice} are used", r.n_used)
        })?;
        self.number("scale", r.scale, f32::MIN..=f32::MAX)
    }

    fn number(&self, role: &str, x: f32, range: std::ops::RangeInclusive<f32>) -> Result<(), Broken> {
        want(range.contains(&x), Rule::Number, || {
            format!("{}: {role} is {x:?}, want {:?} to {:?}", self.op.name(), range.start(), range.end())
        })
    }

    fn rope(&self, x: Tensor, cols: u32, spec: &RopeSpec) -> Result<(), Broken> {
        let RopeSpec { head_dim, start, n_rot, freq_base, freq_scale, original, .. } = *spec;
        want(head_dim > 0 && cols.is_multiple_of(head_dim), Rule::Heads, || {
            format!("rope: x {x} has {cols} columns, no whole number of heads of {head_dim}")
        })?;
        let inside = start.checked_add(n_rot).is_some_and(|end| end <= head_dim);
        want(n_rot > 0 && n_rot.is_multiple_of(2) && inside, Rule::Heads, || {
            format!("rope: {n_rot} elements of a head of {head_dim} cannot be rotated in pairs")
        })?;
        self.number("magnitude", spec.magnitude, f32::MIN_POSITIVE..=f32::MAX)?;
        if let Some(yarn) = spec.yarn {
            self.number("beta_fast", yarn.beta_fast, f32::MIN_POSITIVE..=f32::MAX)?;
            self.number("beta_slow", yarn.beta_slow, f32::MIN_POSITIVE..=f32::MAX)?;
        }
        want(original > 0 || (spec.yarn.is_none() && spec.long_factors.is_none()), Rule::Size, || {
            "rope: scaling by frequency needs the original context".into()
        })?;
        self.number("base", freq_base, f32::MIN_POSITIVE..=f32::MAX)?;
        self.number("scale", freq_scale, f32::MIN_POSITIVE..=f32::MAX)?;
        for f in spec.factors.into_iter().chain(spec.long_factors) {
            let len = self.vector("factors", f)?;
            want(len == n_rot / 2, Rule::OperandShape, || {
                format!("rope: factors {f} has {len} elements, want {} for {n_rot} rotated ones", n_rot / 2)
            })?;
        }
        Ok(())
    }
}
