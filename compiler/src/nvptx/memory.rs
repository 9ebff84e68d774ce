//! Accesses to views.

use super::Nvptx;
use crate::lanes::ir::{Address, Val};
use crate::simt::{Codegen, Result, said};
use hrx_ir::tile::{Access, View};
use inkwell::values::{BasicValue, BasicValueEnum, IntValue, PointerValue};

/// The widest access.
const WIDEST: u32 = 16;

impl<'c> Codegen<'c, '_, Nvptx> {
    /// The offset of an access from the view's address; sums of offsets wrap.
    fn offset(&self, at: &Address) -> Result<IntValue<'c>> {
        let lane = self.add(self.int(at.lane)?, self.word(at.imm))?;
        self.add(self.int(at.uniform)?, lane)
    }

    fn place(&self, view: View, offset: IntValue<'c>) -> Result<PointerValue<'c>> {
        let offset = self.b.build_int_z_extend(offset, self.cx.i64_type(), "").map_err(said)?;
        self.byte_index(self.views[&view].0, offset)
    }

    /// A load at an offset that is aligned so; of a view that nobody writes meanwhile by the way that caches keep.
    fn load_at(&self, view: View, offset: IntValue<'c>, bytes: u32, align: u32) -> Result<BasicValueEnum<'c>> {
        self.load_place(view, self.place(view, offset)?, bytes, align)
    }

    fn load_place(&self, view: View, place: PointerValue<'c>, bytes: u32, align: u32) -> Result<BasicValueEnum<'c>> {
        let v = self.load_from(place, bytes, align)?;
        let constant = match self.isa.begins_early {
            true => self.is_weight(view),
            false => self.k.views[view].access == Access::In,
        };
        if let (true, Some(i)) = (constant, v.as_instruction_value()) {
            let kind = self.cx.get_kind_id("invariant.load");
            i.set_metadata(self.cx.metadata_node(&[]), kind).map_err(|e| e.to_string())?;
        }
        Ok(v)
    }

    pub(super) fn load_view(
        &self,
        view: View,
        at: &Address,
        bytes: u32,
        mask: Option<Val>,
    ) -> Result<BasicValueEnum<'c>> {
        let align = self.isa.alignments.of_address(at).min(WIDEST);
        let mut offset = self.offset(at)?;
        let mask = mask.map(|m| self.int(m)).transpose()?;
        if let Some(mask) = mask {
            // What is there is not used, but it is there.
            let chosen = self.b.build_select(mask, offset, self.word(0), "").map_err(said)?;
            offset = chosen.into_int_value();
        }
        // Halves of one word are loaded as such: that takes no more.
        let odd = align < 4 && bytes.is_multiple_of(4) && !(align == 2 && bytes == 4);
        let loaded = if odd { self.load_odd(view, offset, bytes)? } else { self.load_at(view, offset, bytes, align)? };
        let Some(mask) = mask else { return Ok(loaded) };
        self.b.build_select(mask, loaded, loaded.get_type().const_zero(), "").map_err(said)
    }

    /// Words from an address that may be odd, put together of aligned ones. The last of these is the one that the last
    /// byte is in, so nothing of the next word is read where the address is not odd.
    fn load_odd(&self, view: View, offset: IntValue<'c>, bytes: u32) -> Result<BasicValueEnum<'c>> {
        let aligned = |offset| self.b.build_and(offset, self.word(!3), "").map_err(said);
        let first = aligned(offset)?;
        let words = bytes / 4;
        let mut parts = Vec::with_capacity(words as usize + 1);
        // One address, and what all chips add to it for nothing.
        let place = self.place(view, first)?;
        for i in 0..words {
            let at = self.byte_index(place, self.cx.i64_type().const_int(u64::from(4 * i), false))?;
            parts.push(self.load_place(view, at, 4, 4)?);
        }
        let last = aligned(self.add(offset, self.word(bytes - 1))?)?;
        parts.push(self.load_at(view, last, 4, 4)?);
        let shift = self.b.build_left_shift(offset, self.word(3), "").map_err(said)?;
        let i32t = self.cx.i32_type();
        let mut out = Vec::with_capacity(words as usize);
        for pair in parts.windows(2) {
            // It takes the shift's lowest five bits.
            out.push(self.call("llvm.fshr", &[i32t.into()], &[pair[1], pair[0], shift.into()])?);
        }
        match out[..] {
            [one] => Ok(one),
            _ => {
                let mut v = i32t.vec_type(words).get_poison();
                for (i, x) in out.into_iter().enumerate() {
                    v = self.b.build_insert_element(v, x, self.word(i as u32), "").map_err(said)?;
                }
                Ok(v.into())
            }
        }
    }

    pub(super) fn store_view(
        &self,
        view: View,
        at: &Address,
        value: BasicValueEnum<'c>,
        mask: Option<Val>,
    ) -> Result<()> {
        let align = self.isa.alignments.of_address(at).min(WIDEST);
        let put = |g: &Self| -> Result<()> {
            let p = g.place(view, g.offset(at)?)?;
            let i = g.b.build_store(p, value).map_err(said)?;
            i.set_alignment(align).map_err(|e| e.to_string())
        };
        match mask {
            Some(mask) => self.where_set(mask, put).map(|_| ()),
            None => put(self),
        }
    }
}
