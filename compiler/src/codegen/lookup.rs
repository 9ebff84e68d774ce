//! Entries of tables: a byte shuffle where the table fits a register, else loads from a constant of the object's.

use super::reg::{Cast, IntOp};
use super::{Codegen, Reg, Result, Stop, Tile};
use hrx_ir::quant::Table;
use hrx_ir::tile::Value;
use inkwell::module::Linkage;
use inkwell::types::VectorType;
use inkwell::values::PointerValue;

/// Bytes that a shuffle looks up in: those of 128 bits, in each of which a wider one works for itself.
const SHUFFLED: u32 = 16;

impl<'c> Codegen<'c, '_> {
    pub(crate) fn lookup(&self, table: &'static Table, arg: Value) -> Result<Tile<'c>> {
        self.map(arg, |g, x| {
            // Modulo the entries; nothing is left of it where the index can't be larger.
            let index = g.int_op(IntOp::And, x, g.splat_int(i64::from(table.entries()) - 1, x.ty()))?;
            if table.width == 1 && table.bytes.len() as u32 == SHUFFLED && x.lanes() > 1 {
                g.shuffled(table, index)
            } else {
                g.gathered(table, index)
            }
        })
    }

    /// Entries of one byte by byte shuffles, as wide as there are.
    fn shuffled(&self, table: &Table, index: Reg<'c>) -> Result<Reg<'c>> {
        let i8t = self.cx.i8_type();
        let n = index.lanes();
        let mut parts = Vec::new();
        let mut at = 0;
        while at < n {
            let (name, width) = match n - at {
                rest if rest >= 4 * SHUFFLED && self.target.has("avx512bw") => {
                    ("llvm.x86.avx512.pshuf.b.512", 4 * SHUFFLED)
                }
                rest if rest >= 2 * SHUFFLED => ("llvm.x86.avx2.pshuf.b", 2 * SHUFFLED),
                _ => ("llvm.x86.ssse3.pshuf.b.128", SHUFFLED),
            };
            let taken = width.min(n - at);
            // Lanes beyond the index' are whatever its last one is.
            let lanes: Vec<u32> = (at..at + width).map(|l| l.min(n - 1)).collect();
            let bytes: Vec<_> =
                table.bytes.iter().cycle().take(width as usize).map(|&b| i8t.const_int(b.into(), false)).collect();
            let entries = Reg::from(VectorType::const_vector(&bytes));
            let found = self.intrinsic(name, &[], &[entries, self.pick(index, &lanes)?])?;
            let wanted: Vec<u32> = (0..taken).collect();
            parts.push(self.pick(found, &wanted)?);
            at += taken;
        }
        self.join(&parts)
    }

    /// Entries by one load each.
    fn gathered(&self, table: &'static Table, index: Reg<'c>) -> Result<Reg<'c>> {
        let base = self.table(table);
        let (i64t, entry) =
            (self.cx.i64_type(), self.cx.custom_width_int_type((8 * table.width).try_into().map_err(no_bits)?));
        let entry = entry.map_err(|e| Stop::Llvm(e.to_string()))?;
        let mut entries = Vec::with_capacity(index.lanes() as usize);
        for lane in 0..index.lanes() {
            let i = self.cast(Cast::ZExt, self.extract(index, lane)?, i64t.into())?;
            let at = self.int_op(IntOp::Mul, i, i64t.const_int(table.width.into(), false).into())?;
            entries.push(self.b.build_load(entry, self.byte_index(base, at.int())?, "")?.into());
        }
        let all = self.gather(&entries)?;
        self.bitcast(all, self.lanes(hrx_ir::tile::Elem::U8, index.lanes() * table.width))
    }

    /// A table as a constant of the module, made once.
    fn table(&self, table: &Table) -> PointerValue<'c> {
        let name = format!("table.{}", table.name);
        let global = self.module.get_global(&name).unwrap_or_else(|| {
            let bytes = self.cx.const_string(table.bytes, false);
            let global = self.module.add_global(bytes.get_type(), None, &name);
            global.set_initializer(&bytes);
            global.set_constant(true);
            global.set_linkage(Linkage::Private);
            global.set_alignment(64);
            global
        });
        global.as_pointer_value()
    }
}

fn no_bits<E>(_: E) -> Stop {
    Stop::Kernel("a table with entries of no bytes".into())
}
