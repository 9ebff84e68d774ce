//! The part of a kernel above its instructions: parameters, grid, program ids, local views.

use super::super::kernel::{Access, Content, Extent, GridExpr, Param, ValueDef, View, ViewData};
use super::super::print::implied_strides;
use super::super::types::Elem;
use super::lexer::Token;
use super::{MAX_NESTING, ParseErrorKind, Parser, Result, content_names, one_of};
use crate::quant::Format;

const ACCESSES: [Access; 4] = [Access::In, Access::Out, Access::InOut, Access::Local];

impl Parser<'_> {
    pub(super) fn header(&mut self) -> Result<()> {
        self.expect("kernel")?;
        match self.token {
            Token::Kernel(name) if !name.is_empty() => self.kernel.name = name.into(),
            _ => return Err(self.expected("the kernel's name such as @matvec")),
        }
        self.advance();
        self.expect("(")?;
        self.kernel.params = self.list(")", Parser::param)?;
        if self.eat("waves") {
            self.kernel.waves = self.integer("a number of waves of at most 32 bits")?;
        }
        if self.eat("grid") {
            self.kernel.grid = self.triple(|p| p.grid_expr(0))?;
        }
        if self.eat("ids") {
            let ids = self.triple(Parser::define)?;
            for (axis, v) in ids.into_iter().enumerate() {
                self.kernel.values[v].def = ValueDef::ProgramId(axis as u8);
            }
            self.kernel.program_ids = ids;
        }
        self.expect("{")
    }

    fn triple<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<[T; 3]> {
        self.expect("(")?;
        let a = item(self)?;
        self.expect(",")?;
        let b = item(self)?;
        self.expect(",")?;
        let c = item(self)?;
        self.expect(")")?;
        Ok([a, b, c])
    }

    fn param(&mut self) -> Result<Param> {
        if self.numbered('v').is_some() {
            let v = self.typed()?;
            self.kernel.values[v].def = ValueDef::Param;
            return Ok(Param::Scalar(v));
        }
        if self.numbered('m').is_none() {
            return Err(self.expected("a parameter: a view such as m0 or a scalar such as v0"));
        }
        self.view_decl(|p| {
            let word = p.word();
            let Some(access) = ACCESSES.into_iter().find(|a| a.name() == word) else {
                return Err(p.expected(one_of("an access", word, ACCESSES.iter().map(|a| a.name()))));
            };
            p.advance();
            Ok(access)
        })
        .map(Param::View)
    }

    /// A local view, behind the keyword.
    pub(super) fn local(&mut self) -> Result<()> {
        self.view_decl(|_| Ok(Access::Local)).map(drop)
    }

    fn view_decl(&mut self, access: impl FnOnce(&mut Self) -> Result<Access>) -> Result<View> {
        let (at, name) = (self.at, self.word());
        let Some(number) = self.numbered('m') else { return Err(self.expected("a view such as m0")) };
        self.advance();
        self.expect(":")?;
        let access = access(self)?;
        let content = self.content()?;
        let dims = self.extents()?;
        let strides = if self.eat("strides") {
            self.extents()?
        } else {
            let Some(strides) = implied_strides(&dims) else {
                return Err(self.expected("`strides`, as an inner extent is no constant or too large"));
            };
            strides
        };
        let view = self.kernel.views.push(ViewData { content, dims, strides, access });
        if let Some((_, first)) = self.views.insert(number, (view, at)) {
            return Err(self.redefined(name.into(), first, at));
        }
        Ok(view)
    }

    fn content(&mut self) -> Result<Content> {
        let word = self.word();
        let elem = Elem::from_name(word).map(Content::Elem);
        let Some(content) = elem.or_else(|| Format::from_name(word).map(Content::Quant)) else {
            return Err(self.expected(one_of("an element type or quantised format", word, content_names())));
        };
        self.advance();
        Ok(content)
    }

    fn extents(&mut self) -> Result<Vec<Extent>> {
        self.expect("[")?;
        self.list("]", Parser::extent)
    }

    fn extent(&mut self) -> Result<Extent> {
        if self.numbered('v').is_some() {
            return Ok(Extent::Param(self.value()?));
        }
        Ok(Extent::Const(self.integer("an extent: a number of at most 32 bits or a scalar parameter")?))
    }

    fn grid_expr(&mut self, depth: usize) -> Result<GridExpr> {
        if depth > MAX_NESTING {
            return Err(self.error(self.at, ParseErrorKind::TooDeep { limit: MAX_NESTING }));
        }
        if self.eat("ceildiv") {
            self.expect("(")?;
            let a = Box::new(self.grid_expr(depth + 1)?);
            self.expect(",")?;
            let by = self.integer("a divisor of at most 32 bits")?;
            self.expect(")")?;
            return Ok(GridExpr::CeilDiv(a, by));
        }
        for (word, make) in [("mul", GridExpr::Mul as fn(_, _) -> _), ("add", GridExpr::Add)] {
            if self.eat(word) {
                self.expect("(")?;
                let a = Box::new(self.grid_expr(depth + 1)?);
                self.expect(",")?;
                let b = Box::new(self.grid_expr(depth + 1)?);
                self.expect(")")?;
                return Ok(make(a, b));
            }
        }
        match self.token {
            Token::Word(_) if self.numbered('v').is_none() => {
                Err(self.expected("a grid expression: an extent, `ceildiv`, `mul` or `add`"))
            }
            _ => self.extent().map(GridExpr::Extent),
        }
    }
}
