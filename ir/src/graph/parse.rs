//! Reading the text form of a graph.
//!
//! ```text
//! graph  = "graph" string "{" line* "}"
//! line   = tensor ":" shape "=" definition | "output" string tensor
//! shape  = "[" rows "," number "]"          rows = number | "tokens" | "outputs" | "cached"
//! definition = "weight" string type | "input" name | state attribute* | operation tensor,* attribute*
//! state  = "kv_cache" | "conv_state" | "recurrent_state"
//! attribute  = key "=" value                value = number | word | tensor
//! ```
//!
//! `;` starts a comment that ends with the line. Tensor numbers may have gaps; they are counted anew.

mod lex;

use super::builder::Builder;
use super::op::Op;
use super::spec::{Activation, KeyHeads, Limit, NormKind, RopeSpec, RopeStyle, Routing, Scoring, Yarn};
use super::tensor::{ConvState, Graph, Input, KvCache, RecurrentState, Rows, Shape, State, Tensor};
use super::{GraphError, ParseError};
use crate::quant::Format;
use crate::tile::{Content, Elem};
use lex::{Lexer, Place};
use std::collections::HashMap;

/// Reads a graph and verifies it.
pub fn parse(text: &str) -> Result<Graph, ParseError> {
    let mut lexer = Lexer::new(text)?;
    lexer.keyword("graph")?;
    let name = lexer.string("the graph's name")?;
    lexer.punct('{')?;
    let mut p = Parser { lexer, builder: Builder::new(&name), names: HashMap::new() };
    while !p.lexer.try_punct('}') {
        p.line()?;
    }
    let end = p.lexer.place();
    p.lexer.end()?;
    p.builder.finish().map_err(|e| end.error(e.to_string()))
}

struct Parser {
    lexer: Lexer,
    builder: Builder,
    /// The tensors by their number in the text.
    names: HashMap<u32, Tensor>,
}

/// Attributes not taken yet.
struct Attributes {
    op: Place,
    list: Vec<(String, String, Place)>,
}

impl Attributes {
    fn optional<T>(
        &mut self,
        key: &str,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ParseError> {
        let Some(i) = self.list.iter().position(|(k, ..)| k == key) else { return Ok(None) };
        let (_, value, place) = self.list.remove(i);
        read(&value).map(Some).ok_or_else(|| place.error(format!("{key} is `{value}`, want {what}")))
    }

    fn required<T>(&mut self, key: &str, what: &str, read: impl Fn(&str) -> Option<T>) -> Result<T, ParseError> {
        let place = self.op;
        self.optional(key, what, read)?.ok_or_else(|| place.error(format!("attribute `{key}` is missing")))
    }

    fn int(&mut self, key: &str) -> Result<u32, ParseError> {
        self.required(key, "a whole number", |s| s.parse().ok())
    }

    fn float(&mut self, key: &str) -> Result<f32, ParseError> {
        self.required(key, "a number", |s| s.parse().ok())
    }

    fn named<T: Copy>(&mut self, key: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, ParseError> {
        let names: Vec<&str> = all.iter().map(|&x| name(x)).collect();
        let what = format!("one of {}", names.join(", "));
        self.required(key, &what, |s| all.iter().copied().find(|&x| name(x) == s))
    }

    /// 0 or 1; absent is 0.
    fn flag(&mut self, key: &str) -> Result<bool, ParseError> {
        let read = |s: &str| ["0", "1"].iter().position(|&x| x == s);
        Ok(self.optional(key, "0 or 1", read)? == Some(1))
    }

    /// A tensor by its number in the text.
    fn tensor(&mut self, key: &str, names: &HashMap<u32, Tensor>) -> Result<Option<Tensor>, ParseError> {
        self.optional(key, "a tensor defined before", |s| names.get(&tensor_number(s)?).copied())
    }

    fn limit(&mut self) -> Result<Limit, ParseError> {
        for of in [Limit::Gate, Limit::Activated, Limit::GatePlusOne] {
            if let Some(x) = self.optional(of(0.0).key(), "a number", |s| s.parse().ok())? {
                return Ok(of(x));
            }
        }
        Ok(Limit::Off)
    }

    fn done(self) -> Result<(), ParseError> {
        match self.list.first() {
            Some((key, _, place)) => {
                Err(place.error(format!("there is no attribute `{key}` here, or it is given twice")))
            }
            None => Ok(()),
        }
    }
}

impl Parser {
    fn line(&mut self) -> Result<(), ParseError> {
        let (place, word) = self.lexer.word("a tensor's definition, `output` or `}`")?;
        if word == "output" {
            let name = self.lexer.string("the output's name")?;
            let t = self.tensor()?;
            return self.builder.output(&name, t).map_err(|e| place.error(e.to_string()));
        }
        let number =
            tensor_number(&word).ok_or_else(|| place.error(format!("found `{word}`, want a tensor like `t0`")))?;
        self.lexer.punct(':')?;
        let shape = self.shape()?;
        self.lexer.punct('=')?;
        let t = self.definition(shape)?;
        let found = self.builder.graph().shape(t);
        if found != shape {
            return Err(place.error(format!("t{number} is {found}, not {shape}")));
        }
        match self.names.insert(number, t) {
            Some(_) => Err(place.error(format!("t{number} is defined twice"))),
            None => Ok(()),
        }
    }

    fn tensor(&mut self) -> Result<Tensor, ParseError> {
        let (place, word) = self.lexer.word("a tensor")?;
        let number =
            tensor_number(&word).ok_or_else(|| place.error(format!("found `{word}`, want a tensor like `t0`")))?;
        self.names.get(&number).copied().ok_or_else(|| place.error(format!("t{number} is not defined before its use")))
    }

    fn shape(&mut self) -> Result<Shape, ParseError> {
        self.lexer.punct('[')?;
        let (place, word) = self.lexer.word("a number of rows")?;
        let symbol = [Rows::Tokens, Rows::Outputs, Rows::Cached].into_iter().find(|r| r.to_string() == word);
        let rows = symbol.or_else(|| word.parse().ok().map(Rows::Const));
        let rows =
            rows.ok_or_else(|| place.error(format!("found `{word}`, want a number, tokens, outputs or cached")))?;
        self.lexer.punct(',')?;
        let (place, word) = self.lexer.word("a number of columns")?;
        let cols = word.parse().map_err(|_| place.error(format!("found `{word}`, want a number of columns")))?;
        self.lexer.punct(']')?;
        Ok(Shape { rows, cols })
    }

    fn definition(&mut self, shape: Shape) -> Result<Tensor, ParseError> {
        let (place, word) = self.lexer.word("an operation")?;
        let before = self.builder.graph().tensors.len();
        let t = match word.as_str() {
            "weight" => self.weight(shape)?,
            "input" => {
                let (place, name) = self.lexer.word("an input's name")?;
                let input = Input::ALL.into_iter().find(|i| i.name() == name);
                let input = input.ok_or_else(|| place.error(format!("there is no input `{name}`")))?;
                self.builder.input(input)
            }
            "kv_cache" | "conv_state" | "recurrent_state" => {
                let state = self.state(place, &word)?;
                self.builder.state(state).map_err(|e| place.error(e.to_string()))?
            }
            _ => self.operation(place, &word)?,
        };
        if self.builder.graph().tensors.len() == before {
            return Err(place.error(format!("this is the same as {t}, and a {word} occurs once")));
        }
        Ok(t)
    }

    fn weight(&mut self, shape: Shape) -> Result<Tensor, ParseError> {
        let at = self.lexer.place();
        let name = self.lexer.string("the weight's name")?;
        let (place, word) = self.lexer.word("a type")?;
        let content =
            Elem::from_name(&word).map(Content::Elem).or_else(|| Format::from_name(&word).map(Content::Quant));
        let content = content.ok_or_else(|| place.error(format!("there is no type `{word}`")))?;
        let Rows::Const(rows) = shape.rows else {
            return Err(at.error(format!("a weight has a constant number of rows, not {}", shape.rows)));
        };
        self.builder.weight(&name, content, rows, shape.cols).map_err(|e| at.error(e.to_string()))
    }

    fn state(&mut self, place: Place, word: &str) -> Result<State, ParseError> {
        let mut a = self.attributes(place)?;
        let layer = a.int("layer")?;
        let state = match word {
            "kv_cache" => {
                let (n_kv_head, head_dim) = (a.int("n_kv_head")?, a.int("head_dim")?);
                let value_dim = a.optional("value_dim", "a whole number", |s| s.parse().ok())?.unwrap_or(head_dim);
                let shared = a.flag("shared")?;
                State::Kv(KvCache { layer, n_kv_head, head_dim, value_dim, shared })
            }
            "conv_state" => State::Conv(ConvState { layer, cols: a.int("cols")?, taps: a.int("taps")? }),
            _ => State::Recurrent(RecurrentState {
                layer,
                n_head: a.int("n_head")?,
                key_dim: a.int("key_dim")?,
                value_dim: a.int("value_dim")?,
            }),
        };
        a.done()?;
        Ok(state)
    }

    fn attributes(&mut self, op: Place) -> Result<Attributes, ParseError> {
        let mut list = Vec::new();
        // `key =` starts an attribute; `t0 :` and `output "..."` the next line.
        while let Some((place, key)) = self.lexer.try_key() {
            let (_, value) = self.lexer.word("a value")?;
            list.push((key, value, place));
        }
        Ok(Attributes { op, list })
    }

    fn operands(&mut self) -> Result<Vec<Tensor>, ParseError> {
        let mut list = vec![self.tensor()?];
        while self.lexer.try_punct(',') {
            list.push(self.tensor()?);
        }
        Ok(list)
    }

    fn operation(&mut self, place: Place, name: &str) -> Result<Tensor, ParseError> {
        let (least, most) = match name {
            "scale" | "soft_cap" | "normalize" | "act" | "columns" => (1, 1),
            "route" => (1, 2),
            "embed" | "rms_norm" | "glu" | "add" | "mul" | "select_rows" | "position_scale" | "concat"
            | "expert_linear" | "expert_sum" => (2, 2),
            "linear" => (2, 3),
            "rope" => (2, 4),
            "attention" | "kv_store" | "short_conv" => (3, 4),
            "recurrence" => (5, 6),
            _ => return Err(place.error(format!("there is no operation `{name}`"))),
        };
        let t = self.operands()?;
        if t.len() < least || t.len() > most {
            return Err(place.error(format!("{name} takes {least} to {most} operands, found {}", t.len())));
        }
        let mut a = self.attributes(place)?;
        let at = |i: usize| t.get(i).copied();
        let op = match name {
            "embed" => Op::Embed { table: t[0], ids: t[1], scale: a.float("scale")? },
            "rms_norm" => Op::RmsNorm { x: t[0], weight: t[1], eps: a.float("eps")? },
            "normalize" => Op::Normalize {
                x: t[0],
                kind: a.named("kind", &NormKind::ALL, NormKind::name)?,
                group: a.int("group")?,
                eps: a.float("eps")?,
            },
            "linear" => Op::Linear { x: t[0], weight: t[1], bias: at(2) },
            "rope" => Op::Rope { x: t[0], positions: t[1], spec: rope(&mut a, at(2), at(3))? },
            "kv_store" if t.len() == 3 => Op::KvStore { k: t[0], v: None, positions: t[1], cache: t[2] },
            "kv_store" => Op::KvStore { k: t[0], v: Some(t[1]), positions: t[2], cache: t[3] },
            "attention" => Op::Attention {
                q: t[0],
                positions: t[1],
                cache: t[2],
                n_head: a.int("n_head")?,
                sinks: at(3),
                n_kv_head: a.int("n_kv_head")?,
                head_dim: a.int("head_dim")?,
                scale: a.float("scale")?,
                window: a.optional("window", "a whole number", |s| s.parse().ok())?,
                softcap: a.optional("softcap", "a number", |s| s.parse().ok())?,
            },
            "glu" => Op::Glu {
                gate: t[0],
                up: t[1],
                act: a.named("act", &Activation::ALL, Activation::name)?,
                limit: a.limit()?,
            },
            "act" => Op::Act { x: t[0], act: a.named("act", &Activation::ALL, Activation::name)? },
            "add" => Op::Add { a: t[0], b: t[1] },
            "mul" => Op::Mul { a: t[0], b: t[1] },
            "scale" => Op::Scale { x: t[0], by: a.float("by")? },
            "soft_cap" => Op::SoftCap { x: t[0], cap: a.float("cap")? },
            "position_scale" => {
                Op::PositionScale { x: t[0], positions: t[1], by: a.float("by")?, every: a.int("every")? }
            }
            "columns" => Op::Columns { x: t[0], group: a.int("group")?, start: a.int("start")?, len: a.int("len")? },
            "concat" => Op::Concat { a: t[0], b: t[1], groups: a.int("groups")? },
            "route" => Op::Route { logits: t[0], bias: at(1), routing: routing(&mut a)? },
            "expert_linear" => Op::ExpertLinear {
                x: t[0],
                weight: t[1],
                n_expert: a.int("n_expert")?,
                routes: a.tensor("routes", &self.names)?,
                scale: a.tensor("expert_scale", &self.names)?,
                bias: a.tensor("bias", &self.names)?,
            },
            "expert_sum" => Op::ExpertSum { x: t[0], routes: t[1] },
            "short_conv" => Op::ShortConv {
                x: t[0],
                weight: t[1],
                state: t[2],
                bias: at(3),
                act: a.optional("act", "an activation", |s| Activation::ALL.into_iter().find(|f| f.name() == s))?,
            },
            "recurrence" => Op::Recurrence {
                q: t[0],
                k: t[1],
                v: t[2],
                decay: t[3],
                state: t[4],
                beta: at(5),
                key_heads: a.named("key_heads", &KeyHeads::ALL, KeyHeads::name)?,
            },
            _ => Op::SelectRows { x: t[0], rows: t[1] },
        };
        a.done()?;
        self.builder.push(op).map_err(|e: GraphError| place.error(e.to_string()))
    }
}

fn rope(a: &mut Attributes, factors: Option<Tensor>, long_factors: Option<Tensor>) -> Result<RopeSpec, ParseError> {
    let number = |s: &str| s.parse::<f32>().ok();
    let whole = |s: &str| s.parse::<u32>().ok();
    let beta_fast = a.optional("beta_fast", "a number", number)?;
    let yarn = match beta_fast {
        Some(beta_fast) => Some(Yarn { beta_fast, beta_slow: a.float("beta_slow")? }),
        None => None,
    };
    Ok(RopeSpec {
        head_dim: a.int("head_dim")?,
        start: a.optional("start", "a whole number", whole)?.unwrap_or(0),
        n_rot: a.int("n_rot")?,
        style: a.named("style", &RopeStyle::ALL, RopeStyle::name)?,
        freq_base: a.float("base")?,
        freq_scale: a.float("scale")?,
        magnitude: a.optional("magnitude", "a number", number)?.unwrap_or(1.0),
        factors,
        long_factors,
        original: a.optional("original", "a whole number", whole)?.unwrap_or(0),
        yarn,
    })
}

fn routing(a: &mut Attributes) -> Result<Routing, ParseError> {
    let groups = a.optional("groups", "a whole number", |s| s.parse().ok())?;
    Ok(Routing {
        n_used: a.int("n_used")?,
        scoring: a.named("scoring", &Scoring::ALL, Scoring::name)?,
        normalize: a.flag("normalize")?,
        scale: a.float("scale")?,
        groups: match groups {
            Some(n) => [n, a.int("groups_used")?],
            None => [1, 1],
        },
    })
}

/// The number of `t12`.
fn tensor_number(word: &str) -> Option<u32> {
    word.strip_prefix('t').filter(|n| n.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}
