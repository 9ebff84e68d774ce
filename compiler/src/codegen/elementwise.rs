//! Constants and operations that go element by element.

use super::reg::{Cast, FloatOp, IntOp};
use super::{Codegen, Reg, Result, Tile, not_expanded};
use hrx_ir::tile::{BinaryOp, CmpOp, Elem, Literal, Type, UnaryOp, Value};
use inkwell::types::BasicTypeEnum;
use inkwell::{FloatPredicate, IntPredicate};

impl<'c> Codegen<'c, '_> {
    pub(crate) fn constant(&self, value: Literal, ty: Type) -> Tile<'c> {
        let t = self.reg_type(ty);
        let reg = match value {
            Literal::Int(n) => self.splat_int(n, t),
            // bfloat16 lives in integers; the upper half of the f32, rounded to nearest even.
            Literal::Float(x) if ty.elem == Elem::BF16 => {
                self.splat_int(i64::from(half::bf16::from_f64(x).to_bits()), t)
            }
            Literal::Float(x) => self.splat_float(x, t),
        };
        vec![reg; ty.shape.rows() as usize]
    }

    pub(crate) fn iota(&self, ty: Type) -> Result<Tile<'c>> {
        let BasicTypeEnum::IntType(t) = self.basic(ty.elem) else { unreachable!("iota is of integers") };
        let lanes: Vec<_> = (0..ty.shape.last()).map(|i| t.const_int(u64::from(i), false)).collect();
        let reg: Reg = match lanes.as_slice() {
            [one] => (*one).into(),
            _ => inkwell::types::VectorType::const_vector(&lanes).into(),
        };
        Ok(vec![reg])
    }

    /// Applies `f` to each register.
    pub(crate) fn map(&self, v: Value, f: impl Fn(&Self, Reg<'c>) -> Result<Reg<'c>>) -> Result<Tile<'c>> {
        self.tile(v).into_iter().map(|r| f(self, r)).collect()
    }

    /// Applies `f` to the registers of two tiles of one shape.
    fn zip(&self, [a, b]: [Value; 2], f: impl Fn(&Self, Reg<'c>, Reg<'c>) -> Result<Reg<'c>>) -> Result<Tile<'c>> {
        self.tile(a).into_iter().zip(self.tile(b)).map(|(x, y)| f(self, x, y)).collect()
    }

    /// Applies `f` to the registers of three tiles of one shape.
    pub(crate) fn zip3(
        &self,
        [a, b, c]: [Value; 3],
        f: impl Fn(&Self, Reg<'c>, Reg<'c>, Reg<'c>) -> Result<Reg<'c>>,
    ) -> Result<Tile<'c>> {
        let (a, b, c) = (self.tile(a), self.tile(b), self.tile(c));
        a.into_iter().zip(b).zip(c).map(|((x, y), z)| f(self, x, y, z)).collect()
    }

    pub(crate) fn unary(&self, op: UnaryOp, arg: Value) -> Result<Tile<'c>> {
        let elem = self.k.ty(arg).elem;
        self.map(arg, |g, x| match op {
            UnaryOp::Neg if elem.is_float() => g.neg_float(elem, x),
            UnaryOp::Neg => g.int_op(IntOp::Sub, g.splat_int(0, x.ty()), x),
            UnaryOp::Abs if elem.is_float() => g.abs_float(elem, x),
            UnaryOp::Abs if elem.is_signed() => {
                let zero = g.splat_int(0, x.ty());
                let negative = g.int_cmp(IntPredicate::SLT, x, zero)?;
                let minus = g.int_op(IntOp::Sub, zero, x)?;
                g.select_reg(negative, minus, x)
            }
            UnaryOp::Abs => Ok(x),
            UnaryOp::Not => g.int_op(IntOp::Xor, x, g.splat_int(-1, x.ty())),
            UnaryOp::Exp | UnaryOp::Tanh => Err(not_expanded(op.name())),
            UnaryOp::Sqrt => g.float_intrinsic("llvm.sqrt", &[x]),
            UnaryOp::Rsqrt => {
                let root = g.float_intrinsic("llvm.sqrt", &[x])?;
                g.float_op(FloatOp::Div, g.splat_float(1.0, x.ty()), root)
            }
            UnaryOp::Floor => g.float_intrinsic("llvm.floor", &[x]),
            UnaryOp::Round => g.float_intrinsic("llvm.roundeven", &[x]),
        })
    }

    /// Flips the sign bit. bfloat16 lives in integers, and f16 arithmetic would widen it for nothing.
    fn neg_float(&self, elem: Elem, x: Reg<'c>) -> Result<Reg<'c>> {
        self.on_bits(elem, x, |g, bits, top| g.int_op(IntOp::Xor, bits, top))
    }

    fn abs_float(&self, elem: Elem, x: Reg<'c>) -> Result<Reg<'c>> {
        if elem == Elem::F32 {
            return self.float_intrinsic("llvm.fabs", &[x]);
        }
        self.on_bits(elem, x, |g, bits, top| {
            let rest = g.int_op(IntOp::Xor, top, g.splat_int(-1, top.ty()))?;
            g.int_op(IntOp::And, bits, rest)
        })
    }

    /// Applies `f` to the bits of a float and a mask of its sign bit.
    fn on_bits(
        &self,
        elem: Elem,
        x: Reg<'c>,
        f: impl Fn(&Self, Reg<'c>, Reg<'c>) -> Result<Reg<'c>>,
    ) -> Result<Reg<'c>> {
        let int = if elem == Elem::F32 { Elem::I32 } else { Elem::I16 };
        let bits = self.bitcast(x, self.lanes(int, x.lanes()))?;
        let top = self.splat_int(-1i64 << (elem.bytes() * 8 - 1), bits.ty());
        let out = f(self, bits, top)?;
        self.bitcast(out, x.ty())
    }

    /// Calls an intrinsic overloaded on its operands' type.
    pub(crate) fn float_intrinsic(&self, name: &str, args: &[Reg<'c>]) -> Result<Reg<'c>> {
        self.intrinsic(name, &[args[0].ty()], args)
    }

    pub(crate) fn fma(&self, a: Reg<'c>, b: Reg<'c>, c: Reg<'c>) -> Result<Reg<'c>> {
        self.float_intrinsic("llvm.fma", &[a, b, c])
    }

    pub(crate) fn binary(&self, op: BinaryOp, args: [Value; 2]) -> Result<Tile<'c>> {
        let elem = self.k.ty(args[0]).elem;
        let signed = elem.is_signed();
        self.zip(args, |g, x, y| match op {
            BinaryOp::Add if elem.is_float() => g.float_op(FloatOp::Add, x, y),
            BinaryOp::Sub if elem.is_float() => g.float_op(FloatOp::Sub, x, y),
            BinaryOp::Mul if elem.is_float() => g.float_op(FloatOp::Mul, x, y),
            BinaryOp::Div if elem.is_float() => g.float_op(FloatOp::Div, x, y),
            BinaryOp::Min => g.min_max(elem, false, x, y),
            BinaryOp::Max => g.min_max(elem, true, x, y),
            BinaryOp::Add => g.int_op(IntOp::Add, x, y),
            BinaryOp::Sub => g.int_op(IntOp::Sub, x, y),
            BinaryOp::Mul => g.int_op(IntOp::Mul, x, y),
            BinaryOp::Div | BinaryOp::Rem => g.divide(op == BinaryOp::Rem, signed, x, y),
            BinaryOp::And => g.int_op(IntOp::And, x, y),
            BinaryOp::Or => g.int_op(IntOp::Or, x, y),
            BinaryOp::Xor => g.int_op(IntOp::Xor, x, y),
            BinaryOp::Shl => g.shift(IntOp::Shl, x, y),
            BinaryOp::Shr => g.shift(if signed { IntOp::AShr } else { IntOp::LShr }, x, y),
        })
    }

    /// Integer quotient or remainder that never traps: by zero they are 0 and the dividend, and the least integer by -1
    /// wraps. Of a constant divisor nothing of the guard is left.
    fn divide(&self, rem: bool, signed: bool, x: Reg<'c>, y: Reg<'c>) -> Result<Reg<'c>> {
        let c = |n: i64| self.splat_int(n, y.ty());
        let by_zero = self.int_cmp(IntPredicate::EQ, y, c(0))?;
        let mut safe = self.select_reg(by_zero, c(1), y)?;
        let op = match (rem, signed) {
            (false, true) => IntOp::SDiv,
            (false, false) => IntOp::UDiv,
            (true, true) => IntOp::SRem,
            (true, false) => IntOp::URem,
        };
        if !signed {
            let out = self.int_op(op, x, safe)?;
            return self.select_reg(by_zero, if rem { x } else { c(0) }, out);
        }
        let by_minus_one = self.int_cmp(IntPredicate::EQ, y, c(-1))?;
        safe = self.select_reg(by_minus_one, c(1), safe)?;
        let out = self.int_op(op, x, safe)?;
        let out = self.select_reg(by_zero, if rem { x } else { c(0) }, out)?;
        let negated = if rem { c(0) } else { self.int_op(IntOp::Sub, c(0), x)? };
        self.select_reg(by_minus_one, negated, out)
    }

    /// A shift by the amount modulo the width.
    fn shift(&self, op: IntOp, x: Reg<'c>, y: Reg<'c>) -> Result<Reg<'c>> {
        let element = match y.ty() {
            BasicTypeEnum::VectorType(t) => t.get_element_type().into_int_type(),
            t => t.into_int_type(),
        };
        let amount = self.int_op(IntOp::And, y, self.splat_int(i64::from(element.get_bit_width()) - 1, y.ty()))?;
        self.int_op(op, x, amount)
    }

    /// The larger or smaller one; of floats the one that is a number, and -0 below +0 (IEEE 754-2019's minimumNumber and
    /// maximumNumber: with `llvm.minnum` the sign of a zero would depend on the target, and AVX-512's `vrange` makes a NaN
    /// of a signalling one).
    pub(crate) fn min_max(&self, elem: Elem, max: bool, x: Reg<'c>, y: Reg<'c>) -> Result<Reg<'c>> {
        if elem.is_float() {
            return self.float_intrinsic(if max { "llvm.maximumnum" } else { "llvm.minimumnum" }, &[x, y]);
        }
        let p = match (elem.is_signed(), max) {
            (true, true) => IntPredicate::SGT,
            (true, false) => IntPredicate::SLT,
            (false, true) => IntPredicate::UGT,
            (false, false) => IntPredicate::ULT,
        };
        let c = self.int_cmp(p, x, y)?;
        self.select_reg(c, x, y)
    }

    /// Floats as 32-bit integers, what is too large as the largest: the instruction gives the least integer for all that
    /// does not fit. LLVM's own way goes element by element.
    fn saturated(&self, x: Reg<'c>) -> Result<Reg<'c>> {
        let n = x.lanes();
        let to = self.lanes(Elem::I32, n);
        let converted = match n {
            16 => {
                let (old, all) = (to.const_zero().into(), self.cx.i16_type().const_all_ones().into());
                let rounding = self.cx.i32_type().const_int(4, false).into();
                self.intrinsic("llvm.x86.avx512.mask.cvttps2dq.512", &[], &[x, old, all, rounding])?
            }
            8 => self.intrinsic("llvm.x86.avx.cvtt.ps2dq.256", &[], &[x])?,
            _ => self.intrinsic("llvm.x86.sse2.cvttps2dq", &[], &[x])?,
        };
        let large = self.float_cmp(FloatPredicate::OGE, x, self.splat_float(2_147_483_648.0, x.ty()))?;
        let most = self.splat_int(i64::from(i32::MAX), to);
        let bounded = self.select_reg(large, most, converted)?;
        let number = self.float_cmp(FloatPredicate::ORD, x, x)?;
        self.select_reg(number, bounded, self.splat_int(0, to))
    }

    /// Applies `f` to pieces of registers of one length that are as long as the target's vectors, the rest last.
    fn in_pieces(&self, args: &[Reg<'c>], f: impl Fn(&Self, &[Reg<'c>]) -> Result<Reg<'c>>) -> Result<Reg<'c>> {
        let n = args[0].lanes();
        let widths: &[u32] = if self.target.has("avx512vl") { &[16, 8, 4] } else { &[8, 4] };
        let mut parts = Vec::new();
        let mut at = 0;
        while at < n {
            let width = widths.iter().copied().find(|w| at + w <= n).unwrap_or(n - at);
            let lanes: Vec<u32> = (at..at + width).collect();
            let piece = args.iter().map(|&a| self.pick(a, &lanes)).collect::<Result<Vec<_>>>()?;
            parts.push(f(self, &piece)?);
            at += width;
        }
        self.join(&parts)
    }

    pub(crate) fn compare(&self, op: CmpOp, args: [Value; 2]) -> Result<Tile<'c>> {
        let elem = self.k.ty(args[0]).elem;
        if elem.is_float() {
            let p = match op {
                CmpOp::Eq => FloatPredicate::OEQ,
                CmpOp::Ne => FloatPredicate::UNE,
                CmpOp::Lt => FloatPredicate::OLT,
                CmpOp::Le => FloatPredicate::OLE,
                CmpOp::Gt => FloatPredicate::OGT,
                CmpOp::Ge => FloatPredicate::OGE,
            };
            return self.zip(args, |g, x, y| g.float_cmp(p, x, y));
        }
        let p = match (op, elem.is_signed()) {
            (CmpOp::Eq, _) => IntPredicate::EQ,
            (CmpOp::Ne, _) => IntPredicate::NE,
            (CmpOp::Lt, true) => IntPredicate::SLT,
            (CmpOp::Le, true) => IntPredicate::SLE,
            (CmpOp::Gt, true) => IntPredicate::SGT,
            (CmpOp::Ge, true) => IntPredicate::SGE,
            (CmpOp::Lt, false) => IntPredicate::ULT,
            (CmpOp::Le, false) => IntPredicate::ULE,
            (CmpOp::Gt, false) => IntPredicate::UGT,
            (CmpOp::Ge, false) => IntPredicate::UGE,
        };
        self.zip(args, |g, x, y| g.int_cmp(p, x, y))
    }

    pub(crate) fn convert(&self, arg: Value, to: Elem) -> Result<Tile<'c>> {
        let from = self.k.ty(arg).elem;
        self.map(arg, |g, x| g.convert_reg(x, from, to))
    }

    /// Converts by value. See [`hrx_ir::tile::Op::Convert`] for the rules.
    pub(crate) fn convert_reg(&self, x: Reg<'c>, from: Elem, to: Elem) -> Result<Reg<'c>> {
        let n = x.lanes();
        let want = self.lanes(to, n);
        match (from, to) {
            _ if from == to => Ok(x),
            (Elem::BF16, _) => {
                let wide = self.cast(Cast::ZExt, x, self.lanes(Elem::U32, n))?;
                let bits = self.int_op(IntOp::Shl, wide, self.splat_int(16, wide.ty()))?;
                let f = self.bitcast(bits, self.lanes(Elem::F32, n))?;
                self.convert_reg(f, Elem::F32, to)
            }
            (Elem::F32, Elem::BF16) => self.f32_to_bf16(x),
            (_, Elem::BF16) => {
                let x = if matches!(from, Elem::I32 | Elem::U32) { self.sticky(x, from)? } else { x };
                let f = self.convert_reg(x, from, Elem::F32)?;
                self.f32_to_bf16(f)
            }
            (Elem::F16, Elem::F32) => self.cast(Cast::FpExt, x, want),
            (Elem::F32, Elem::F16) => self.cast(Cast::FpTrunc, x, want),
            (Elem::F16, _) => {
                let f = self.cast(Cast::FpExt, x, self.lanes(Elem::F32, n))?;
                self.convert_reg(f, Elem::F32, to)
            }
            (Elem::F32, Elem::I32) if n >= 4 => self.in_pieces(&[x], |g, args| match args[0].lanes() {
                n @ 1..4 => g.intrinsic("llvm.fptosi.sat", &[g.lanes(to, n), args[0].ty()], args),
                _ => g.saturated(args[0]),
            }),
            (Elem::F32, _) => {
                let name = if to.is_signed() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
                self.intrinsic(name, &[want, x.ty()], &[x])
            }
            (_, Elem::F16) => {
                let f = self.convert_reg(x, from, Elem::F32)?;
                self.cast(Cast::FpTrunc, f, want)
            }
            (_, Elem::F32) => self.cast(if from.is_signed() { Cast::SiToFp } else { Cast::UiToFp }, x, want),
            _ if to.bytes() < from.bytes() => self.cast(Cast::Trunc, x, want),
            _ if from == Elem::B1 || (to.bytes() > from.bytes() && !from.is_signed()) => self.cast(Cast::ZExt, x, want),
            _ if to.bytes() > from.bytes() => self.cast(Cast::SExt, x, want),
            _ => Ok(x),
        }
    }

    /// A 32-bit integer as a multiple of 256 where f32 does not hold it exactly, odd if anything was cut off: rounding to
    /// f32 is exact then, and a second rounding to fewer bits gives what a single one would have.
    fn sticky(&self, x: Reg<'c>, elem: Elem) -> Result<Reg<'c>> {
        let c = |n: i64| self.splat_int(n, x.ty());
        // Exact in f32: -2^24 ..= 2^24, moved to start at 0.
        let moved = if elem.is_signed() { self.int_op(IntOp::Add, x, c(1 << 24))? } else { x };
        let small = self.int_cmp(IntPredicate::ULE, moved, c(if elem.is_signed() { 1 << 25 } else { 1 << 24 }))?;
        let rest = self.int_op(IntOp::And, x, c(255))?;
        let cut = self.int_cmp(IntPredicate::NE, rest, c(0))?;
        let odd = self.select_reg(cut, c(256), c(0))?;
        let high = self.int_op(IntOp::And, x, c(-256))?;
        let high = self.int_op(IntOp::Or, high, odd)?;
        self.select_reg(small, x, high)
    }

    /// The upper half of the bits, rounded to nearest even; NaN stays a quiet NaN.
    fn f32_to_bf16(&self, x: Reg<'c>) -> Result<Reg<'c>> {
        let n = x.lanes();
        let bits = self.bitcast(x, self.lanes(Elem::U32, n))?;
        let c = |v: i64| self.splat_int(v, bits.ty());
        let odd = self.int_op(IntOp::LShr, bits, c(16))?;
        let odd = self.int_op(IntOp::And, odd, c(1))?;
        let bias = self.int_op(IntOp::Add, odd, c(0x7FFF))?;
        let rounded = self.int_op(IntOp::Add, bits, bias)?;
        let quiet = self.int_op(IntOp::Or, bits, c(0x40_0000))?;
        let nan = self.float_cmp(FloatPredicate::UNO, x, x)?;
        let chosen = self.select_reg(nan, quiet, rounded)?;
        let high = self.int_op(IntOp::LShr, chosen, c(16))?;
        self.cast(Cast::Trunc, high, self.lanes(Elem::U16, n))
    }

    pub(crate) fn bitcast_tile(&self, arg: Value, to: Elem) -> Result<Tile<'c>> {
        self.map(arg, |g, x| g.bitcast(x, g.lanes(to, x.lanes())))
    }
}
