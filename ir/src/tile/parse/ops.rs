//! The operations. What a keyword takes:
//!
//! ```text
//! const LITERAL                      iota                          convert, bitcast, broadcast, reshape V
//! neg, abs, … V                      add, lt, … V, V               select, fma, dot, dot4, mma V, V, V
//! concat V, V axis N                 slice V axis N from N len N   repeat V times N
//! reduce_sum, _max, _min V axis N    load M[V, …] [mask V]         store M[V, …], V [mask V]
//! block_codes, _values M[V, V] chunk N       block_scales, _offsets M[V, V]       block_raw M[V, V] byte N
//! run_codes, _scales, _offsets, _values M[V, V]                lookup V in TABLE             transpose V
//! for V in V..V step V [carry (V: type = V, …)] {                  yield [V, …]
//! ```
//!
//! Where the result's type tells a shape or an element type, the operation does not repeat it.

use super::super::kernel::{Value, ValueDef};
use super::super::op::{BinaryOp, BlockPart, CmpOp, Literal, Op, ReduceOp, RunPart, UnaryOp};
use super::super::types::Type;
use super::lexer::Token;
use super::{Parser, Result, one_of};
use crate::quant::{TABLES, Table};

/// Operations that are not in one of the enums of [`super::super::op`].
const OTHERS: [&str; 29] = [
    "const",
    "iota",
    "select",
    "fma",
    "convert",
    "bitcast",
    "broadcast",
    "reshape",
    "transpose",
    "concat",
    "slice",
    "repeat",
    "lookup",
    "dot",
    "dot4",
    "mma",
    "load",
    "store",
    "block_codes",
    "block_scales",
    "block_offsets",
    "block_values",
    "block_indices",
    "block_factors",
    "block_min_factors",
    "block_raw",
    "for",
    "yield",
    "local",
];

fn op_names() -> impl Iterator<Item = &'static str> + Clone {
    let unary = UnaryOp::ALL.iter().map(|o| o.name());
    let binary = BinaryOp::ALL.iter().map(|o| o.name());
    let cmp = CmpOp::ALL.iter().map(|o| o.name());
    let run = RunPart::ALL.iter().map(|p| p.name());
    unary.chain(binary).chain(cmp).chain(["reduce_sum", "reduce_max", "reduce_min"]).chain(OTHERS).chain(run)
}

impl Parser<'_> {
    /// An operation that defines `results`, whose text starts at `start`.
    pub(super) fn op(&mut self, results: &[Value], start: usize) -> Result<Op> {
        let (at, name) = (self.at, self.word());
        let Token::Word(_) = self.token else { return Err(self.expected("an operation or `}`")) };
        // Any type will do for operations without a result; the check is below.
        let ty = results.first().map_or(Type::index(), |&v| self.kernel.ty(v));
        let known = op_names().any(|n| n == name) && name != "local";
        if !known {
            return Err(self.expected(one_of("an operation", name, op_names())));
        }
        let wanted = match name {
            "store" | "yield" => Some(0),
            "for" => None,
            _ => Some(1),
        };
        if wanted.is_some_and(|n| n != results.len()) {
            let found = match self.source[start..at].trim() {
                "" => "none".into(),
                text => format!("`{}`", text.chars().take(80).collect::<String>().escape_debug()),
            };
            let results = if wanted == Some(0) { "no result" } else { "one result, as `v0: i32 =`," };
            let kind = super::ParseErrorKind::Expected { expected: format!("{results} before `{name}`"), found };
            return Err(self.error(start, kind));
        }
        self.advance();
        if let Some(op) = UnaryOp::from_name(name) {
            return Ok(Op::Unary { op, arg: self.value()? });
        }
        if let Some(op) = BinaryOp::from_name(name) {
            return Ok(Op::Binary { op, args: self.values()? });
        }
        if let Some(op) = CmpOp::from_name(name) {
            return Ok(Op::Cmp { op, args: self.values()? });
        }
        if let Some(op) = name.strip_prefix("reduce_").and_then(ReduceOp::from_name) {
            return Ok(Op::Reduce { op, arg: self.value()?, axis: self.attribute("axis")? });
        }
        Ok(match name {
            "const" => Op::Const { value: self.literal()?, ty },
            "iota" => Op::Iota { ty },
            "select" => Op::Select { args: self.values()? },
            "fma" => Op::Fma { args: self.values()? },
            "dot" => Op::Dot { args: self.values()? },
            "dot4" => Op::Dot4 { args: self.values()? },
            "mma" => Op::Mma { args: self.values()? },
            "convert" => Op::Convert { arg: self.value()?, to: ty.elem },
            "bitcast" => Op::Bitcast { arg: self.value()?, to: ty.elem },
            "broadcast" => Op::Broadcast { arg: self.value()?, shape: ty.shape },
            "reshape" => Op::Reshape { arg: self.value()?, shape: ty.shape },
            "transpose" => Op::Transpose { arg: self.value()? },
            "concat" => Op::Concat { args: self.values()?, axis: self.attribute("axis")? },
            "slice" => Op::Slice {
                arg: self.value()?,
                axis: self.attribute("axis")?,
                start: self.attribute("from")?,
                len: self.attribute("len")?,
            },
            "lookup" => {
                let arg = self.value()?;
                self.expect("in")?;
                let names = || TABLES.iter().map(|t| t.name);
                let name = self.word();
                let Some(table) = Table::from_name(name) else {
                    return Err(self.expected(one_of("a table", name, names())));
                };
                self.advance();
                Op::Lookup { table, arg }
            }
            "repeat" => Op::Repeat { arg: self.value()?, times: self.attribute("times")? },
            "load" => Op::Load { view: self.view()?, index: self.index()?, mask: self.mask()?, shape: ty.shape },
            "store" => {
                let (view, index) = (self.view()?, self.index()?);
                self.expect(",")?;
                Op::Store { view, index, value: self.value()?, mask: self.mask()? }
            }
            "for" => self.for_loop()?,
            "yield" => {
                let mut args = Vec::new();
                // A value on the next line is the result of an instruction there.
                let here = !self.source[at..self.at].contains('\n');
                if here && self.numbered('v').is_some() {
                    args.push(self.value()?);
                    while self.eat(",") {
                        args.push(self.value()?);
                    }
                }
                Op::Yield { args }
            }
            _ => {
                let view = self.view()?;
                self.expect("[")?;
                let index = self.values()?;
                self.expect("]")?;
                if let Some(part) = RunPart::from_name(name) {
                    return Ok(Op::LoadRun { view, index, part, ty });
                }
                let part = match name {
                    "block_codes" => BlockPart::Codes(self.attribute("chunk")?),
                    "block_values" => BlockPart::Values(self.attribute("chunk")?),
                    "block_indices" => BlockPart::Indices(self.attribute("chunk")?),
                    "block_factors" => BlockPart::Factors,
                    "block_min_factors" => BlockPart::MinFactors,
                    "block_scales" => BlockPart::Scales,
                    "block_offsets" => BlockPart::Offsets,
                    _ => BlockPart::Raw(self.attribute("byte")?),
                };
                Op::LoadBlock { view, index, part, ty }
            }
        })
    }

    /// `N` values with commas between them.
    fn values<const N: usize>(&mut self) -> Result<[Value; N]> {
        let mut out = [self.value()?; N];
        for v in &mut out[1..] {
            self.expect(",")?;
            *v = self.value()?;
        }
        Ok(out)
    }

    /// A keyword and its number.
    fn attribute<T: std::str::FromStr>(&mut self, keyword: &str) -> Result<T> {
        self.expect(keyword)?;
        self.integer("a small enough number without sign")
    }

    fn index(&mut self) -> Result<Vec<Value>> {
        self.expect("[")?;
        self.list("]", Parser::value)
    }

    fn mask(&mut self) -> Result<Option<Value>> {
        if self.eat("mask") { self.value().map(Some) } else { Ok(None) }
    }

    fn for_loop(&mut self) -> Result<Op> {
        let counter = self.define()?;
        self.expect("in")?;
        let lower = self.value()?;
        self.expect("..")?;
        let upper = self.value()?;
        self.expect("step")?;
        let step = self.value()?;
        let (mut params, mut inits) = (vec![counter], Vec::new());
        if self.eat("carry") {
            self.expect("(")?;
            let carried = self.list(")", |p| {
                let param = p.typed()?;
                p.expect("=")?;
                Ok((param, p.value()?))
            })?;
            for (param, init) in carried {
                params.push(param);
                inits.push(init);
            }
        }
        self.expect("{")?;
        let body = self.new_block();
        for (n, &v) in params.iter().enumerate() {
            self.kernel.values[v].def = ValueDef::BlockParam(body, n as u32);
        }
        self.kernel.blocks[body].params = params;
        Ok(Op::For { bounds: [lower, upper, step], inits, body })
    }

    /// An integer, or a float: with a dot or an exponent, `inf`, `-inf`, `nan`, `nan(0x…)` for the bits of another NaN.
    fn literal(&mut self) -> Result<Literal> {
        let literal = match self.token {
            Token::Word("inf") => Some(Literal::Float(f64::INFINITY)),
            Token::Number("-inf") => Some(Literal::Float(f64::NEG_INFINITY)),
            Token::Word("nan") => return self.nan(),
            Token::Number(s) if s.contains(['.', 'e', 'E']) => s.parse().ok().map(Literal::Float),
            Token::Number(s) => s.parse().ok().map(Literal::Int),
            _ => None,
        };
        let Some(literal) = literal else {
            return Err(self.expected("a literal such as 4, 0.5, 1e-6, inf, -inf or nan"));
        };
        self.advance();
        Ok(literal)
    }

    fn nan(&mut self) -> Result<Literal> {
        self.advance();
        if !self.eat("(") {
            return Ok(Literal::Float(f64::NAN));
        }
        let bits = match self.token {
            Token::Number(s) => s.strip_prefix("0x").and_then(|s| u64::from_str_radix(s, 16).ok()),
            _ => None,
        };
        let Some(x) = bits.map(f64::from_bits).filter(|x| x.is_nan()) else {
            return Err(self.expected("the bits of a NaN such as 0x7ff8000000000001"));
        };
        self.advance();
        self.expect(")")?;
        Ok(Literal::Float(x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_operations_share_a_name() {
        let mut names: Vec<&str> = op_names().collect();
        let n = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), n);
    }
}
