//! Reductions in the order that [`hrx_ir::tile::ReduceOp`] documents: the highest bit of the axis's index first.
//!
//! A bit that tells registers apart costs one operation a pair; a lane's bit an exchange between lanes; waves exchange
//! what they have through LDS, all bits that follow one another at once.

use super::tile::{Data, Tile};
use super::{Builder, Result};
use crate::lanes::ir::{Address, Bin, Cmp, Space, Ty, Un, Val};
use crate::lanes::layout::{Axis, Layout, Place};
use hrx_ir::tile::{Elem, ReduceOp, Value};

impl Builder<'_> {
    pub(super) fn reduce(&mut self, op: ReduceOp, arg: Value, axis: usize, layout: &Layout) -> Result<Data> {
        let ty = self.k.ty(arg);
        let own = self.layout_of(arg);
        let t = match self.data_in(arg, &own)? {
            Data::Tile(t) => t,
            // Sums of equal elements are made in registers.
            Data::Splat(elem, v) => {
                let of = Layout::registers(&ty.shape);
                self.filled(elem, v, of)
            }
        };
        let mut at = t.layout.clone();
        let mut elements = t.elements(&mut self.e);
        elements = self.reduce_factor(op, ty.elem, &mut at, axis, elements);
        while let Some(&place) = at.axes[axis].bits.last() {
            elements = match place {
                Place::Reg => self.reduce_registers(op, ty.elem, &mut at, axis, &elements),
                Place::Lane(k) => {
                    at.axes[axis].bits.pop();
                    elements
                        .iter()
                        .map(|&x| {
                            let y = self.exchange(x, 1 << k);
                            self.combine(op, ty.elem, x, y)
                        })
                        .collect()
                }
                Place::Wave(_) => self.reduce_waves(op, ty.elem, &mut at, axis, elements),
            };
        }
        let out = Tile::from_elements(&mut self.e, ty.elem, at, &elements);
        Ok(Data::Tile(self.convert_layout(&out, layout)))
    }

    fn combine(&mut self, op: ReduceOp, elem: Elem, x: Val, y: Val) -> Val {
        let float = elem.is_float();
        let v = match op {
            ReduceOp::Sum if float => self.e.bin(Bin::FAdd, x, y),
            ReduceOp::Sum => self.e.bin(Bin::Add, x, y),
            ReduceOp::Max if float => self.e.bin(Bin::FMax, x, y),
            ReduceOp::Min if float => self.e.bin(Bin::FMin, x, y),
            ReduceOp::Max | ReduceOp::Min => {
                let less = self.e.cmp(if elem.is_signed() { Cmp::SLt } else { Cmp::ULt }, x, y);
                if op == ReduceOp::Min { self.e.select(less, x, y) } else { self.e.select(less, y, x) }
            }
        };
        // A narrow type keeps each intermediate result.
        if op == ReduceOp::Sum && elem.bytes() < 4 {
            let word = super::tile::pack(&mut self.e, elem, &[v]);
            return super::tile::unpack(&mut self.e, elem, word, 0);
        }
        v
    }

    /// Reduces the factor of registers above an axis's bits to one.
    fn reduce_factor(
        &mut self,
        op: ReduceOp,
        elem: Elem,
        at: &mut Layout,
        axis: usize,
        elements: Vec<Val>,
    ) -> Vec<Val> {
        let mut elements = elements;
        while at.axes[axis].hi > 1 {
            let n = at.axes[axis].hi;
            let half = n.next_power_of_two() / 2;
            let bits = at.axes[axis].bits.len();
            let to = at.with_axis(axis, Axis { hi: half, ..at.axes[axis].clone() });
            elements = to
                .coords()
                .iter()
                .map(|c| {
                    let low = elements[at.register_of(c)];
                    let h = c[axis] >> bits;
                    if h + half >= n {
                        return low;
                    }
                    let mut upper = c.clone();
                    upper[axis] += half << bits;
                    self.combine(op, elem, low, elements[at.register_of(&upper)])
                })
                .collect();
            *at = to;
        }
        elements
    }

    /// Reduces the highest bit, a register's.
    fn reduce_registers(
        &mut self,
        op: ReduceOp,
        elem: Elem,
        at: &mut Layout,
        axis: usize,
        elements: &[Val],
    ) -> Vec<Val> {
        let mut to = at.clone();
        to.axes[axis].bits.pop();
        let bit = to.axes[axis].bits.len();
        let out = to
            .coords()
            .iter()
            .map(|c| {
                let mut upper = c.clone();
                upper[axis] |= 1 << bit;
                self.combine(op, elem, elements[at.register_of(c)], elements[at.register_of(&upper)])
            })
            .collect();
        *at = to;
        out
    }

    /// Reduces the highest bits, which are waves', as many registers at a time as there is memory for.
    fn reduce_waves(&mut self, op: ReduceOp, elem: Elem, at: &mut Layout, axis: usize, elements: Vec<Val>) -> Vec<Val> {
        let mut bits = Vec::new();
        while let Some(&Place::Wave(k)) = at.axes[axis].bits.last() {
            at.axes[axis].bits.pop();
            bits.push(k);
        }
        let free = self.facts.lds.saturating_sub(self.scratch_base);
        let most = (free / (4 * self.facts.wave * self.k.waves)).max(1);
        // Whole accesses of four registers, as long as there are so many.
        let most = if most > 4 { most / 4 * 4 } else { most };
        elements.chunks(most as usize).flat_map(|part| self.reduce_over_waves(op, elem, part, &bits)).collect()
    }

    /// Each wave stores its registers, and all read those of the waves that differ in some bits.
    fn reduce_over_waves(&mut self, op: ReduceOp, elem: Elem, elements: &[Val], bits: &[u8]) -> Vec<Val> {
        let (n, wave) = (elements.len() as u32, self.facts.wave);
        let row = 4 * n * wave;
        let base = self.scratch(u64::from(row) * u64::from(self.k.waves));
        self.before_scratch();
        let lane = self.e.lane();
        let lane = self.e.times(lane, 4 * n);
        let number = self.e.wave();
        let own = self.e.times(number, row);
        let ty = self.e.ty(elements[0]);
        let words: Vec<Val> = elements
            .iter()
            .map(|&v| match ty {
                Ty::F32 => self.e.un(Un::Bits, v),
                Ty::B1 => self.e.un(Un::BToI, v),
                Ty::I32 => v,
            })
            .collect();
        // The widest accesses that the alignment of a lane's registers allows.
        let width = (1 << n.trailing_zeros().min(2)) as usize;
        for (i, chunk) in words.chunks(width).enumerate() {
            let at = self.reduction_place(own, lane, base + 4 * (i * width) as u32, 4 * width as u32);
            self.e.store(at, 4 * width as u32, chunk.to_vec(), None);
        }
        self.scratch_written();
        let mask: u32 = bits.iter().fold(0, |m, &k| m | 1 << k);
        let others = self.e.and(number, !mask);
        let first = self.e.times(others, row);
        let mut parts: Vec<Vec<Val>> = (0..1u32 << bits.len())
            .map(|which| {
                // Index bit i of the reduced part is wave bit bits[len - 1 - i].
                let number: u32 = bits.iter().rev().enumerate().map(|(i, &k)| (which >> i & 1) << k).sum();
                let mut regs = Vec::with_capacity(n as usize);
                for i in (0..n as usize).step_by(width) {
                    let at = self.reduction_place(first, lane, base + number * row + 4 * i as u32, 4 * width as u32);
                    regs.extend(self.e.load(at, 4 * width as u32, None));
                }
                regs.iter()
                    .map(|&w| match ty {
                        Ty::F32 => self.e.un(Un::Float, w),
                        _ => w,
                    })
                    .collect()
            })
            .collect();
        while parts.len() > 1 {
            let upper = parts.split_off(parts.len() / 2);
            for (low, high) in parts.iter_mut().zip(upper) {
                for (x, y) in low.iter_mut().zip(high) {
                    *x = self.combine(op, elem, *x, y);
                }
            }
        }
        parts.remove(0)
    }

    fn reduction_place(&mut self, uniform: Val, lane: Val, imm: u32, align: u32) -> Address {
        Address { space: Space::Lds, uniform, lane, imm, align }
    }
}
