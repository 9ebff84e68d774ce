//! A kernel: its interface, its launch grid, and the arenas that hold its body.
//!
//! References are 32-bit entities whose `Display` is their name in the text form: values `v0`, views `m0`.

use super::op::Op;
use super::types::{Elem, Type};
use crate::quant::Format;
use cranelift_entity::{EntityRef, PrimaryMap, entity_impl};
use std::fmt;

/// A value: a tile in registers, defined once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(u32);
entity_impl!(Value, "v");

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inst(u32);
entity_impl!(Inst, "inst");

/// A list of instructions with parameters: the kernel's body or a loop's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block(u32);
entity_impl!(Block, "block");

/// A strided view of memory: a kernel's parameter or its local memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View(u32);
entity_impl!(View, "m");

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueDef {
    /// A scalar parameter of the kernel.
    Param,
    /// The program id along this axis of the grid.
    ProgramId(u8),
    /// The n-th parameter of a block (loop counter first, then carried values).
    BlockParam(Block, u32),
    /// The n-th result of an instruction.
    Result(Inst, u32),
}

/// A value's type and origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueData {
    /// The tile's type.
    pub ty: Type,
    /// What defines it.
    pub def: ValueDef,
}

/// A size that is either specialised into the kernel or a scalar parameter of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Extent {
    /// Known when the kernel was made.
    Const(u32),
    /// A scalar `i32` parameter.
    Param(Value),
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Const(n) => write!(f, "{n}"),
            Extent::Param(v) => write!(f, "{v}"),
        }
    }
}

impl From<u32> for Extent {
    fn from(n: u32) -> Extent {
        Extent::Const(n)
    }
}

impl From<Value> for Extent {
    fn from(v: Value) -> Extent {
        Extent::Param(v)
    }
}

/// What a view holds along its last axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Plain elements.
    Elem(Elem),
    /// Blocks of a quantised format; the unit of the last axis is one block.
    Quant(&'static Format),
}

impl Content {
    /// Bytes of one unit: an element or a block.
    pub fn unit_bytes(&self) -> u32 {
        match self {
            Content::Elem(e) => e.bytes(),
            Content::Quant(f) => f.block_bytes,
        }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Content::Elem(e) => e.fmt(f),
            Content::Quant(q) => f.write_str(q.name),
        }
    }
}

/// How the kernel may touch a view. Hazards between launches are derived from this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Only loads.
    In,
    /// Only stores.
    Out,
    /// Loads and stores.
    InOut,
    /// Memory of one program, not visible outside: LDS on a GPU, the thread's stack or cache on a CPU.
    Local,
}

impl Access {
    /// The keyword in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Access::In => "in",
            Access::Out => "out",
            Access::InOut => "inout",
            Access::Local => "local",
        }
    }
    /// Whether the kernel may load from such a view.
    pub fn reads(self) -> bool {
        self != Access::Out
    }
    /// Whether the kernel may store to such a view.
    pub fn writes(self) -> bool {
        self != Access::In
    }
}

/// A strided view of memory. Index `[i, j]` addresses unit `i * strides[0] + j * strides[1]`.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewData {
    /// What lies in it.
    pub content: Content,
    /// The bounds of each axis.
    pub dims: Vec<Extent>,
    /// Distance in units between neighbours of each axis; the last is 1 for all views that tiles are loaded along.
    pub strides: Vec<Extent>,
    /// Direction of use.
    pub access: Access,
}

/// One entry of a kernel's parameter list, in the order of the argument slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Param {
    /// A pointer.
    View(View),
    /// An `i32` or `f32` scalar.
    Scalar(Value),
}

/// An expression for one axis of the launch grid, over constants and scalar parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GridExpr {
    /// A constant or a parameter.
    Extent(Extent),
    /// Quotient rounded up.
    CeilDiv(Box<GridExpr>, u32),
    /// Product.
    Mul(Box<GridExpr>, Box<GridExpr>),
    /// Sum.
    Add(Box<GridExpr>, Box<GridExpr>),
}

impl GridExpr {
    /// A constant extent.
    pub fn constant(n: u32) -> GridExpr {
        GridExpr::Extent(Extent::Const(n))
    }

    /// `ceil(extent / by)`.
    pub fn ceil_div(extent: impl Into<Extent>, by: u32) -> GridExpr {
        GridExpr::CeilDiv(Box::new(GridExpr::Extent(extent.into())), by)
    }

    /// The value for given scalar parameters. Saturates instead of overflowing.
    pub fn eval(&self, param: &dyn Fn(Value) -> i64) -> u64 {
        match self {
            GridExpr::Extent(Extent::Const(n)) => u64::from(*n),
            GridExpr::Extent(Extent::Param(v)) => param(*v).max(0) as u64,
            GridExpr::CeilDiv(a, by) => a.eval(param).div_ceil(u64::from((*by).max(1))),
            GridExpr::Mul(a, b) => a.eval(param).saturating_mul(b.eval(param)),
            GridExpr::Add(a, b) => a.eval(param).saturating_add(b.eval(param)),
        }
    }
}

impl fmt::Display for GridExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GridExpr::Extent(e) => e.fmt(f),
            GridExpr::CeilDiv(a, by) => write!(f, "ceildiv({a}, {by})"),
            GridExpr::Mul(a, b) => write!(f, "mul({a}, {b})"),
            GridExpr::Add(a, b) => write!(f, "add({a}, {b})"),
        }
    }
}

/// The parameters and instructions of a block.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct BlockData {
    /// Loop counter and carried values; empty for the kernel's body.
    pub params: Vec<Value>,
    /// In order of execution; the last one of a loop body is a `yield`.
    pub insts: Vec<Inst>,
}

/// An instruction and what it defines.
#[derive(Clone, PartialEq, Debug)]
pub struct InstData {
    /// What it does.
    pub op: Op,
    /// The values it defines: none for a store, one for most, any number for a loop.
    pub results: Vec<Value>,
}

/// A kernel in tile IR.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Its name: letters, digits and underscores.
    pub name: String,
    /// The argument slots in order.
    pub params: Vec<Param>,
    /// The program ids along the three axes of the grid; scalars `i32`.
    pub program_ids: [Value; 3],
    /// The launch grid.
    pub grid: [GridExpr; 3],
    /// How many waves a program is spread over on targets that have lanes; the host ignores it.
    pub waves: u32,
    /// All views, parameters and local ones.
    pub views: PrimaryMap<View, ViewData>,
    /// All values.
    pub values: PrimaryMap<Value, ValueData>,
    /// All instructions, whether or not a block still lists them.
    pub insts: PrimaryMap<Inst, InstData>,
    /// All blocks.
    pub blocks: PrimaryMap<Block, BlockData>,
    /// The kernel's body.
    pub body: Block,
}

impl Kernel {
    /// An empty kernel without parameters and with a grid of one program.
    pub fn new(name: impl Into<String>) -> Kernel {
        let mut values = PrimaryMap::new();
        let mut pid = |axis| values.push(ValueData { ty: Type::index(), def: ValueDef::ProgramId(axis) });
        let program_ids = [pid(0), pid(1), pid(2)];
        let mut blocks = PrimaryMap::new();
        let body = blocks.push(BlockData::default());
        Kernel {
            name: name.into(),
            params: Vec::new(),
            program_ids,
            grid: [GridExpr::constant(1), GridExpr::constant(1), GridExpr::constant(1)],
            waves: 1,
            views: PrimaryMap::new(),
            values,
            insts: PrimaryMap::new(),
            blocks,
            body,
        }
    }

    /// The type of a value.
    pub fn ty(&self, v: Value) -> Type {
        self.values[v].ty
    }

    /// The local views with their dims, in order of declaration.
    pub fn locals(&self) -> impl Iterator<Item = (View, &ViewData)> {
        self.views.iter().filter(|(_, d)| d.access == Access::Local)
    }

    /// Bytes of local memory one program needs, each view aligned to 64 bytes. `None` if an extent isn't constant.
    pub fn local_bytes(&self) -> Option<u64> {
        self.locals().try_fold(0u64, |at, (_, d)| Some(at.next_multiple_of(64) + local_view_bytes(d)?))
    }

    /// The index of a parameter's argument slot.
    pub fn slot_of_view(&self, view: View) -> Option<usize> {
        self.params.iter().position(|p| *p == Param::View(view))
    }

    /// The constant a value is, if it is defined by a `const` instruction of an integer type.
    pub fn as_const_int(&self, v: Value) -> Option<i64> {
        match self.values[v].def {
            ValueDef::Result(i, 0) => match &self.insts[i].op {
                Op::Const { value: super::op::Literal::Int(n), .. } => Some(*n),
                _ => None,
            },
            _ => None,
        }
    }

    /// Adds a value without an instruction yet listing it.
    pub fn new_value(&mut self, ty: Type, def: ValueDef) -> Value {
        self.values.push(ValueData { ty, def })
    }

    /// Appends an instruction with results of the given types to a block.
    pub fn append(&mut self, block: Block, op: Op, results: &[Type]) -> Inst {
        let inst = self.insts.push(InstData { op, results: Vec::new() });
        for (n, &ty) in results.iter().enumerate() {
            let v = self.new_value(ty, ValueDef::Result(inst, n as u32));
            self.insts[inst].results.push(v);
        }
        self.blocks[block].insts.push(inst);
        inst
    }
}

/// Bytes of a local view, the padding of its rows included, or none if an extent isn't constant.
pub fn local_view_bytes(d: &ViewData) -> Option<u64> {
    let constant = |e: &Extent| match e {
        Extent::Const(n) => Some(u64::from(*n)),
        Extent::Param(_) => None,
    };
    d.dims.iter().chain(&d.strides).try_for_each(|e| constant(e).map(drop))?;
    // The outermost stride spans what is inside it.
    let units = constant(d.dims.first()?)?.checked_mul(constant(d.strides.first()?)?)?;
    units.checked_mul(u64::from(d.content.unit_bytes()))
}

/// Makes an entity from an index read from text or a map.
pub fn entity<E: EntityRef>(index: usize) -> E {
    E::new(index)
}
