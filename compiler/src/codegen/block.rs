//! Blocks and loops.

use super::{Codegen, Reg, Result, Stop, Tile, not_expanded};
use hrx_ir::tile::{Block, Inst, Op, Value};
use inkwell::IntPredicate;

impl<'c> Codegen<'c, '_> {
    /// Generates the instructions of a block; returns what its yield names.
    pub(crate) fn block(&mut self, block: Block) -> Result<Vec<Value>> {
        for &inst in &self.k.blocks[block].insts {
            match &self.k.insts[inst].op {
                Op::Yield { args } => return Ok(args.clone()),
                Op::For { bounds, inits, body } => self.for_loop(inst, *bounds, inits, *body)?,
                _ => self.inst(inst)?,
            }
        }
        Ok(Vec::new())
    }

    fn inst(&mut self, inst: Inst) -> Result<()> {
        let k = self.k;
        let data = &k.insts[inst];
        let tile = match &data.op {
            Op::Const { value, ty } => self.constant(*value, *ty),
            Op::Iota { ty } => self.iota(*ty)?,
            Op::Unary { op, arg } => self.unary(*op, *arg)?,
            Op::Binary { op, args } => self.binary(*op, *args)?,
            Op::Cmp { op, args } => self.compare(*op, *args)?,
            Op::Select { args } => self.zip3(*args, |g, c, a, b| g.select_reg(c, a, b))?,
            Op::Fma { args } => self.zip3(*args, |g, a, b, c| g.fma(a, b, c))?,
            Op::Convert { arg, to } => self.convert(*arg, *to)?,
            Op::Bitcast { arg, to } => self.bitcast_tile(*arg, *to)?,
            Op::Broadcast { arg, shape } => self.broadcast(*arg, *shape)?,
            Op::Reshape { arg, shape } => self.reshape(*arg, *shape)?,
            Op::Transpose { arg } => self.transpose(*arg)?,
            Op::Concat { args, axis } => self.concat(*args, *axis as usize)?,
            Op::Slice { arg, axis, start, len } => self.slice(*arg, *axis as usize, *start, *len)?,
            Op::Lookup { table, arg } => self.lookup(table, *arg)?,
            Op::Repeat { arg, times } => self.repeat(*arg, *times)?,
            Op::Reduce { op, arg, axis } => self.reduce(*op, *arg, *axis as usize)?,
            Op::Dot { args } => self.dot(*args)?,
            Op::Dot4 { args } => self.dot4(*args)?,
            Op::Mma { args } => self.mma(*args)?,
            Op::Load { view, index, mask, .. } => {
                let ty = k.ty(data.results[0]);
                self.load(*view, index, *mask, ty)?
            }
            Op::Store { view, index, value, mask } => return self.store(*view, index, *value, *mask),
            Op::LoadBlock { view, index, part, ty } => self.load_block(*view, *index, *part, *ty)?,
            Op::LoadRun { .. } => return Err(not_expanded(data.op.name())),
            Op::For { .. } | Op::Yield { .. } => unreachable!("handled by the block"),
        };
        self.define(data.results[0], tile);
        Ok(())
    }

    /// A loop in rotated form: a guard, then a body that ends with the test, so that what does not change in it can be
    /// hoisted.
    fn for_loop(&mut self, inst: Inst, bounds: [Value; 3], inits: &[Value], body: Block) -> Result<()> {
        let k = self.k;
        let [lower, upper, step] = bounds.map(|v| self.scalar(v));
        let before = self.b.get_insert_block().ok_or_else(|| Stop::Llvm("no block to insert into".into()))?;
        let body_block = self.cx.append_basic_block(self.function, "loop");
        let exit_block = self.cx.append_basic_block(self.function, "done");
        let init_tiles: Vec<Tile<'c>> = inits.iter().map(|&v| self.tile(v)).collect();
        let enter = self.b.build_int_compare(IntPredicate::SLT, lower, upper, "")?;
        self.b.build_conditional_branch(enter, body_block, exit_block)?;

        self.b.position_at_end(body_block);
        let counter = self.b.build_phi(self.cx.i32_type(), "")?;
        counter.add_incoming(&[(&lower, before)]);
        let mut phis = Vec::new();
        let params = &k.blocks[body].params;
        self.define(params[0], vec![counter.as_basic_value().into()]);
        for (&param, tile) in params[1..].iter().zip(&init_tiles) {
            let mut regs = Tile::new();
            for reg in tile {
                let phi = self.b.build_phi(reg.ty(), "")?;
                phi.add_incoming(&[(&reg.value(), before)]);
                regs.push(phi.as_basic_value().into());
                phis.push(phi);
            }
            self.define(param, regs);
        }
        let yielded = self.block(body)?;
        let next_regs: Vec<Reg<'c>> = yielded.iter().flat_map(|&v| self.tile(v)).collect();
        let last = self.b.get_insert_block().ok_or_else(|| Stop::Llvm("no block to insert into".into()))?;
        let next = self.b.build_int_nsw_add(counter.as_basic_value().into_int_value(), step, "")?;
        counter.add_incoming(&[(&next, last)]);
        for (phi, reg) in phis.iter().zip(&next_regs) {
            phi.add_incoming(&[(&reg.value(), last)]);
        }
        let again = self.b.build_int_compare(IntPredicate::SLT, next, upper, "")?;
        self.b.build_conditional_branch(again, body_block, exit_block)?;

        self.b.position_at_end(exit_block);
        let mut regs = next_regs.into_iter();
        for (&result, tile) in k.insts[inst].results.iter().zip(&init_tiles) {
            let mut out = Tile::new();
            for init in tile {
                let next = regs.next().ok_or_else(|| Stop::Kernel("a loop yields what it carries".into()))?;
                let phi = self.b.build_phi(init.ty(), "")?;
                phi.add_incoming(&[(&init.value(), before), (&next.value(), last)]);
                out.push(phi.as_basic_value().into());
            }
            self.define(result, out);
        }
        Ok(())
    }
}
