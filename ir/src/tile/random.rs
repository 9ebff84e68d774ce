//! Random valid kernels, for tests of whatever reads kernels: text form, interpreter, compiler.
//!
//! A kernel is decided by a list of words, so that any source of randomness will do (a proptest vector, which then
//! shrinks, or a fuzzer's input). An empty list gives the simplest kernel. The kernels can be run: accesses are inside
//! their views for any number of rows from 1 on, programs write different places, nothing divides an integer by zero,
//! shifts are in range and `dot4` gets factors that it takes.

use super::builder::Builder;
use super::kernel::{Access, GridExpr, Kernel, Value, View};
use super::op::{BinaryOp, BlockPart, CmpOp, ReduceOp, RunPart, UnaryOp};
use super::types::{Elem, Shape, Type};
use crate::quant::{FORMATS, Format, TABLES};

/// The most elements of a tile.
const TILE: u64 = 1024;

/// The most loops inside one another.
const LOOPS: usize = 2;

/// What random kernels may contain.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Operations whose results may differ between targets: `exp` and `tanh` by some units in the last place, and bitcasts
    /// of floats, which show the sign and payload of a NaN.
    pub approximate: bool,
    /// How many steps the kernel's body has at most.
    pub steps: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { approximate: true, steps: 12 }
    }
}

/// The kernel that these words decide. Parameters: the number of rows `i32`, then views `f32 [rows, C]`,
/// `i8 [rows, C]`, `u8 [rows, C]`, blocks of some format `[rows, 2]`, then outputs `[rows, n]`.
pub fn random_kernel(words: &[u32], options: Options) -> Kernel {
    let mut words = Choices { words };
    let (tile_rows, cols) = (1 << words.below(3), 4 << words.below(4));
    let format = &FORMATS[words.below(FORMATS.len() as u32) as usize];
    let mut b = Builder::new("random");
    b.waves(1 << words.below(5));
    let rows = b.scalar_param(Elem::I32);
    let elems = [Elem::F32, Elem::I8, Elem::U8];
    let inputs = elems.map(|e| b.view_param(e, &[rows.into(), cols.into()], Access::In));
    let blocks = b.quant_param(format, &[rows.into(), 2.into()]);
    b.grid(0, GridExpr::ceil_div(rows, tile_rows));

    // The rows of this program; those past the end are masked, and block loads read the last one instead.
    let (size, one, pid) = (b.index(i64::from(tile_rows)), b.index(1), b.program_id(0));
    let first = b.mul(pid, size);
    let places = b.iota(tile_rows);
    let row = b.add(places, first);
    let column = b.reshape(row, &[tile_rows, 1]);
    let mask = b.cmp(CmpOp::Lt, column, rows);
    let last = b.sub(rows, one);
    let clamped = b.min(row, last);

    let mut g =
        Generator { b, words, options, inputs, blocks, format, row, mask, clamped, tile_rows, cols, pool: vec![] };
    g.load();
    for _ in 0..g.words.below(options.steps + 1) {
        g.step(0);
    }
    for _ in 0..1 + g.words.below(3) {
        g.output(rows);
    }
    g.b.finish()
}

struct Choices<'a> {
    words: &'a [u32],
}

impl Choices<'_> {
    /// A number below `n`; 0 once the words are used up.
    fn below(&mut self, n: u32) -> u32 {
        match self.words.split_first() {
            Some((w, rest)) => {
                self.words = rest;
                w % n
            }
            None => 0,
        }
    }
}

struct Generator<'a> {
    b: Builder,
    words: Choices<'a>,
    options: Options,
    inputs: [View; 3],
    blocks: View,
    format: &'static Format,
    /// The place of each row of a tile, `i32 [R]`.
    row: Value,
    /// Which rows there are, `b1 [R, 1]`.
    mask: Value,
    /// As `row`, but inside the views.
    clamped: Value,
    tile_rows: u32,
    cols: u32,
    /// Tiles of rank 2 that may be used at this point; never empty.
    pool: Vec<Value>,
}

impl Generator<'_> {
    fn elem(&self, v: Value) -> Elem {
        self.b.ty(v).elem
    }

    fn dims(&self, v: Value) -> [u32; 2] {
        match *self.b.ty(v).shape.dims() {
            [r, c] => [r, c],
            _ => [1, 1],
        }
    }

    /// One of the pool that satisfies a condition.
    fn pick(&mut self, ok: impl Fn(Type) -> bool) -> Option<Value> {
        let fit: Vec<Value> = self.pool.iter().copied().filter(|&v| ok(self.b.ty(v))).collect();
        (!fit.is_empty()).then(|| fit[self.words.below(fit.len() as u32) as usize])
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.words.below(list.len() as u32) as usize]
    }

    /// Adds something to the pool if it can: one step of a body inside `depth` loops.
    fn step(&mut self, depth: usize) {
        let made = match self.words.below(16) {
            0 => Some(self.load()),
            1 => self.unary(),
            2 | 3 => self.binary(),
            4 => self.choose(),
            5 => self.convert(),
            6 => self.reduce(),
            7 => self.reshape(),
            8 => self.join(),
            9 => self.product(),
            10 => self.dot4(),
            11 => Some(self.block()),
            12 => self.local(),
            13 => Some(self.run()),
            14 => self.lookup(),
            _ if depth < LOOPS => self.repeat(depth),
            _ => None,
        };
        self.pool.extend(made);
    }

    fn load(&mut self) -> Value {
        let view = self.of(&self.inputs.clone());
        let zero = self.b.index(0);
        let v = self.b.load(view, &[self.row, zero], &[self.tile_rows, self.cols], Some(self.mask));
        if self.pool.is_empty() {
            self.pool.push(v);
        }
        v
    }

    fn block(&mut self) -> Value {
        let chunk = self.words.below(self.format.chunks());
        let part = self.of(&[
            BlockPart::Codes(chunk),
            BlockPart::Values(chunk),
            BlockPart::Scales,
            BlockPart::Offsets,
            BlockPart::Raw(0),
        ]);
        let block = i64::from(self.words.below(2));
        let index = [self.clamped, self.b.index(block)];
        match part {
            BlockPart::Raw(_) => {
                let at = self.words.below(self.format.block_bytes - 3);
                self.b.load_block_raw(self.blocks, index, at, Type::new(Elem::U16, &[self.tile_rows, 2]))
            }
            part => self.b.load_block(self.blocks, index, part, self.tile_rows),
        }
    }

    /// A run of chunks at a static place or one for each program, up to some places behind the row's end.
    fn run(&mut self) -> Value {
        let (part, chunks) = (self.of(RunPart::ALL), 1 << self.words.below(4));
        let multiple = chunks.min(self.format.chunks());
        let places = 2 * self.format.chunks() / multiple + 2;
        let by = self.b.index(i64::from(multiple));
        let chunk = match self.words.below(3) {
            0 => {
                let pid = self.b.program_id(0);
                self.b.mul(pid, by)
            }
            _ => {
                let n = self.words.below(places) * multiple;
                self.b.index(i64::from(n))
            }
        };
        self.b.load_run(self.blocks, [self.clamped, chunk], part, self.tile_rows, chunks)
    }

    fn unary(&mut self) -> Option<Value> {
        let v = self.pick(|t| t.elem != Elem::B1)?;
        let float = self.elem(v) == Elem::F32;
        let ops: &[UnaryOp] = match (float, self.options.approximate) {
            (true, true) => UnaryOp::ALL.split_last()?.1,
            (true, false) => {
                &[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Sqrt, UnaryOp::Rsqrt, UnaryOp::Floor, UnaryOp::Round]
            }
            (false, _) if self.elem(v).is_float() => &[UnaryOp::Neg, UnaryOp::Abs],
            (false, _) => &[UnaryOp::Neg, UnaryOp::Abs, UnaryOp::Not],
        };
        let op = self.of(ops);
        Some(self.b.unary(op, v))
    }

    /// Two operands of one element type that broadcast to a small tile.
    fn pair(&mut self, ok: impl Fn(Elem) -> bool) -> Option<[Value; 2]> {
        let a = self.pick(|t| ok(t.elem))?;
        let ta = self.b.ty(a);
        let fits = |s: Option<Shape>| s.is_some_and(|s| s.elements() <= TILE);
        let c = self.pick(|t| t.elem == ta.elem && fits(t.shape.broadcast(&ta.shape)))?;
        Some([a, c])
    }

    fn binary(&mut self) -> Option<Value> {
        let [a, c] = self.pair(|e| e.is_int() || e == Elem::F32)?;
        let float = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Min, BinaryOp::Max];
        if self.elem(a) == Elem::F32 {
            let op = self.of(&float);
            return Some(self.b.binary(op, a, c));
        }
        let ops: Vec<BinaryOp> = BinaryOp::ALL.iter().copied().filter(|&o| o != BinaryOp::Div).collect();
        let op = self.of(&ops);
        let other = match op {
            BinaryOp::Shl | BinaryOp::Shr => {
                let amount = self.words.below(8 * self.elem(a).bytes());
                self.b.int(i64::from(amount), self.b.ty(a))
            }
            BinaryOp::Rem => {
                let by = 1 + self.words.below(100);
                self.b.int(i64::from(by), self.b.ty(a))
            }
            _ => c,
        };
        Some(self.b.binary(op, a, other))
    }

    fn choose(&mut self) -> Option<Value> {
        let [a, c] = self.pair(|e| e.is_int() || e == Elem::F32)?;
        let op = self.of(CmpOp::ALL);
        let condition = self.b.cmp(op, a, c);
        match self.words.below(3) {
            0 => Some(self.b.select(condition, a, c)),
            1 => Some(self.b.convert(condition, Elem::I32)),
            _ if self.elem(a) == Elem::F32 => Some(self.b.fma(a, c, a)),
            _ => {
                let not = self.b.unary(UnaryOp::Not, condition);
                Some(self.b.select(not, a, c))
            }
        }
    }

    fn convert(&mut self) -> Option<Value> {
        let v = self.pick(|_| true)?;
        let to = self.of(&Elem::ALL[1..]);
        let from = self.elem(v);
        let plain_bits = from != Elem::B1 && (self.options.approximate || !from.is_float());
        Some(match self.words.below(2) {
            0 if plain_bits && from.bytes() == to.bytes() => self.b.bitcast(v, to),
            _ => self.b.convert(v, to),
        })
    }

    fn reduce(&mut self) -> Option<Value> {
        let v = self.pick(|t| matches!(t.elem, Elem::F32 | Elem::I32))?;
        let (op, axis) = (self.of(ReduceOp::ALL), self.words.below(2));
        Some(self.b.reduce(op, v, axis as usize))
    }

    fn reshape(&mut self) -> Option<Value> {
        let v = self.pick(|_| true)?;
        let [r, c] = self.dims(v);
        match self.words.below(4) {
            0 => Some(self.b.transpose(v)),
            n => Some(self.b.reshape(v, &[[c, r], [1, r * c], [r * c, 1]][n as usize - 1])),
        }
    }

    /// Concatenation, slice, or repetition.
    fn join(&mut self) -> Option<Value> {
        let v = self.pick(|t| 2 * t.shape.elements() <= TILE)?;
        let (axis, [r, c]) = (self.words.below(2) as usize, self.dims(v));
        let ty = self.b.ty(v);
        match self.words.below(3) {
            0 => {
                let other = self.pick(|t| t == ty)?;
                Some(self.b.concat(v, other, axis))
            }
            1 => {
                let extent = [r, c][axis];
                let start = self.words.below(extent);
                let len = 1 + self.words.below(extent - start);
                Some(self.b.slice(v, axis, start, len))
            }
            _ => Some(self.b.repeat(v, 2)),
        }
    }

    /// Entries of a table at the low bits of bytes.
    fn lookup(&mut self) -> Option<Value> {
        let table = self.of(TABLES);
        let v = self.pick(|t| t.elem == Elem::U8 && t.shape.elements() * u64::from(table.width) <= TILE)?;
        let most = table.entries().min(256) - 1;
        let most = self.b.int(i64::from(most), self.b.ty(v));
        let mut index = self.b.binary(BinaryOp::And, v, most);
        if table.entries() > 256 {
            let two = self.b.convert(index, Elem::U16);
            let more = self.b.int(i64::from(table.entries() / 256 - 1) << 8, self.b.ty(two));
            let high = self.b.int(i64::from(self.words.below(8)) << 8, self.b.ty(two));
            let high = self.b.binary(BinaryOp::And, high, more);
            index = self.b.binary(BinaryOp::Or, two, high);
        }
        Some(self.b.lookup(table, index))
    }

    fn product(&mut self) -> Option<Value> {
        let a = self.pick(|t| t.elem == Elem::F32 && t.shape.elements() <= TILE / 4)?;
        let [m, k] = self.dims(a);
        let c = self.pick(|t| t.elem == Elem::F32 && t.shape.elements().is_multiple_of(u64::from(k)))?;
        let n = (self.b.ty(c).shape.elements() / u64::from(k)) as u32;
        if u64::from(m) * u64::from(n) > TILE {
            return None;
        }
        let c = self.b.reshape(c, &[k, n]);
        let zero = self.b.float(0.0, &[m, n]);
        Some(self.b.dot(a, c, zero))
    }

    fn dot4(&mut self) -> Option<Value> {
        let by_four = |t: Type| t.shape.last().is_multiple_of(4);
        let a = self.pick(|t| matches!(t.elem, Elem::I8 | Elem::U8) && by_four(t))?;
        let ta = self.b.ty(a);
        let c = self.pick(|t| t.elem == Elem::I8 && t.shape == ta.shape)?;
        let least = self.b.int(-127, ta.with_elem(Elem::I8));
        let c = self.b.max(c, least);
        let [r, n] = self.dims(a);
        let zero = self.b.int(0, Type::new(Elem::I32, &[r, n / 4]));
        Some(self.b.dot4(a, c, zero))
    }

    /// A tile through local memory.
    fn local(&mut self) -> Option<Value> {
        let v = self.pick(|t| t.elem != Elem::B1 && t.shape.elements() <= 256)?;
        let dims = self.dims(v);
        let pad = 8 * self.words.below(3);
        let view = self.b.local_padded(self.elem(v), &dims, pad);
        let zero = self.b.index(0);
        self.b.store(view, &[zero, zero], v, None);
        Some(self.b.load(view, &[zero, zero], &dims, None))
    }

    fn repeat(&mut self, depth: usize) -> Option<Value> {
        let carried = [self.pick(|_| true)?, self.pick(|_| true)?];
        let inits = &carried[..1 + self.words.below(2) as usize];
        let (upper, step) = (self.words.below(4), 1 + self.words.below(2));
        let bounds = [0, upper, step].map(|n| self.b.index(i64::from(n)));
        let outside = self.pool.len();
        let results = self.for_loop(bounds, inits, depth);
        self.pool.truncate(outside);
        self.pool.extend(&results[1..]);
        results.first().copied()
    }

    fn for_loop(&mut self, bounds: [Value; 3], inits: &[Value], depth: usize) -> Vec<Value> {
        // The builder is lent to the loop's body by value, as the generator owns it.
        let mut b = std::mem::replace(&mut self.b, Builder::new(""));
        let results = b.for_loop(bounds, inits, |b, counter, params| {
            std::mem::swap(b, &mut self.b);
            let counter = self.b.broadcast(counter, Shape::new(&[1, 1]));
            self.pool.push(counter);
            self.pool.extend(params);
            for _ in 0..1 + self.words.below(3) {
                self.step(depth + 1);
            }
            let types: Vec<Type> = params.iter().map(|&p| self.b.ty(p)).collect();
            let next = types.into_iter().zip(params).map(|(ty, &p)| self.pick(|t| t == ty).unwrap_or(p)).collect();
            std::mem::swap(b, &mut self.b);
            next
        });
        self.b = b;
        results
    }

    /// Stores one of the last values: as whole tile in one row a program, or row by row under the mask.
    fn output(&mut self, rows: Value) {
        let from_end = self.words.below(self.pool.len().min(4) as u32) as usize;
        let v = self.pool[self.pool.len() - 1 - from_end];
        let v = if self.elem(v) == Elem::B1 { self.b.convert(v, Elem::U8) } else { v };
        let ([r, c], zero) = (self.dims(v), self.b.index(0));
        let by_rows = r == self.tile_rows && self.words.below(2) == 0;
        let n = if by_rows { c } else { r * c };
        let view = self.b.view_param(self.elem(v), &[rows.into(), n.into()], Access::Out);
        if by_rows {
            self.b.store(view, &[self.row, zero], v, Some(self.mask));
        } else {
            let (flat, pid) = (self.b.reshape(v, &[1, n]), self.b.program_id(0));
            self.b.store(view, &[pid, zero], flat, None);
        }
    }
}
