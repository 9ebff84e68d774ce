//! Which powers of two divide values of the lane form, whatever the lane: how addresses are aligned.

use super::ir::{Address, Bin, Block, LaneKernel, Op, Val};
use cranelift_entity::SecondaryMap;

/// Bits of a register, as many as those of zero are zero.
const ALL: u32 = 32;

/// Of each register how many of its lowest bits are zero.
pub struct Alignments {
    zeros: SecondaryMap<Val, u32>,
    /// Those that are constants.
    constants: SecondaryMap<Val, Option<u32>>,
}

impl Alignments {
    /// Of a kernel's registers.
    pub fn of(k: &LaneKernel) -> Alignments {
        let mut a = Alignments { zeros: SecondaryMap::new(), constants: SecondaryMap::new() };
        a.block(&k.body);
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
