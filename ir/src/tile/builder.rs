//! Builds kernels: one method an operation, with scalars and extents of 1 broadcast as needed.
//!
//! ```
//! use hrx_ir::tile::{Access, Builder, Elem, GridExpr, ReduceOp};
//! let mut b = Builder::new("row_sums");
//! let rows = b.scalar_param(Elem::I32);
//! let x = b.view_param(Elem::F32, &[rows.into(), 64.into()], Access::In);
//! let y = b.view_param(Elem::F32, &[rows.into(), 1.into()], Access::Out);
//! b.grid(0, GridExpr::ceil_div(rows, 1));
//! let (row, zero) = (b.program_id(0), b.index(0));
//! let tile = b.load(x, &[row, zero], &[1, 64], None);
//! let sum = b.reduce(ReduceOp::Sum, tile, 1);
//! b.store(y, &[row, zero], sum, None);
//! let kernel = b.finish();
//! assert_eq!(kernel.params.len(), 3);
//! ```

use super::kernel::{
    Access, Block, BlockData, Content, Extent, GridExpr, Kernel, Param, Value, ValueDef, View, ViewData,
};
use super::op::{BinaryOp, BlockPart, CmpOp, Literal, Op, ReduceOp, RunPart, UnaryOp};
use super::types::{Elem, Shape, Type};
use super::typing::result_type;
use crate::quant::{CHUNK, Format, Table};
use std::collections::HashMap;

/// Builds one kernel. Misuse (operands whose types don't go together) is a fault of the calling template and panics
/// with the rule that it breaks.
pub struct Builder {
    kernel: Kernel,
    /// The blocks being filled, innermost last.
    stack: Vec<Block>,
    /// Constants of the outermost block by type and bits, so that each is made once.
    constants: HashMap<(Type, bool, u64), Value>,
}

impl Builder {
    /// Starts a kernel.
    pub fn new(name: impl Into<String>) -> Builder {
        let kernel = Kernel::new(name);
        let body = kernel.body;
        Builder { kernel, stack: vec![body], constants: HashMap::new() }
    }

    /// The finished kernel. Run the verifier over it before compiling.
    ///
    /// # Panics
    /// If a loop is still open.
    pub fn finish(self) -> Kernel {
        assert_eq!(self.stack.len(), 1, "a loop is still open");
        self.kernel
    }

    /// The kernel so far, to look up types.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The type of a value.
    pub fn ty(&self, v: Value) -> Type {
        self.kernel.ty(v)
    }

    /// Adds a scalar parameter, `i32` or `f32`.
    pub fn scalar_param(&mut self, elem: Elem) -> Value {
        let v = self.kernel.new_value(Type::scalar(elem), ValueDef::Param);
        self.kernel.params.push(Param::Scalar(v));
        v
    }

    /// Adds a view parameter of plain elements with row-major strides. Extents but the outermost must be constant.
    pub fn view_param(&mut self, elem: Elem, dims: &[Extent], access: Access) -> View {
        let strides = row_major(dims);
        self.strided_param(Content::Elem(elem), dims, &strides, access)
    }

    /// Adds a view parameter of quantised blocks: `dims` are rows and blocks a row.
    pub fn quant_param(&mut self, format: &'static Format, dims: &[Extent]) -> View {
        let strides = row_major(dims);
        self.strided_param(Content::Quant(format), dims, &strides, Access::In)
    }

    /// Adds a view parameter with strides of its own, in units.
    pub fn strided_param(&mut self, content: Content, dims: &[Extent], strides: &[Extent], access: Access) -> View {
        let v = self.view(content, dims, strides, access);
        self.kernel.params.push(Param::View(v));
        v
    }

    /// Adds local memory of one program. Not initialised.
    pub fn local(&mut self, elem: Elem, dims: &[u32]) -> View {
        let dims: Vec<Extent> = dims.iter().map(|&d| d.into()).collect();
        let strides = row_major(&dims);
        self.view(Content::Elem(elem), &dims, &strides, Access::Local)
    }

    /// Adds local memory whose rows, along the last axis, lie `pad` elements further apart than they are long, so that
    /// neighbours in a column fall into different banks.
    pub fn local_padded(&mut self, elem: Elem, dims: &[u32], pad: u32) -> View {
        let mut strides = vec![1u32; dims.len()];
        for axis in (1..dims.len()).rev() {
            let gap = if axis + 1 == dims.len() { pad } else { 0 };
            let stride = strides[axis].checked_mul(dims[axis]).and_then(|n| n.checked_add(gap));
            strides[axis - 1] = stride.expect("a row fits 32 bits");
        }
        let extents = |list: &[u32]| list.iter().map(|&n| n.into()).collect::<Vec<Extent>>();
        self.view(Content::Elem(elem), &extents(dims), &extents(&strides), Access::Local)
    }

    fn view(&mut self, content: Content, dims: &[Extent], strides: &[Extent], access: Access) -> View {
        self.kernel.views.push(ViewData { content, dims: dims.to_vec(), strides: strides.to_vec(), access })
    }

    /// Sets one axis of the launch grid.
    pub fn grid(&mut self, axis: usize, expr: GridExpr) {
        self.kernel.grid[axis] = expr;
    }

    /// Sets how many waves a program is spread over on targets that have lanes.
    pub fn waves(&mut self, n: u32) {
        self.kernel.waves = n;
    }

    /// The program's id along an axis of the grid.
    pub fn program_id(&self, axis: usize) -> Value {
        self.kernel.program_ids[axis]
    }

    fn push(&mut self, op: Op) -> Value {
        let ty = match result_type(&self.kernel, &op) {
            Ok(Some(t)) => t,
            Ok(None) => panic!("{} has no result", op.name()),
            Err(rule) => panic!("kernel {}: {}: {rule}", self.kernel.name, op.name()),
        };
        let block = self.current();
        let inst = self.kernel.append(block, op, &[ty]);
        self.kernel.insts[inst].results[0]
    }

    fn current(&self) -> Block {
        *self.stack.last().expect("the body is always on the stack")
    }

    fn literal(&mut self, value: Literal, ty: Type) -> Value {
        let key = match value {
            Literal::Int(n) => (ty, false, n as u64),
            Literal::Float(x) => (ty, true, x.to_bits()),
        };
        if let Some(&v) = self.constants.get(&key) {
            return v;
        }
        let op = Op::Const { value, ty };
        if let Err(rule) = result_type(&self.kernel, &op) {
            panic!("kernel {}: const: {rule}", self.kernel.name);
        }
        // Into the outermost block and before the loop being filled (its instruction comes when it ends), so that every
        // later use can share it.
        let body = self.kernel.body;
        let inst = self.kernel.append(body, op, &[ty]);
        let v = self.kernel.insts[inst].results[0];
        self.constants.insert(key, v);
        v
    }

    /// A scalar index constant.
    pub fn index(&mut self, n: i64) -> Value {
        self.literal(Literal::Int(n), Type::index())
    }

    /// A tile of one integer.
    pub fn int(&mut self, n: i64, ty: Type) -> Value {
        self.literal(Literal::Int(n), ty)
    }

    /// A tile of one `f32`.
    pub fn float(&mut self, x: f64, dims: &[u32]) -> Value {
        self.literal(Literal::Float(x), Type::new(Elem::F32, dims))
    }

    /// `0, 1, …, n - 1` as `i32`.
    pub fn iota(&mut self, n: u32) -> Value {
        self.push(Op::Iota { ty: Type::new(Elem::I32, &[n]) })
    }

    /// An extent as a scalar value.
    pub fn extent(&mut self, e: Extent) -> Value {
        match e {
            Extent::Const(n) => self.index(i64::from(n)),
            Extent::Param(v) => v,
        }
    }

    /// An elementwise operation of one operand.
    pub fn unary(&mut self, op: UnaryOp, arg: Value) -> Value {
        self.push(Op::Unary { op, arg })
    }

    /// Brings two operands to the shape both broadcast to.
    fn together(&mut self, a: Value, b: Value) -> [Value; 2] {
        let (ta, tb) = (self.ty(a), self.ty(b));
        match ta.shape.broadcast(&tb.shape) {
            Some(shape) => [self.broadcast(a, shape), self.broadcast(b, shape)],
            None => [a, b],
        }
    }

    /// An elementwise operation of two operands, broadcast to one shape.
    pub fn binary(&mut self, op: BinaryOp, a: Value, b: Value) -> Value {
        let args = self.together(a, b);
        self.push(Op::Binary { op, args })
    }

    /// a + b
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Add, a, b)
    }

    /// a - b
    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Sub, a, b)
    }

    /// a * b
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Mul, a, b)
    }

    /// a / b
    pub fn div(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Div, a, b)
    }

    /// The larger of a and b.
    pub fn max(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Max, a, b)
    }

    /// The smaller of a and b.
    pub fn min(&mut self, a: Value, b: Value) -> Value {
        self.binary(BinaryOp::Min, a, b)
    }

    /// A comparison, operands broadcast to one shape.
    pub fn cmp(&mut self, op: CmpOp, a: Value, b: Value) -> Value {
        let args = self.together(a, b);
        self.push(Op::Cmp { op, args })
    }

    /// `c ? a : b`, all three broadcast to one shape.
    pub fn select(&mut self, c: Value, a: Value, b: Value) -> Value {
        let [a, b] = self.together(a, b);
        let [c, a] = self.together(c, a);
        let [c, b] = self.together(c, b);
        self.push(Op::Select { args: [c, a, b] })
    }

    /// `a * b + c` with one rounding, all three broadcast to one shape.
    pub fn fma(&mut self, a: Value, b: Value, c: Value) -> Value {
        let [a, b] = self.together(a, b);
        let [a, c] = self.together(a, c);
        let [b, c] = self.together(b, c);
        self.push(Op::Fma { args: [a, b, c] })
    }

    /// Conversion by value; nothing where the type is already that.
    pub fn convert(&mut self, arg: Value, to: Elem) -> Value {
        if self.ty(arg).elem == to { arg } else { self.push(Op::Convert { arg, to }) }
    }

    /// The same bits as another type; nothing where the type is already that.
    pub fn bitcast(&mut self, arg: Value, to: Elem) -> Value {
        if self.ty(arg).elem == to { arg } else { self.push(Op::Bitcast { arg, to }) }
    }

    /// Repeats axes of extent 1; nothing where the shape is already that.
    pub fn broadcast(&mut self, arg: Value, shape: Shape) -> Value {
        if self.ty(arg).shape == shape { arg } else { self.push(Op::Broadcast { arg, shape }) }
    }

    /// The same elements under another shape.
    pub fn reshape(&mut self, arg: Value, dims: &[u32]) -> Value {
        let shape = Shape::new(dims);
        if self.ty(arg).shape == shape { arg } else { self.push(Op::Reshape { arg, shape }) }
    }

    /// The last two axes exchanged.
    pub fn transpose(&mut self, arg: Value) -> Value {
        self.push(Op::Transpose { arg })
    }

    /// Two tiles behind one another.
    pub fn concat(&mut self, a: Value, b: Value, axis: usize) -> Value {
        self.push(Op::Concat { args: [a, b], axis: axis as u8 })
    }

    /// Part of a tile; nothing where it is all of it.
    pub fn slice(&mut self, arg: Value, axis: usize, start: u32, len: u32) -> Value {
        if start == 0 && self.ty(arg).shape.dims().get(axis) == Some(&len) {
            return arg;
        }
        self.push(Op::Slice { arg, axis: axis as u8, start, len })
    }

    /// Each element of the last axis `times` in a row.
    pub fn repeat(&mut self, arg: Value, times: u32) -> Value {
        if times == 1 { arg } else { self.push(Op::Repeat { arg, times }) }
    }

    /// Entries of a table, for each index those of one behind another.
    pub fn lookup(&mut self, table: &'static Table, arg: Value) -> Value {
        self.push(Op::Lookup { table, arg })
    }

    /// A reduction that leaves the axis with extent 1.
    pub fn reduce(&mut self, op: ReduceOp, arg: Value, axis: usize) -> Value {
        self.push(Op::Reduce { op, arg, axis: axis as u8 })
    }

    /// Matrix product `a [M, K]` by `b [K, N]` added to `c [M, N]`.
    pub fn dot(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.push(Op::Dot { args: [a, b, c] })
    }

    /// Dot products of four 8-bit neighbours added to `c`; the factors are broadcast to one shape.
    pub fn dot4(&mut self, a: Value, b: Value, c: Value) -> Value {
        let [a, b] = self.together(a, b);
        self.push(Op::Dot4 { args: [a, b, c] })
    }

    /// Matrix product `a [M, K]` by the transposed `b [N, K]` added to `c [M, N]`, for a matrix unit.
    pub fn mma(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.push(Op::Mma { args: [a, b, c] })
    }

    /// Loads a tile with these extents.
    pub fn load(&mut self, view: View, index: &[Value], dims: &[u32], mask: Option<Value>) -> Value {
        self.push(Op::Load { view, index: index.to_vec(), mask, shape: Shape::new(dims) })
    }

    /// Stores a tile.
    pub fn store(&mut self, view: View, index: &[Value], value: Value, mask: Option<Value>) {
        let op = Op::Store { view, index: index.to_vec(), value, mask };
        if let Err(rule) = result_type(&self.kernel, &op) {
            panic!("kernel {}: store: {rule}", self.kernel.name);
        }
        let block = self.current();
        self.kernel.append(block, op, &[]);
    }

    /// Reads a part of the block `index[1]` for `rows` rows from `index[0]` on. Not for raw parts.
    pub fn load_block(&mut self, view: View, index: [Value; 2], part: BlockPart, rows: u32) -> Value {
        let Content::Quant(f) = self.kernel.views[view].content else {
            panic!("kernel {}: {view} holds no quantised blocks", self.kernel.name)
        };
        let (elem, n) = match part {
            BlockPart::Codes(_) => (f.code_elem(), CHUNK),
            BlockPart::Values(_) => (Elem::F32, CHUNK),
            BlockPart::Scales | BlockPart::Offsets => (Elem::F32, f.groups()),
            BlockPart::Indices(_) => (Elem::U8, CHUNK),
            BlockPart::Factors | BlockPart::MinFactors => {
                let signed = f.factors(part == BlockPart::MinFactors).is_some_and(|(_, signed)| signed);
                (if signed { Elem::I8 } else { Elem::U8 }, f.groups())
            }
            BlockPart::Raw(_) => panic!("raw parts have a type of their own: use load_block_raw"),
        };
        self.push(Op::LoadBlock { view, index, part, ty: Type::new(elem, &[rows, n]) })
    }

    /// Reads `ty` (of shape [rows, n]) from byte `at` of the block `index[1]` of each row.
    pub fn load_block_raw(&mut self, view: View, index: [Value; 2], at: u32, ty: Type) -> Value {
        self.push(Op::LoadBlock { view, index, part: BlockPart::Raw(at), ty })
    }

    /// Reads `chunks` chunks of `rows` rows, from row `index[0]` and chunk `index[1]` of each row on.
    pub fn load_run(&mut self, view: View, index: [Value; 2], part: RunPart, rows: u32, chunks: u32) -> Value {
        let Content::Quant(f) = self.kernel.views[view].content else {
            panic!("kernel {}: {view} holds no quantised blocks", self.kernel.name)
        };
        let (elem, each) = part.of_chunk(f);
        self.push(Op::LoadRun { view, index, part, ty: Type::new(elem, &[rows, each.saturating_mul(chunks)]) })
    }

    /// A loop `for i in lower..upper by step` carrying values; `body` gets the counter and the carried values and
    /// returns their next values. Returns the last ones.
    pub fn for_loop(
        &mut self,
        bounds: [Value; 3],
        inits: &[Value],
        body: impl FnOnce(&mut Builder, Value, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let block = self.kernel.blocks.push(BlockData::default());
        let types: Vec<Type> = inits.iter().map(|&v| self.ty(v)).collect();
        let param = |k: &mut Kernel, ty, n| {
            let v = k.new_value(ty, ValueDef::BlockParam(block, n));
            k.blocks[block].params.push(v);
            v
        };
        let counter = param(&mut self.kernel, Type::index(), 0);
        let carried: Vec<Value> =
            types.iter().enumerate().map(|(n, &ty)| param(&mut self.kernel, ty, n as u32 + 1)).collect();
        self.stack.push(block);
        let next = body(self, counter, &carried);
        self.stack.pop();
        let next_types: Vec<Type> = next.iter().map(|&v| self.ty(v)).collect();
        assert_eq!(next_types, types, "kernel {}: a loop yields what it carries", self.kernel.name);
        self.kernel.append(block, Op::Yield { args: next }, &[]);
        let outer = self.current();
        let op = Op::For { bounds, inits: inits.to_vec(), body: block };
        let inst = self.kernel.append(outer, op, &types);
        self.kernel.insts[inst].results.clone()
    }
}

/// Row-major strides for extents of which all but the first are constant.
///
/// # Panics
/// If an inner extent is a parameter: such a view needs strides of its own.
pub fn row_major(dims: &[Extent]) -> Vec<Extent> {
    let mut strides = vec![Extent::Const(1); dims.len()];
    for axis in (1..dims.len()).rev() {
        let (Extent::Const(n), Extent::Const(s)) = (dims[axis], strides[axis]) else {
            panic!("inner extents of a row-major view are constant")
        };
        strides[axis - 1] = Extent::Const(s.checked_mul(n).expect("a row fits 32 bits"));
    }
    strides
}
