//! Operations that move elements: registers get other names wherever the layout allows it.

use super::tile::{Data, Tile};
use super::{Builder, Result, refuse};
use crate::lanes::layout::{Axis, Layout, Place};
use hrx_ir::quant::Table;
use hrx_ir::tile::{Elem, Value};

impl Builder<'_> {
    pub(super) fn broadcast(&mut self, arg: Value, layout: &Layout) -> Result<Data> {
        let from = self.k.ty(arg).shape;
        if from.rank() == 0 {
            return match self.data_in(arg, &Builder::scalar_layout())? {
                Data::Tile(t) => Ok(Data::Splat(t.elem, t.element(&mut self.e, 0))),
                splat => Ok(splat),
            };
        }
        let axes = layout.axes.iter().zip(from.dims());
        let narrow = Layout { axes: axes.map(|(a, &d)| if d == 1 { Axis::registers(1) } else { a.clone() }).collect() };
        let t = match self.data_in(arg, &narrow)? {
            Data::Tile(t) => t,
            splat => return Ok(splat),
        };
        let registers: Vec<usize> = layout
            .coords()
            .iter()
            .map(|c| {
                let c: Vec<u32> = c.iter().zip(from.dims()).map(|(&i, &d)| if d == 1 { 0 } else { i }).collect();
                t.layout.register_of(&c)
            })
            .collect();
        Ok(Data::Tile(t.renamed(&mut self.e, layout.clone(), &registers)))
    }

    pub(super) fn reshape(&mut self, arg: Value, layout: &Layout) -> Result<Data> {
        let from = self.k.ty(arg).shape;
        if from.rank() == 0 || layout.axes.is_empty() {
            // A scalar and a tile of one element.
            let of = Layout::registers(&from);
            return match self.data_in(arg, &of)? {
                Data::Tile(t) => {
                    let v = t.element(&mut self.e, 0);
                    Ok(Data::Splat(t.elem, v))
                }
                splat => Ok(splat),
            };
        }
        if let Some(back) = layout.reshaped(&from) {
            return Ok(match self.data_in(arg, &back)? {
                Data::Tile(t) => Data::Tile(t.relabelled(layout.clone())),
                splat => splat,
            });
        }
        let own = self.layout_of(arg);
        let t = match self.data_in(arg, &own)? {
            Data::Tile(t) => t,
            splat => return Ok(splat),
        };
        if let Some(own) = own.reshaped(&layout.shape()) {
            let t = t.relabelled(own);
            return Ok(Data::Tile(self.convert_layout(&t, layout)));
        }
        Ok(Data::Tile(self.convert_through_lds(&t, layout)))
    }

    /// Registers under other names; words of elements that are no neighbours any more are made anew.
    pub(super) fn transpose(&mut self, arg: Value, layout: &Layout) -> Result<Data> {
        let t = match self.data_in(arg, &layout.transposed())? {
            Data::Tile(t) => t,
            splat => return Ok(splat),
        };
        let rank = layout.axes.len();
        let place = |c: &Vec<u32>| {
            let mut c = c.clone();
            c.swap(rank - 2, rank - 1);
            t.layout.register_of(&c)
        };
        let registers: Vec<usize> = layout.coords().iter().map(place).collect();
        Ok(Data::Tile(t.renamed(&mut self.e, layout.clone(), &registers)))
    }

    /// A layout of a part of an axis in which the parts' register bits are the whole's: the low bits that both have keep
    /// their places, the others are registers. None where a bit of the whole above them is not a register's.
    fn part_axis(whole: &Axis, extent: u32, granule: u32) -> Option<Axis> {
        let low = Axis::bits_of(granule).min(whole.bits.len());
        if whole.bits[low..].iter().any(|p| *p != Place::Reg) {
            return None;
        }
        let mut part = Axis::registers(extent);
        part.bits[..low].copy_from_slice(&whole.bits[..low]);
        Some(part)
    }

    pub(super) fn concat(&mut self, args: [Value; 2], axis: usize, layout: &Layout) -> Result<Data> {
        let extents = args.map(|a| self.k.ty(a).shape.dims()[axis]);
        let granule = extents.iter().fold(0, |g, &n| g | n);
        let granule = 1 << granule.trailing_zeros();
        let mut tiles = Vec::new();
        let mut own = layout.clone();
        // In a layout that cuts through the parts, the whole is made in another one first.
        if Builder::part_axis(&layout.axes[axis], extents[0], granule).is_none() {
            let n = Axis::bits_of(granule).min(own.axes[axis].bits.len());
            own.axes[axis].bits[n..].fill(Place::Reg);
        }
        for (&arg, extent) in args.iter().zip(extents) {
            let Some(part) = Builder::part_axis(&own.axes[axis], extent, granule) else {
                return refuse("a concat of parts that no layout has together");
            };
            tiles.push(self.tile_in(arg, &own.with_axis(axis, part))?);
        }
        let registers: Vec<(usize, usize)> = own
            .coords()
            .iter()
            .map(|c| {
                let mut c = c.clone();
                let which = usize::from(c[axis] >= extents[0]);
                c[axis] -= if which == 1 { extents[0] } else { 0 };
                (which, tiles[which].layout.register_of(&c))
            })
            .collect();
        let [a, b] = [&tiles[0], &tiles[1]];
        let whole = self.gathered(&[a, b], own.clone(), &registers);
        Ok(Data::Tile(if own == *layout { whole } else { self.convert_layout(&whole, layout) }))
    }

    pub(super) fn slice(&mut self, arg: Value, axis: usize, start: u32, layout: &Layout) -> Result<Data> {
        let from = self.k.ty(arg).shape;
        let (extent, len) = (from.dims()[axis], layout.axes[axis].extent());
        let granule = 1u32 << (extent | start | len).trailing_zeros();
        // The part's layout with bits above the granule in registers, then the whole's that has them so.
        let mut part = layout.clone();
        let n = Axis::bits_of(granule).min(part.axes[axis].bits.len());
        part.axes[axis].bits[n..].fill(Place::Reg);
        let mut whole = Axis::registers(extent);
        whole.bits[..n].copy_from_slice(&part.axes[axis].bits[..n]);
        let t = match self.data_in(arg, &part.with_axis(axis, whole))? {
            Data::Tile(t) => t,
            splat => return Ok(splat),
        };
        let registers: Vec<usize> = part
            .coords()
            .iter()
            .map(|c| {
                let mut c = c.clone();
                c[axis] += start;
                t.layout.register_of(&c)
            })
            .collect();
        let out = t.renamed(&mut self.e, part.clone(), &registers);
        Ok(Data::Tile(if part == *layout { out } else { self.convert_layout(&out, layout) }))
    }

    pub(super) fn repeat(&mut self, arg: Value, times: u32, layout: &Layout) -> Result<Data> {
        let from = self.k.ty(arg).shape;
        let last = from.rank() - 1;
        // With the repetitions as an axis of their own it is a broadcast; bits of lanes below them must not be cut.
        let source = match repeated_from(layout, times) {
            Some(l) => l,
            None => layout.with_axis(last, Axis::registers(from.dims()[last])),
        };
        let t = match self.data_in(arg, &source)? {
            Data::Tile(t) => t,
            splat => return Ok(splat),
        };
        let wide = match repeated_from(layout, times) {
            Some(_) => layout.clone(),
            None => layout.with_axis(last, Axis::registers(from.dims()[last] * times)),
        };
        let registers: Vec<usize> = wide
            .coords()
            .iter()
            .map(|c| {
                let mut c = c.clone();
                c[last] /= times;
                t.layout.register_of(&c)
            })
            .collect();
        let out = t.renamed(&mut self.e, wide.clone(), &registers);
        Ok(Data::Tile(if wide == *layout { out } else { self.convert_layout(&out, layout) }))
    }
}

impl Builder<'_> {
    /// Entries of a table, in a layout in which a lane has all bytes of a word.
    pub(super) fn lookup(&mut self, table: &'static Table, arg: Value, layout: &Layout) -> Result<Data> {
        let last = layout.axes.len() - 1;
        let width = table.width;
        if table.width == 1 && table.entries() != 16 {
            return refuse(format!("entries of table {} are bytes, and not 16 of them", table.name));
        }
        let wide = layout.axes[last].low_registers() >= width.trailing_zeros();
        let source = match repeated_from(layout, width) {
            Some(source) if wide => source,
            _ => {
                let own = layout.with_axis(last, Axis::registers(layout.axes[last].extent()));
                let t = self.lookup(table, arg, &own)?;
                return Ok(match t {
                    Data::Tile(t) => Data::Tile(self.convert_layout(&t, layout)),
                    splat => splat,
                });
            }
        };
        let indices = self.tile_in(arg, &source)?;
        let most = table.entries() - 1;
        if width == 1 {
            if indices.pack == 4 {
                let words = indices.words.iter().map(|&w| self.e.lookup(table, w)).collect();
                return Ok(Data::Tile(Tile { elem: Elem::U8, words, ..indices }));
            }
            let mut elements = indices.elements(&mut self.e);
            for v in &mut elements {
                let entry = self.e.lookup(table, *v);
                *v = self.e.and(entry, 0xFF);
            }
            return Ok(Data::Tile(Tile::from_elements(&mut self.e, Elem::U8, layout.clone(), &elements)));
        }
        let mut words = Vec::new();
        for c in layout.coords().iter().step_by(4) {
            let mut place = c.clone();
            place[last] /= width;
            let index = indices.element(&mut self.e, source.register_of(&place));
            let index = self.e.and(index, most);
            let first = self.e.times(index, width / 4);
            words.push(self.e.table(table, first, width / 4)[(c[last] % width / 4) as usize]);
        }
        Ok(Data::Tile(Tile { elem: Elem::U8, layout: layout.clone(), pack: 4, words }))
    }
}

/// The layout of what is repeated, for the layout of the result; none where a repetition of an odd number is cut by lanes.
pub(in crate::lanes) fn repeated_from(layout: &Layout, times: u32) -> Option<Layout> {
    let last = layout.axes.len() - 1;
    let axis = &layout.axes[last];
    let n = Axis::bits_of(times);
    let odd = times >> n;
    let extent = axis.extent() / times;
    if n > axis.bits.len() {
        return None;
    }
    if odd != 1 && axis.bits.iter().any(|p| *p != Place::Reg) {
        return None;
    }
    let mut out = Axis::registers(extent);
    if odd == 1 {
        let m = out.bits.len();
        out.bits.copy_from_slice(&axis.bits[n..n + m]);
    }
    Some(layout.with_axis(last, out))
}
