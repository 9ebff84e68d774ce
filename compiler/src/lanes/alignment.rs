//! Which powers of two divide values of the lane form, whatever the lane: how addresses are aligned.

use super::ir::{Address, Bin, Block, LaneKernel, Op, Val};
use cranelift_entity::SecondaryMap;
use hrx_ir::tile::{Extent, Kernel, Value};
use std::collections::HashMap;

/// Bits of a register, as many as those of zero are zero.
const ALL: u32 = 32;

/// Of each register how many of its lowest bits are zero.
pub struct Alignments {
    zeros: SecondaryMap<Val, u32>,
    /// Those that are constants.
    constants: SecondaryMap<Val, Option<u32>>,
    /// Of each argument that is a stride.
    strides: HashMap<Value, u32>,
}

/// Of each argument that is the stride of an axis, how many of its lowest bits are zero: it is a multiple of what the
/// next axis takes whole, where that is a constant, as of the axes of an array in memory the outer one steps over whole
/// inner ones. Whoever launches a kernel holds its arguments to it.
pub fn stride_zeros(k: &Kernel) -> HashMap<Value, u32> {
    let mut found: HashMap<Value, u32> = HashMap::new();
    for data in k.views.values() {
        for pair in data.strides.windows(2) {
            if let [Extent::Param(v), Extent::Const(inner)] = *pair {
                let zeros = found.entry(v).or_default();
                *zeros = (*zeros).max(inner.trailing_zeros());
            }
        }
    }
    found
}

impl Alignments {
    /// Of the registers of a kernel's lane form.
    pub fn of(k: &Kernel, lanes: &LaneKernel) -> Alignments {
        let strides = stride_zeros(k);
        let mut a = Alignments { zeros: SecondaryMap::new(), constants: SecondaryMap::new(), strides };
        a.block(&lanes.body);
        a
    }

    /// A power of two that divides an address.
    pub fn of_address(&self, at: &Address) -> u32 {
        let zeros = self.zeros[at.uniform].min(self.zeros[at.lane]).min(at.imm.trailing_zeros());
        at.align.max(1 << zeros.min(ALL - 1))
    }

    fn block(&mut self, block: &Block) {
        for inst in block {
            if let Op::For { bounds, params, body, .. } = &inst.op {
                // What is carried is not followed.
                self.zeros[params[0]] = self.zeros[bounds[0]].min(self.zeros[bounds[2]]);
                self.block(body);
                continue;
            }
            if let [result] = inst.results[..] {
                self.zeros[result] = self.op(&inst.op);
                if let Op::Const(bits) = inst.op {
                    self.constants[result] = Some(bits);
                }
            }
        }
    }

    fn op(&self, op: &Op) -> u32 {
        let of = |v: &Val| self.zeros[*v];
        match op {
            Op::Const(bits) => bits.trailing_zeros(),
            Op::Param(v) => self.strides.get(v).copied().unwrap_or(0),
            Op::Bin(Bin::Add | Bin::Sub | Bin::Or | Bin::Xor, a, b) => of(a).min(of(b)),
            Op::Bin(Bin::Mul, a, b) => (of(a) + of(b)).min(ALL),
            Op::Bin(Bin::And, a, b) => of(a).max(of(b)),
            Op::Bin(Bin::Shl, a, by) => (of(a) + self.constants[*by].unwrap_or(0)).min(ALL),
            Op::Bin(Bin::LShr, a, by) => self.constants[*by].map_or(0, |by| of(a).saturating_sub(by)),
            Op::Select(_, a, b) => of(a).min(of(b)),
            Op::ShuffleXor(a, _) => of(a),
            _ => 0,
        }
    }
}
