//! The function of a kernel: its signature, blocks and loops.

use super::{Result, Stop};
use hrx_ir::tile::{Block, Content, Extent, Inst, Kernel, Op, Param, Type as TileType, Value, View, ViewData};
use melior::Context;
use melior::ir::attribute::{StridedLayoutAttribute, StringAttribute, TypeAttribute};
use melior::ir::operation::{OperationLike, OperationRef};
use melior::ir::r#type::{FunctionType, MemRefType};
use melior::ir::{Attribute, BlockLike, BlockRef, Location, Module, Type};
use std::collections::HashMap;

/// A value of MLIR.
pub(super) type Val<'c, 'a> = melior::ir::Value<'c, 'a>;

/// An extent or stride that is known when the kernel runs.
const DYNAMIC: i64 = i64::MIN;

/// State of lowering one kernel.
pub(super) struct Lower<'c, 'a, 'k> {
    pub(super) cx: &'c Context,
    pub(super) k: &'k Kernel,
    pub(super) location: Location<'c>,
    /// The block that operations are appended to.
    pub(super) at: BlockRef<'c, 'a>,
    /// The function's first block, which begins with its constants.
    pub(super) entry: BlockRef<'c, 'a>,
    pub(super) constants: Vec<(Attribute<'c>, Val<'c, 'a>)>,
    /// The module's body.
    pub(super) module: BlockRef<'c, 'a>,
    /// The tables that the module has, by name.
    pub(super) tables: Vec<&'static str>,
    values: HashMap<Value, Val<'c, 'a>>,
    views: HashMap<View, Val<'c, 'a>>,
}

/// Appends the function of a kernel that has been through [`crate::passes::lower_host`] to a module.
pub(super) fn function<'c>(cx: &'c Context, module: &Module<'c>, kernel: &Kernel) -> Result<()> {
    let body = module.body();
    let location = Location::unknown(cx);
    let mut l = Lower {
        cx,
        k: kernel,
        location,
        at: body,
        entry: body,
        constants: Vec::new(),
        module: body,
        tables: Vec::new(),
        values: HashMap::new(),
        views: HashMap::new(),
    };
    l.function()
}

impl<'c, 'a> Lower<'c, 'a, '_> {
    fn function(&mut self) -> Result<()> {
        let k = self.k;
        let scalar = |v: Value| self.tile_type(k.ty(v));
        let params = k.params.iter().map(|p| match *p {
            Param::View(view) => self.memref(&k.views[view]),
            Param::Scalar(v) => scalar(v),
        });
        let ids = k.program_ids.iter().map(|&v| scalar(v));
        let locals = k.locals().map(|(_, data)| self.memref(data));
        let types: Vec<Type<'c>> = params.chain(ids).chain(locals).collect();
        let ty = FunctionType::new(self.cx, &types, &[]);
        let attributes = [
            ("sym_name", StringAttribute::new(self.cx, &k.name).into()),
            ("function_type", TypeAttribute::new(ty.into()).into()),
        ];
        let (_, blocks) = self.structured("func.func", &[], &[], &attributes, (1, &[&types]))?;
        (self.at, self.entry) = (blocks[0], blocks[0]);

        let mut arguments = (0..types.len()).map(|i| Ok::<_, Stop>(self.entry.argument(i)?.into()));
        let mut next = || arguments.next().unwrap_or_else(|| Err(Stop("a parameter has no argument".into())));
        let (mut values, mut views) = (HashMap::new(), HashMap::new());
        for param in &k.params {
            match *param {
                Param::View(view) => views.insert(view, next()?),
                Param::Scalar(v) => values.insert(v, next()?),
            };
        }
        for &v in &k.program_ids {
            values.insert(v, next()?);
        }
        for (view, _) in k.locals() {
            views.insert(view, next()?);
        }
        (self.values, self.views) = (values, views);
        self.block(k.body)?;
        self.op("func.return", &[], &[], &[])?;
        Ok(())
    }

    /// The type of a view: its extents and strides, those that are parameters as `?`. Blocks of a quantised format are one
    /// more axis, of bytes.
    fn memref(&self, data: &ViewData) -> Type<'c> {
        let extent = |e: &Extent, unit: u32| match *e {
            Extent::Const(n) => i64::from(n) * i64::from(unit),
            Extent::Param(_) => DYNAMIC,
        };
        let mut dims: Vec<i64> = data.dims.iter().map(|e| extent(e, 1)).collect();
        let (unit, element) = match data.content {
            Content::Elem(elem) => (1, self.element(elem)),
            Content::Quant(format) => (format.block_bytes, self.integer(8)),
        };
        let mut strides: Vec<i64> = data.strides.iter().map(|e| extent(e, unit)).collect();
        if let Content::Quant(format) = data.content {
            dims.push(i64::from(format.block_bytes));
            strides.push(1);
        }
        let layout = (!is_row_major(&dims, &strides)).then(|| StridedLayoutAttribute::new(self.cx, 0, &strides).into());
        MemRefType::new(element, &dims, layout, None).into()
    }

    pub(super) fn tile_type(&self, ty: TileType) -> Type<'c> {
        self.ty(ty.elem, ty.shape)
    }

    /// What a value of the kernel has become.
    pub(super) fn get(&self, v: Value) -> Result<Val<'c, 'a>> {
        self.values.get(&v).copied().ok_or_else(|| Stop(format!("{v} is used before it is defined")))
    }

    pub(super) fn define(&mut self, v: Value, value: Val<'c, 'a>) {
        self.values.insert(v, value);
    }

    pub(super) fn view(&self, view: View) -> Result<Val<'c, 'a>> {
        self.views.get(&view).copied().ok_or_else(|| Stop(format!("{view} is neither a parameter nor local")))
    }

    /// Lowers the instructions of a block; returns what its yield names.
    fn block(&mut self, block: Block) -> Result<Vec<Val<'c, 'a>>> {
        for &inst in &self.k.blocks[block].insts {
            match &self.k.insts[inst].op {
                Op::Yield { args } => return args.iter().map(|&v| self.get(v)).collect(),
                Op::For { bounds, inits, body } => self.for_loop(inst, *bounds, inits, *body)?,
                _ => self.inst(inst)?,
            }
        }
        Ok(Vec::new())
    }

    fn inst(&mut self, inst: Inst) -> Result<()> {
        let data = &self.k.insts[inst];
        let value = match &data.op {
            Op::Const { value, ty } => self.literal(*value, *ty)?,
            Op::Iota { ty } => self.iota(ty.elem, ty.shape.last())?,
            Op::Unary { op, arg } => self.unary(*op, *arg)?,
            Op::Binary { op, args } => self.binary(*op, *args)?,
            Op::Cmp { op, args } => self.compare(*op, *args)?,
            Op::Select { args: [c, a, b] } => self.select(self.get(*c)?, self.get(*a)?, self.get(*b)?)?,
            Op::Fma { args: [a, b, c] } => self.fma(self.get(*a)?, self.get(*b)?, self.get(*c)?)?,
            Op::Convert { arg, to } => self.convert(*arg, *to)?,
            Op::Bitcast { arg, to } => self.bitcast(*arg, *to)?,
            Op::Broadcast { arg, shape } => self.broadcast(*arg, *shape)?,
            Op::Reshape { arg, shape } => self.reshape(*arg, *shape)?,
            Op::Transpose { arg } => self.transpose(*arg)?,
            Op::Concat { args, axis } => self.concat(*args, usize::from(*axis))?,
            Op::Slice { arg, axis, start, len } => self.slice(*arg, usize::from(*axis), *start, *len)?,
            Op::Lookup { table, arg } => self.lookup(table, *arg)?,
            Op::Repeat { arg, times } => self.repeat(*arg, *times)?,
            Op::Reduce { op, arg, axis } => self.reduce(*op, *arg, usize::from(*axis))?,
            Op::Dot { args } => self.dot(*args)?,
            Op::Dot4 { args } => self.dot4(*args)?,
            Op::Mma { args } => self.mma(*args)?,
            Op::Load { view, index, mask, .. } => self.load(*view, index, *mask, self.k.ty(data.results[0]))?,
            Op::Store { view, index, value, mask } => return self.store(*view, index, *value, *mask),
            Op::LoadBlock { view, index, part, ty } => self.load_block(*view, *index, *part, *ty)?,
            op @ Op::LoadRun { .. } => return Err(Stop(not_expanded(op.name()))),
            op @ (Op::For { .. } | Op::Yield { .. }) => return Err(Stop(format!("{} has no place here", op.name()))),
        };
        self.define(data.results[0], value);
        Ok(())
    }

    fn for_loop(&mut self, inst: Inst, bounds: [Value; 3], inits: &[Value], body: Block) -> Result<()> {
        let k = self.k;
        let operands: Vec<Val> = bounds.iter().chain(inits).map(|&v| self.get(v)).collect::<Result<_>>()?;
        let carried: Vec<Type> = inits.iter().map(|&v| self.tile_type(k.ty(v))).collect();
        let params: Vec<Type> = std::iter::once(self.integer(32)).chain(carried.iter().copied()).collect();
        let (op, blocks) = self.structured("scf.for", &operands, &carried, &[], (1, &[&params]))?;
        for (i, &param) in k.blocks[body].params.iter().enumerate() {
            self.define(param, blocks[0].argument(i)?.into());
        }
        self.inside(blocks[0], |l| l.block(body))?;
        self.define_results(inst, op)
    }

    fn define_results(&mut self, inst: Inst, op: OperationRef<'c, 'a>) -> Result<()> {
        for (&v, result) in self.k.insts[inst].results.iter().zip(op.results()) {
            self.define(v, result.into());
        }
        Ok(())
    }

    /// Lowers into a block of a structured operation, which yields what `f` returns.
    pub(super) fn inside(
        &mut self,
        block: BlockRef<'c, 'a>,
        f: impl FnOnce(&mut Self) -> Result<Vec<Val<'c, 'a>>>,
    ) -> Result<()> {
        let outside = std::mem::replace(&mut self.at, block);
        let yielded = f(self)?;
        self.op("scf.yield", &yielded, &[], &[])?;
        self.at = outside;
        Ok(())
    }
}

/// Why an operation that passes write out is not taken as it is.
pub(super) fn not_expanded(name: &str) -> String {
    format!("{name} is not lowered: passes expand it before")
}

/// Whether strides are those of a `memref` without a layout.
fn is_row_major(dims: &[i64], strides: &[i64]) -> bool {
    let mut want = 1i64;
    dims.iter().zip(strides).rev().all(|(&n, &stride)| {
        let fits = stride == want && stride != DYNAMIC;
        want = if n == DYNAMIC { DYNAMIC } else { want.saturating_mul(n) };
        fits
    })
}
