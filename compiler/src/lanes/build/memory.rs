//! Loads and stores: views in device memory and in LDS.
//!
//! The offset of an element has three parts: what all lanes share (scalar indices times strides), what follows from the
//! lane and the wave, and a constant for each register. Neighbours that follow one another in registers go together in
//! accesses of up to 16 bytes.

use super::tile::{Data, Tile, element_type, natural_pack};
use super::{Builder, Result, refuse};
use crate::lanes::ir::{Address, Bin, Space, Ty, Un, Val};
use crate::lanes::layout::{Axis, Layout, Place};
use hrx_ir::tile::{Access, Elem, Extent, Shape, Type, Value, View};

/// The most bytes of one access.
const WIDEST: u32 = 16;

/// Alignment beyond which nothing changes.
const ALIGNED: u32 = 64;

/// The largest power of two that divides a number, up to [`ALIGNED`].
pub(super) fn power_of_two(n: u32) -> u32 {
    1 << n.trailing_zeros().min(ALIGNED.trailing_zeros())
}

/// The byte offsets of a tile's registers.
pub(super) struct Offsets {
    pub(super) uniform: Val,
    /// A power of two that divides the parts that are not constants.
    align: u32,
    /// For each register its lane part and its constant part.
    pub(super) registers: Vec<(Val, u32)>,
}

impl Builder<'_> {
    /// A stride in bytes: a constant, or a register that all lanes share.
    fn stride(&mut self, stride: Extent, unit: u32) -> (Option<u32>, Val) {
        match stride {
            Extent::Const(n) => {
                let bytes = n.wrapping_mul(unit);
                (Some(bytes), self.e.int(i64::from(bytes)))
            }
            Extent::Param(v) => {
                let n = self.scalar(v);
                let bytes = self.e.times(n, unit);
                (None, bytes)
            }
        }
    }

    /// What lane and wave add to an index along an axis, times a stride.
    fn lane_part(&mut self, axis: &Axis, stride: (Option<u32>, Val)) -> Val {
        let steps = |by: u32| -> Vec<(Place, u32)> {
            axis.bits.iter().enumerate().map(|(i, &p)| (p, by.wrapping_shl(i as u32))).collect()
        };
        match stride {
            (Some(bytes), _) => self.e.lane_sum(&steps(bytes)),
            (None, bytes) => {
                let index = self.e.lane_sum(&steps(1));
                self.e.bin(Bin::Mul, index, bytes)
            }
        }
    }

    /// The offsets of a tile's registers in a view whose units have `unit` bytes.
    pub(super) fn offsets(
        &mut self,
        strides: &[Extent],
        unit: u32,
        index: &[Value],
        layout: &Layout,
    ) -> Result<Offsets> {
        let mut uniform = self.e.int(0);
        let mut lane = self.e.int(0);
        let mut align = ALIGNED;
        // Of each axis what each of its registers adds: a register or a constant.
        let mut parts: Vec<Vec<(Option<Val>, u32)>> = Vec::new();
        for (axis, &i) in index.iter().enumerate() {
            let of_axis = Layout { axes: vec![layout.axes[axis].clone()] };
            let stride = self.stride(strides[axis], unit);
            let step = stride.0.map_or(1, power_of_two);
            if self.k.ty(i).shape.rank() == 0 {
                let first = self.scalar(i);
                align = align.min(step.saturating_mul(power_of_two(self.multiple_of(i))));
                let lanes = layout.axes[axis].bits.iter().position(|p| *p != Place::Reg);
                align = lanes.map_or(align, |bit| align.min(step.saturating_mul(1 << bit.min(16))));
                let moved = match stride {
                    (Some(bytes), _) => self.e.times(first, bytes),
                    (None, bytes) => self.e.bin(Bin::Mul, first, bytes),
                };
                uniform = self.e.add(uniform, moved);
                let part = self.lane_part(&layout.axes[axis], stride);
                lane = self.e.add(lane, part);
                let coords = of_axis.coords();
                let mut registers = Vec::with_capacity(coords.len());
                for c in coords {
                    registers.push(match stride {
                        (Some(bytes), _) => (None, c[0].wrapping_mul(bytes)),
                        (None, _) if c[0] == 0 => (None, 0),
                        (None, bytes) => {
                            let at = self.e.times(bytes, c[0]);
                            (Some(at), 0)
                        }
                    });
                }
                parts.push(registers);
            } else {
                align = align.min(step);
                let tile = self.tile_in(i, &of_axis)?;
                let elements = tile.elements(&mut self.e);
                let mut registers = Vec::with_capacity(elements.len());
                for v in elements {
                    let at = match stride {
                        (Some(bytes), _) => self.e.times(v, bytes),
                        (None, bytes) => self.e.bin(Bin::Mul, v, bytes),
                    };
                    registers.push((Some(at), 0));
                }
                parts.push(registers);
            }
        }
        let mut registers = vec![(lane, 0u32)];
        for part in parts {
            let mut next = Vec::with_capacity(registers.len() * part.len());
            for &(lane, imm) in &registers {
                for &(v, c) in &part {
                    let lane = match v {
                        Some(v) => self.e.add(lane, v),
                        None => lane,
                    };
                    next.push((lane, imm.wrapping_add(c)));
                }
            }
            registers = next;
        }
        Ok(Offsets { uniform, align, registers })
    }

    /// Those offsets in parts: what all lanes share, and of each register its lane part and constant part.
    pub(super) fn offset_parts(
        &mut self,
        strides: &[Extent],
        unit: u32,
        index: &[Value],
        layout: &Layout,
    ) -> Result<(Val, Vec<(Val, u32)>)> {
        let o = self.offsets(strides, unit, index, layout)?;
        Ok((o.uniform, o.registers))
    }

    /// How many neighbours of the last axis one access takes.
    fn run(&self, layout: &Layout, elem: Elem, last_stride: Extent, last_is_scalar: bool) -> u32 {
        if last_stride != Extent::Const(1) || !last_is_scalar {
            return 1;
        }
        layout.vector().min(WIDEST / elem.bytes())
    }

    fn memory(&self, view: View) -> (Space, u32) {
        match self.k.views[view].access {
            Access::Local => (Space::Lds, self.locals[&view]),
            _ => (Space::Global(view), 0),
        }
    }

    pub(super) fn load(
        &mut self,
        view: View,
        index: &[Value],
        mask: Option<Value>,
        ty: Type,
        layout: &Layout,
    ) -> Result<Data> {
        let data = &self.k.views[view];
        let (space, base) = self.memory(view);
        let strides = data.strides.clone();
        let scalar_last = index.last().is_none_or(|&i| self.k.ty(i).shape.rank() == 0);
        let run = self.run(layout, ty.elem, *strides.last().unwrap_or(&Extent::Const(1)), scalar_last);
        let (run, masks) = self.masked_run(run, mask, ty.shape, layout)?;
        if space == Space::Lds {
            self.before_load(view, index, &ty.shape);
            if let (None, Some(tile)) = (mask, self.load_matrices(view, index, ty.elem, layout, false)?) {
                return Ok(Data::Tile(tile));
            }
        }
        let offsets = self.offsets(&strides, ty.elem.bytes(), index, layout)?;
        let mut words = Vec::new();
        for (i, group) in offsets.registers.chunks(run as usize).enumerate() {
            let (lane, imm) = group[0];
            let imm = imm.wrapping_add(base);
            let align = offsets.align.min(power_of_two(imm));
            let at = Address { space, uniform: offsets.uniform, lane, imm, align };
            let mask = masks.as_ref().map(|m| m[i * run as usize]);
            words.extend(self.e.load(at, run * ty.elem.bytes(), mask));
        }
        Ok(Data::Tile(self.loaded(ty.elem, layout.clone(), run, words)))
    }

    /// The tile of loaded words, each of which has as many elements as fit or as the run had.
    pub(super) fn loaded(&mut self, elem: Elem, layout: Layout, run: u32, words: Vec<Val>) -> Tile {
        let words = match element_type(elem) {
            Ty::F32 if elem == Elem::F32 => words.iter().map(|&w| self.e.un(Un::Float, w)).collect(),
            _ => words,
        };
        let pack = run.min(natural_pack(elem));
        let tile = Tile { elem, layout, pack, words };
        let want = natural_pack(elem).min(tile.layout.vector());
        if pack == want {
            return tile;
        }
        let all: Vec<usize> = (0..tile.layout.registers_len() as usize).collect();
        let layout = tile.layout.clone();
        tile.renamed(&mut self.e, layout, &all)
    }

    /// The predicate of each register.
    fn masks(&mut self, mask: Option<Value>, shape: Shape, layout: &Layout) -> Result<Option<Vec<Val>>> {
        let Some(mask) = mask else { return Ok(None) };
        let from = self.k.ty(mask).shape;
        let of = if from.rank() == 0 {
            Layout { axes: vec![] }
        } else {
            let axes = (0..shape.rank()).map(|a| match from.dims()[a] {
                1 => Axis::registers(1),
                _ => layout.axes[a].clone(),
            });
            Layout { axes: axes.collect() }
        };
        let tile = self.tile_in(mask, &of)?;
        let coords = layout.coords();
        let registers = coords.iter().map(|c| {
            let c: Vec<u32> =
                c.iter().zip(&tile.layout.axes).map(|(&i, a)| if a.extent() == 1 { 0 } else { i }).collect();
            tile.words[tile.layout.register_of(&c)]
        });
        Ok(Some(registers.collect()))
    }

    /// How many registers an access moves of at most `run`, with their predicates: neighbours with predicates of their own
    /// go alone.
    fn masked_run(
        &mut self,
        mut run: u32,
        mask: Option<Value>,
        shape: Shape,
        layout: &Layout,
    ) -> Result<(u32, Option<Vec<Val>>)> {
        let masks = self.masks(mask, shape, layout)?;
        if let Some(m) = &masks {
            while run > 1 && !m.chunks(run as usize).all(|c| c.iter().all(|v| *v == c[0])) {
                run /= 2;
            }
        }
        Ok((run, masks))
    }

    pub(super) fn store(&mut self, view: View, index: &[Value], value: Value, mask: Option<Value>) -> Result<()> {
        let ty = self.k.ty(value);
        let layout = self.layout_of(value);
        let tile = self.tile_in(value, &layout)?;
        let (space, base) = self.memory(view);
        let strides = self.k.views[view].strides.clone();
        let scalar_last = index.last().is_none_or(|&i| self.k.ty(i).shape.rank() == 0);
        let run = self.run(&layout, ty.elem, *strides.last().unwrap_or(&Extent::Const(1)), scalar_last);
        let (run, masks) = self.masked_run(run, mask, ty.shape, &layout)?;
        // Of lanes that hold the same one stores; in LDS of waves only, where it costs less to let lanes store together.
        let (lanes, waves) = self.replicas(&layout);
        let alone = self.e.all_clear(if space == Space::Lds { 0 } else { lanes }, waves);
        if space == Space::Lds {
            self.before_store(view, index, &ty.shape);
        }
        let offsets = self.offsets(&strides, ty.elem.bytes(), index, &layout)?;
        for (i, group) in offsets.registers.chunks(run as usize).enumerate() {
            let (lane, imm) = group[0];
            let imm = imm.wrapping_add(base);
            let align = offsets.align.min(power_of_two(imm));
            let at = Address { space, uniform: offsets.uniform, lane, imm, align };
            let mask = match (masks.as_ref().map(|m| m[i * run as usize]), alone) {
                (Some(m), Some(a)) => Some(self.e.bin(Bin::And, m, a)),
                (m, a) => m.or(a),
            };
            let values = self.words_of(&tile, i * run as usize, run);
            self.e.store(at, run * ty.elem.bytes(), values, mask);
        }
        Ok(())
    }

    /// Lane and wave bits that a layout does not use: in lanes and waves where one of them is set nothing new is.
    fn replicas(&self, layout: &Layout) -> (u32, u32) {
        let lanes = (self.facts.wave - 1) & !layout.lanes();
        let waves = (self.k.waves - 1) & !layout.waves();
        (lanes, waves)
    }

    /// `n` consecutive registers' elements as words to store.
    fn words_of(&mut self, tile: &Tile, first: usize, n: u32) -> Vec<Val> {
        let pack = tile.pack as usize;
        let whole = first.is_multiple_of(pack) && (n as usize).is_multiple_of(pack);
        let words: Vec<Val> = if whole {
            tile.words[first / pack..(first + n as usize) / pack].to_vec()
        } else {
            vec![{
                let sub = (first % pack) as u32 * 8 * tile.elem.bytes();
                self.e.shr(tile.words[first / pack], sub)
            }]
        };
        // Single narrow elements that should share words.
        let natural = natural_pack(tile.elem).min(n) as usize;
        let words = if pack < natural {
            let layout = Layout { axes: vec![Axis::registers(n)] };
            let part = Tile { elem: tile.elem, layout: layout.clone(), pack: tile.pack, words };
            part.renamed(&mut self.e, layout, &(0..n as usize).collect::<Vec<_>>()).words
        } else {
            words
        };
        words.into_iter().map(|w| if self.e.ty(w) == Ty::F32 { self.e.un(Un::Bits, w) } else { w }).collect()
    }

    /// Stores a tile in LDS with byte strides.
    pub(super) fn lds_store(&mut self, tile: &Tile, base: u32, strides: &[u32]) {
        let (lane, imms, run, align) = self.lds_places(tile.elem, &tile.layout, strides);
        let (_, waves) = self.replicas(&tile.layout);
        let mask = self.e.all_clear(0, waves);
        for (i, &imm) in imms.iter().enumerate().step_by(run as usize) {
            let values = self.words_of(tile, i, run);
            let at = self.e.lds(lane, base + imm, align.min(power_of_two(base + imm)));
            self.e.store(at, run * tile.elem.bytes(), values, mask);
        }
    }

    /// Loads a tile from LDS with byte strides.
    pub(super) fn lds_load(&mut self, elem: Elem, layout: &Layout, base: u32, strides: &[u32]) -> Tile {
        let (lane, imms, run, align) = self.lds_places(elem, layout, strides);
        let mut words = Vec::new();
        for &imm in imms.iter().step_by(run as usize) {
            let at = self.e.lds(lane, base + imm, align.min(power_of_two(base + imm)));
            words.extend(self.e.load(at, run * elem.bytes(), None));
        }
        self.loaded(elem, layout.clone(), run, words)
    }

    fn lds_places(&mut self, elem: Elem, layout: &Layout, strides: &[u32]) -> (Val, Vec<u32>, u32, u32) {
        let steps: Vec<(Place, u32)> = layout.places().map(|(a, b, p)| (p, strides[a] << b)).collect();
        let lane = self.e.lane_sum(&steps);
        let imms = layout.coords().iter().map(|c| c.iter().zip(strides).map(|(i, s)| i * s).sum()).collect();
        let align = steps.iter().filter(|s| s.0 != Place::Reg).map(|s| power_of_two(s.1)).min().unwrap_or(ALIGNED);
        (lane, imms, layout.vector().min(WIDEST / elem.bytes()), align)
    }

    /// Room in LDS for moving a tile between lanes.
    pub(super) fn scratch(&mut self, bytes: u64) -> u32 {
        self.scratch_bytes = self.scratch_bytes.max(bytes);
        self.scratch_base
    }

    pub(super) fn view_content(&self, view: View) -> Result<&'static hrx_ir::quant::Format> {
        match self.k.views[view].content {
            hrx_ir::tile::Content::Quant(f) => Ok(f),
            hrx_ir::tile::Content::Elem(_) => refuse(format!("{view} holds no quantised blocks")),
        }
    }
}
