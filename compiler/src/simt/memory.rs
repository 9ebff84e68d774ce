//! Accesses to LDS, and what accesses to views share.

use super::{Codegen, Isa, Result, said};
use crate::lanes::ir::{Address, Space, Val};
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValue, BasicValueEnum, IntValue, PointerValue};

impl<'c, I: Isa> Codegen<'c, '_, I> {
    /// The type of an access.
    pub(crate) fn access_type(&self, bytes: u32) -> BasicTypeEnum<'c> {
        match bytes {
            1 => self.cx.i8_type().into(),
            2 => self.cx.i16_type().into(),
            4 => self.cx.i32_type().into(),
            n => self.cx.i32_type().vec_type(n / 4).into(),
        }
    }

    pub(crate) fn add(&self, a: IntValue<'c>, b: IntValue<'c>) -> Result<IntValue<'c>> {
        self.b.build_int_add(a, b, "").map_err(said)
    }

    pub(crate) fn load(&self, at: &Address, bytes: u32, mask: Option<Val>) -> Result<Vec<BasicValueEnum<'c>>> {
        let loaded = match at.space {
            Space::Lds => self.load_lds(at, bytes, mask)?,
            Space::Global(view) => I::load(self, view, at, bytes, mask)?,
        };
        self.words_of(loaded)
    }

    pub(crate) fn byte_index(&self, p: PointerValue<'c>, offset: IntValue<'c>) -> Result<PointerValue<'c>> {
        // SAFETY: this builds an instruction; that the address it computes at run time is inside is the kernel's
        // contract, which the interpreters check.
        unsafe { self.b.build_gep(self.cx.i8_type(), p, &[offset], "").map_err(said) }
    }

    pub(crate) fn load_from(&self, p: PointerValue<'c>, bytes: u32, align: u32) -> Result<BasicValueEnum<'c>> {
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
    pub(crate) fn where_set<T>(
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
    pub(crate) fn words_of(&self, v: BasicValueEnum<'c>) -> Result<Vec<BasicValueEnum<'c>>> {
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

    pub(crate) fn store(&self, at: &Address, bytes: u32, values: &[Val], mask: Option<Val>) -> Result<()> {
        let v = self.joined(values, bytes)?;
        match at.space {
            Space::Global(view) => I::store(self, view, at, v, mask)?,
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
    pub(crate) fn vector(&self, values: &[Val], n: u32) -> Result<BasicValueEnum<'c>> {
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
