//! Tables: byte permutations of registers where a table fits four of them, else constants of the code object.

use super::{Codegen, Isa, Result, said};
use hrx_ir::quant::Table;
use inkwell::module::Linkage;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValue, BasicValueEnum, IntValue, PointerValue};

impl<'c, I: Isa> Codegen<'c, '_, I> {
    /// An entry of 16 for each byte of a word: one of the lower eight and one of the upper eight, and of the two the one
    /// that bit 3 says.
    pub(super) fn lookup(&self, table: &Table, index: IntValue<'c>) -> Result<BasicValueEnum<'c>> {
        let word = |i: usize| {
            let bytes = table.bytes.get(4 * i..4 * i + 4).and_then(|b| <[u8; 4]>::try_from(b).ok());
            bytes
                .map(|b| self.word(u32::from_le_bytes(b)))
                .ok_or_else(|| format!("table {} has not 16 bytes", table.name))
        };
        let [of_eight, fours, in_order] = I::SELECTOR;
        let index = I::selector(self, index)?;
        let selector = self.b.build_and(index, self.word(of_eight), "").map_err(said)?;
        let low = I::permuted(self, word(1)?, word(0)?, selector)?;
        let high = I::permuted(self, word(3)?, word(2)?, selector)?;
        let moved = self.b.build_right_shift(index, self.word(1), false, "").map_err(said)?;
        let upper = self.b.build_and(moved, self.word(fours), "").map_err(said)?;
        let selector = self.b.build_or(upper, self.word(in_order), "").map_err(said)?;
        Ok(I::permuted(self, high, low, selector)?.into())
    }

    /// One or two words of a table.
    pub(super) fn table(&self, table: &Table, at: IntValue<'c>, words: u32) -> Result<Vec<BasicValueEnum<'c>>> {
        let base = self.table_global(table);
        let offset = self.b.build_int_z_extend(at, self.cx.i64_type(), "").map_err(said)?;
        // SAFETY: this builds an instruction; that the word is one of the table's follows from the format's description.
        let p = unsafe { self.b.build_gep(self.cx.i32_type(), base, &[offset], "").map_err(said)? };
        let ty: BasicTypeEnum = match words {
            1 => self.cx.i32_type().into(),
            n => self.cx.i32_type().vec_type(n).into(),
        };
        let loaded = self.b.build_load(ty, p, "").map_err(said)?;
        if let Some(i) = loaded.as_instruction_value() {
            i.set_alignment(4 * words).map_err(|e| e.to_string())?;
        }
        self.words_of(loaded)
    }

    /// A table as a constant of the module, made once.
    fn table_global(&self, table: &Table) -> PointerValue<'c> {
        let name = format!("table.{}", table.name);
        let global = self.module.get_global(&name).unwrap_or_else(|| {
            let bytes = self.cx.const_string(table.bytes, false);
            let global = self.module.add_global(bytes.get_type(), Some(I::TABLES.into()), &name);
            global.set_initializer(&bytes);
            global.set_constant(true);
            global.set_linkage(Linkage::Internal);
            global.set_alignment(64);
            global
        });
        global.as_pointer_value()
    }
}
