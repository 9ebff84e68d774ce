//! Dot products.

use super::reg::{Cast, IntOp};
use super::{Codegen, Reg, Result, Tile};
use hrx_ir::tile::bound::upper_bound;
use hrx_ir::tile::{Elem, Value};
use inkwell::IntPredicate;

/// What the first factor of a dot product of bytes is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Factor {
    Signed,
    /// Unsigned, at most 127.
    Small,
    Unsigned,
}

impl<'c> Codegen<'c, '_> {
    /// Matrix product, one fused multiply-add a row of `b`, in the documented order.
    pub(crate) fn dot(&self, [a, b, c]: [Value; 3]) -> Result<Tile<'c>> {
        let n = self.k.ty(c).shape.last();
        let (a, b, mut c) = (self.tile(a), self.tile(b), self.tile(c));
        for (row, acc) in a.into_iter().zip(&mut c) {
            for (k, b) in b.iter().enumerate() {
                let x = self.extract(row, k as u32)?;
                *acc = self.fma(self.splat(x, n)?, *b, *acc)?;
            }
        }
        Ok(c)
    }

    pub(crate) fn dot4(&self, [a, b, c]: [Value; 3]) -> Result<Tile<'c>> {
        let factor = match self.k.ty(a).elem {
            Elem::I8 => Factor::Signed,
            // Of a multiply-add of bytes to 16 bit.
            _ if upper_bound(self.k, a) <= 127 => Factor::Small,
            _ => Factor::Unsigned,
        };
        let (a, b, c) = (self.tile(a), self.tile(b), self.tile(c));
        a.into_iter().zip(b).zip(c).map(|((a, b), c)| self.dot4_reg(a, b, c, factor)).collect()
    }

    /// The widest pieces that the target has an instruction for, then the rest lane by lane.
    fn dot4_reg(&self, a: Reg<'c>, b: Reg<'c>, c: Reg<'c>, factor: Factor) -> Result<Reg<'c>> {
        let n = a.lanes();
        let widths: &[u32] = if self.target.has("avx512bw") { &[64, 32, 16] } else { &[32, 16] };
        let mut parts: Vec<Reg<'c>> = Vec::new();
        let mut at = 0;
        while at < n {
            let width = widths.iter().copied().find(|w| at + w <= n).unwrap_or(4);
            let bytes: Vec<u32> = (at..at + width).collect();
            let sums: Vec<u32> = (at / 4..(at + width) / 4).collect();
            let (pa, pb, pc) = (self.pick(a, &bytes)?, self.pick(b, &bytes)?, self.pick(c, &sums)?);
            parts.push(if width == 4 {
                self.dot4_plain(pa, pb, pc, factor)?
            } else {
                self.dot4_native(pa, pb, pc, factor)?
            });
            at += width;
        }
        self.join(&parts)
    }

    /// One register: VNNI where there is, else multiply-add of bytes to 16 bit and of those to 32 bit. The first factor of
    /// either is unsigned, so a signed one gives its sign to the second. Products of two neighbours of unsigned bytes
    /// don't fit 16 bits: without VNNI the upper bits go apart.
    fn dot4_native(&self, a: Reg<'c>, b: Reg<'c>, c: Reg<'c>, factor: Factor) -> Result<Reg<'c>> {
        let (a, b) = if factor == Factor::Signed { self.without_sign(a, b)? } else { (a, b) };
        if self.target.has("avx512vnni") || (self.target.has("avxvnni") && a.lanes() < 64) {
            let name = match a.lanes() {
                64 => "llvm.x86.avx512.vpdpbusd.512",
                32 => "llvm.x86.avx512.vpdpbusd.256",
                _ => "llvm.x86.avx512.vpdpbusd.128",
            };
            return self.intrinsic(name, &[], &[c, a, b]);
        }
        if factor == Factor::Unsigned {
            let byte = |n| self.splat_int(n, a.ty());
            let low = self.int_op(IntOp::And, a, byte(0x7F))?;
            let high = self.int_op(IntOp::LShr, a, byte(7))?;
            let high = self.fours(high, b)?;
            let high = self.int_op(IntOp::Shl, high, self.splat_int(7, high.ty()))?;
            let low = self.fours(low, b)?;
            let sum = self.int_op(IntOp::Add, low, high)?;
            return self.int_op(IntOp::Add, sum, c);
        }
        let fours = self.fours(a, b)?;
        self.int_op(IntOp::Add, fours, c)
    }

    /// Sums of four products with unsigned bytes of which two fit 16 bits.
    fn fours(&self, a: Reg<'c>, b: Reg<'c>) -> Result<Reg<'c>> {
        let (bytes, words) = match a.lanes() {
            64 => ("llvm.x86.avx512.pmaddubs.w.512", "llvm.x86.avx512.pmaddw.d.512"),
            32 => ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd"),
            _ => ("llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd"),
        };
        let pairs = self.intrinsic(bytes, &[], &[a, b])?;
        self.intrinsic(words, &[], &[pairs, self.splat_int(1, pairs.ty())])
    }

    /// The magnitude of `a`, and `b` with its sign.
    fn without_sign(&self, a: Reg<'c>, b: Reg<'c>) -> Result<(Reg<'c>, Reg<'c>)> {
        let sign = match a.lanes() {
            64 => {
                let zero = self.splat_int(0, a.ty());
                let negative = self.int_cmp(IntPredicate::SLT, a, zero)?;
                let flip = |x| {
                    let minus = self.int_op(IntOp::Sub, zero, x)?;
                    self.select_reg(negative, minus, x)
                };
                return Ok((flip(a)?, flip(b)?));
            }
            32 => "llvm.x86.avx2.psign.b",
            _ => "llvm.x86.ssse3.psign.b.128",
        };
        Ok((self.intrinsic(sign, &[], &[a, a])?, self.intrinsic(sign, &[], &[b, a])?))
    }

    /// Four products in 32 bit.
    fn dot4_plain(&self, a: Reg<'c>, b: Reg<'c>, c: Reg<'c>, factor: Factor) -> Result<Reg<'c>> {
        let words = self.lanes(Elem::I32, 4);
        let a = self.cast(if factor == Factor::Signed { Cast::SExt } else { Cast::ZExt }, a, words)?;
        let b = self.cast(Cast::SExt, b, words)?;
        let products = self.int_op(IntOp::Mul, a, b)?;
        (0..4).try_fold(c, |sum, i| self.int_op(IntOp::Add, sum, self.extract(products, i)?))
    }
}
