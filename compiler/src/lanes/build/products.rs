//! Dot and matrix products.

use super::tile::{Data, Tile};
use super::{Builder, Result, refuse};
use crate::lanes::fragments::product;
use crate::lanes::ir::{Bin, Val};
use crate::lanes::layout::{Axis, Layout, Place};
use crate::target::amd::Dot4;
use hrx_ir::tile::bound::upper_bound;
use hrx_ir::tile::{Elem, Value};

impl Builder<'_> {
    /// Matrix product of one float type, a fused multiply-add for each k in rising order.
    pub(super) fn dot(&mut self, [a, b, c]: [Value; 3], layout: &Layout) -> Result<Data> {
        let elem = self.k.ty(a).elem;
        if elem != Elem::F32 {
            return refuse(format!("dot of {elem}: narrow floats are widened before they are multiplied"));
        }
        let k = self.k.ty(a).shape.dims()[1];
        let a = self.tile_in(a, &layout.with_axis(1, Axis::registers(k)))?;
        let b = self.tile_in(b, &layout.with_axis(0, Axis::registers(k)))?;
        let mut c = self.tile_in(c, layout)?;
        for (place, at) in layout.coords().iter().enumerate() {
            for step in 0..k {
                let x = a.words[a.layout.register_of(&[at[0], step])];
                let y = b.words[b.layout.register_of(&[step, at[1]])];
                c.words[place] = self.e.fma(x, y, c.words[place]);
            }
        }
        Ok(Data::Tile(c))
    }

    /// Four neighbours of the last axis lie in one word.
    pub(super) fn dot4(&mut self, [a, b, c]: [Value; 3], layout: &Layout) -> Result<Data> {
        let signed = self.k.ty(a).elem == Elem::I8;
        // Bytes that can't be taken as signed, where the dot product's are.
        let large = !signed && self.facts.dot4 == Dot4::Same && upper_bound(self.k, a) > 127;
        let factors = quadrupled(layout);
        let (a, b) = (self.tile_in(a, &factors)?, self.tile_in(b, &factors)?);
        let c = self.tile_in(c, layout)?;
        let (a, b) = (self.repacked(a, 4), self.repacked(b, 4));
        let words = (0..c.words.len()).map(|i| match [a.words[i], b.words[i], c.words[i]] {
            words if large => self.large_four(words),
            words => self.four(signed, words),
        });
        let words = words.collect();
        Ok(Data::Tile(Tile { words, ..c }))
    }

    /// Products with unsigned bytes above 127 by dot products of signed ones: the highest bits go apart.
    fn large_four(&mut self, [a, b, c]: [Val; 3]) -> Val {
        let low = self.e.and(a, 0x7F7F_7F7F);
        let high = self.e.shr(a, 7);
        let high = self.e.and(high, 0x0101_0101);
        let zero = self.e.int(0);
        let high = self.four(false, [high, b, zero]);
        let high = self.e.times(high, 128);
        let sum = self.e.add(c, high);
        self.four(false, [low, b, sum])
    }

    /// Four products of bytes and a sum. The first factor is at most 127 where it is unsigned and the chip's dot product
    /// takes it as signed.
    fn four(&mut self, signed: bool, [a, b, c]: [Val; 3]) -> Val {
        match self.facts.dot4 {
            Dot4::Mixed => self.e.dot4(signed, [a, b, c]),
            Dot4::Same => self.e.dot4(true, [a, b, c]),
            Dot4::None => (0..4).fold(c, |sum, i| {
                let x = super::tile::unpack(&mut self.e, if signed { Elem::I8 } else { Elem::U8 }, a, i);
                let y = super::tile::unpack(&mut self.e, Elem::I8, b, i);
                let product = self.e.bin(Bin::Mul, x, y);
                self.e.add(sum, product)
            }),
        }
    }

    /// Matrix product with the chip's matrix unit, else with dot products of what a word holds.
    pub(super) fn mma(&mut self, [a, b, c]: [Value; 3], layout: &Layout) -> Result<Data> {
        let p = product(self.facts, self.k.waves, self.k.ty(a), self.k.ty(b));
        let elem = self.k.ty(a).elem;
        let (a, b) = (self.tile_in(a, &p.a)?, self.tile_in(b, &p.b)?);
        let mut c = self.tile_in(c, &p.c)?;
        match p.inst {
            Some(inst) => {
                // Fragments: the registers of one step along m, n and k.
                let steps = |axis: &Axis, size: u32| -> Vec<u32> {
                    (0..axis.extent()).step_by(size as usize).filter(|i| in_registers(axis, *i)).collect()
                };
                let (rows, columns) = (steps(&p.c.axes[0], 16), steps(&p.c.axes[1], 16));
                let ks: Vec<u32> = (0..p.a.axes[1].extent()).step_by(inst.k as usize).collect();
                for &k in &ks {
                    for &m in &rows {
                        for &n in &columns {
                            let fa = fragment(&a, [m, k], [16, inst.k]);
                            let fb = fragment(&b, [n, k], [16, inst.k]);
                            let at = registers(&c.layout, [m, n], [16, 16]);
                            let fc = at.iter().map(|&r| c.words[r]).collect();
                            let out = self.e.mma(inst, fa, fb, fc);
                            at.iter().zip(out).for_each(|(&r, v)| c.words[r] = v);
                        }
                    }
                }
            }
            None => self.mma_by_words(elem, &a, &b, &mut c)?,
        }
        Ok(Data::Tile(self.convert_layout(&c, layout)))
    }

    /// Steps along k come first and outputs second: an element that is widened for one output is widened for all of
    /// them, and must not wait in a register for the other outputs until the first one's sum is done.
    fn mma_by_words(&mut self, elem: Elem, a: &Tile, b: &Tile, c: &mut Tile) -> Result<()> {
        let k = a.layout.axes[1].extent();
        let n = a.pack.min(b.pack);
        let places = c.layout.coords();
        for step in (0..k).step_by(n as usize) {
            for (sum, at) in c.words.iter_mut().zip(&places) {
                let (ra, rb) = (a.layout.register_of(&[at[0], step]), b.layout.register_of(&[at[1], step]));
                let words = [a.words[ra / a.pack as usize], b.words[rb / b.pack as usize]];
                *sum = match (elem, n) {
                    (Elem::I8, 4) => self.four(true, [words[0], words[1], *sum]),
                    (Elem::F16, 2) if self.facts.dot2 => self.e.dot2([words[0], words[1], *sum]),
                    (Elem::F16 | Elem::BF16, _) => (0..n as usize).fold(*sum, |sum, i| {
                        let (x, y) = (a.element(&mut self.e, ra + i), b.element(&mut self.e, rb + i));
                        self.e.fma(x, y, sum)
                    }),
                    _ => return refuse(format!("a matrix product of {elem}")),
                };
            }
        }
        Ok(())
    }
}

/// The layout of dot4's factors for that of its result.
pub(in crate::lanes) fn quadrupled(layout: &Layout) -> Layout {
    let last = layout.axes.len() - 1;
    let axis = &layout.axes[last];
    let bits = [&[Place::Reg, Place::Reg][..], &axis.bits[..]].concat();
    layout.with_axis(last, Axis { hi: axis.hi, bits })
}

/// Whether an index has no bit that lanes or waves tell apart.
fn in_registers(axis: &Axis, index: u32) -> bool {
    axis.bits.iter().enumerate().all(|(i, p)| *p == Place::Reg || index >> i & 1 == 0)
}

/// The registers of a part of a tile of rank 2, from a place on.
fn registers(layout: &Layout, from: [u32; 2], size: [u32; 2]) -> Vec<usize> {
    let inside = |c: &Vec<u32>| (0..2).all(|i| (from[i]..from[i] + size[i]).contains(&c[i]));
    layout.coords().iter().enumerate().filter(|(_, c)| inside(c)).map(|(r, _)| r).collect()
}

/// The words of a fragment.
fn fragment(t: &Tile, from: [u32; 2], size: [u32; 2]) -> Vec<Val> {
    registers(&t.layout, from, size).iter().step_by(t.pack as usize).map(|&r| t.words[r / t.pack as usize]).collect()
}
