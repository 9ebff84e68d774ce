//! Conversions between element types.

use super::Result;
use super::lower::{Lower, Val};
use hrx_ir::tile::{Elem, Shape, Type, Value};
use melior::dialect::arith::{CmpfPredicate, CmpiPredicate};

impl<'c, 'a> Lower<'c, 'a, '_> {
    pub(super) fn convert(&mut self, arg: Value, to: Elem) -> Result<Val<'c, 'a>> {
        let Type { elem, shape } = self.k.ty(arg);
        let x = self.get(arg)?;
        self.convert_value(x, elem, to, shape)
    }

    pub(super) fn bitcast(&self, arg: Value, to: Elem) -> Result<Val<'c, 'a>> {
        let Type { elem, shape } = self.k.ty(arg);
        self.same_bits(self.get(arg)?, elem, to, shape)
    }

    /// The same bits as another type. MLIR's integers have no sign, so that many of these change nothing.
    pub(super) fn same_bits(&self, x: Val<'c, 'a>, from: Elem, to: Elem, shape: Shape) -> Result<Val<'c, 'a>> {
        if self.element(from) == self.element(to) { Ok(x) } else { self.cast("arith.bitcast", x, to, shape) }
    }

    fn cast(&self, name: &str, x: Val<'c, 'a>, to: Elem, shape: Shape) -> Result<Val<'c, 'a>> {
        self.value(name, &[x], self.ty(to, shape), &[])
    }

    /// Converts by value. See [`hrx_ir::tile::Op::Convert`] for the rules. Floats of 16 bit go by way of f32.
    pub(super) fn convert_value(&mut self, x: Val<'c, 'a>, from: Elem, to: Elem, shape: Shape) -> Result<Val<'c, 'a>> {
        match (from, to) {
            _ if from == to => Ok(x),
            (Elem::BF16, Elem::F32) => self.bf16_to_f32(x, shape),
            (Elem::F16, Elem::F32) => self.cast("arith.extf", x, to, shape),
            (Elem::F32, Elem::BF16) => self.f32_to_bf16(x, shape),
            (Elem::F32, Elem::F16) => self.cast("arith.truncf", x, to, shape),
            (Elem::F32, _) => self.f32_to_int(x, to, shape),
            (Elem::I32 | Elem::U32, Elem::BF16) => {
                let x = self.sticky(x, from, shape)?;
                let f = self.convert_value(x, from, Elem::F32, shape)?;
                self.f32_to_bf16(f, shape)
            }
            (Elem::F16 | Elem::BF16, _) | (_, Elem::F16 | Elem::BF16) => {
                let f = self.convert_value(x, from, Elem::F32, shape)?;
                self.convert_value(f, Elem::F32, to, shape)
            }
            (_, Elem::F32) => {
                let name = if from.is_signed() { "arith.sitofp" } else { "arith.uitofp" };
                self.cast(name, x, to, shape)
            }
            _ if from == Elem::B1 => self.cast("arith.extui", x, to, shape),
            _ if to.bytes() < from.bytes() => self.cast("arith.trunci", x, to, shape),
            _ if to.bytes() == from.bytes() => Ok(x),
            _ => self.cast(if from.is_signed() { "arith.extsi" } else { "arith.extui" }, x, to, shape),
        }
    }

    /// Truncation towards zero that saturates, NaN to 0. `fptosi` is undefined outside the integer's range, so it is given
    /// 0 there.
    fn f32_to_int(&mut self, x: Val<'c, 'a>, to: Elem, shape: Shape) -> Result<Val<'c, 'a>> {
        let dims = shape.dims();
        let bits = 8 * to.bytes();
        let signed = to.is_signed();
        // Powers of two, which f32 holds: the least integer, and the one above the largest.
        let (least, above) = if signed { (-(1i64 << (bits - 1)), 1i64 << (bits - 1)) } else { (0, 1i64 << bits) };
        let (low, high) = (self.float(least as f64, Elem::F32, dims)?, self.float(above as f64, Elem::F32, dims)?);
        let zero = self.float(0.0, Elem::F32, dims)?;
        let reaches = self.cmp_float(CmpfPredicate::Oge, x, low, shape)?;
        let below = self.cmp_float(CmpfPredicate::Olt, x, high, shape)?;
        let inside = self.apply("arith.andi", &[reaches, below])?;
        let safe = self.select(inside, x, zero)?;
        let n = self.cast(if signed { "arith.fptosi" } else { "arith.fptoui" }, safe, to, shape)?;
        let over = self.cmp_float(CmpfPredicate::Oge, x, high, shape)?;
        let under = self.cmp_float(CmpfPredicate::Olt, x, low, shape)?;
        let (most, least) = (self.int(above - 1, to, dims)?, self.int(least, to, dims)?);
        let n = self.select(over, most, n)?;
        self.select(under, least, n)
    }

    /// The bits are the upper half of the f32's.
    fn bf16_to_f32(&mut self, x: Val<'c, 'a>, shape: Shape) -> Result<Val<'c, 'a>> {
        let wide = self.cast("arith.extui", x, Elem::U32, shape)?;
        let sixteen = self.int(16, Elem::U32, shape.dims())?;
        let high = self.apply("arith.shli", &[wide, sixteen])?;
        self.cast("arith.bitcast", high, Elem::F32, shape)
    }

    /// The upper half of the bits, rounded to nearest even; NaN stays a quiet NaN.
    fn f32_to_bf16(&mut self, x: Val<'c, 'a>, shape: Shape) -> Result<Val<'c, 'a>> {
        let bits = self.cast("arith.bitcast", x, Elem::U32, shape)?;
        let mut c = |n: i64| self.int(n, Elem::U32, shape.dims());
        let (sixteen, one, bias, quiet) = (c(16)?, c(1)?, c(0x7FFF)?, c(0x40_0000)?);
        let odd = self.apply("arith.shrui", &[bits, sixteen])?;
        let odd = self.apply("arith.andi", &[odd, one])?;
        let up = self.apply("arith.addi", &[odd, bias])?;
        let rounded = self.apply("arith.addi", &[bits, up])?;
        let quiet = self.apply("arith.ori", &[bits, quiet])?;
        let nan = self.cmp_float(CmpfPredicate::Uno, x, x, shape)?;
        let chosen = self.select(nan, quiet, rounded)?;
        let high = self.apply("arith.shrui", &[chosen, sixteen])?;
        self.cast("arith.trunci", high, Elem::BF16, shape)
    }

    /// A 32-bit integer as a multiple of 256 where f32 does not hold it exactly, with bit 8 set if anything was cut off: f32
    /// holds that exactly, and rounding it to bfloat16's 8 bits gives what rounding the integer would have.
    fn sticky(&mut self, x: Val<'c, 'a>, elem: Elem, shape: Shape) -> Result<Val<'c, 'a>> {
        let mut c = |n: i64| self.int(n, elem, shape.dims());
        // Exact in f32: -2^24 ..= 2^24, for the comparison moved to start at 0.
        let by = if elem.is_signed() { 1 << 24 } else { 0 };
        let (start, exact) = (c(by)?, c((1 << 24) + by)?);
        let (zero, low_bits, bit, high_bits) = (c(0)?, c(255)?, c(256)?, c(-256)?);
        let moved = self.apply("arith.addi", &[x, start])?;
        let small = self.cmp_int(CmpiPredicate::Ule, moved, exact, shape)?;
        let rest = self.apply("arith.andi", &[x, low_bits])?;
        let cut = self.cmp_int(CmpiPredicate::Ne, rest, zero, shape)?;
        let odd = self.select(cut, bit, zero)?;
        let high = self.apply("arith.andi", &[x, high_bits])?;
        let high = self.apply("arith.ori", &[high, odd])?;
        self.select(small, x, high)
    }
}
