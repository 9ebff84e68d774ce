//! From tile IR to lane form.
//!
//! [`assign`](super::assign) has said in which layout each value is made. Operations are emitted in the kernel's order;
//! an operand that is wanted in another layout than its own is computed again there where that is cheap, or moved
//! between registers and lanes.

mod arith;
mod codes;
mod convert;
mod emit;
mod hazards;
mod known;
mod matrices;
mod memory;
mod products;
mod reduce;
mod runs;
mod scales;
mod shape;
mod tile;

use super::ahead;
use super::assign::{self, Layouts};
use super::facts::Facts;
use super::ir::{LaneKernel, Ty, Val};
use super::layout::{Axis, Layout};
use crate::CompileError;
use emit::Emitter;
use hazards::Hazards;
use hrx_ir::tile::kernel::local_view_bytes;
use hrx_ir::tile::{Block, Kernel, Op, Param, Value, ValueDef, View};
pub(super) use products::quadrupled;
pub(super) use shape::repeated_from;
use std::collections::HashMap;
use tile::{Data, Tile, element_type};

/// Local views start at multiples of this.
const LOCAL_ALIGN: u64 = 64;

/// Why a kernel can't be brought to lane form.
pub(super) struct Refusal(pub String);

pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// A refusal.
pub(super) fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Refusal(reason.into()))
}

/// State of building one kernel.
pub(super) struct Builder<'k> {
    k: &'k Kernel,
    facts: Facts,
    e: Emitter,
    layouts: Layouts,
    values: HashMap<Value, Data>,
    /// Values in other layouts than their own, innermost scope last.
    moved: Vec<HashMap<(Value, Layout), Tile>>,
    /// Words of block headers, innermost scope last.
    headers: Vec<runs::Headers>,
    /// Tiles of local views that are loaded only to be transposed, and what they become.
    transposed: HashMap<Value, Value>,
    /// Where each local view lies.
    locals: HashMap<View, u32>,
    scratch_base: u32,
    scratch_bytes: u64,
    hazards: Hazards,
    /// The accesses before each open loop.
    loops: Vec<Hazards>,
}

/// Brings a kernel that has been through [`crate::passes::lower_lanes`] to lane form.
///
/// # Errors
/// If the kernel asks for what the chip has not got.
pub fn build(k: &Kernel, chip: impl Into<Facts>) -> std::result::Result<LaneKernel, CompileError> {
    let facts = chip.into();
    let refused = |reason: String| CompileError::Kernel { kernel: k.name.clone(), reason };
    if !k.waves.is_power_of_two() {
        return Err(refused(format!("{} waves: the number of waves is a power of two", k.waves)));
    }
    let layouts = assign::layouts(k, facts);
    let mut locals = HashMap::new();
    let mut at = 0u64;
    for (view, data) in k.locals() {
        at = at.next_multiple_of(LOCAL_ALIGN);
        locals.insert(view, at as u32);
        at += local_view_bytes(data).ok_or_else(|| refused(format!("local view {view} has no constant size")))?;
    }
    let scratch_base = at.next_multiple_of(LOCAL_ALIGN) as u32;
    let mut b = Builder {
        k,
        facts,
        e: Emitter::new(),
        layouts,
        values: HashMap::new(),
        moved: vec![HashMap::new()],
        headers: vec![HashMap::new()],
        transposed: matrices::only_transposed(k),
        locals,
        scratch_base,
        scratch_bytes: 0,
        hazards: Hazards::default(),
        loops: Vec::new(),
    };
    b.kernel().map_err(|Refusal(reason)| refused(reason))?;
    let lds = match b.scratch_bytes {
        0 => at,
        n => u64::from(scratch_base) + n,
    };
    if lds > u64::from(facts.lds) {
        return Err(refused(format!("a workgroup needs {lds} bytes of LDS, {} has {} for one", facts.name, facts.lds)));
    }
    let mut lanes = b.e.finish(&k.name, facts.wave, k.waves, lds as u32);
    if let Some(simds) = facts.loads_ahead {
        ahead::loads_ahead(k, simds, &mut lanes);
    }
    Ok(lanes)
}

impl Builder<'_> {
    fn kernel(&mut self) -> Result<()> {
        for param in &self.k.params {
            if let Param::Scalar(v) = *param {
                let elem = self.k.ty(v).elem;
                let r = self.e.param(v, element_type(elem));
                self.values.insert(v, Data::Splat(elem, r));
            }
        }
        for (axis, &v) in self.k.program_ids.iter().enumerate() {
            let r = self.e.program(axis as u8);
            self.values.insert(v, Data::Splat(self.k.ty(v).elem, r));
        }
        self.block(self.k.body)?;
        Ok(())
    }

    /// Emits a block; returns what its yield names.
    fn block(&mut self, block: Block) -> Result<Vec<Value>> {
        let k = self.k;
        for &inst in &k.blocks[block].insts {
            let data = &k.insts[inst];
            match &data.op {
                Op::Yield { args } => return Ok(args.clone()),
                Op::For { bounds, inits, body } => self.for_loop(*bounds, inits, *body, &data.results)?,
                Op::Store { view, index, value, mask } => self.store(*view, index, *value, *mask)?,
                Op::Load { view, index, .. } if self.load_transposed(*view, index, data.results[0])? => {}
                // A load has made it.
                Op::Transpose { .. } if self.values.contains_key(&data.results[0]) => {}
                op => {
                    let v = data.results[0];
                    let layout = self.layout_of(v);
                    let made = self.value(op, v, &layout)?;
                    self.values.insert(v, made);
                }
            }
        }
        Ok(Vec::new())
    }

    /// The layout that a value is made in.
    fn layout_of(&self, v: Value) -> Layout {
        match &self.layouts[v] {
            Some(l) => l.clone(),
            None => Layout::registers(&self.k.ty(v).shape),
        }
    }

    /// Computes an operation's value in a layout.
    fn value(&mut self, op: &Op, v: Value, layout: &Layout) -> Result<Data> {
        let ty = self.k.ty(v);
        Ok(match op {
            Op::Const { value, ty } => {
                let r = self.literal(*value, ty.elem);
                Data::Splat(ty.elem, r)
            }
            Op::Iota { ty } => self.iota(ty.elem, layout),
            Op::Unary { op, arg } => self.unary(*op, *arg, layout)?,
            Op::Binary { op, args } => self.binary(*op, *args, layout)?,
            Op::Cmp { op, args } => self.compare(*op, *args, layout)?,
            Op::Select { args } => self.select(*args, layout)?,
            Op::Fma { args } => self.fma(*args, layout)?,
            Op::Convert { arg, to } => self.convert(*arg, *to, layout)?,
            Op::Bitcast { arg, to } => self.bitcast(*arg, *to, layout)?,
            Op::Broadcast { arg, .. } => self.broadcast(*arg, layout)?,
            Op::Reshape { arg, .. } => self.reshape(*arg, layout)?,
            Op::Transpose { arg } => self.transpose(*arg, layout)?,
            Op::Concat { args, axis } => self.concat(*args, usize::from(*axis), layout)?,
            Op::Slice { arg, axis, start, .. } => self.slice(*arg, usize::from(*axis), *start, layout)?,
            Op::Repeat { arg, times } => self.repeat(*arg, *times, layout)?,
            Op::Lookup { table, arg } => self.lookup(table, *arg, layout)?,
            Op::Reduce { op, arg, axis } => self.reduce(*op, *arg, usize::from(*axis), layout)?,
            Op::Dot { args } => self.dot(*args, layout)?,
            Op::Dot4 { args } => self.dot4(*args, layout)?,
            Op::Mma { args } => self.mma(*args, layout)?,
            Op::Load { view, index, mask, .. } => self.load(*view, index, *mask, ty, layout)?,
            Op::LoadRun { view, index, part, .. } => self.load_run(*view, *index, *part, ty, layout)?,
            Op::LoadBlock { view, index, part, .. } => self.load_block(*view, *index, *part, ty, layout)?,
            Op::Store { .. } | Op::For { .. } | Op::Yield { .. } => return refuse("control flow as a plain operation"),
        })
    }

    /// A scalar's register.
    fn scalar(&mut self, v: Value) -> Val {
        match &self.values[&v] {
            Data::Splat(_, r) => *r,
            Data::Tile(t) => t.words[0],
        }
    }

    /// A value as a tile in a layout.
    fn tile_in(&mut self, v: Value, layout: &Layout) -> Result<Tile> {
        match self.data_in(v, layout)? {
            Data::Splat(elem, r) => Ok(self.filled(elem, r, layout.clone())),
            Data::Tile(t) => Ok(t),
        }
    }

    /// A value in a layout, or a splat that is the same in all.
    fn data_in(&mut self, v: Value, layout: &Layout) -> Result<Data> {
        let Some(data) = self.values.get(&v) else { return refuse(format!("{v} is used before it is defined")) };
        let own = match data {
            Data::Splat(..) => return Ok(data.clone()),
            Data::Tile(t) if t.layout == *layout => return Ok(data.clone()),
            Data::Tile(t) => t.clone(),
        };
        let key = (v, layout.clone());
        if let Some(t) = self.moved.iter().rev().find_map(|m| m.get(&key)) {
            return Ok(Data::Tile(t.clone()));
        }
        let made = if self.is_cheap(v, 0) {
            let ValueDef::Result(inst, _) = self.k.values[v].def else { return refuse("a tile without a definition") };
            let k = self.k;
            match self.value(&k.insts[inst].op, v, layout)? {
                Data::Tile(t) => t,
                splat => return Ok(splat),
            }
        } else {
            self.convert_layout(&own, layout)
        };
        if let Some(scope) = self.moved.last_mut() {
            scope.insert(key, made.clone());
        }
        Ok(Data::Tile(made))
    }

    /// Whether a value costs less to compute again than to move: index arithmetic.
    fn is_cheap(&self, v: Value, depth: u32) -> bool {
        if let Some(Data::Splat(..)) = self.values.get(&v) {
            return true;
        }
        let ValueDef::Result(inst, _) = self.k.values[v].def else { return false };
        if depth > 6 {
            return false;
        }
        match &self.k.insts[inst].op {
            Op::Iota { .. } | Op::Const { .. } => true,
            op @ (Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Cmp { .. }
            | Op::Select { .. }
            | Op::Convert { .. }
            | Op::Broadcast { .. }
            | Op::Repeat { .. }
            | Op::Reshape { .. }) => {
                let mut cheap = !self.k.ty(v).elem.is_float();
                op.for_each_operand(|a| cheap = cheap && self.is_cheap(a, depth + 1));
                cheap
            }
            _ => false,
        }
    }

    fn for_loop(&mut self, bounds: [Value; 3], inits: &[Value], body: Block, results: &[Value]) -> Result<()> {
        let k = self.k;
        let bound_regs = bounds.map(|v| self.scalar(v));
        let params = &k.blocks[body].params;
        let mut tiles = Vec::with_capacity(inits.len());
        for (&init, &param) in inits.iter().zip(&params[1..]) {
            let layout = self.layout_of(param);
            tiles.push(self.tile_in(init, &layout)?);
        }
        self.enter_loop(body);
        let init_regs: Vec<Val> = tiles.iter().flat_map(|t| t.words.iter().copied()).collect();
        let (counter, carried) = self.e.open_loop(&init_regs);
        self.moved.push(HashMap::new());
        self.headers.push(HashMap::new());
        self.values.insert(params[0], Data::Splat(k.ty(params[0]).elem, counter));
        let mut rest = carried.as_slice();
        for (&param, t) in params[1..].iter().zip(&tiles) {
            let (words, after) = rest.split_at(t.words.len());
            rest = after;
            self.values.insert(param, Data::Tile(Tile { words: words.to_vec(), ..t.clone() }));
        }
        let yielded = self.block(body)?;
        let mut next = Vec::with_capacity(init_regs.len());
        for (&v, t) in yielded.iter().zip(&tiles) {
            let made = self.tile_in(v, &t.layout)?;
            let made = self.repacked(made, t.pack);
            next.extend(made.words);
        }
        self.moved.pop();
        self.headers.pop();
        let all: Vec<Val> = std::iter::once(counter).chain(carried).collect();
        let out = self.e.close_loop(bound_regs, init_regs, all, next);
        self.leave_loop();
        let mut rest = out.as_slice();
        for (&v, t) in results.iter().zip(&tiles) {
            let (words, after) = rest.split_at(t.words.len());
            rest = after;
            self.values.insert(v, Data::Tile(Tile { words: words.to_vec(), ..t.clone() }));
        }
        Ok(())
    }

    /// A tile with as many elements a word.
    fn repacked(&mut self, tile: Tile, pack: u32) -> Tile {
        if tile.pack == pack {
            return tile;
        }
        let elements = tile.elements(&mut self.e);
        let words = elements.chunks(pack as usize).map(|c| match c {
            [one] if pack == 1 && matches!(self.e.ty(*one), Ty::B1) => *one,
            c => tile::pack(&mut self.e, tile.elem, c),
        });
        Tile { pack, words: words.collect(), ..tile }
    }

    /// The layout of a scalar.
    fn scalar_layout() -> Layout {
        Layout { axes: Vec::<Axis>::new() }
    }
}
