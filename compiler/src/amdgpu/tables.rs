//! Tables: byte permutations of registers where a table fits four of them, else constants of the code object.

use super::{CONSTANT, Codegen, Result, said};
use hrx_ir::quant::Table;
use inkwell::module::Linkage;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValue, BasicValueEnum, IntValue, PointerValue};

/// The lowest three bits of each byte: which of eight bytes `v_perm_b32` takes.
const OF_EIGHT: u32 = 0x0707_0707;
/// Bit 2 of each byte.
const FOURS: u32 = 0x0404_0404;
/// Selectors that take the bytes of the second source as they are.
const IN_ORDER: u32 = 0x0302_0100;

impl<'c> Codegen<'c, '_> {
    /// An entry of 16 for each byte of a word: one of the lower eight and one of the upper eight, and of the two the one
    /// that bit 3 says.
    pub(super) fn lookup(&self, table: &Table, index: IntValue<'c>) -> Result<BasicValueEnum<'c>> {
        let word = |i: usize| {
            let bytes = table.bytes.get(4 * i..4 * i + 4).and_then(|b| <[u8; 4]>::try_from(b).ok());
            bytes
                .map(|b| self.word(u32::from_le_bytes(b)))
                .ok_or_else(|| format!("table {} has not 16 bytes", table.name))
        };
        let selector = self.b.build_and(index, self.word(OF_EIGHT), "").map_err(said)?;
        let low = self.permuted(word(1)?, word(0)?, selector)?;
        let high = self.permuted(word(3)?, word(2)?, selector)?;
        let moved = self.b.build_right_shift(index, self.word(1), false, "").map_err(said)?;
        let upper = self.b.build_and(moved, self.word(FOURS), "").map_err(said)?;
        let selector = self.b.build_or(upper, self.word(IN_ORDER), "").map_err(said)?;
        Ok(self.permuted(high, low, selector)?.into())
    }

    /// Bytes chosen from eight: those of the second source are numbered first.
    fn permuted(&self, high: IntValue<'c>, low: IntValue<'c>, selector: IntValue<'c>) -> Result<IntValue<'c>> {
        Ok(self.call("llvm.amdgcn.perm", &[], &[high.into(), low.into(), selector.into()])?.into_int_value())
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
            let global = self.module.add_global(bytes.get_type(), Some(CONSTANT.into()), &name);
            global.set_initializer(&bytes);
            global.set_constant(true);
            global.set_linkage(Linkage::Internal);
            global.set_alignment(64);
            global
        });
        global.as_pointer_value()
    }
}
