//! Accesses of memory by the lanes of a wave.

use super::step::Step;
use super::value::Sum;
use super::vector::OUT_OF_BOUNDS;
use crate::inspect::asm::{File, Operand, Regs};
use crate::inspect::class::{Class, addresses, bytes, class};

/// What is accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Memory.
    Global,
    /// LDS.
    Lds,
}

/// An access of a wave.
#[derive(Clone, PartialEq, Debug)]
pub struct Access {
    /// The instruction's index.
    pub at: usize,
    /// What is accessed.
    pub space: Space,
    /// The kind of instruction.
    pub class: Class,
    /// Bytes of a lane at each address.
    pub bytes: u32,
    /// The low halves of the addresses, mostly one; none if they can't be followed.
    pub addresses: Option<Vec<Sum>>,
    /// Lanes that take part, if which are active is known; else all that may.
    pub lanes: u64,
}

impl Step<'_, '_> {
    /// The access that the instruction is, if it is one of memory or LDS whose size it says.
    pub(super) fn access(&mut self) -> Option<Access> {
        let op = self.op;
        let kind = class(&op.name);
        let space = match kind {
            _ if kind.is_vmem() => Space::Global,
            _ if kind.is_lds() => Space::Lds,
            _ => return None,
        };
        let parts = if space == Space::Lds { addresses(&op.name) } else { 1 };
        let bytes = bytes(&op.name)? / parts;
        let mut lanes = self.context.sets.lanes(self.state.active).unwrap_or(self.context.sets.full);
        let found = match space {
            Space::Lds => self.lds_addresses(kind, bytes),
            Space::Global if op.name.contains("buffer_") => {
                let offset = self.buffer_offset();
                if let Some((of_lanes, _)) = &offset {
                    lanes &= self.within_bounds(of_lanes);
                }
                offset.and_then(|(_, offset)| Some(vec![offset.add(&self.buffer_base()?)]))
            }
            Space::Global => self.global_address(kind).map(|address| vec![address]),
        };
        Some(Access { at: self.at, space, class: kind, bytes, addresses: found, lanes })
    }

    /// Whether an atomic returns what was there.
    fn returns(&self) -> bool {
        let op = self.op;
        op.name.contains("_rtn") || op.modifiers.iter().any(|m| m == "glc" || m == "sc0" || m.contains("RETURN"))
    }

    /// The place of the address among the operands.
    fn address_at(&self, kind: Class) -> usize {
        let op = self.op;
        let loads = matches!(kind, Class::VmemLoad | Class::LdsRead) && !op.name.contains("_lds_") && !op.has("lds");
        let returns = matches!(kind, Class::VmemAtomic | Class::LdsAtomic) && self.returns();
        usize::from(loads || returns)
    }

    fn modifier(&self, name: &str) -> Sum {
        Sum::number(self.op.modifier(name).unwrap_or(0))
    }

    fn global_address(&mut self, kind: Class) -> Option<Sum> {
        let offset = self.modifier("offset");
        let address = self.operand(self.address_at(kind))?.add(&offset);
        match self.op.operands.last() {
            // A pair of scalar registers is the base, to which the vector register is an offset.
            Some(base @ Operand::Regs(Regs { file: File::S, count: 2, .. })) => Some(address.add(&self.value(base)?)),
            _ => Some(address),
        }
    }

    /// The offset from the start of a buffer's resource: that of lanes, which bounds are checked for, and the whole.
    fn buffer_offset(&mut self) -> Option<(Sum, Sum)> {
        let op = self.op;
        if op.has("idxen") || op.has("addr64") {
            return None;
        }
        let offset = self.modifier("offset");
        let at = self.resource_at()?;
        let scalar = op.operands.get(at + 1).map_or_else(|| Some(Sum::number(0)), |o| self.value(o))?;
        if !op.has("offen") {
            return Some((offset.clone(), scalar.add(&offset)));
        }
        let of_lanes = self.operand(at.checked_sub(1)?)?;
        Some((of_lanes.clone(), of_lanes.add(&scalar).add(&offset)))
    }

    /// The place of the four scalar registers with the resource.
    fn resource_at(&self) -> Option<usize> {
        let four = |o: &Operand| matches!(o, Operand::Regs(Regs { file: File::S, count: 4, .. }));
        self.op.operands.iter().position(four)
    }

    fn buffer_base(&mut self) -> Option<Sum> {
        let at = self.resource_at()?;
        self.operand(at)
    }

    /// Lanes that code doesn't send out of the bounds of a buffer.
    fn within_bounds(&self, offset: &Sum) -> u64 {
        let outside = |lane: usize| offset.of_lane(lane).as_number().is_some_and(|n| n >= OUT_OF_BOUNDS);
        (0..self.context.wave as usize).filter(|&lane| !outside(lane)).fold(0, |all, lane| all | 1 << lane)
    }

    fn lds_addresses(&mut self, kind: Class, bytes: u32) -> Option<Vec<Sum>> {
        let op = self.op;
        if op.has("gds") || op.name.contains("addtid") {
            return None;
        }
        let address = self.operand(self.address_at(kind))?;
        if addresses(&op.name) == 1 {
            return Some(vec![address.add(&self.modifier("offset"))]);
        }
        // Offsets count elements, or 64 of them.
        let unit = if op.name.contains("st64") || op.name.contains("stride64") { 64 * bytes } else { bytes };
        let offset = |name| Sum::number(op.modifier(name).unwrap_or(0).wrapping_mul(unit));
        Some(vec![address.add(&offset("offset0")), address.add(&offset("offset1"))])
    }
}
