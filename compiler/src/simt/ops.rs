//! Operations of the lane form, one by one.

use super::{Codegen, Isa, Result, said};
use crate::lanes::ir::{Bin, Cmp, Op, Ty, Un, Val};
use inkwell::values::{BasicValueEnum, IntValue};
use inkwell::{FloatPredicate, IntPredicate};

/// A bit of each byte of a word.
const BYTE_BITS: u32 = 0x0101_0101;
/// A factor that copies four bits to the lowest bit of one byte each.
const SPREAD: u32 = 0x0020_4081;

impl<'c, I: Isa> Codegen<'c, '_, I> {
    pub(super) fn op(&mut self, op: &Op, results: &[Val]) -> Result<Vec<BasicValueEnum<'c>>> {
        let one = |v: BasicValueEnum<'c>| Ok(vec![v]);
        match op {
            Op::Const(bits) => {
                let ty = results.first().map_or(Ty::I32, |&v| self.lanes.types[v]);
                one(match ty {
                    Ty::I32 => self.word(*bits).into(),
                    Ty::F32 => self.cx.f32_type().const_float(f64::from(f32::from_bits(*bits))).into(),
                    Ty::B1 => self.cx.bool_type().const_int(u64::from(*bits), false).into(),
                })
            }
            Op::Lane => {
                let tid = I::thread(self)?;
                if self.lanes.waves == 1 {
                    return one(tid.into());
                }
                let mask = self.word(self.lanes.wave - 1);
                one(self.b.build_and(tid, mask, "").map_err(said)?.into())
            }
            Op::Wave => {
                if self.lanes.waves == 1 {
                    return one(self.word(0).into());
                }
                let by = self.word(self.lanes.wave.trailing_zeros());
                let tid = I::thread(self)?;
                let wave = self.b.build_right_shift(tid, by, false, "").map_err(said)?;
                one(I::uniform(self, wave)?.into())
            }
            Op::Program(axis) => one(I::program(self, *axis)?),
            Op::Param(v) => match self.scalars.get(v) {
                Some(&x) => one(x),
                None => Err(format!("{v} is no parameter")),
            },
            Op::Un(op, a) => one(self.unary(*op, *a)?),
            Op::Bin(op, a, b) => one(self.binary(*op, *a, *b)?),
            Op::Cmp(op, a, b) => one(self.compare(*op, *a, *b)?),
            Op::Select(c, a, b) => {
                one(self.b.build_select(self.int(*c)?, self.get(*a)?, self.get(*b)?, "").map_err(said)?)
            }
            Op::Fma(a, b, c) => {
                let args = [self.get(*a)?, self.get(*b)?, self.get(*c)?];
                one(self.call("llvm.fma", &[args[0].get_type()], &args)?)
            }
            Op::Dot4 { signed, args: [a, b, c] } => {
                one(I::dot4(self, *signed, [self.get(*a)?, self.get(*b)?, self.get(*c)?])?)
            }
            Op::Lookup(table, index) => one(self.lookup(table, self.int(*index)?)?),
            Op::Table(table, at) => self.table(table, self.int(*at)?, results.len() as u32),
            Op::Dot2([a, b, c]) => one(I::dot2(self, [self.get(*a)?, self.get(*b)?, self.get(*c)?])?),
            Op::ShuffleXor(v, mask) => one(self.shuffle_xor(self.get(*v)?, *mask)?),
            Op::Load { at, bytes, mask } => self.load(at, *bytes, *mask),
            Op::LoadMatrices { at, count, transposed } => {
                let row = self.lds_pointer(at)?;
                I::load_matrices(self, row, *count, *transposed)
            }
            Op::Store { at, bytes, values, mask } => {
                self.store(at, *bytes, values, *mask)?;
                Ok(vec![])
            }
            Op::Barrier => {
                I::barrier(self)?;
                Ok(vec![])
            }
            Op::Mma { inst, a, b, c } => I::mma(self, inst, a, b, c),
            Op::For { .. } => Err("a loop as a plain operation".into()),
        }
    }

    pub(crate) fn flag(&self, set: bool) -> BasicValueEnum<'c> {
        self.cx.bool_type().const_int(u64::from(set), false).into()
    }

    fn unary(&self, op: Un, a: Val) -> Result<BasicValueEnum<'c>> {
        let (i32t, f32t) = (self.cx.i32_type(), self.cx.f32_type());
        let b = &self.b;
        Ok(match op {
            Un::Sqrt => self.call("llvm.sqrt", &[f32t.into()], &[self.get(a)?])?,
            Un::Floor => self.call("llvm.floor", &[f32t.into()], &[self.get(a)?])?,
            Un::RoundEven => self.call("llvm.roundeven", &[f32t.into()], &[self.get(a)?])?,
            Un::SToF => b.build_signed_int_to_float(self.int(a)?, f32t, "").map_err(said)?.into(),
            Un::UToF => b.build_unsigned_int_to_float(self.int(a)?, f32t, "").map_err(said)?.into(),
            Un::FToS => I::whole(self, self.get(a)?, true)?,
            Un::FToU => I::whole(self, self.get(a)?, false)?,
            Un::ByteToF(n) => I::byte_to_float(self, self.int(a)?, n)?,
            Un::HalfToF(n) => {
                let moved = b.build_right_shift(self.int(a)?, self.word(16 * u32::from(n)), false, "").map_err(said)?;
                let half = b.build_int_truncate(moved, self.cx.i16_type(), "").map_err(said)?;
                let half = b.build_bit_cast(half, self.cx.f16_type(), "").map_err(said)?.into_float_value();
                b.build_float_ext(half, f32t, "").map_err(said)?.into()
            }
            Un::FToHalf => {
                let half = b.build_float_trunc(self.float(a)?, self.cx.f16_type(), "").map_err(said)?;
                let bits = b.build_bit_cast(half, self.cx.i16_type(), "").map_err(said)?.into_int_value();
                b.build_int_z_extend(bits, i32t, "").map_err(said)?.into()
            }
            Un::SExt(bits) => {
                let narrow = self
                    .cx
                    .custom_width_int_type(u32::from(bits).try_into().map_err(|_| "no bits")?)
                    .map_err(|e| e.to_string())?;
                let low = b.build_int_truncate(self.int(a)?, narrow, "").map_err(said)?;
                b.build_int_s_extend(low, i32t, "").map_err(said)?.into()
            }
            Un::Bits => b.build_bit_cast(self.get(a)?, i32t, "").map_err(said)?,
            Un::Float => b.build_bit_cast(self.get(a)?, f32t, "").map_err(said)?,
            Un::Not => b.build_not(self.int(a)?, "").map_err(said)?.into(),
            Un::Ones => self.call("llvm.ctpop", &[i32t.into()], &[self.get(a)?])?,
            Un::BToI => b.build_int_z_extend(self.int(a)?, i32t, "").map_err(said)?.into(),
        })
    }

    fn binary(&self, op: Bin, x: Val, y: Val) -> Result<BasicValueEnum<'c>> {
        let b = &self.b;
        let float = |f: &dyn Fn(
            _,
            _,
        ) -> std::result::Result<
            inkwell::values::FloatValue<'c>,
            inkwell::builder::BuilderError,
        >| { f(self.float(x)?, self.float(y)?).map(BasicValueEnum::from).map_err(said) };
        match op {
            Bin::FAdd => return float(&|x, y| b.build_float_add(x, y, "")),
            Bin::FSub => return float(&|x, y| b.build_float_sub(x, y, "")),
            Bin::FMul => return float(&|x, y| b.build_float_mul(x, y, "")),
            Bin::FDiv => return float(&|x, y| b.build_float_div(x, y, "")),
            Bin::FMin | Bin::FMax => {
                let name = if op == Bin::FMin { "llvm.minimumnum" } else { "llvm.maximumnum" };
                return self.call(name, &[self.cx.f32_type().into()], &[self.get(x)?, self.get(y)?]);
            }
            _ => {}
        }
        let (x, y) = (self.int(x)?, self.int(y)?);
        let made = match op {
            Bin::Add => b.build_int_add(x, y, ""),
            Bin::Sub => b.build_int_sub(x, y, ""),
            Bin::Mul => b.build_int_mul(x, y, ""),
            Bin::SDiv => b.build_int_signed_div(x, y, ""),
            Bin::UDiv => b.build_int_unsigned_div(x, y, ""),
            Bin::SRem => b.build_int_signed_rem(x, y, ""),
            Bin::URem => b.build_int_unsigned_rem(x, y, ""),
            Bin::And => b.build_and(x, y, ""),
            Bin::Or => b.build_or(x, y, ""),
            Bin::Xor => b.build_xor(x, y, ""),
            Bin::Shl => b.build_left_shift(x, y, ""),
            Bin::LShr => b.build_right_shift(x, y, false, ""),
            Bin::AShr => b.build_right_shift(x, y, true, ""),
            Bin::Pack => return self.packed(x, y),
            Bin::Spread => {
                let moved = b.build_right_shift(x, y, false, "").map_err(said)?;
                let four = b.build_and(moved, self.word(15), "").map_err(said)?;
                let copies = b.build_int_mul(four, self.word(SPREAD), "").map_err(said)?;
                b.build_and(copies, self.word(BYTE_BITS), "")
            }
            _ => return Err(format!("{op:?} on integers")),
        };
        made.map(BasicValueEnum::from).map_err(said)
    }

    /// The low halves of two words as one.
    fn packed(&self, low: IntValue<'c>, high: IntValue<'c>) -> Result<BasicValueEnum<'c>> {
        let half = self.cx.i16_type();
        let mut v = half.vec_type(2).get_poison();
        for (i, x) in [low, high].into_iter().enumerate() {
            let x = self.b.build_int_truncate(x, half, "").map_err(said)?;
            v = self.b.build_insert_element(v, x, self.word(i as u32), "").map_err(said)?;
        }
        self.b.build_bit_cast(v, self.cx.i32_type(), "").map_err(said)
    }

    fn compare(&self, op: Cmp, x: Val, y: Val) -> Result<BasicValueEnum<'c>> {
        let int =
            |p| self.b.build_int_compare(p, self.int(x)?, self.int(y)?, "").map(BasicValueEnum::from).map_err(said);
        let float = |p| {
            self.b.build_float_compare(p, self.float(x)?, self.float(y)?, "").map(BasicValueEnum::from).map_err(said)
        };
        match op {
            Cmp::Eq => int(IntPredicate::EQ),
            Cmp::Ne => int(IntPredicate::NE),
            Cmp::SLt => int(IntPredicate::SLT),
            Cmp::SLe => int(IntPredicate::SLE),
            Cmp::ULt => int(IntPredicate::ULT),
            Cmp::ULe => int(IntPredicate::ULE),
            Cmp::FEq => float(FloatPredicate::OEQ),
            Cmp::FNe => float(FloatPredicate::UNE),
            Cmp::FLt => float(FloatPredicate::OLT),
            Cmp::FLe => float(FloatPredicate::OLE),
        }
    }

    /// The value of the lane whose number differs in these bits.
    fn shuffle_xor(&self, v: BasicValueEnum<'c>, mask: u32) -> Result<BasicValueEnum<'c>> {
        let ty = v.get_type();
        let word = self.b.build_bit_cast(v, self.cx.i32_type(), "").map_err(said)?;
        let moved = I::shuffle_xor(self, word, mask)?;
        self.b.build_bit_cast(moved, ty, "").map_err(said)
    }

    /// The lane's number in its wave.
    pub(crate) fn lane_number(&self) -> Result<IntValue<'c>> {
        let tid = I::thread(self)?;
        self.b.build_and(tid, self.word(self.lanes.wave - 1), "").map_err(said)
    }

    /// Nothing, which may write memory: LLVM 22 sinks loads (MachineSink) past fences and barriers, which it takes for
    /// no stores, into the block that uses them.
    pub(crate) fn keep_loads(&self) -> Result<()> {
        self.assembly("")
    }

    /// An instruction that LLVM knows nothing of, and that no access to memory may pass.
    pub(crate) fn assembly(&self, text: &str) -> Result<()> {
        let ty = self.cx.void_type().fn_type(&[], false);
        let code = self.cx.create_inline_asm(ty, text.into(), "~{memory}".into(), true, false, None, false);
        self.b.build_indirect_call(ty, code, &[], "").map(|_| ()).map_err(said)
    }
}
