//! Entries of tables: loads from a constant of the module.

use super::lower::{Lower, Val};
use super::{Result, Stop};
use hrx_ir::quant::Table;
use hrx_ir::tile::{Elem, Type, Value};
use melior::ir::attribute::{FlatSymbolRefAttribute, StringAttribute, TypeAttribute};
use melior::ir::r#type::MemRefType;
use melior::ir::{Attribute, BlockLike};

impl<'c, 'a> Lower<'c, 'a, '_> {
    pub(super) fn lookup(&mut self, table: &'static Table, arg: Value) -> Result<Val<'c, 'a>> {
        let Type { elem, shape } = self.k.ty(arg);
        let memory = self.table(table)?;
        // An entry is an integer as wide.
        let entry = self.integer(8 * table.width);
        let most = self.int(i64::from(table.entries()) - 1, elem, shape.dims())?;
        let index = self.apply("arith.andi", &[self.get(arg)?, most])?;
        let dims: Vec<u64> = shape.dims().iter().map(|&d| u64::from(d)).collect();
        let entries = melior::ir::Type::vector(&dims, entry);
        let mut all = self.value("ub.poison", &[], entries, &[])?;
        let mut place = vec![0; shape.rank()];
        for n in 0..shape.elements() {
            let mut rest = n;
            for (axis, &extent) in shape.dims().iter().enumerate().rev() {
                place[axis] = (rest % u64::from(extent)) as u32;
                rest /= u64::from(extent);
            }
            let i = self.extract(index, elem, &place, &[])?;
            let i = self.value("arith.index_castui", &[i], self.index_type(), &[])?;
            let found = self.value("memref.load", &[memory, i], entry, &[])?;
            all = self.insert(all, &place, found)?;
        }
        if table.width == 1 {
            return Ok(all);
        }
        let bytes = shape.with_dim(shape.rank() - 1, shape.last() * table.width);
        self.value("vector.bitcast", &[all], self.ty(Elem::U8, bytes), &[])
    }

    /// A table as a constant of the module, made once.
    fn table(&mut self, table: &'static Table) -> Result<Val<'c, 'a>> {
        let name = format!("table_{}", table.name);
        let entry = self.integer(8 * table.width);
        let memref = MemRefType::new(entry, &[i64::from(table.entries())], None, None).into();
        if !self.tables.contains(&table.name) {
            self.tables.push(table.name);
            let hex: String = table.bytes.iter().map(|b| format!("{b:02X}")).collect();
            let text = format!("dense<\"0x{hex}\"> : tensor<{}xi{}>", table.entries(), 8 * table.width);
            let bytes = Attribute::parse(self.cx, &text).ok_or_else(|| Stop(format!("can't write table {name}")))?;
            let attributes = [
                ("sym_name", StringAttribute::new(self.cx, &name).into()),
                ("sym_visibility", StringAttribute::new(self.cx, "private").into()),
                ("type", TypeAttribute::new(memref).into()),
                ("initial_value", bytes),
                ("constant", Attribute::unit(self.cx)),
            ];
            let global = self.unplaced("memref.global", &[], &[], &attributes, Vec::new())?;
            self.module.append_operation(global);
        }
        let symbol = FlatSymbolRefAttribute::new(self.cx, &name).into();
        self.value("memref.get_global", &[], memref, &[("name", symbol)])
    }
}
