//! Reading the text form of a graph.
//!
//! ```text
//! graph  = "graph" string "{" line* "}"
//! line   = tensor ":" shape "=" definition | "output" string tensor
//! shape  = "[" rows "," number "]"          rows = number | "tokens" | "outputs" | "cached"
//! definition = "weight" string type | "input" name | "kv_cache" attribute* | operation tensor,* attribute*
//! attribute  = key "=" value
//! ```
//!
//! `;` starts a comment that ends with the line. Tensor numbers may have gaps; they are counted anew.

mod lex;

use super::builder::Builder;
use super::op::{Activation, Op, RopeSpec, RopeStyle};
use super::tensor::{Graph, Input, KvCache, Rows, Shape, Tensor};
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
            "kv_cache" => {
                let mut a = self.attributes(place)?;
                let (layer, n_kv_head, head_dim) = (a.int("layer")?, a.int("n_kv_head")?, a.int("head_dim")?);
                a.done()?;
                let made = self.builder.cache(KvCache { layer, n_kv_head, head_dim });
                made.map_err(|e| place.error(e.to_string()))?
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
            "scale" | "soft_cap" => (1, 1),
            "embed" | "rms_norm" | "glu" | "add" | "select_rows" => (2, 2),
            "linear" | "rope" => (2, 3),
            "attention" => (3, 3),
            "kv_store" => (4, 4),
            _ => return Err(place.error(format!("there is no operation `{name}`"))),
        };
        let t = self.operands()?;
        if t.len() < least || t.len() > most {
            return Err(place.error(format!("{name} takes {least} to {most} operands, found {}", t.len())));
        }
        let mut a = self.attributes(place)?;
        let last = t.get(2).copied();
        let op = match name {
            "embed" => Op::Embed { table: t[0], ids: t[1], scale: a.float("scale")? },
            "rms_norm" => Op::RmsNorm { x: t[0], weight: t[1], eps: a.float("eps")? },
            "linear" => Op::Linear { x: t[0], weight: t[1], bias: last },
            "rope" => {
                let spec = RopeSpec {
                    head_dim: a.int("head_dim")?,
                    n_rot: a.int("n_rot")?,
                    style: a.named("style", &RopeStyle::ALL, RopeStyle::name)?,
                    freq_base: a.float("base")?,
                    freq_scale: a.float("scale")?,
                    factors: last,
                };
                Op::Rope { x: t[0], positions: t[1], spec }
            }
            "kv_store" => Op::KvStore { k: t[0], v: t[1], positions: t[2], cache: t[3] },
            "attention" => Op::Attention {
                q: t[0],
                positions: t[1],
                cache: t[2],
                n_head: a.int("n_head")?,
                n_kv_head: a.int("n_kv_head")?,
                head_dim: a.int("head_dim")?,
                scale: a.float("scale")?,
                window: a.optional("window", "a whole number", |s| s.parse().ok())?,
                softcap: a.optional("softcap", "a number", |s| s.parse().ok())?,
            },
            "glu" => Op::Glu { gate: t[0], up: t[1], act: a.named("act", &Activation::ALL, Activation::name)? },
            "add" => Op::Add { a: t[0], b: t[1] },
            "scale" => Op::Scale { x: t[0], by: a.float("by")? },
            "soft_cap" => Op::SoftCap { x: t[0], cap: a.float("cap")? },
            _ => Op::SelectRows { x: t[0], rows: t[1] },
        };
        a.done()?;
        self.builder.push(op).map_err(|e: GraphError| place.error(e.to_string()))
    }
}

/// The number of `t12`.
fn tensor_number(word: &str) -> Option<u32> {
    word.strip_prefix('t').filter(|n| n.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}
