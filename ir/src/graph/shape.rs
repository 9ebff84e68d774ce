//! The rules of each declaration and operation.

use super::tensor::{Graph, Input, KvCache, Rows, Shape, Tensor, TensorKind};
use super::{Op, RopeSpec, Rule};
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
            c.input("ids", ids, Input::Tokens)?;
            c.number("scale", scale, f32::MIN..=f32::MAX)?;
            activation(Shape::new(Rows::Tokens, t.cols))
        }
        Op::RmsNorm { x, weight, eps } => {
            let shape = c.activation("x", x)?;
            let n = c.vector("weight", weight)?;
            want(shape.cols % n == 0, Rule::OperandShape, || {
                format!(
                    "{}: x {x} has {} columns, which are no multiple of the {n} of weight {weight}",
                    op.name(),
                    shape.cols
                )
            })?;
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
            for (role, t) in [("k", k), ("v", v)] {
                let (shape, cols) = (c.tokens(role, t)?, g.cols(cache));
                want(shape.cols == cols, Rule::OperandShape, || {
                    format!("kv_store: {role} {t} has {} columns, cache {cache} {cols}", shape.cols)
                })?;
            }
            Ok((TensorKind::State(kv), g.shape(cache)))
        }
        Op::Attention { q, positions, cache, n_head, n_kv_head, head_dim, scale, window, softcap } => {
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
            want(n_head > 0 && n_head % n_kv_head == 0, Rule::Heads, || {
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
            activation(shape)
        }
        Op::Glu { gate: a, up: b, .. } | Op::Add { a, b } => {
            let (sa, sb) = (c.activation("left", a)?, c.activation("right", b)?);
            want(sa == sb, Rule::OperandShape, || format!("{}: {a} is {sa}, {b} is {sb}", op.name()))?;
            activation(sa)
        }
        Op::Scale { x, by } => {
            c.number("by", by, f32::MIN..=f32::MAX)?;
            activation(c.activation("x", x)?)
        }
        Op::SoftCap { x, cap } => {
            c.number("cap", cap, f32::MIN_POSITIVE..=f32::MAX)?;
            activation(c.activation("x", x)?)
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
                Content::Quant(f) => want(shape.cols % f.block == 0, Rule::WholeBlocks, || {
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
        TensorKind::State(c) => {
            let cols = cache_cols(c)?;
            let wanted = Shape::new(Rows::Cached, cols);
            want(shape == wanted, Rule::Result, || format!("kv_cache of layer {} is {wanted}, not {shape}", c.layer))
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

/// The columns of a cache.
pub(super) fn cache_cols(c: &KvCache) -> Result<u32, Broken> {
    c.n_kv_head.checked_mul(c.head_dim).filter(|&n| n > 0).ok_or_else(|| {
        (Rule::Size, format!("kv_cache of layer {}: {} heads of {} make no row", c.layer, c.n_kv_head, c.head_dim))
    })
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
            TensorKind::State(_) => "a cache",
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

    fn number(&self, role: &str, x: f32, range: std::ops::RangeInclusive<f32>) -> Result<(), Broken> {
        want(range.contains(&x), Rule::Number, || {
            format!("{}: {role} is {x:?}, want {:?} to {:?}", self.op.name(), range.start(), range.end())
        })
    }

    fn rope(&self, x: Tensor, cols: u32, spec: &RopeSpec) -> Result<(), Broken> {
        let RopeSpec { head_dim, n_rot, freq_base, freq_scale, factors, .. } = *spec;
        want(head_dim > 0 && cols % head_dim == 0, Rule::Heads, || {
            format!("rope: x {x} has {cols} columns, no whole number of heads of {head_dim}")
        })?;
        want(n_rot > 0 && n_rot % 2 == 0 && n_rot <= head_dim, Rule::Heads, || {
            format!("rope: {n_rot} elements of a head of {head_dim} cannot be rotated in pairs")
        })?;
        self.number("base", freq_base, f32::MIN_POSITIVE..=f32::MAX)?;
        self.number("scale", freq_scale, f32::MIN_POSITIVE..=f32::MAX)?;
        if let Some(f) = factors {
            let len = self.vector("factors", f)?;
            want(len == n_rot / 2, Rule::OperandShape, || {
                format!("rope: factors {f} has {len} elements, want {} for {n_rot} rotated ones", n_rot / 2)
            })?;
        }
        Ok(())
    }
}
