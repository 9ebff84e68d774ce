//! Conversions by value. See [`hrx_ir::tile::Op::Convert`] for the rules.

use super::tile::{Data, Tile};
use super::{Builder, Result};
use crate::lanes::ir::{Bin, Cmp, Un, Val};
use crate::lanes::layout::Layout;
use hrx_ir::tile::{Elem, Value};

impl Builder<'_> {
    pub(super) fn convert(&mut self, arg: Value, to: Elem, layout: &Layout) -> Result<Data> {
        let from = self.k.ty(arg).elem;
        Ok(match self.data_in(arg, layout)? {
            Data::Splat(_, v) => {
                let v = self.convert_element(v, from, to);
                // As a narrow type holds it.
                let word = super::tile::pack(&mut self.e, to, &[v]);
                let v = super::tile::unpack(&mut self.e, to, word, 0);
                Data::Splat(to, v)
            }
            Data::Tile(t) if from == Elem::U8 && to.is_float() => {
                // An instruction takes a byte of a word as a float.
                let n = t.pack as usize;
                let elements: Vec<Val> = (0..t.layout.registers_len() as usize)
                    .map(|r| self.e.un(Un::ByteToF((r % n) as u8), t.words[r / n]))
                    .collect();
                Data::Tile(Tile::from_elements(&mut self.e, to, layout.clone(), &elements))
            }
            Data::Tile(t) => {
                let elements = t.elements(&mut self.e);
                let elements: Vec<Val> = elements.iter().map(|&v| self.convert_element(v, from, to)).collect();
                Data::Tile(Tile::from_elements(&mut self.e, to, layout.clone(), &elements))
            }
        })
    }

    /// One element, as arithmetic takes it, as an element of another type before that is narrowed.
    fn convert_element(&mut self, v: Val, from: Elem, to: Elem) -> Val {
        let e = &mut self.e;
        match (from, to) {
            _ if from == to => v,
            (Elem::B1, _) => {
                let n = e.un(Un::BToI, v);
                if to.is_float() { e.un(Un::SToF, n) } else { n }
            }
            // Narrowing from f32 is packing; f16 is exact in f32.
            _ if from.is_float() && to.is_float() => v,
            _ if from.is_float() => self.float_to_int(v, to),
            // Two roundings, by way of f32, must give what one would.
            (Elem::I32 | Elem::U32, Elem::BF16 | Elem::F16) => {
                let x = self.sticky(v, from, to);
                self.e.un(if from.is_signed() { Un::SToF } else { Un::UToF }, x)
            }
            _ if to.is_float() => e.un(if from.is_signed() { Un::SToF } else { Un::UToF }, v),
            // Integers wrap as they are packed; 32-bit ones of extended elements are already right.
            _ => v,
        }
    }

    /// Truncated towards zero and saturated to the type, NaN to 0.
    fn float_to_int(&mut self, v: Val, to: Elem) -> Val {
        let n = self.e.un(if to.is_signed() { Un::FToS } else { Un::FToU }, v);
        if to.bytes() == 4 {
            return n;
        }
        let bits = 8 * to.bytes();
        let (low, high) =
            if to.is_signed() { (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) };
        let (low, high) = (self.e.int(low), self.e.int(high));
        let less = if to.is_signed() { Cmp::SLt } else { Cmp::ULt };
        let above = self.e.cmp(less, high, n);
        let n = self.e.select(above, high, n);
        if !to.is_signed() {
            return n;
        }
        let below = self.e.cmp(less, n, low);
        self.e.select(below, low, n)
    }

    /// A 32-bit integer as a multiple of 256 where f32 does not hold it exactly, odd if anything was cut off: rounding to
    /// f32 is exact then, and a second rounding to fewer bits gives what a single one would have.
    fn sticky(&mut self, v: Val, elem: Elem, to: Elem) -> Val {
        // What f16 can't hold is infinite whatever its low bits.
        if to == Elem::F16 {
            return v;
        }
        let e = &mut self.e;
        let moved = if elem.is_signed() {
            let by = e.int(1 << 24);
            e.add(v, by)
        } else {
            v
        };
        let limit = e.int(if elem.is_signed() { 1 << 25 } else { 1 << 24 });
        let small = e.cmp(Cmp::ULe, moved, limit);
        let rest = e.and(v, 255);
        let zero = e.int(0);
        let cut = e.cmp(Cmp::Ne, rest, zero);
        let odd = e.int(256);
        let odd = e.select(cut, odd, zero);
        let high = e.and(v, !255);
        let high = e.bin(Bin::Or, high, odd);
        e.select(small, v, high)
    }
}
