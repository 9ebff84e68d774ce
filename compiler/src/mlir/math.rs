//! exp and tanh, written out with the coefficients of [`crate::codegen`]: `math.exp` would call a library, whose bits
//! are its own affair.

use super::Result;
use super::lower::{Lower, Val};
use crate::codegen::math::{EXP, LN_2, TANH};
use hrx_ir::tile::{Elem, Shape};
use melior::dialect::arith::CmpfPredicate;

impl<'c, 'a> Lower<'c, 'a, '_> {
    fn horner(&mut self, x: Val<'c, 'a>, coefficients: &[f64], shape: Shape) -> Result<Val<'c, 'a>> {
        let mut p = self.float(coefficients[0], Elem::F32, shape.dims())?;
        for &c in &coefficients[1..] {
            let c = self.float(c, Elem::F32, shape.dims())?;
            p = self.fma(p, x, c)?;
        }
        Ok(p)
    }

    /// e to the x = 2^n exp(r), n the nearest whole number to x / ln 2.
    pub(super) fn exp(&mut self, x: Val<'c, 'a>, shape: Shape) -> Result<Val<'c, 'a>> {
        let mut f = |v: f64| self.float(v, Elem::F32, shape.dims());
        let (most, least, log2_e) = (f(89.0)?, f(-104.0)?, f(std::f64::consts::LOG2_E)?);
        let (ln_2_high, ln_2_low, one) = (f(-LN_2[0])?, f(-LN_2[1])?, f(1.0)?);
        // Keeps n within what two exponents hold; a NaN passes.
        let high = self.cmp_float(CmpfPredicate::Ogt, x, most, shape)?;
        let y = self.select(high, most, x)?;
        let low = self.cmp_float(CmpfPredicate::Olt, y, least, shape)?;
        let y = self.select(low, least, y)?;
        let scaled = self.apply("arith.mulf", &[y, log2_e])?;
        let n = self.apply("math.roundeven", &[scaled])?;
        let r = self.fma(n, ln_2_high, y)?;
        let r = self.fma(n, ln_2_low, r)?;
        let p = self.horner(r, &EXP, shape)?;
        let square = self.apply("arith.mulf", &[r, r])?;
        let e = self.fma(p, square, r)?;
        let e = self.apply("arith.addf", &[e, one])?;
        // A NaN gives 0; the product with r is NaN then.
        let n = self.convert_value(n, Elem::F32, Elem::I32, shape)?;
        let by = self.int(1, Elem::I32, shape.dims())?;
        let half = self.apply("arith.shrsi", &[n, by])?;
        let rest = self.apply("arith.subi", &[n, half])?;
        // In two halves, so that results below 2^-126 come out as subnormals.
        let first = self.power_of_two(half, shape)?;
        let e = self.apply("arith.mulf", &[e, first])?;
        let second = self.power_of_two(rest, shape)?;
        self.apply("arith.mulf", &[e, second])
    }

    /// 2^n for integers -126 ≤ n ≤ 127, by the exponent's bits.
    fn power_of_two(&mut self, n: Val<'c, 'a>, shape: Shape) -> Result<Val<'c, 'a>> {
        let bias = self.int(127, Elem::I32, shape.dims())?;
        let place = self.int(23, Elem::I32, shape.dims())?;
        let biased = self.apply("arith.addi", &[n, bias])?;
        let bits = self.apply("arith.shli", &[biased, place])?;
        self.value("arith.bitcast", &[bits], self.ty(Elem::F32, shape), &[])
    }

    /// Hyperbolic tangent: a polynomial near zero, 1 - 2 / (exp(2|x|) + 1) with x's sign elsewhere.
    pub(super) fn tanh(&mut self, x: Val<'c, 'a>, shape: Shape) -> Result<Val<'c, 'a>> {
        let mut f = |v: f64| self.float(v, Elem::F32, shape.dims());
        let (one, two, border) = (f(1.0)?, f(2.0)?, f(0.625)?);
        let square = self.apply("arith.mulf", &[x, x])?;
        let p = self.horner(square, &TANH, shape)?;
        let cube = self.apply("arith.mulf", &[square, x])?;
        let near = self.fma(p, cube, x)?;
        let size = self.apply("math.absf", &[x])?;
        let twice = self.apply("arith.addf", &[size, size])?;
        let e = self.exp(twice, shape)?;
        let below = self.apply("arith.addf", &[e, one])?;
        let quotient = self.apply("arith.divf", &[two, below])?;
        let far = self.apply("arith.subf", &[one, quotient])?;
        let far = self.apply("math.copysign", &[far, x])?;
        let is_near = self.cmp_float(CmpfPredicate::Olt, size, border, shape)?;
        self.select(is_near, near, far)
    }
}
