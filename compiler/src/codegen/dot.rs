//! Dot products.

use super::reg::{Cast, IntOp};
use super::{Codegen, Reg, Result, Tile};
use hrx_ir::tile::{Elem, Value};

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
        let signed = self.k.ty(a).elem == Elem::I8;
        let (a, b, c) = (self.tile(a), self.tile(b), self.tile(c));
        a.into_iter().zip(b).zip(c).map(|((a, b), c)| self.dot4_reg(a, b, c, signed)).collect()
    }

    /// The widest pieces that the target has an instruction for, then the rest lane by lane.
    fn dot4_reg(&self, a: Reg<'c>, b: Reg<'c>, c: Reg<'c>, signed: bool) -> Result<Reg<'c>> {
        let n = a.lanes();
        let mut parts: Vec<Reg<'c>> = Vec::new();
        let mut at = 0;
        while at < n {
            let width = [32, 16].into_iter().find(|w| at + w <= n).unwrap_or(4);
            let bytes: Vec<u32> = (at..at + width).collect();
            let sums: Vec<u32> = (at / 4..(at + width) / 4).collect();
            let (pa, pb, pc) = (self.pick(a, &bytes)?, self.pick(b, &bytes)?, self.pick(c, &sums)?);
            parts.push(if width == 4 {
                self.dot4_plain(pa, pb, pc, signed)?
            } else {
                self.dot4_native(pa, pb, pc, signed)?
            });
            at += width;
        }
        self.join(&parts)
    }

    /// One 128- or 256-bit register: VNNI where there is, else multiply-add of bytes to 16 bit and of those to 32 bit.
    /// The first factor of either is unsigned, so a signed one gives its sign to the second.
    fn dot4_native(&self, a: Reg<'c>, b: Reg<'c>, c: Reg<'c>, signed: bool) -> Result<Reg<'c>> {
        let wide = a.lanes() == 32;
        let (a, b) = if signed {
            let sign = if wide { "llvm.x86.avx2.psign.b" } else { "llvm.x86.ssse3.psign.b.128" };
            (self.intrinsic(sign, &[], &[a, a])?, self.intrinsic(sign, &[], &[b, a])?)
        } else {
            (a, b)
        };
        if self.target.has("avx512vnni") || self.target.has("avxvnni") {
            let name = if wide { "llvm.x86.avx512.vpdpbusd.256" } else { "llvm.x86.avx512.vpdpbusd.128" };
            return self.intrinsic(name, &[], &[c, a, b]);
        }
        let (bytes, words) = if wide {
            ("llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd")
        } else {
            ("llvm.x86.ssse3.pmadd.ub.sw.128", "llvm.x86.sse2.pmadd.wd")
        };
        let pairs = self.intrinsic(bytes, &[], &[a, b])?;
        let fours = self.intrinsic(words, &[], &[pairs, self.splat_int(1, pairs.ty())])?;
        self.int_op(IntOp::Add, fours, c)
    }

    /// Four products in 32 bit.
    fn dot4_plain(&self, a: Reg<'c>, b: Reg<'c>, c: Reg<'c>, signed: bool) -> Result<Reg<'c>> {
        let words = self.lanes(Elem::I32, 4);
        let a = self.cast(if signed { Cast::SExt } else { Cast::ZExt }, a, words)?;
        let b = self.cast(Cast::SExt, b, words)?;
        let products = self.int_op(IntOp::Mul, a, b)?;
        (0..4).try_fold(c, |sum, i| self.int_op(IntOp::Add, sum, self.extract(products, i)?))
    }
}
