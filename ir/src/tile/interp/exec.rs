//! Executes the instructions of one program after another.

use super::super::kernel::{Block, Content, Inst, Kernel, Value, View};
use super::super::op::{BlockPart, Literal, Op, RunPart};
use super::super::types::{Elem, Shape, Type};
use super::access::{Bound, Bus, Places};
use super::arith::{self, Tile};
use super::bits::{float_bits, int_bits, round_float, wrap};
use super::fault::FaultKind;
use super::memory::le_bits;
use super::{Precision, shape};
use crate::quant::{Bytes, CHUNK, Format};
use cranelift_entity::SecondaryMap;

/// The state of a run.
pub(super) struct Machine<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) views: &'a SecondaryMap<View, Option<Bound>>,
    pub(super) precision: Precision,
    pub(super) bus: Bus<'a>,
    pub(super) env: SecondaryMap<Value, Option<Tile>>,
    pub(super) fuel: u64,
    pub(super) executed: u64,
    /// The instruction being executed.
    pub(super) at: Option<Inst>,
}

/// Applies an expression to a tile's elements, whatever their kind.
macro_rules! each_kind {
    ($tile:expr, $data:ident => $body:expr) => {
        match $tile {
            Tile::Float($data) => Tile::floats($body),
            Tile::Int($data) => Tile::ints($body),
        }
    };
}

impl<'a> Machine<'a> {
    fn tile(&self, v: Value) -> Result<&Tile, FaultKind> {
        self.env[v].as_ref().ok_or_else(|| FaultKind::malformed(format!("{v} is used before it is defined")))
    }

    fn tiles<const N: usize>(&self, args: &[Value; N]) -> Result<[&Tile; N], FaultKind> {
        for v in args {
            self.tile(*v)?;
        }
        // Each was just found.
        Ok(args.map(|v| self.env[v].as_ref().expect("defined")))
    }

    fn ints(&self, v: Value) -> Result<&[i64], FaultKind> {
        match self.tile(v)? {
            Tile::Int(d) => Ok(d),
            Tile::Float(_) => Err(FaultKind::malformed(format!("{v} is no integer"))),
        }
    }

    fn scalar(&self, v: Value) -> Result<i64, FaultKind> {
        self.ints(v)?.first().copied().ok_or_else(|| FaultKind::malformed(format!("{v} is empty")))
    }

    /// Counts one step.
    pub(super) fn step(&mut self) -> Result<(), FaultKind> {
        if self.executed >= self.fuel {
            return Err(FaultKind::Fuel(self.fuel));
        }
        self.executed += 1;
        Ok(())
    }

    /// Executes a block; returns what it yields.
    pub(super) fn block(&mut self, block: Block) -> Result<Vec<Tile>, FaultKind> {
        let kernel = self.kernel;
        for &inst in &kernel.blocks[block].insts {
            self.at = Some(inst);
            self.step()?;
            let data = &kernel.insts[inst];
            let results = match &data.op {
                Op::Yield { args } => return args.iter().map(|&v| self.tile(v).cloned()).collect(),
                Op::For { bounds, inits, body } => self.for_loop(bounds, inits, *body)?,
                op => self.op(op)?.into_iter().collect(),
            };
            for (&v, tile) in data.results.iter().zip(results) {
                self.env[v] = Some(tile);
            }
        }
        Ok(Vec::new())
    }

    fn for_loop(&mut self, bounds: &[Value; 3], inits: &[Value], body: Block) -> Result<Vec<Tile>, FaultKind> {
        let [mut i, upper, step] = [self.scalar(bounds[0])?, self.scalar(bounds[1])?, self.scalar(bounds[2])?];
        if step <= 0 {
            return Err(FaultKind::LoopStep(step));
        }
        let mut carried = inits.iter().map(|&v| self.tile(v).cloned()).collect::<Result<Vec<_>, _>>()?;
        let params = &self.kernel.blocks[body].params;
        while i < upper {
            let values = std::iter::once(Tile::ints(vec![i])).chain(carried);
            for (&p, tile) in params.iter().zip(values) {
                self.env[p] = Some(tile);
            }
            carried = self.block(body)?;
            i += step;
        }
        Ok(carried)
    }

    fn op(&mut self, op: &Op) -> Result<Option<Tile>, FaultKind> {
        let (kernel, precision) = (self.kernel, self.precision);
        let ty = |v: &Value| kernel.ty(*v);
        let tile = match op {
            Op::Const { value, ty } => constant(*value, *ty),
            Op::Iota { ty } => Tile::ints((0..i64::from(ty.shape.last())).map(|n| wrap(ty.elem, n)).collect()),
            Op::Unary { op, arg } => arith::unary(*op, ty(arg).elem, self.tile(*arg)?, precision)?,
            Op::Binary { op, args } => arith::binary(*op, ty(&args[0]).elem, self.tiles(args)?, precision)?,
            Op::Cmp { op, args } => arith::cmp(*op, self.tiles(args)?)?,
            Op::Select { args } => arith::select(self.tiles(args)?)?,
            Op::Fma { args } => arith::fma(self.tiles(args)?, precision)?,
            Op::Convert { arg, to } => arith::convert(self.tile(*arg)?, *to),
            Op::Bitcast { arg, to } => arith::bitcast(self.tile(*arg)?, ty(arg).elem, *to),
            Op::Broadcast { arg, shape } => {
                let from = ty(arg).shape;
                each_kind!(self.tile(*arg)?, d => shape::broadcast(d, &from, shape))
            }
            Op::Reshape { arg, .. } => self.tile(*arg)?.clone(),
            Op::Concat { args, axis } => {
                let (shapes, axis) = ([&ty(&args[0]).shape, &ty(&args[1]).shape], usize::from(*axis));
                match self.tiles(args)? {
                    [Tile::Float(a), Tile::Float(b)] => Tile::floats(shape::concat(a, b, shapes, axis)),
                    [Tile::Int(a), Tile::Int(b)] => Tile::ints(shape::concat(a, b, shapes, axis)),
                    _ => return Err(FaultKind::malformed("concat of tiles of different types")),
                }
            }
            Op::Slice { arg, axis, start, len } => {
                let from = ty(arg).shape;
                each_kind!(self.tile(*arg)?, d => shape::slice(d, &from, usize::from(*axis), *start, *len))
            }
            Op::Transpose { arg } => {
                let from = ty(arg).shape;
                each_kind!(self.tile(*arg)?, d => shape::transpose(d, &from))
            }
            Op::Lookup { table, arg } => Tile::ints(shape::lookup(self.ints(*arg)?, table)?),
            Op::Repeat { arg, times } => each_kind!(self.tile(*arg)?, d => shape::repeat(d, *times)),
            Op::Reduce { op, arg, axis } => {
                let Type { elem, shape } = ty(arg);
                arith::reduce(*op, elem, self.tile(*arg)?, &shape, usize::from(*axis), precision)
            }
            Op::Dot { args } => {
                let extent = |axis| ty(&args[1]).shape.dims().get(axis).map_or(1, |&n: &u32| n as usize);
                arith::dot(self.tiles(args)?, [extent(0), extent(1)], precision)?
            }
            Op::Dot4 { args } => arith::dot4(self.tiles(args)?)?,
            Op::Mma { args } => arith::mma(self.tiles(args)?, ty(&args[0]).shape.last() as usize, precision)?,
            Op::Load { view, index, mask, shape } => self.load(*view, index, *mask, shape)?,
            Op::Store { view, index, value, mask } => {
                self.store(*view, index, *value, *mask)?;
                return Ok(None);
            }
            Op::LoadBlock { view, index, part, ty } => self.load_block(*view, index, *part, *ty)?,
            Op::LoadRun { view, index, part, ty } => self.load_run(*view, *index, *part, *ty)?,
            Op::For { .. } | Op::Yield { .. } => return Err(FaultKind::malformed("control flow as a plain operation")),
        };
        Ok(Some(tile))
    }

    /// The places that indices address: a scalar is the first of consecutive ones.
    fn places(&self, view: View, index: &[Value], shape: &Shape) -> Result<Places<'a>, FaultKind> {
        let bound = self.views[view].as_ref();
        let bound = bound.ok_or_else(|| FaultKind::malformed(format!("{view} is neither a parameter nor local")))?;
        let axes = index.iter().zip(shape.dims()).map(|(&v, &n)| {
            let places = self.ints(v)?;
            Ok(match places {
                [first] => (0..i64::from(n)).map(|i| first + i).collect(),
                _ => places.to_vec(),
            })
        });
        let places = Places { view, bound, axes: axes.collect::<Result<_, FaultKind>>()? };
        match places.covers(shape) {
            true => Ok(places),
            false => Err(FaultKind::malformed(format!("the indices of {view} do not make a tile of {shape}"))),
        }
    }

    fn mask(&self, mask: Option<Value>, shape: &Shape) -> Result<Option<Vec<i64>>, FaultKind> {
        let Some(v) = mask else { return Ok(None) };
        Ok(Some(shape::broadcast(self.ints(v)?, &self.kernel.ty(v).shape, shape)))
    }

    fn elem(&self, view: View) -> Result<Elem, FaultKind> {
        match self.kernel.views[view].content {
            Content::Elem(e) => Ok(e),
            Content::Quant(_) => Err(FaultKind::malformed(format!("{view} holds blocks"))),
        }
    }

    fn load(&mut self, view: View, index: &[Value], mask: Option<Value>, shape: &Shape) -> Result<Tile, FaultKind> {
        let elem = self.elem(view)?;
        if !self.kernel.views[view].access.reads() {
            return Err(FaultKind::malformed(format!("{view} is loaded from but is write-only")));
        }
        let (places, mask) = (self.places(view, index, shape)?, self.mask(mask, shape)?);
        // The bits of a masked element, all 0, are 0 in every type.
        let mut bits = vec![0; shape.elements() as usize];
        self.bus.load(&places, mask.as_deref(), |element, bytes| bits[element] = le_bits(bytes))?;
        Ok(arith::from_bits(&bits, elem))
    }

    fn store(&mut self, view: View, index: &[Value], value: Value, mask: Option<Value>) -> Result<(), FaultKind> {
        let (elem, shape) = (self.elem(view)?, self.kernel.ty(value).shape);
        if !self.kernel.views[view].access.writes() {
            return Err(FaultKind::malformed(format!("{view} is stored to but is read-only")));
        }
        let (places, mask) = (self.places(view, index, &shape)?, self.mask(mask, &shape)?);
        let tile = self.tile(value)?.clone();
        if tile.len() as u64 != shape.elements() {
            return Err(FaultKind::malformed(format!("{value} does not have its type's size")));
        }
        match tile {
            Tile::Float(d) => self.bus.store(&places, mask.as_deref(), |i| float_bits(elem, d[i])),
            Tile::Int(d) => self.bus.store(&places, mask.as_deref(), |i| int_bits(elem, d[i])),
        }
    }

    fn load_block(&mut self, view: View, index: &[Value; 2], part: BlockPart, ty: Type) -> Result<Tile, FaultKind> {
        let Content::Quant(format) = self.kernel.views[view].content else {
            return Err(FaultKind::malformed(format!("{view} holds no blocks")));
        };
        let rows = ty.shape.dims().first().copied().unwrap_or(1);
        let places = self.places(view, index, &Shape::new(&[rows, 1]))?;
        if let BlockPart::Raw(at) = part {
            let (at, size) = (at as usize, ty.elem.bytes() as usize);
            let end = at + ty.shape.last() as usize * size;
            let mut bits = Vec::with_capacity(ty.shape.elements() as usize);
            self.bus.load(&places, None, |_, b| bits.extend(b[at..end].chunks_exact(size).map(le_bits)))?;
            return Ok(arith::from_bits(&bits, ty.elem));
        }
        if let BlockPart::Codes(chunk) = part {
            let mut codes = Vec::new();
            self.bus
                .load(&places, None, |_, b| codes.extend(format.code_values(b, chunk).into_iter().map(i64::from)))?;
            return Ok(Tile::ints(codes));
        }
        if let Some((bytes, signed)) = block_bytes(format, part) {
            let value = |b: u8| if signed { i64::from(b as i8) } else { i64::from(b) };
            let mut values = Vec::new();
            self.bus.load(&places, None, |_, b| values.extend(bytes.eval(b).into_iter().map(value)))?;
            return Ok(Tile::ints(values));
        }
        let mut values = Vec::new();
        self.bus.load(&places, None, |_, b| values.extend(block_floats(format, part, b).into_iter().map(f64::from)))?;
        Ok(Tile::floats(values))
    }

    fn load_run(&mut self, view: View, [row, chunk]: [Value; 2], part: RunPart, ty: Type) -> Result<Tile, FaultKind> {
        let Content::Quant(format) = self.kernel.views[view].content else {
            return Err(FaultKind::malformed(format!("{view} holds no blocks")));
        };
        let (rows, width) = (ty.shape.dims().first().copied().unwrap_or(1), ty.shape.last() as usize);
        let each = part.of_chunk(format).1 as usize;
        let (count, per_block) = ((width / each) as i64, i64::from(format.chunks()));
        let (first, multiple) = (self.scalar(chunk)?, count.min(per_block).max(1));
        if first < 0 || first % multiple != 0 {
            return Err(FaultKind::RunStart { chunk: first, multiple });
        }
        let mut places = self.places(view, &[row, chunk], &Shape::new(&[rows, 1]))?;
        let extents = &places.bound.dims;
        // Blocks behind the row's end are not touched; the row must be one all the same.
        if extents[1] == 0 {
            let index = vec![places.axes[0].first().copied().unwrap_or(0), 0];
            return Err(FaultKind::OutOfBounds { view, index, axis: 1, extent: 0 });
        }
        let blocks = first / per_block..((first + count + per_block - 1) / per_block).min(extents[1]);
        if let Some(&outside) = places.axes[0].iter().find(|&&r| !(0..extents[0]).contains(&r)) {
            let index = vec![outside, blocks.start];
            return Err(FaultKind::OutOfBounds { view, index, axis: 0, extent: extents[0] });
        }
        let in_row = (blocks.end - blocks.start).max(0) as usize;
        places.axes[1] = blocks.clone().collect();
        let mut out = vec![0.0f32; rows as usize * width];
        self.bus.load(&places, None, |element, bytes| {
            let (row, block) = (element / in_row, blocks.start + (element % in_row) as i64);
            let chunks = first.max(block * per_block)..(first + count).min((block + 1) * per_block);
            let numbers = block_numbers(format, part, bytes);
            let from = (chunks.start - block * per_block) as usize * each;
            let to = row * width + (chunks.start - first) as usize * each;
            let n = (chunks.end - chunks.start) as usize * each;
            out[to..to + n].copy_from_slice(&numbers[from..from + n]);
        })?;
        Ok(match part {
            RunPart::Codes => Tile::ints(out.into_iter().map(|x| x as i64).collect()),
            _ => Tile::floats(out.into_iter().map(f64::from).collect()),
        })
    }
}

/// All numbers of a part of one block, in order. Codes are small, so `f32` holds them exactly.
fn block_numbers(format: &Format, part: RunPart, block: &[u8]) -> Vec<f32> {
    match part {
        RunPart::Codes => (0..format.chunks()).flat_map(|c| format.code_values(block, c)).map(|c| c as f32).collect(),
        RunPart::Scales => block_floats(format, BlockPart::Scales, block),
        RunPart::Offsets => block_floats(format, BlockPart::Offsets, block),
        RunPart::Values => {
            let mut all = vec![0.0; format.block as usize];
            format.dequantize_row(block, &mut all);
            all
        }
    }
}

/// The parts of a block that are floats. They are `f32` by definition, so both precisions round them.
fn block_floats(format: &Format, part: BlockPart, block: &[u8]) -> Vec<f32> {
    match part {
        BlockPart::Scales => format.scale_values(block),
        BlockPart::Offsets => {
            let pairs = format.scale_values(block).into_iter().zip(format.min_values(block));
            pairs.map(|(scale, min)| format.offset(scale, min)).collect()
        }
        BlockPart::Values(chunk) => {
            let mut all = vec![0.0; format.block as usize];
            format.dequantize_row(block, &mut all);
            let from = (chunk * CHUNK) as usize;
            all[from..from + CHUNK as usize].to_vec()
        }
        _ => Vec::new(),
    }
}

/// The parts of a block that are bytes as the format's description has them, and whether these are signed.
fn block_bytes(format: &Format, part: BlockPart) -> Option<(Bytes, bool)> {
    match part {
        BlockPart::Indices(chunk) => Some((format.indices(chunk)?.0, false)),
        BlockPart::Factors => format.factors(false),
        BlockPart::MinFactors => format.factors(true),
        _ => None,
    }
}

fn constant(value: Literal, ty: Type) -> Tile {
    let n = ty.shape.elements() as usize;
    match value {
        Literal::Int(i) => Tile::ints(vec![wrap(ty.elem, i); n]),
        Literal::Float(x) => Tile::floats(vec![round_float(ty.elem, x); n]),
    }
}
