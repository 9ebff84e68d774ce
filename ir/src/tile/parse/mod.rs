//! Reads the text form that [`super::print`] writes.
//!
//! ```text
//! module    = { kernel }
//! kernel    = "kernel" "@" name "(" [ param { "," param } ] ")" [ "waves" integer ]
//!             [ "grid" "(" expr "," expr "," expr ")" ] [ "ids" "(" value "," value "," value ")" ] "{" { local | inst } "}"
//! param     = view ":" access decl | value ":" type
//! decl      = content "[" [ extent { "," extent } ] "]" [ "strides" "[" [ extent { "," extent } ] "]" ]
//! access    = "in" | "out" | "inout" | "local"
//! content   = an element type | a quantised format
//! extent    = integer | value
//! expr      = extent | "ceildiv" "(" expr "," integer ")" | ("mul" | "add") "(" expr "," expr ")"
//! local     = "local" view ":" decl
//! inst      = [ result { "," result } "=" ] operation (see ops.rs)
//! result    = value ":" type
//! type      = an element type [ "[" integer { "," integer } "]" ]
//! value     = "v" digits          view = "m" digits
//! ```
//!
//! `//` begins a comment. The parser checks names and grammar and leaves the rest to [`super::verify()`]; in particular
//! a value may be used before its definition. Memory is proportional to the text, and there is no recursion over it
//! except for grid expressions, which are limited to [`MAX_NESTING`].

mod error;
mod header;
mod lexer;
mod ops;

pub use error::{ParseError, ParseErrorKind};

use super::kernel::{Block, BlockData, Kernel, Value, ValueDef, View};
use super::types::{Elem, Shape, Type};
use super::walk::MAX_NESTING;
use crate::quant::Format;
use error::one_of;
use lexer::{Lexer, Token};
use std::collections::HashMap;

/// Reads a text that holds one kernel.
///
/// # Errors
/// The first place where the text is not one.
pub fn parse_kernel(source: &str) -> Result<Kernel, ParseError> {
    let mut p = Parser::new(source);
    let kernel = p.kernel()?;
    match p.token {
        Token::End => Ok(kernel),
        _ => Err(p.expected("the end of the text")),
    }
}

/// Reads a text that holds any number of kernels with different names.
///
/// # Errors
/// The first place where the text is not that.
pub fn parse_module(source: &str) -> Result<Vec<Kernel>, ParseError> {
    let mut p = Parser::new(source);
    let mut kernels: Vec<Kernel> = Vec::new();
    let mut offsets: HashMap<String, usize> = HashMap::new();
    while p.token != Token::End {
        let at = p.at;
        let kernel = p.kernel()?;
        if let Some(&first) = offsets.get(&kernel.name) {
            return Err(p.redefined(format!("@{}", kernel.name), first, at));
        }
        offsets.insert(kernel.name.clone(), at);
        kernels.push(kernel);
    }
    Ok(kernels)
}

/// A named value: where it is defined, else where it is used first.
struct Named {
    value: Value,
    at: usize,
    defined: bool,
}

/// Reads tokens with one of lookahead into a kernel.
struct Parser<'a> {
    source: &'a str,
    lexer: Lexer<'a>,
    /// The token to be read next.
    token: Token<'a>,
    /// Its offset.
    at: usize,
    kernel: Kernel,
    values: HashMap<u32, Named>,
    views: HashMap<u32, (View, usize)>,
}

type Result<T, E = ParseError> = std::result::Result<T, E>;

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Parser<'a> {
        let mut lexer = Lexer::new(source);
        let (token, at) = lexer.next();
        Parser { source, lexer, token, at, kernel: Kernel::new(""), values: HashMap::new(), views: HashMap::new() }
    }

    fn error(&self, at: usize, kind: ParseErrorKind) -> ParseError {
        ParseError::at(self.source, at, kind)
    }

    fn expected(&self, expected: impl Into<String>) -> ParseError {
        let kind = ParseErrorKind::Expected { expected: expected.into(), found: self.token.to_string() };
        self.error(self.at, kind)
    }

    fn redefined(&self, name: String, first: usize, at: usize) -> ParseError {
        let first = self.source[..first].matches('\n').count() + 1;
        self.error(at, ParseErrorKind::Redefined { name, first })
    }

    fn advance(&mut self) {
        (self.token, self.at) = self.lexer.next();
    }

    /// Takes a mark or a word if it is next.
    fn eat(&mut self, text: &str) -> bool {
        let found = matches!(self.token, Token::Mark(t) | Token::Word(t) if t == text);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        if self.eat(text) { Ok(()) } else { Err(self.expected(format!("`{text}`"))) }
    }

    /// The text of the word that is next, empty if something else is.
    fn word(&self) -> &'a str {
        match self.token {
            Token::Word(w) => w,
            _ => "",
        }
    }

    /// Reads `item`s with commas between them up to `close`, which is read too.
    fn list<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut out = Vec::new();
        if self.eat(close) {
            return Ok(out);
        }
        loop {
            out.push(item(self)?);
            if self.eat(close) {
                return Ok(out);
            }
            if !self.eat(",") {
                return Err(self.expected(format!("`,` or `{close}`")));
            }
        }
    }

    /// An integer of the range of `T`, which `what` describes.
    fn integer<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        let Token::Number(text) = self.token else { return Err(self.expected(what)) };
        let n = text.parse().map_err(|_| self.expected(what))?;
        self.advance();
        Ok(n)
    }

    /// The number of a name like `v3`, if that is next.
    fn numbered(&self, prefix: char) -> Option<u32> {
        let digits = self.word().strip_prefix(prefix)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
    }

    /// A use of a value, which may be defined later.
    fn value(&mut self) -> Result<Value> {
        let Some(n) = self.numbered('v') else { return Err(self.expected("a value such as v0")) };
        let at = self.at;
        self.advance();
        let kernel = &mut self.kernel;
        let fresh = || Named { value: kernel.new_value(Type::index(), ValueDef::Param), at, defined: false };
        Ok(self.values.entry(n).or_insert_with(fresh).value)
    }

    /// The definition of a value. Its type and origin are set by the caller.
    fn define(&mut self) -> Result<Value> {
        let (at, name) = (self.at, self.word());
        let Some(n) = self.numbered('v') else { return Err(self.expected("a value such as v0")) };
        let value = self.value()?;
        match self.values.get_mut(&n) {
            Some(named) if named.defined => {
                let first = named.at;
                Err(self.redefined(name.into(), first, at))
            }
            Some(named) => {
                (named.at, named.defined) = (at, true);
                Ok(value)
            }
            None => Ok(value),
        }
    }

    /// The definition of a value with its type.
    fn typed(&mut self) -> Result<Value> {
        let v = self.define()?;
        self.expect(":")?;
        self.kernel.values[v].ty = self.ty()?;
        Ok(v)
    }

    fn view(&mut self) -> Result<View> {
        let Some(n) = self.numbered('m') else { return Err(self.expected("a view such as m0")) };
        let Some(&(view, _)) = self.views.get(&n) else {
            return Err(self.error(self.at, ParseErrorKind::Undefined { name: self.word().into() }));
        };
        self.advance();
        Ok(view)
    }

    fn elem(&mut self) -> Result<Elem> {
        let Some(elem) = Elem::from_name(self.word()) else {
            let names = Elem::ALL.iter().map(|e| e.name());
            return Err(self.expected(one_of("an element type", self.word(), names)));
        };
        self.advance();
        Ok(elem)
    }

    fn ty(&mut self) -> Result<Type> {
        let elem = self.elem()?;
        if !self.eat("[") {
            return Ok(Type::scalar(elem));
        }
        let mut dims = Vec::new();
        loop {
            if dims.len() == super::types::MAX_RANK {
                return Err(self.expected("at most 4 extents"));
            }
            dims.push(self.integer("an extent of at most 32 bits")?);
            if self.eat("]") {
                let shape = Shape::try_new(&dims).ok_or_else(|| self.expected("at most 4 extents"))?;
                return Ok(Type { elem, shape });
            }
            if !self.eat(",") {
                return Err(self.expected("`,` or `]`"));
            }
        }
    }

    fn kernel(&mut self) -> Result<Kernel> {
        self.kernel = Kernel::new("");
        self.values.clear();
        self.views.clear();
        self.header()?;
        self.body()?;
        let undefined = self.values.iter().filter(|(_, n)| !n.defined).min_by_key(|(_, n)| n.at);
        if let Some((number, named)) = undefined {
            return Err(self.error(named.at, ParseErrorKind::Undefined { name: format!("v{number}") }));
        }
        Ok(std::mem::replace(&mut self.kernel, Kernel::new("")))
    }

    /// The instructions of the kernel, behind its `{`.
    fn body(&mut self) -> Result<()> {
        // Blocks being read, innermost last.
        let mut open: Vec<Block> = vec![self.kernel.body];
        while let Some(&block) = open.last() {
            if self.eat("}") {
                open.pop();
            } else if open.len() == 1 && self.eat("local") {
                self.local()?;
            } else {
                let at = self.at;
                if let Some(inner) = self.inst(block)? {
                    if open.len() > MAX_NESTING {
                        return Err(self.error(at, ParseErrorKind::TooDeep { limit: MAX_NESTING }));
                    }
                    open.push(inner);
                }
            }
        }
        Ok(())
    }

    /// One instruction; the body of a loop, which is to be read next.
    fn inst(&mut self, block: Block) -> Result<Option<Block>> {
        let mut results = Vec::new();
        let start = self.at;
        if self.numbered('v').is_some() {
            results = self.list("=", Parser::typed)?;
        }
        let op = self.op(&results, start)?;
        let body = match op {
            super::op::Op::For { body, .. } => Some(body),
            _ => None,
        };
        let inst = self.kernel.append(block, op, &[]);
        for (n, &v) in results.iter().enumerate() {
            self.kernel.values[v].def = ValueDef::Result(inst, n as u32);
        }
        self.kernel.insts[inst].results = results;
        Ok(body)
    }

    fn new_block(&mut self) -> Block {
        self.kernel.blocks.push(BlockData::default())
    }
}

/// The names of what a view may hold.
fn content_names() -> impl Iterator<Item = &'static str> + Clone {
    Elem::ALL.iter().map(|e| e.name()).chain(Format::all().map(|f| f.name))
}
