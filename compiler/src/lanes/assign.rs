//! Layout assignment: in which layout each value of a kernel is made.
//!
//! Some operations say where their results are: matrix products, and reads of quantised blocks, in which each lane takes
//! bytes that lie together. From those, layouts go forward through operations that only rename registers or work element
//! by element, and then backward to operands that have none yet: a plain load can be made in any layout. What is left
//! gets the layout of a coalesced access, from its store or its load.

use super::blocks::block_words;
use super::build::{quadrupled, repeated_from};
use super::facts::Facts;
use super::fragments::product;
use super::layout::{Axis, Layout, Place};
use cranelift_entity::SecondaryMap;
use hrx_ir::quant::{CHUNK, Format};
use hrx_ir::tile::{Block, BlockPart, Content, Inst, Kernel, Op, RunPart, Shape, Type, Value, ValueDef, View};

/// The layout of each value; none for scalars and for what is the same in all elements.
pub(super) type Layouts = SecondaryMap<Value, Option<Layout>>;

/// Bytes that one lane reads at once.
const WIDEST: u32 = 16;

/// log2 of the codes of a block that one lane has at most, however few bytes they are in.
const OWN_BITS: u32 = 5;

/// How many operations behind a load are looked at for what it is taken apart by.
const DEEPEST: u32 = 4;

/// The most neighbours that one lane is to have for that.
const MOST_APART: u32 = 32;

struct Assigner<'k> {
    k: &'k Kernel,
    chip: Facts,
    layouts: Layouts,
    changed: bool,
    /// Runs of fewer elements wait for what follows from the larger ones.
    fewest: u64,
}

/// Assigns layouts to a kernel's values.
pub(super) fn layouts(k: &Kernel, chip: Facts) -> Layouts {
    let mut a = Assigner { k, chip, layouts: SecondaryMap::new(), changed: false, fewest: 0 };
    // What matrix products and blocks need, and what follows from it, before anything is given by default: first of the
    // codes of blocks, then of their scales, so that what is done with both is done where the codes are.
    for fewest in a.sizes_of_runs(k.body) {
        a.fewest = fewest;
        a.propagate();
    }
    // Then the largest tile chooses, and what follows from that is settled before the next one does.
    let mut choices = a.choices(k.body);
    choices.sort_by_key(|c| std::cmp::Reverse(c.1));
    for (v, _) in choices {
        if a.layouts[v].is_none() {
            let layout = a.blocked(k.ty(v), a.taken_apart(v, 0));
            a.give(v, Some(layout));
            a.propagate();
        }
    }
    // What has no layout yet follows from nothing but itself.
    a.until_settled(|a| {
        a.forward(k.body, true);
        a.backward(k.body);
    });
    a.layouts
}

impl Assigner<'_> {
    fn until_settled(&mut self, mut step: impl FnMut(&mut Self)) {
        loop {
            self.changed = false;
            step(self);
            if !self.changed {
                return;
            }
        }
    }

    /// Carries layouts forward and backward until nothing changes.
    fn propagate(&mut self) {
        let body = self.k.body;
        self.until_settled(|a| {
            a.forward(body, false);
            a.backward(body);
        });
    }

    /// How many elements runs of blocks have: each number once, the largest first, and 0.
    fn sizes_of_runs(&self, block: Block) -> Vec<u64> {
        let k = self.k;
        let mut out = vec![0];
        for &inst in &k.blocks[block].insts {
            match &k.insts[inst].op {
                Op::LoadRun { .. } | Op::LoadBlock { .. } => {
                    out.extend(k.insts[inst].results.first().map(|&v| self.shape(v).elements()));
                }
                Op::For { body, .. } => out.extend(self.sizes_of_runs(*body)),
                _ => {}
            }
        }
        out.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
        out.dedup();
        out
    }

    /// The values whose layout is a choice, with their sizes: what is loaded, and what is stored.
    fn choices(&self, block: Block) -> Vec<(Value, u64)> {
        let k = self.k;
        let mut out = Vec::new();
        for &inst in &k.blocks[block].insts {
            match &k.insts[inst].op {
                Op::Load { .. } => out.extend(k.insts[inst].results.first().map(|&v| (v, self.shape(v).elements()))),
                Op::Store { value, .. } if !self.is_splat(*value) => out.push((*value, self.shape(*value).elements())),
                Op::For { body, .. } => out.extend(self.choices(*body)),
                _ => {}
            }
        }
        out.retain(|&(v, _)| self.shape(v).rank() > 0);
        out
    }

    fn shape(&self, v: Value) -> Shape {
        self.k.ty(v).shape
    }

    fn give(&mut self, v: Value, layout: Option<Layout>) {
        let Some(layout) = layout else { return };
        if self.layouts[v].is_none() && self.shape(v).rank() > 0 {
            debug_assert_eq!(layout.shape(), self.shape(v));
            self.layouts[v] = Some(layout);
            self.changed = true;
        }
    }

    fn get(&self, v: Value) -> Option<Layout> {
        self.layouts[v].clone()
    }

    /// Layouts of results from those of operands; with `defaults` loads choose for themselves.
    fn forward(&mut self, block: Block, defaults: bool) {
        let k = self.k;
        for &inst in &k.blocks[block].insts {
            let data = &k.insts[inst];
            if let Op::For { inits, body, .. } = &data.op {
                self.through_loop(inst, inits, *body);
                self.forward(*body, defaults);
                self.through_loop(inst, inits, *body);
                continue;
            }
            let Some(&v) = data.results.first() else { continue };
            if self.layouts[v].is_some() || self.shape(v).rank() == 0 {
                continue;
            }
            let layout =
                self.result(&data.op, v).or_else(|| if defaults { self.default_of(&data.op, v) } else { None });
            self.give(v, layout);
        }
    }

    /// What a loop carries has one layout: inside, before and behind it.
    fn through_loop(&mut self, inst: Inst, inits: &[Value], body: Block) {
        let k = self.k;
        let data = &k.blocks[body];
        let yields = match data.insts.last().map(|&i| &k.insts[i].op) {
            Some(Op::Yield { args }) => args.clone(),
            _ => return,
        };
        for (i, &init) in inits.iter().enumerate() {
            let (param, result, next) = (data.params[i + 1], k.insts[inst].results[i], yields[i]);
            let first = [param, result, next, init].iter().find_map(|&v| self.get(v));
            self.give(param, first.clone());
            self.give(result, first);
        }
    }

    /// The layout of a result that follows from the operation or from its operands'.
    fn result(&self, op: &Op, v: Value) -> Option<Layout> {
        let ty = self.k.ty(v);
        match op {
            Op::Mma { args: [a, b, _] } => Some(product(self.chip, self.k.waves, self.k.ty(*a), self.k.ty(*b)).c),
            Op::LoadRun { .. } | Op::LoadBlock { .. } if ty.shape.elements() < self.fewest => None,
            Op::LoadRun { view, part, .. } => self.run(*view, *part, ty),
            Op::LoadBlock { view, part, .. } => {
                let part = match part {
                    BlockPart::Codes(_) => RunPart::Codes,
                    BlockPart::Values(_) => RunPart::Values,
                    BlockPart::Scales => RunPart::Scales,
                    BlockPart::Offsets => RunPart::Offsets,
                    _ => return None,
                };
                self.run(*view, part, ty)
            }
            Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Cmp { .. }
            | Op::Select { .. }
            | Op::Fma { .. }
            | Op::Convert { .. }
            | Op::Bitcast { .. } => {
                let mut best: Option<Layout> = None;
                op.for_each_operand(|a| {
                    if best.is_none() && self.shape(a).rank() > 0 {
                        best = self.get(a);
                    }
                });
                best
            }
            Op::Dot { args } => self.get(args[2]),
            Op::Dot4 { args: [a, b, c] } => self.get(*c).or_else(|| {
                let l = self.get(*a).or_else(|| self.get(*b))?;
                let last = l.axes.len() - 1;
                let axis = &l.axes[last];
                (axis.low_registers() >= 2)
                    .then(|| l.with_axis(last, Axis { hi: axis.hi, bits: axis.bits[2..].to_vec() }))
            }),
            Op::Reshape { arg, shape } => self.get(*arg)?.reshaped(shape),
            Op::Transpose { arg } => Some(self.get(*arg)?.transposed()),
            Op::Reduce { arg, axis, .. } => Some(self.get(*arg)?.without_axis(usize::from(*axis))),
            Op::Slice { arg, axis, start, len } => {
                let l = self.get(*arg)?;
                let axis = usize::from(*axis);
                let granule = 1u32 << (l.axes[axis].extent() | start | len).trailing_zeros();
                part(&l.axes[axis], *len, granule).map(|a| l.with_axis(axis, a))
            }
            Op::Concat { args, axis } => {
                let axis = usize::from(*axis);
                let extents = args.map(|a| self.shape(a).dims()[axis]);
                let l = self.get(args[0]).or_else(|| self.get(args[1]))?;
                let granule = 1u32 << (extents[0] | extents[1]).trailing_zeros();
                part(&l.axes[axis], extents[0] + extents[1], granule).map(|a| l.with_axis(axis, a))
            }
            Op::Repeat { arg, .. } | Op::Lookup { arg, .. } => {
                let times = copies(op);
                let l = self.get(*arg)?;
                let last = l.axes.len() - 1;
                let n = Axis::bits_of(times);
                let mut axis = Axis::registers(self.shape(v).dims()[last]);
                if times >> n != 1 {
                    return l.axes[last].bits.iter().all(|p| *p == Place::Reg).then(|| l.with_axis(last, axis));
                }
                let m = l.axes[last].bits.len();
                axis.bits[n..n + m].copy_from_slice(&l.axes[last].bits);
                Some(l.with_axis(last, axis))
            }
            _ => None,
        }
    }

    /// The layout that a load or an operation without a laid-out operand chooses.
    fn default_of(&self, op: &Op, v: Value) -> Option<Layout> {
        let ty = self.k.ty(v);
        match op {
            Op::Load { .. } | Op::Iota { .. } => Some(self.blocked(ty, 1)),
            Op::Broadcast { arg, .. } => {
                // What is repeated is repeated in registers.
                let from = self.get(*arg)?;
                let axes = from.axes.iter().zip(ty.shape.dims());
                Some(Layout {
                    axes: axes.map(|(a, &d)| if a.extent() == d { a.clone() } else { Axis::registers(d) }).collect(),
                })
            }
            Op::Const { .. } => None,
            // Where the operands' layouts can't be kept: as a coalesced access has them.
            Op::Reshape { arg, .. } | Op::Slice { arg, .. } | Op::Repeat { arg, .. } | Op::Lookup { arg, .. } => {
                self.get(*arg).map(|_| self.blocked(ty, 1))
            }
            Op::Concat { args, .. } => self.get(args[0]).or_else(|| self.get(args[1])).map(|_| self.blocked(ty, 1)),
            Op::Dot { .. } | Op::Dot4 { .. } => Some(self.blocked(ty, 1)),
            _ => None,
        }
    }

    /// How many neighbours of a value's last axis later operations take apart one by one: they are to be one lane's, or
    /// all of them move between lanes.
    fn taken_apart(&self, v: Value, depth: u32) -> u32 {
        let last = self.shape(v).last();
        if depth > DEEPEST || self.shape(v).rank() == 0 {
            return 1;
        }
        let apart = if last.is_power_of_two() && last <= MOST_APART { last } else { 1 };
        let mut most = 1;
        for data in self.k.insts.values() {
            let mut used = false;
            data.op.for_each_operand(|a| used |= a == v);
            let Some(&result) = data.results.first().filter(|_| used) else { continue };
            most = most.max(match &data.op {
                Op::Slice { axis, len: 1, .. } if usize::from(*axis) + 1 == self.shape(v).rank() => apart,
                Op::Reshape { .. } if self.shape(result).last() <= last => self.taken_apart(result, depth + 1),
                Op::Unary { .. } | Op::Binary { .. } | Op::Convert { .. } | Op::Bitcast { .. } => {
                    self.taken_apart(result, depth + 1)
                }
                _ => 1,
            });
        }
        most
    }

    /// The layout of a coalesced access in which lanes have at least so many neighbours.
    fn blocked(&self, ty: Type, neighbours: u32) -> Layout {
        let lanes = self.chip.wave.trailing_zeros() as u8;
        let waves = self.k.waves.trailing_zeros() as u8;
        // Wide accesses, but not at the cost of idle lanes.
        let spread = ty.shape.elements().div_ceil(u64::from(self.chip.wave * self.k.waves)).next_power_of_two();
        let vector = u64::from(WIDEST / ty.elem.bytes()).min(spread.max(1)).max(neighbours.into());
        Layout::blocked(&ty.shape, vector as u32, lanes, waves)
    }

    /// Layouts of operands from those of results.
    fn backward(&mut self, block: Block) {
        let k = self.k;
        for &inst in k.blocks[block].insts.iter().rev() {
            let data = &k.insts[inst];
            match &data.op {
                Op::For { inits, body, .. } => {
                    self.through_loop(inst, inits, *body);
                    if let Some(Op::Yield { args }) = k.blocks[*body].insts.last().map(|&i| &k.insts[i].op) {
                        for (&next, &param) in args.iter().zip(&k.blocks[*body].params[1..]) {
                            let l = self.get(param);
                            self.give(next, l);
                        }
                    }
                    self.backward(*body);
                    for (&init, &param) in inits.iter().zip(&k.blocks[*body].params[1..]) {
                        let l = self.get(param);
                        self.give(init, l);
                    }
                }
                Op::Mma { args: [a, b, c] } => {
                    let p = product(self.chip, k.waves, k.ty(*a), k.ty(*b));
                    self.give(*a, Some(p.a));
                    self.give(*b, Some(p.b));
                    self.give(*c, Some(p.c));
                }
                op => {
                    if let Some(layout) = data.results.first().and_then(|&v| self.get(v)) {
                        self.operands(op, &layout);
                    }
                }
            }
        }
    }

    /// Whether all elements of a value are equal, whatever its layout.
    fn is_splat(&self, v: Value) -> bool {
        match self.k.values[v].def {
            ValueDef::Result(inst, _) => match &self.k.insts[inst].op {
                Op::Const { .. } => true,
                Op::Broadcast { arg, .. } => self.shape(*arg).rank() == 0 || self.is_splat(*arg),
                _ => false,
            },
            _ => false,
        }
    }

    fn operands(&mut self, op: &Op, layout: &Layout) {
        match op {
            Op::Unary { .. }
            | Op::Binary { .. }
            | Op::Cmp { .. }
            | Op::Select { .. }
            | Op::Fma { .. }
            | Op::Convert { .. }
            | Op::Bitcast { .. } => {
                let mut args = Vec::new();
                op.for_each_operand(|a| args.push(a));
                args.into_iter().for_each(|a| self.give(a, Some(layout.clone())));
            }
            Op::Broadcast { arg, .. } => {
                let from = self.shape(*arg);
                if from.rank() > 0 {
                    let axes = layout.axes.iter().zip(from.dims());
                    let l = Layout {
                        axes: axes.map(|(a, &d)| if d == 1 { Axis::registers(1) } else { a.clone() }).collect(),
                    };
                    self.give(*arg, Some(l));
                }
            }
            Op::Reshape { arg, .. } => {
                let from = self.shape(*arg);
                if from.rank() > 0 {
                    self.give(*arg, layout.reshaped(&from));
                }
            }
            Op::Transpose { arg } => self.give(*arg, Some(layout.transposed())),
            Op::Slice { arg, axis, start, len } => {
                let axis = usize::from(*axis);
                let extent = self.shape(*arg).dims()[axis];
                let granule = 1u32 << (extent | start | len).trailing_zeros();
                let l = part(&layout.axes[axis], extent, granule).map(|a| layout.with_axis(axis, a));
                self.give(*arg, l);
            }
            Op::Concat { args, axis } => {
                let axis = usize::from(*axis);
                let extents = args.map(|a| self.shape(a).dims()[axis]);
                let granule = 1u32 << (extents[0] | extents[1]).trailing_zeros();
                for (&a, extent) in args.iter().zip(extents) {
                    let l = part(&layout.axes[axis], extent, granule).map(|p| layout.with_axis(axis, p));
                    self.give(a, l);
                }
            }
            Op::Repeat { arg, .. } | Op::Lookup { arg, .. } => self.give(*arg, repeated_from(layout, copies(op))),
            Op::Dot4 { args: [a, b, c] } => {
                self.give(*a, Some(quadrupled(layout)));
                self.give(*b, Some(quadrupled(layout)));
                self.give(*c, Some(layout.clone()));
            }
            Op::Dot { args: [a, b, c] } => {
                let k = self.shape(*a).dims()[1];
                self.give(*a, Some(layout.with_axis(1, Axis::registers(k))));
                self.give(*b, Some(layout.with_axis(0, Axis::registers(k))));
                self.give(*c, Some(layout.clone()));
            }
            _ => {}
        }
    }

    /// The layout of a run of a quantised view: each lane has up to 16 bytes that lie together and all codes in them.
    fn run(&self, view: View, part: RunPart, ty: Type) -> Option<Layout> {
        let Content::Quant(f) = self.k.views[view].content else { return None };
        let group_bits = f.group.trailing_zeros() as usize;
        let skip = match part {
            RunPart::Codes | RunPart::Values => 0,
            RunPart::Scales | RunPart::Offsets => group_bits,
        };
        let elements = ty.shape.last() << skip;
        let codes = self.codes_axis(f, elements)?;
        let rows = ty.shape.dims()[0];
        let lanes = self.chip.wave.trailing_zeros() as u8;
        let used = codes.bits.iter().filter(|p| matches!(p, Place::Lane(_))).count() as u8;
        let used_waves = codes.bits.iter().filter(|p| matches!(p, Place::Wave(_))).count();
        let row_bits = Axis::bits_of(rows);
        let waves = self.k.waves.trailing_zeros() as usize - used_waves;
        let of_lanes = usize::from(lanes - used).min(row_bits.saturating_sub(waves.min(row_bits)));
        let of_waves = waves.min(row_bits - of_lanes);
        let mut row_axis = Axis::registers(rows);
        for (i, place) in row_axis.bits.iter_mut().enumerate() {
            if i < of_lanes {
                *place = Place::Lane(used + i as u8);
            } else if row_bits - i <= of_waves {
                *place = Place::Wave((used_waves + of_waves - (row_bits - i)) as u8);
            }
        }
        let last = Axis { hi: 1, bits: codes.bits[skip..].to_vec() };
        Some(Layout { axes: vec![row_axis, last] })
    }

    /// The places of the bits of an element's number in a run: what lanes don't hold goes to waves.
    fn codes_axis(&self, f: &Format, elements: u32) -> Option<Axis> {
        let words = block_words(f)?;
        // The first number is the address of what is read first.
        let at = words.numbers.first()?;
        let lanes = self.chip.wave.trailing_zeros() as u8;
        let waves = self.k.waves.trailing_zeros() as u8;
        let block_bits = f.block.trailing_zeros() as usize;
        let mut axis = Axis::registers(elements);
        let (mut lane, mut wave, mut own) = (0, 0, 2);
        for (i, place) in axis.bits.iter_mut().enumerate().skip(2) {
            let near = i < block_bits && at[1 << (i - 2)].wrapping_sub(at[0]) < WIDEST && own < OWN_BITS;
            if !near && lane < lanes {
                *place = Place::Lane(lane);
                lane += 1;
            } else if !near && wave < waves {
                *place = Place::Wave(wave);
                wave += 1;
            } else {
                own += 1;
            }
        }
        debug_assert!(CHUNK <= elements);
        Some(axis)
    }
}

/// How many elements each one of a repetition's or lookup's operand becomes.
fn copies(op: &Op) -> u32 {
    match op {
        Op::Repeat { times, .. } => *times,
        Op::Lookup { table, .. } => table.width,
        _ => 1,
    }
}

/// A part of an axis (or the whole for a part): the bits of the granule keep their places, the others are registers. None
/// where a bit above the granule is not a register's.
fn part(axis: &Axis, extent: u32, granule: u32) -> Option<Axis> {
    let low = Axis::bits_of(granule).min(axis.bits.len());
    if axis.bits[low..].iter().any(|p| *p != Place::Reg) {
        return None;
    }
    let mut out = Axis::registers(extent);
    out.bits[..low].copy_from_slice(&axis.bits[..low]);
    Some(out)
}
