//! Stretches: vector operations that follow each other, packed so that they run one after the other. What they have in
//! common is looked at once, before the first: that all lanes are active, the mode, and what is still loaded.

use super::change::Change;
use super::inst::{Body, Control, Dpp, Inst, Pair, Put, Reg, Ty, Valu};
use super::named::Named;
use super::simple::{CONSTANTS, SPREAD, constant};
use crate::exec::valu::{Env, InPlaceFn, OPERANDS, Places, ValuFn};
use std::ops::Range;

/// What is brought to a row of its own before an operation.
#[derive(Clone, Debug)]
pub enum Prepare {
    /// A scalar register, to all lanes.
    Spread { register: u16, row: u16, change: Change },
    /// Another row, changed.
    Change { from: u16, row: u16, change: Change },
    /// Another row, as lanes take it from others.
    Gather { from: u16, row: u16, dpp: Box<Dpp> },
}

/// An operation of a stretch.
#[derive(Clone, Debug)]
pub struct Quick {
    pub f: ValuFn,
    pub in_place: Option<InPlaceFn>,
    /// Rows times sets of 32 lanes.
    pub places: Places,
    /// What is done before it, among all of its code.
    pub prepare: Range<u32>,
    /// Registers of the result.
    pub words: u8,
    /// Whether sources are of one word each.
    pub narrow: bool,
    /// The same, if it is all that there is to do: one word of each operand and of the result, and nothing special.
    pub direct: Option<InPlaceFn>,
    /// What is fixed of what the row asks for.
    pub env: Env,
    /// What few have.
    pub special: Option<Box<Special>>,
}

/// Masks of lanes, halves of registers, and other rules of what is unknown.
#[derive(Clone, Debug)]
pub struct Special {
    pub put: Put,
    pub mask_in: Option<u16>,
    pub mask_out: Option<u16>,
    /// See [`Valu::low_alone`] and [`Valu::select`].
    pub low_alone: bool,
    pub select: bool,
}

/// Where an instruction is in a stretch.
#[derive(Clone, Copy, Default, Debug)]
pub struct Stretch {
    /// Operations of all stretches before it.
    pub at: u32,
    /// Instructions of its stretch from it on; none if it belongs to none.
    pub rest: u32,
    /// The number of its stretch.
    pub number: u32,
}

/// All stretches of some code.
#[derive(Default, Debug)]
pub struct Stretches {
    ops: Vec<Quick>,
    pub prepares: Vec<Prepare>,
    /// What each names.
    pub named: Vec<Named>,
}

impl Stretches {
    /// The operations from an instruction to another, or to the end of the code.
    #[inline(always)]
    pub fn between(&self, first: &Inst, end: Option<&Inst>) -> &[Quick] {
        let end = end.map_or(self.ops.len(), |end| end.stretch.at as usize);
        &self.ops[first.stretch.at as usize..end]
    }

    /// Packs what instructions can be packed of, for waves of so many sets of 32 lanes. Constants get rows.
    pub fn new(insts: &mut [Inst], halves: u16, constants: &mut Vec<u32>) -> Stretches {
        let mut all = Stretches::default();
        let mut open: Option<Named> = None;
        for inst in insts.iter_mut() {
            inst.stretch.at = all.ops.len() as u32;
            let Some(valus) = all.push(&inst.body, halves, constants) else {
                all.named.extend(open.take());
                continue;
            };
            let named = open.get_or_insert_with(Named::default);
            valus.iter().for_each(|v| names(v, halves, named));
            (inst.stretch.rest, inst.stretch.number) = (1, all.named.len() as u32);
        }
        all.named.extend(open);
        for at in (1..insts.len()).rev() {
            let next = insts[at].stretch;
            let before = &mut insts[at - 1].stretch;
            if before.rest > 0 {
                before.rest += next.rest;
            }
        }
        all
    }

    /// Packs an instruction; its operations, or none if it can't be packed.
    fn push<'a>(&mut self, body: &'a Body, halves: u16, constants: &mut Vec<u32>) -> Option<Vec<&'a Valu>> {
        let valus: Vec<&Valu> = match body {
            Body::Valu(v) => vec![v],
            Body::Pair(pair) => ordered(pair)?.into(),
            Body::Control(Control::Nop) => Vec::new(),
            _ => return None,
        };
        let (ops, prepares) = (self.ops.len(), self.prepares.len());
        for v in &valus {
            match self.pack(v, halves, constants) {
                Some(quick) => self.ops.push(quick),
                None => {
                    self.ops.truncate(ops);
                    self.prepares.truncate(prepares);
                    return None;
                }
            }
        }
        Some(valus)
    }

    fn pack(&mut self, v: &Valu, halves: u16, constants: &mut Vec<u32>) -> Option<Quick> {
        let whole = !matches!(v.dst_ty, Ty::F | Ty::PF | Ty::H | Ty::PH | Ty::FD);
        let put = matches!(v.put, Put::Whole | Put::Low | Put::High);
        if v.to_exec || v.omod != 0 || (v.clamp && !whole) || !put {
            return None;
        }
        let first = self.prepares.len() as u32;
        let mut from = [CONSTANTS; OPERANDS];
        for (at, src) in v.src.iter().enumerate() {
            for word in 0..usize::from(src.words) {
                let place = 2 * at + word;
                let own = SPREAD + place as u16;
                let change = Change::new(src, word)?;
                let moved = v.dpp.as_deref().filter(|_| at == 0);
                let (register, to) = (word as u16, from.get_mut(place)?);
                *to = match src.reg {
                    Reg::V(first) if change == Change::NONE => first + register,
                    Reg::V(_) if moved.is_some() => return None,
                    Reg::V(first) => {
                        self.prepares.push(Prepare::Change { from: first + register, row: own, change });
                        own
                    }
                    Reg::S(first) => {
                        self.prepares.push(Prepare::Spread { register: first + register, row: own, change });
                        own
                    }
                    Reg::K => constant(constants, change.of(src.bits[word]))?,
                };
                if let Some(dpp) = moved {
                    if src.words > 1 || !writes_all(dpp, halves) {
                        return None;
                    }
                    self.prepares.push(Prepare::Gather { from: *to, row: own, dpp: Box::new(dpp.clone()) });
                    *to = own;
                }
            }
        }
        let (dst, words) = match v.dst {
            Reg::V(dst) => (dst, v.dst_ty.words()),
            _ => (CONSTANTS, 0),
        };
        let to = [dst, dst + u16::from(words > 1)];
        let is_special = v.put != Put::Whole || v.mask_in.is_some() || v.mask_out.is_some() || v.low_alone || v.select;
        let special =
            Special { put: v.put, mask_in: v.mask_in, mask_out: v.mask_out, low_alone: v.low_alone, select: v.select };
        let narrow = v.src.iter().all(|s| s.words < 2);
        let direct = narrow && words == 1 && !v.needs_env && !is_special;
        Some(Quick {
            f: v.f,
            in_place: v.in_place,
            direct: v.in_place.filter(|_| direct),
            places: Places { from: from.map(|row| row * halves), to: to.map(|row| row * halves) },
            prepare: first..self.prepares.len() as u32,
            words,
            narrow,
            env: v.env,
            special: is_special.then(|| Box::new(special)),
        })
    }
}

/// Whether all lanes are written if all are active.
fn writes_all(dpp: &Dpp, halves: u16) -> bool {
    let all = u64::MAX >> (64 - 32 * halves);
    dpp.enabled & all == all && (dpp.zero || dpp.there & all == all)
}

/// Both read before either writes: one that reads the other's result has to come first.
fn ordered(pair: &Pair) -> Option<[&Valu; 2]> {
    let [x, y] = &pair.ops;
    let reads = |v: &Valu, other: &Valu| v.src.iter().any(|s| s.words > 1 || s.reg == other.dst);
    match (pair.illegal.is_some(), reads(x, y), reads(y, x)) {
        (false, _, false) => Some([x, y]),
        (false, false, true) => Some([y, x]),
        _ => None,
    }
}

/// Notes the registers of an operation that must be there.
fn names(v: &Valu, halves: u16, named: &mut Named) {
    let regs = v.src.iter().map(|s| (s.reg, s.words)).chain([(v.dst, v.dst_ty.words())]);
    for (reg, words) in regs {
        match reg {
            Reg::V(first) => named.add_vectors(first, words.into()),
            Reg::S(first) => named.add_scalars(first, words.into()),
            Reg::K => {}
        }
    }
    if let Some(first) = v.mask_in {
        named.add_scalars(first, halves);
    }
}
