//! Loads and stores.

use super::{Codegen, Reg, Result, Stop, Tile, not_expanded};
use hrx_ir::tile::{Access, BlockPart, Elem, Extent, Type, Value, View};
use inkwell::AddressSpace;
use inkwell::types::BasicType;
use inkwell::values::{BasicValue, IntValue, PointerValue};

/// Reads of blocks of at least this many bytes are prefetched a group of rows ahead: weights are read once and rows are
/// short, so the processor's own prefetchers see too little of a stream.
const PREFETCHED: u32 = 16;

/// Bytes of a cache line. Where a view's axis but the first has a stride that is an argument, what is read in whole lines
/// lies in pieces far from one another, each too short for the processor's prefetchers to follow it for long: the line of
/// the next piece is asked for.
const LINE: u32 = 64;

/// Where one register of a tile lies in memory.
enum Place<'c> {
    /// Its elements are neighbours from this address on.
    Run(PointerValue<'c>),
    /// Each element has an address of its own.
    Each(Vec<PointerValue<'c>>),
}

/// A cache, by LLVM's measure of how soon what is in it is wanted.
#[derive(Clone, Copy)]
enum Level {
    Second = 2,
    First = 3,
}

impl<'c> Codegen<'c, '_> {
    /// An index along an axis for each place, in units of 64 bits: `scalar + i` or the elements of an index tile.
    fn axis_offsets(&self, index: Value, n: u32, stride: Extent, unit: u64) -> Result<Vec<IntValue<'c>>> {
        let i64t = self.cx.i64_type();
        let bytes = self.b.build_int_mul(self.extent(stride)?, i64t.const_int(unit, false), "")?;
        let scaled = |i: IntValue<'c>| -> Result<IntValue<'c>> {
            let wide = self.b.build_int_s_extend(i, i64t, "")?;
            Ok(self.b.build_int_mul(wide, bytes, "")?)
        };
        if self.k.ty(index).shape.rank() == 0 {
            let first = scaled(self.scalar(index))?;
            (0..n)
                .map(|i| {
                    let step = self.b.build_int_mul(bytes, i64t.const_int(u64::from(i), false), "")?;
                    Ok(self.b.build_int_add(first, step, "")?)
                })
                .collect()
        } else {
            let tile = self.tile(index)[0];
            (0..n).map(|i| scaled(self.extract(tile, i)?.int())).collect()
        }
    }

    /// The place of each register of a tile of type `ty` in a view.
    fn places(&self, view: View, index: &[Value], ty: Type) -> Result<Vec<Place<'c>>> {
        let data = &self.k.views[view];
        let unit = u64::from(data.content.unit_bytes());
        let (last, lead) = index.split_last().ok_or_else(|| Stop::Kernel(format!("{view} has no axis")))?;
        let mut starts = vec![self.base(view)];
        // The scalar part first: rows then differ by constants, which addressing modes absorb.
        for (axis, &i) in lead.iter().enumerate() {
            let offsets = self.axis_offsets(i, ty.shape.dims()[axis], data.strides[axis], unit)?;
            let mut next = Vec::with_capacity(starts.len() * offsets.len());
            for p in &starts {
                for &o in &offsets {
                    next.push(self.byte_index(*p, o)?);
                }
            }
            starts = next;
        }
        let n = ty.shape.last();
        let stride = data.strides[lead.len()];
        if self.k.ty(*last).shape.rank() == 0 && (stride == Extent::Const(1) || n == 1) {
            let first = self.axis_offsets(*last, 1, stride, unit)?[0];
            return starts.into_iter().map(|p| Ok(Place::Run(self.byte_index(p, first)?))).collect();
        }
        let offsets = self.axis_offsets(*last, n, stride, unit)?;
        starts
            .into_iter()
            .map(|p| Ok(Place::Each(offsets.iter().map(|&o| self.byte_index(p, o)).collect::<Result<_>>()?)))
            .collect()
    }

    /// A load of a register from unaligned memory.
    fn load_run(&self, p: PointerValue<'c>, elem: Elem, n: u32) -> Result<Reg<'c>> {
        let v = self.b.build_load(self.lanes(elem, n), p, "")?;
        if let Some(i) = v.as_instruction_value() {
            i.set_alignment(1).map_err(|e| Stop::Llvm(e.to_string()))?;
        }
        Ok(v.into())
    }

    fn store_run(&self, p: PointerValue<'c>, x: Reg<'c>) -> Result<()> {
        let i = self.b.build_store(p, x.value())?;
        i.set_alignment(1).map_err(|e| Stop::Llvm(e.to_string()))?;
        Ok(())
    }

    pub(crate) fn load(&self, view: View, index: &[Value], mask: Option<Value>, ty: Type) -> Result<Tile<'c>> {
        let places = self.places(view, index, ty)?;
        let n = ty.shape.last();
        let masks = mask.map(|m| self.broadcast_mask(m, ty.shape));
        let mut out = Tile::new();
        for (row, place) in places.into_iter().enumerate() {
            let mask = masks.as_ref().map(|m| m[row]);
            out.push(match (place, mask) {
                (Place::Run(p), None) => {
                    self.prefetch_next(view, p, ty)?;
                    self.load_run(p, ty.elem, n)?
                }
                (Place::Run(p), Some(m)) if m.lanes() == 1 => {
                    self.guarded_load(m, ty, n, |g| g.load_run(p, ty.elem, n))?
                }
                (Place::Run(p), Some(m)) => self.masked_load(p, m, ty)?,
                (Place::Each(ps), mask) => {
                    let mut scalars = Vec::with_capacity(ps.len());
                    for (i, p) in ps.into_iter().enumerate() {
                        scalars.push(match mask {
                            None => self.load_run(p, ty.elem, 1)?,
                            Some(m) => {
                                let m = self.extract(m, i as u32)?;
                                self.guarded_load(m, ty, 1, |g| g.load_run(p, ty.elem, 1))?
                            }
                        });
                    }
                    self.gather(&scalars)?
                }
            });
        }
        Ok(out)
    }

    /// A load that happens only where the scalar condition holds, else zero.
    fn guarded_load(
        &self,
        condition: Reg<'c>,
        ty: Type,
        n: u32,
        load: impl Fn(&Self) -> Result<Reg<'c>>,
    ) -> Result<Reg<'c>> {
        let before = self.current_block()?;
        let then = self.cx.append_basic_block(self.function, "masked");
        let after = self.cx.append_basic_block(self.function, "after");
        self.b.build_conditional_branch(condition.int(), then, after)?;
        self.b.position_at_end(then);
        let v = load(self)?;
        self.b.build_unconditional_branch(after)?;
        self.b.position_at_end(after);
        let t = self.lanes(ty.elem, n);
        let phi = self.b.build_phi(t, "")?;
        phi.add_incoming(&[(&t.const_zero(), before), (&v.value(), then)]);
        Ok(phi.as_basic_value().into())
    }

    fn masked_load(&self, p: PointerValue<'c>, mask: Reg<'c>, ty: Type) -> Result<Reg<'c>> {
        let t = self.reg_type(ty);
        let ptr = self.cx.ptr_type(AddressSpace::default());
        self.intrinsic("llvm.masked.load", &[t, ptr.as_basic_type_enum()], &[p.into(), mask, t.const_zero().into()])
    }

    fn current_block(&self) -> Result<inkwell::basic_block::BasicBlock<'c>> {
        self.b.get_insert_block().ok_or_else(|| Stop::Llvm("no block to insert into".into()))
    }

    pub(crate) fn store(&self, view: View, index: &[Value], value: Value, mask: Option<Value>) -> Result<()> {
        let ty = self.k.ty(value);
        let places = self.places(view, index, ty)?;
        let masks = mask.map(|m| self.broadcast_mask(m, ty.shape));
        for (row, (place, x)) in places.into_iter().zip(self.tile(value)).enumerate() {
            let mask = masks.as_ref().map(|m| m[row]);
            match (place, mask) {
                (Place::Run(p), None) => self.store_run(p, x)?,
                (Place::Run(p), Some(m)) if m.lanes() == 1 => self.guarded_store(m, p, x)?,
                (Place::Run(p), Some(m)) => {
                    let ptr = self.cx.ptr_type(AddressSpace::default());
                    self.call_intrinsic("llvm.masked.store", &[x.ty(), ptr.as_basic_type_enum()], &[x, p.into(), m])?;
                }
                (Place::Each(ps), mask) => {
                    for (i, p) in ps.into_iter().enumerate() {
                        let x = self.extract(x, i as u32)?;
                        match mask {
                            None => self.store_run(p, x)?,
                            Some(m) => self.guarded_store(self.extract(m, i as u32)?, p, x)?,
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn guarded_store(&self, condition: Reg<'c>, p: PointerValue<'c>, x: Reg<'c>) -> Result<()> {
        let then = self.cx.append_basic_block(self.function, "masked");
        let after = self.cx.append_basic_block(self.function, "after");
        self.b.build_conditional_branch(condition.int(), then, after)?;
        self.b.position_at_end(then);
        self.store_run(p, x)?;
        self.b.build_unconditional_branch(after)?;
        self.b.position_at_end(after);
        Ok(())
    }

    /// Asks for the cache line of an address that will be read soon. It may lie behind the end of the memory.
    fn prefetch(&self, p: PointerValue<'c>, to: Level) -> Result<()> {
        let i32t = self.cx.i32_type();
        let n = |n: u64| Reg::from(i32t.const_int(n, false));
        let ptr = self.cx.ptr_type(AddressSpace::default());
        self.call_intrinsic("llvm.prefetch", &[ptr.as_basic_type_enum()], &[p.into(), n(0), n(to as u64), n(1)])?;
        Ok(())
    }

    /// Asks for what a load of whole lines will read next, where that is far away.
    fn prefetch_next(&self, view: View, p: PointerValue<'c>, ty: Type) -> Result<()> {
        let data = &self.k.views[view];
        let bytes = ty.shape.last() * ty.elem.bytes();
        let far = data.strides.iter().skip(1).copied().find(|s| matches!(s, Extent::Param(_)));
        let Some(stride) = far.filter(|_| bytes.is_multiple_of(LINE) && data.access == Access::In) else {
            return Ok(());
        };
        let unit = self.cx.i64_type().const_int(u64::from(data.content.unit_bytes()), false);
        let ahead = self.b.build_int_mul(self.extent(stride)?, unit, "")?;
        let p = self.byte_index(p, ahead)?;
        (0..bytes / LINE).try_for_each(|i| {
            let line = self.byte_offset(p, u64::from(i * LINE))?;
            // A piece and the next, of keys and of values, are more than the first cache holds.
            self.prefetch(line, Level::Second)
        })
    }

    /// Raw fields of a block for each of several rows.
    pub(crate) fn load_block(&self, view: View, index: [Value; 2], part: BlockPart, ty: Type) -> Result<Tile<'c>> {
        let BlockPart::Raw(at) = part else {
            return Err(not_expanded("block read"));
        };
        let data = &self.k.views[view];
        let unit = u64::from(data.content.unit_bytes());
        let rows = self.axis_offsets(index[0], ty.shape.dims()[0], data.strides[0], unit)?;
        let block = self.axis_offsets(index[1], 1, data.strides[1], unit)?[0];
        let ahead = match data.strides[0] {
            Extent::Const(blocks) if ty.shape.last() * ty.elem.bytes() >= PREFETCHED => {
                u64::from(ty.shape.dims()[0]) * u64::from(blocks) * unit
            }
            _ => 0,
        };
        rows.into_iter()
            .map(|row| {
                let p = self.byte_index(self.base(view), row)?;
                let p = self.byte_index(p, block)?;
                if ahead > 0 {
                    self.prefetch(self.byte_offset(p, ahead)?, Level::First)?;
                }
                self.load_run(self.byte_offset(p, u64::from(at))?, ty.elem, ty.shape.last())
            })
            .collect()
    }
}
