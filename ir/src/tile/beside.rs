//! Several kernels side by side in one launch.
//!
//! The programs of the first come first, then those of the second, and so on. A program looks up whose it is and runs
//! that kernel's body, as a loop of one round; the others' loops have none. So whatever a target does with a loop does,
//! results are those of the kernels launched one by one, and a launch that fills a part of the chip shares it.

use super::kernel::{Access, Block, BlockData, Extent, GridExpr, Kernel, Param, Value, ValueDef, View, ViewData};
use super::op::{BinaryOp, CmpOp, Literal, Op};
use super::types::{Elem, Type};
use std::collections::HashMap;

/// One of the kernels.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The kernel, which the verifier accepts.
    pub kernel: &'a Kernel,
    /// The place of each of its arguments among those of the whole. Parts may share a place.
    pub args: &'a [usize],
}

/// The kernel that does the work of all parts, with a grid of one axis. Its arguments are the parts' in the order of
/// their places; local memory of equal shape is used by all parts in turn.
///
/// # Errors
/// What keeps the parts apart: programs of different numbers of waves, a place that arguments of different kinds share
/// or that nobody has, a kernel and places that don't belong together.
pub fn side_by_side(name: impl Into<String>, parts: &[Part]) -> Result<Kernel, String> {
    let mut whole = Whole { kernel: Kernel::new(name), params: Vec::new(), constants: HashMap::new() };
    let Some(first) = parts.first() else { return Err("there are no parts".into()) };
    whole.kernel.waves = first.kernel.waves;
    let mut copies = Vec::with_capacity(parts.len());
    for part in parts {
        copies.push(whole.interface(part)?);
    }
    let params = std::mem::take(&mut whole.params);
    whole.kernel.params = params
        .into_iter()
        .enumerate()
        .map(|(place, p)| p.ok_or_else(|| format!("no part has an argument at place {place}")))
        .collect::<Result<_, _>>()?;
    let mut before = GridExpr::constant(0);
    for (part, mut copy) in parts.iter().zip(copies) {
        let programs = whole.programs(part.kernel, &copy);
        whole.part(part.kernel, &mut copy, &before);
        before = match before {
            GridExpr::Extent(Extent::Const(0)) => programs,
            before => GridExpr::Add(Box::new(before), Box::new(programs)),
        };
    }
    whole.kernel.grid[0] = before;
    Ok(whole.kernel)
}

struct Whole {
    kernel: Kernel,
    /// Parameters by place, as parts declare them.
    params: Vec<Option<Param>>,
    /// Constants of the kernel's body.
    constants: HashMap<(Type, bool, u64), Value>,
}

/// What the values and views of a part became.
struct Copy {
    values: HashMap<Value, Value>,
    views: HashMap<View, View>,
}

impl Copy {
    fn extent(&self, e: Extent) -> Extent {
        match e {
            Extent::Const(n) => Extent::Const(n),
            Extent::Param(v) => Extent::Param(self.values[&v]),
        }
    }

    fn grid(&self, e: &GridExpr) -> GridExpr {
        let boxed = |e: &GridExpr| Box::new(self.grid(e));
        match e {
            GridExpr::Extent(e) => GridExpr::Extent(self.extent(*e)),
            GridExpr::CeilDiv(a, by) => GridExpr::CeilDiv(boxed(a), *by),
            GridExpr::Mul(a, b) => GridExpr::Mul(boxed(a), boxed(b)),
            GridExpr::Add(a, b) => GridExpr::Add(boxed(a), boxed(b)),
        }
    }

    fn view(&self, d: &ViewData) -> ViewData {
        let extents = |list: &[Extent]| list.iter().map(|&e| self.extent(e)).collect();
        ViewData { content: d.content, dims: extents(&d.dims), strides: extents(&d.strides), access: d.access }
    }
}

/// Whether an axis of a grid is one program wide.
fn is_one(e: &GridExpr) -> bool {
    *e == GridExpr::constant(1)
}

impl Whole {
    /// Declares a part's parameters, or finds them where another part has them, and its local memory.
    fn interface(&mut self, part: &Part) -> Result<Copy, String> {
        let k = part.kernel;
        if part.args.len() != k.params.len() {
            return Err(format!("{} has {} arguments, {} places are given", k.name, k.params.len(), part.args.len()));
        }
        if k.waves != self.kernel.waves {
            return Err(format!("a program of {} has {} waves, others have {}", k.name, k.waves, self.kernel.waves));
        }
        let mut copy = Copy { values: HashMap::new(), views: HashMap::new() };
        let highest = part.args.iter().max().map_or(0, |m| m + 1);
        self.params.resize(self.params.len().max(highest), None);
        let clash = |place: usize| format!("{}: the argument at place {place} is another one for another part", k.name);
        // Scalars first: views refer to them.
        for (&place, param) in part.args.iter().zip(&k.params) {
            let Param::Scalar(v) = *param else { continue };
            let ours = match self.params[place] {
                Some(Param::Scalar(ours)) if self.kernel.ty(ours) == k.ty(v) => ours,
                Some(_) => return Err(clash(place)),
                None => self.kernel.new_value(k.ty(v), ValueDef::Param),
            };
            self.params[place] = Some(Param::Scalar(ours));
            copy.values.insert(v, ours);
        }
        for (&place, param) in part.args.iter().zip(&k.params) {
            let Param::View(m) = *param else { continue };
            let data = copy.view(&k.views[m]);
            let ours = match self.params[place] {
                Some(Param::View(ours)) if self.kernel.views[ours] == data => ours,
                Some(_) => return Err(clash(place)),
                None => self.kernel.views.push(data),
            };
            self.params[place] = Some(Param::View(ours));
            copy.views.insert(m, ours);
        }
        // A program is of one part, so parts share what local memory is alike; of one part each has its own.
        let mut taken = Vec::new();
        for (m, data) in k.locals() {
            let data = copy.view(data);
            let free =
                |&(ours, d): &(View, &ViewData)| d.access == Access::Local && *d == data && !taken.contains(&ours);
            let ours = match self.kernel.views.iter().find(free) {
                Some((ours, _)) => ours,
                None => self.kernel.views.push(data),
            };
            taken.push(ours);
            copy.views.insert(m, ours);
        }
        Ok(copy)
    }

    /// How many programs a part has.
    fn programs(&self, k: &Kernel, copy: &Copy) -> GridExpr {
        let axes = k.grid.iter().filter(|e| !is_one(e)).map(|e| copy.grid(e));
        axes.reduce(|a, b| GridExpr::Mul(Box::new(a), Box::new(b))).unwrap_or(GridExpr::constant(1))
    }

    /// Adds a part's body for the programs behind `before`.
    fn part(&mut self, k: &Kernel, copy: &mut Copy, before: &GridExpr) {
        let body = self.kernel.body;
        let [zero, one] = [0, 1].map(|n| self.index(n));
        let start = self.size(before);
        let program = self.kernel.program_ids[0];
        let place = self.binary(body, BinaryOp::Sub, program, start);
        let programs = self.programs(k, copy);
        let programs = self.size(&programs);
        let behind = self.result(body, Op::Cmp { op: CmpOp::Ge, args: [place, zero] }, Type::scalar(Elem::B1));
        let inside = self.result(body, Op::Cmp { op: CmpOp::Lt, args: [place, programs] }, Type::scalar(Elem::B1));
        let ours = self.binary(body, BinaryOp::And, behind, inside);
        let rounds = self.result(body, Op::Convert { arg: ours, to: Elem::I32 }, Type::index());
        let round = self.kernel.blocks.push(BlockData::default());
        let counter = self.kernel.new_value(Type::index(), ValueDef::BlockParam(round, 0));
        self.kernel.blocks[round].params.push(counter);
        self.program_ids(k, copy, round, place);
        self.copy(k, k.body, copy, round);
        self.kernel.append(round, Op::Yield { args: Vec::new() }, &[]);
        self.kernel.append(body, Op::For { bounds: [zero, rounds, one], inits: Vec::new(), body: round }, &[]);
    }

    /// The program's ids in a part's own grid, from its place among all of the part's programs.
    fn program_ids(&mut self, k: &Kernel, copy: &mut Copy, block: Block, place: Value) {
        let zero = self.index(0);
        let mut rest = place;
        let last = (0..3).rev().find(|&axis| !is_one(&k.grid[axis])).unwrap_or(0);
        for axis in 0..3 {
            let id = match axis {
                _ if axis > last || is_one(&k.grid[axis]) => zero,
                _ if axis == last => rest,
                _ => {
                    let extent = copy.grid(&k.grid[axis]);
                    let extent = self.size(&extent);
                    let id = self.binary(block, BinaryOp::Rem, rest, extent);
                    rest = self.binary(block, BinaryOp::Div, rest, extent);
                    id
                }
            };
            copy.values.insert(k.program_ids[axis], id);
        }
    }

    /// Copies the instructions of a block, and of the loops in it.
    fn copy(&mut self, k: &Kernel, from: Block, copy: &mut Copy, to: Block) {
        for &inst in &k.blocks[from].insts {
            let data = &k.insts[inst];
            if let Op::Const { value, ty } = data.op {
                copy.values.insert(data.results[0], self.constant(value, ty));
                continue;
            }
            let mut op = data.op.clone();
            op.map_operands(|v| copy.values[&v]);
            match &mut op {
                Op::Load { view, .. }
                | Op::Store { view, .. }
                | Op::LoadBlock { view, .. }
                | Op::LoadRun { view, .. } => *view = copy.views[view],
                Op::For { body, .. } => {
                    let inner = self.kernel.blocks.push(BlockData::default());
                    for (n, &v) in k.blocks[*body].params.iter().enumerate() {
                        let ours = self.kernel.new_value(k.ty(v), ValueDef::BlockParam(inner, n as u32));
                        self.kernel.blocks[inner].params.push(ours);
                        copy.values.insert(v, ours);
                    }
                    self.copy(k, *body, copy, inner);
                    *body = inner;
                }
                _ => {}
            }
            let types: Vec<Type> = data.results.iter().map(|&v| k.ty(v)).collect();
            let ours = self.kernel.append(to, op, &types);
            for (&theirs, &ours) in data.results.iter().zip(&self.kernel.insts[ours].results) {
                copy.values.insert(theirs, ours);
            }
        }
    }

    /// A grid expression's value in the kernel's body.
    fn size(&mut self, e: &GridExpr) -> Value {
        let body = self.kernel.body;
        match e {
            GridExpr::Extent(Extent::Const(n)) => self.index(i64::from(*n)),
            GridExpr::Extent(Extent::Param(v)) => *v,
            GridExpr::CeilDiv(a, by) => {
                let (a, less, by) = (self.size(a), self.index(i64::from(*by) - 1), self.index(i64::from(*by)));
                let sum = self.binary(body, BinaryOp::Add, a, less);
                self.binary(body, BinaryOp::Div, sum, by)
            }
            GridExpr::Mul(a, b) => {
                let [a, b] = [a, b].map(|e| self.size(e));
                self.binary(body, BinaryOp::Mul, a, b)
            }
            GridExpr::Add(a, b) => {
                let [a, b] = [a, b].map(|e| self.size(e));
                self.binary(body, BinaryOp::Add, a, b)
            }
        }
    }

    fn index(&mut self, n: i64) -> Value {
        self.constant(Literal::Int(n), Type::index())
    }

    fn constant(&mut self, value: Literal, ty: Type) -> Value {
        let key = match value {
            Literal::Int(n) => (ty, false, n as u64),
            Literal::Float(x) => (ty, true, x.to_bits()),
        };
        if let Some(&v) = self.constants.get(&key) {
            return v;
        }
        let v = self.result(self.kernel.body, Op::Const { value, ty }, ty);
        self.constants.insert(key, v);
        v
    }

    fn binary(&mut self, block: Block, op: BinaryOp, a: Value, b: Value) -> Value {
        let ty = self.kernel.ty(a);
        self.result(block, Op::Binary { op, args: [a, b] }, ty)
    }

    fn result(&mut self, block: Block, op: Op, ty: Type) -> Value {
        let inst = self.kernel.append(block, op, &[ty]);
        self.kernel.insts[inst].results[0]
    }
}
