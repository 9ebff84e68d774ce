//! exp and tanh, written out so that every target computes the same bits.
//!
//! Both are the polynomials of the Cephes library's single-precision functions (S. Moshier, expf.c and tanhf.c).

use super::reg::{FloatOp, IntOp};
use super::{Codegen, Reg, Result};
use hrx_ir::tile::Elem;
use inkwell::FloatPredicate;

/// exp(r) = 1 + r + r² P(r) for |r| ≤ ln 2 / 2; highest power first.
pub(crate) const EXP: [f64; 6] =
    [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1];

/// ln 2 in two parts, the first with few enough bits that whole multiples of it are exact.
pub(crate) const LN_2: [f64; 2] = [0.693359375, -2.12194440e-4];

/// tanh(x) = x + x³ P(x²) for |x| < 0.625; highest power first.
pub(crate) const TANH: [f64; 5] =
    [-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1];

impl<'c> Codegen<'c, '_> {
    fn horner(&self, x: Reg<'c>, coefficients: &[f64]) -> Result<Reg<'c>> {
        let mut p = self.splat_float(coefficients[0], x.ty());
        for &c in &coefficients[1..] {
            p = self.fma(p, x, self.splat_float(c, x.ty()))?;
        }
        Ok(p)
    }

    /// e to the x: x = n ln 2 + r, exp(x) = 2^n exp(r). ln 2 is taken off in two parts so that r is exact enough, and
    /// 2^n is applied in two halves so that results below 2^-126 come out as subnormals.
    pub(crate) fn exp(&self, x: Reg<'c>) -> Result<Reg<'c>> {
        let f = |v: f64| self.splat_float(v, x.ty());
        // Keeps n within what two exponents can hold; a NaN passes both comparisons unchanged.
        let high = self.float_cmp(FloatPredicate::OGT, x, f(89.0))?;
        let y = self.select_reg(high, f(89.0), x)?;
        let low = self.float_cmp(FloatPredicate::OLT, y, f(-104.0))?;
        let y = self.select_reg(low, f(-104.0), y)?;
        let scaled = self.float_op(FloatOp::Mul, y, f(std::f64::consts::LOG2_E))?;
        let n = self.float_intrinsic("llvm.roundeven", &[scaled])?;
        let r = self.fma(n, f(-LN_2[0]), y)?;
        let r = self.fma(n, f(-LN_2[1]), r)?;
        let p = self.horner(r, &EXP)?;
        let square = self.float_op(FloatOp::Mul, r, r)?;
        let e = self.fma(p, square, r)?;
        let e = self.float_op(FloatOp::Add, e, f(1.0))?;
        let ints = self.lanes(Elem::I32, x.lanes());
        // Saturating, so that a NaN has a defined n; the product with r is NaN then.
        let n = self.intrinsic("llvm.fptosi.sat", &[ints, x.ty()], &[n])?;
        let half = self.int_op(IntOp::AShr, n, self.splat_int(1, ints))?;
        let rest = self.int_op(IntOp::Sub, n, half)?;
        let e = self.float_op(FloatOp::Mul, e, self.power_of_two(half)?)?;
        self.float_op(FloatOp::Mul, e, self.power_of_two(rest)?)
    }

    /// 2^n for integers -126 ≤ n ≤ 127, by the exponent's bits.
    fn power_of_two(&self, n: Reg<'c>) -> Result<Reg<'c>> {
        let biased = self.int_op(IntOp::Add, n, self.splat_int(127, n.ty()))?;
        let bits = self.int_op(IntOp::Shl, biased, self.splat_int(23, n.ty()))?;
        self.bitcast(bits, self.lanes(Elem::F32, n.lanes()))
    }

    /// Hyperbolic tangent: the polynomial near zero, 1 - 2 / (exp(2|x|) + 1) with x's sign elsewhere.
    pub(crate) fn tanh(&self, x: Reg<'c>) -> Result<Reg<'c>> {
        let f = |v: f64| self.splat_float(v, x.ty());
        let square = self.float_op(FloatOp::Mul, x, x)?;
        let p = self.horner(square, &TANH)?;
        let cube = self.float_op(FloatOp::Mul, square, x)?;
        let near = self.fma(p, cube, x)?;
        let size = self.float_intrinsic("llvm.fabs", &[x])?;
        let twice = self.float_op(FloatOp::Add, size, size)?;
        let e = self.exp(twice)?;
        let below = self.float_op(FloatOp::Add, e, f(1.0))?;
        let quotient = self.float_op(FloatOp::Div, f(2.0), below)?;
        let far = self.float_op(FloatOp::Sub, f(1.0), quotient)?;
        let far = self.float_intrinsic("llvm.copysign", &[far, x])?;
        let is_near = self.float_cmp(FloatPredicate::OLT, size, f(0.625))?;
        self.select_reg(is_near, near, far)
    }
}
