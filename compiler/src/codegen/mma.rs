//! Products for a matrix unit, which the host has not got: loops over memory, so that the code is short however large
//! the tiles are. They need not be fast.

use super::reg::IntOp;
use super::{Codegen, Reg, Result, Stop, Tile};
use hrx_ir::tile::{Elem, Kernel, Op, Type, Value};
use inkwell::IntPredicate;
use inkwell::values::{BasicValue, IntValue, PointerValue};

/// Bytes of an element in memory: factors are widened to the accumulator's size.
const ELEMENT: u64 = 4;

/// Where the operands of one product lie, in bytes from the start of the memory for them.
struct Layout {
    /// `b` transposed, `[K, N]`.
    columns: u64,
    /// `a`; before, `b` as it is.
    rows: u64,
    /// `c`, then the result.
    sums: u64,
    /// All of it.
    bytes: u64,
}

impl Layout {
    fn new(a: Type, b: Type, c: Type) -> Layout {
        let [a, b, c] = [a, b, c].map(|t| t.shape.elements() * ELEMENT);
        Layout { columns: 0, rows: b, sums: b + a.max(b), bytes: b + a.max(b) + c }
    }
}

/// Bytes of memory for the operands of the largest such product of a kernel.
pub(crate) fn scratch_bytes(k: &Kernel) -> u64 {
    let bytes = |op: &Op| match op {
        Op::Mma { args: [a, b, c] } => Layout::new(k.ty(*a), k.ty(*b), k.ty(*c)).bytes,
        _ => 0,
    };
    let listed = k.blocks.values().flat_map(|b| &b.insts);
    listed.map(|&i| bytes(&k.insts[i].op)).max().unwrap_or(0)
}

impl<'c> Codegen<'c, '_> {
    /// Each element of `c` plus the products of a row of `a` and one of `b`, one fused multiply-add each in rising k.
    pub(crate) fn mma(&mut self, [a, b, c]: [Value; 3]) -> Result<Tile<'c>> {
        let (ta, tb, tc) = (self.k.ty(a), self.k.ty(b), self.k.ty(c));
        let (k, n, elem) = (ta.shape.last(), tc.shape.last(), tc.elem);
        let layout = Layout::new(ta, tb, tc);
        let scratch = self.scratch.ok_or_else(|| Stop::Llvm("no memory for a matrix product".into()))?;
        let [columns, rows, sums] = [layout.columns, layout.rows, layout.sums].map(|at| self.byte_offset(scratch, at));
        let (columns, rows, sums) = (columns?, rows?, sums?);

        self.spill(b, elem, rows)?;
        let constant = |n: u32| self.cx.i64_type().const_int(u64::from(n), false);
        self.counted(tb.shape.elements(), &[], |g, i, _| {
            // Element i of b is row i / k, column i % k.
            let (row, column) =
                (g.b.build_int_unsigned_div(i, constant(k), "")?, g.b.build_int_unsigned_rem(i, constant(k), "")?);
            let to = g.b.build_int_add(g.b.build_int_mul(column, constant(n), "")?, row, "")?;
            let x = g.load_aligned(g.element(rows, i)?, elem, 1)?;
            g.store_aligned(g.element(columns, to)?, x)?;
            Ok(vec![])
        })?;
        self.spill(a, elem, rows)?;
        self.spill(c, elem, sums)?;
        self.counted(ta.shape.rows(), &[], |g, i, _| {
            let from = g.b.build_int_mul(i, constant(k), "")?;
            let at = g.element(sums, g.b.build_int_mul(i, constant(n), "")?)?;
            let sum = g.load_aligned(at, elem, n)?;
            let sum = g.counted(u64::from(k), &[sum], |g, j, sum| {
                let x = g.load_aligned(g.element(rows, g.b.build_int_add(from, j, "")?)?, elem, 1)?;
                let x = g.splat(x, n)?;
                let y = g.load_aligned(g.element(columns, g.b.build_int_mul(j, constant(n), "")?)?, elem, n)?;
                Ok(vec![match elem {
                    Elem::F32 => g.fma(x, y, sum[0])?,
                    _ => g.int_op(IntOp::Add, g.int_op(IntOp::Mul, x, y)?, sum[0])?,
                }])
            })?;
            g.store_aligned(at, sum[0])?;
            Ok(vec![])
        })?;
        let row = |i| {
            let at = self.byte_offset(sums, i * u64::from(n) * ELEMENT)?;
            self.load_aligned(at, elem, n)
        };
        (0..tc.shape.rows()).map(row).collect()
    }

    /// Stores a tile's rows behind one another, its elements converted.
    fn spill(&self, v: Value, to: Elem, start: PointerValue<'c>) -> Result<()> {
        let Type { elem, shape } = self.k.ty(v);
        for (i, reg) in self.tile(v).into_iter().enumerate() {
            let at = self.byte_offset(start, i as u64 * u64::from(shape.last()) * ELEMENT)?;
            self.store_aligned(at, self.convert_reg(reg, elem, to)?)?;
        }
        Ok(())
    }

    fn element(&self, start: PointerValue<'c>, i: IntValue<'c>) -> Result<PointerValue<'c>> {
        let bytes = self.b.build_int_mul(i, self.cx.i64_type().const_int(ELEMENT, false), "")?;
        self.byte_index(start, bytes)
    }

    fn load_aligned(&self, p: PointerValue<'c>, elem: Elem, n: u32) -> Result<Reg<'c>> {
        let v = self.b.build_load(self.lanes(elem, n), p, "")?;
        if let Some(i) = v.as_instruction_value() {
            i.set_alignment(ELEMENT as u32).map_err(|e| Stop::Llvm(e.to_string()))?;
        }
        Ok(v.into())
    }

    fn store_aligned(&self, p: PointerValue<'c>, x: Reg<'c>) -> Result<()> {
        let i = self.b.build_store(p, x.value())?;
        i.set_alignment(ELEMENT as u32).map_err(|e| Stop::Llvm(e.to_string()))?;
        Ok(())
    }

    /// A loop of `n` turns, at least one, that carries registers.
    fn counted(
        &self,
        n: u64,
        inits: &[Reg<'c>],
        body: impl FnOnce(&Self, IntValue<'c>, &[Reg<'c>]) -> Result<Vec<Reg<'c>>>,
    ) -> Result<Vec<Reg<'c>>> {
        let i64t = self.cx.i64_type();
        let current = |g: &Self| g.b.get_insert_block().ok_or_else(|| Stop::Llvm("no block to insert into".into()));
        let before = current(self)?;
        let turn = self.cx.append_basic_block(self.function, "turn");
        let done = self.cx.append_basic_block(self.function, "done");
        self.b.build_unconditional_branch(turn)?;
        self.b.position_at_end(turn);
        let counter = self.b.build_phi(i64t, "")?;
        counter.add_incoming(&[(&i64t.const_zero(), before)]);
        let mut phis = Vec::new();
        for init in inits {
            let phi = self.b.build_phi(init.ty(), "")?;
            phi.add_incoming(&[(&init.value(), before)]);
            phis.push(phi);
        }
        let carried: Vec<Reg<'c>> = phis.iter().map(|p| p.as_basic_value().into()).collect();
        let i = counter.as_basic_value().into_int_value();
        let next_carried = body(self, i, &carried)?;
        let last = current(self)?;
        let next = self.b.build_int_nuw_add(i, i64t.const_int(1, false), "")?;
        counter.add_incoming(&[(&next, last)]);
        for (phi, reg) in phis.iter().zip(&next_carried) {
            phi.add_incoming(&[(&reg.value(), last)]);
        }
        let again = self.b.build_int_compare(IntPredicate::ULT, next, i64t.const_int(n, false), "")?;
        self.b.build_conditional_branch(again, turn, done)?;
        self.b.position_at_end(done);
        Ok(next_carried)
    }
}
