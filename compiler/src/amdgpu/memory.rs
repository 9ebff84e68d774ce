//! Buffer resources, loads and stores.

use super::{CONSTANT, Codegen, RESOURCE, Result, said};
use crate::lanes::ir::{Address, Space, Val};
use hrx_ir::tile::{Access, Extent, View};
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValue, BasicValueEnum, IntValue, PointerValue};

/// The most bytes of a view in code for AMD GPUs: offsets have 32 bits, and the last 64 KiB of them lie outside every
/// view. Whoever launches a kernel whose views have extents that are arguments has to hold them to it.
pub const LARGEST_VIEW: u64 = OUTSIDE as u64;

/// An offset that lies in no view.
const OUTSIDE: u32 = 0xFFFF_0000;

impl<'c> Codegen<'c, '_> {
    /// The buffer resource of a view.
    pub(super) fn resource(&self, view: View, base: PointerValue<'c>) -> Result<BasicValueEnum<'c>> {
        let bytes = self.view_bytes(view)?;
        let stride = self.cx.i16_type().const_zero();
        let flags = self.word(self.chip.buffer_word3);
        let (from, to) = (base.get_type(), self.cx.ptr_type(RESOURCE.into()));
        let bytes = self.b.build_int_z_extend(bytes, self.cx.i64_type(), "").map_err(said)?;
        self.call(
            "llvm.amdgcn.make.buffer.rsrc",
            &[to.into(), from.into()],
            &[base.into(), stride.into(), bytes.into(), flags.into()],
        )
    }

    /// Bytes from a view's base to its last element's end: the distance of each axis' last index, summed. Views whose
    /// extents are arguments are at most as large as [`LARGEST_VIEW`] says; whoever launches checks it.
    fn view_bytes(&self, view: View) -> Result<IntValue<'c>> {
        let data = &self.k.views[view];
        let unit = u64::from(data.content.unit_bytes());
        let constant = data.dims.iter().zip(&data.strides).try_fold(unit, |sum, (d, s)| match (d, s) {
            (Extent::Const(d), Extent::Const(s)) => Some(
                sum.saturating_add(u64::from(d.saturating_sub(1)).saturating_mul(u64::from(*s)).saturating_mul(unit)),
            ),
            _ => None,
        });
        if let Some(bytes) = constant {
            if bytes > LARGEST_VIEW {
                return Err(format!("view {view} has {bytes} bytes, offsets reach {LARGEST_VIEW}"));
            }
            return Ok(self.word(bytes as u32));
        }
        let extent = |e: Extent| -> Result<IntValue<'c>> {
            Ok(match e {
                Extent::Const(n) => self.word(n),
                Extent::Param(v) => self.scalars.get(&v).ok_or("an extent is no parameter")?.into_int_value(),
            })
        };
        let mut sum = self.word(1);
        for (&d, &s) in data.dims.iter().zip(&data.strides) {
            let (d, s) = (extent(d)?, extent(s)?);
            let last = self.b.build_int_sub(d, self.word(1), "").map_err(said)?;
            let way = self.b.build_int_mul(last, s, "").map_err(said)?;
            sum = self.b.build_int_add(sum, way, "").map_err(said)?;
        }
        self.b.build_int_mul(sum, self.word(unit as u32), "").map_err(said)
    }

    /// The type of an access.
    fn access_type(&self, bytes: u32) -> BasicTypeEnum<'c> {
        match bytes {
            1 => self.cx.i8_type().into(),
            2 => self.cx.i16_type().into(),
            4 => self.cx.i32_type().into(),
            n => self.cx.i32_type().vec_type(n / 4).into(),
        }
    }

    fn add(&self, a: IntValue<'c>, b: IntValue<'c>) -> Result<IntValue<'c>> {
        self.b.build_int_add(a, b, "").map_err(said)
    }

    /// Per-lane and uniform offset of an access to a view. A lane that must not access it gets an offset outside.
    fn offsets(&self, at: &Address, mask: Option<Val>) -> Result<[BasicValueEnum<'c>; 2]> {
        let lane = self.add(self.int(at.lane)?, self.word(at.imm))?;
        let uniform = self.int(at.uniform)?;
        let Some(mask) = mask else { return Ok([lane.into(), uniform.into()]) };
        let whole = self.add(lane, uniform)?;
        let chosen = self.b.build_select(self.int(mask)?, whole, self.word(OUTSIDE), "").map_err(said)?;
        Ok([chosen, self.word(0).into()])
    }

    pub(super) fn load(&self, at: &Address, bytes: u32, mask: Option<Val>) -> Result<Vec<BasicValueEnum<'c>>> {
        let loaded = match at.space {
            Space::Lds => self.load_lds(at, bytes, mask)?,
            // Scalar loads drop the low bits of addresses: blocks of some formats start at odd halves of words.
            Space::Global(view)
                if mask.is_none() && bytes.is_multiple_of(4) && at.align >= 4 && self.is_uniform(at, view) =>
            {
                self.load_uniform(at, view, bytes)?
            }
            Space::Global(view) => {
                let [lane, uniform] = self.offsets(at, mask)?;
                let ty = self.access_type(bytes);
                let rest = self.word(0).into();
                self.call("llvm.amdgcn.raw.ptr.buffer.load", &[ty], &[self.views[&view].1, lane, uniform, rest])?
            }
        };
        self.words_of(loaded)
    }

    /// Whether all lanes read the same place of memory that the kernel does not write.
    fn is_uniform(&self, at: &Address, view: View) -> bool {
        let constant = self.int(at.lane).is_ok_and(|v| v.is_const());
        constant && self.k.views[view].access == Access::In
    }

    /// A load into scalar registers.
    fn load_uniform(&self, at: &Address, view: View, bytes: u32) -> Result<BasicValueEnum<'c>> {
        let lane = self.add(self.int(at.lane)?, self.word(at.imm))?;
        let offset = self.add(self.int(at.uniform)?, lane)?;
        let offset = self.b.build_int_z_extend(offset, self.cx.i64_type(), "").map_err(said)?;
        let base = self
            .b
            .build_address_space_cast(self.views[&view].0, self.cx.ptr_type(CONSTANT.into()), "")
            .map_err(said)?;
        let p = self.byte_index(base, offset)?;
        self.load_from(p, bytes, 4)
    }

    fn byte_index(&self, p: PointerValue<'c>, offset: IntValue<'c>) -> Result<PointerValue<'c>> {
        // SAFETY: this builds an instruction; that the address it computes at run time is inside is the kernel's
        // contract, which the interpreters check.
        unsafe { self.b.build_gep(self.cx.i8_type(), p, &[offset], "").map_err(said) }
    }

    fn load_from(&self, p: PointerValue<'c>, bytes: u32, align: u32) -> Result<BasicValueEnum<'c>> {
        let v = self.b.build_load(self.access_type(bytes), p, "").map_err(said)?;
        if let Some(i) = v.as_instruction_value() {
            i.set_alignment(align).map_err(|e| e.to_string())?;
        }
        Ok(v)
    }

    fn lds_pointer(&self, at: &Address) -> Result<PointerValue<'c>> {
        let lds = self.lds.ok_or("a kernel without LDS uses it")?;
        let lane = self.add(self.int(at.uniform)?, self.int(at.lane)?)?;
        let p = self.byte_index(lds, lane)?;
        self.byte_index(p, self.word(at.imm))
    }

    fn load_lds(&self, at: &Address, bytes: u32, mask: Option<Val>) -> Result<BasicValueEnum<'c>> {
        let align = at.align.min(bytes.next_power_of_two());
        let Some(mask) = mask else {
            let p = self.lds_pointer(at)?;
            return self.load_from(p, bytes, align);
        };
        let ty = self.access_type(bytes);
        let before = self.b.get_insert_block().ok_or("no block to insert into")?;
        let after = self.where_set(mask, |g| {
            let p = g.lds_pointer(at)?;
            g.load_from(p, bytes, align)
        })?;
        let (value, then) = after;
        let phi = self.b.build_phi(ty, "").map_err(said)?;
        phi.add_incoming(&[(&ty.const_zero(), before), (&value, then)]);
        Ok(phi.as_basic_value())
    }

    /// Does something in lanes whose predicate is set; gives its value and the block it was made in.
    fn where_set<T>(
        &self,
        mask: Val,
        f: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<(T, inkwell::basic_block::BasicBlock<'c>)> {
        let then = self.cx.append_basic_block(self.function, "set");
        let after = self.cx.append_basic_block(self.function, "after");
        self.b.build_conditional_branch(self.int(mask)?, then, after).map_err(said)?;
        self.b.position_at_end(then);
        let out = f(self)?;
        let last = self.b.get_insert_block().ok_or("no block to insert into")?;
        self.b.build_unconditional_branch(after).map_err(said)?;
        self.b.position_at_end(after);
        Ok((out, last))
    }

    /// A loaded value as words, narrow ones zero-extended.
    pub(super) fn words_of(&self, v: BasicValueEnum<'c>) -> Result<Vec<BasicValueEnum<'c>>> {
        Ok(match v {
            BasicValueEnum::VectorValue(x) => (0..x.get_type().get_size())
                .map(|i| self.b.build_extract_element(x, self.word(i), "").map_err(said))
                .collect::<Result<_>>()?,
            BasicValueEnum::IntValue(n) if n.get_type().get_bit_width() < 32 => {
                vec![self.b.build_int_z_extend(n, self.cx.i32_type(), "").map_err(said)?.into()]
            }
            v => vec![v],
        })
    }

    pub(super) fn store(&self, at: &Address, bytes: u32, values: &[Val], mask: Option<Val>) -> Result<()> {
        let v = self.joined(values, bytes)?;
        match at.space {
            Space::Global(view) => {
                let [lane, uniform] = self.offsets(at, mask)?;
                let rest = self.word(0).into();
                let args = [v, self.views[&view].1, lane, uniform, rest];
                self.intrinsic("llvm.amdgcn.raw.ptr.buffer.store", &[v.get_type()], &args)?;
            }
            Space::Lds => {
                let align = at.align.min(bytes.next_power_of_two());
                let put = |g: &Self| -> Result<()> {
                    let p = g.lds_pointer(at)?;
                    let i = g.b.build_store(p, v).map_err(said)?;
                    i.set_alignment(align).map_err(|e| e.to_string())
                };
                match mask {
                    Some(mask) => self.where_set(mask, put).map(|_| ())?,
                    None => put(self)?,
                }
            }
        }
        Ok(())
    }

    /// Words as the value of an access.
    fn joined(&self, values: &[Val], bytes: u32) -> Result<BasicValueEnum<'c>> {
        let first = self.int(values[0])?;
        match self.access_type(bytes) {
            BasicTypeEnum::IntType(t) if bytes < 4 => Ok(self.b.build_int_truncate(first, t, "").map_err(said)?.into()),
            BasicTypeEnum::IntType(_) => Ok(first.into()),
            BasicTypeEnum::VectorType(t) => self.vector(values, t.get_size()),
            _ => Err("an access of no type".into()),
        }
    }

    /// Registers as a vector of words.
    pub(super) fn vector(&self, values: &[Val], n: u32) -> Result<BasicValueEnum<'c>> {
        let first = self.get(values[0])?;
        let mut v = match first.get_type() {
            BasicTypeEnum::FloatType(t) => t.vec_type(n).get_poison(),
            _ => self.cx.i32_type().vec_type(n).get_poison(),
        };
        for (i, &x) in values.iter().enumerate() {
            v = self.b.build_insert_element(v, self.get(x)?, self.word(i as u32), "").map_err(said)?;
        }
        Ok(v.into())
    }
}
