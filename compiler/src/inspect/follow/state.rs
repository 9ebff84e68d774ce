//! What registers hold at a place in the code.

use super::super::asm::special;
use super::masks::{Active, Maker, Mask, Sets};
use super::value::{Lanes, Origin, Sum, Symbols};

/// A vector register.
#[derive(Clone, PartialEq, Debug)]
pub struct Vector {
    /// Its value; none if it can't be followed.
    pub value: Option<Sum>,
    /// The lanes whose value that is.
    pub of: Active,
}

/// A scalar register.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    /// A number.
    Value(Sum),
    /// A mask of lanes, or its low half.
    Mask(Mask),
    /// The high half of the mask in the register before.
    High,
}

/// What all registers hold.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// Vector registers; those beyond hold what is not known.
    pub vector: Vec<Vector>,
    /// Scalar registers.
    pub scalar: Vec<Scalar>,
    /// The lanes that are active.
    pub active: Active,
}

/// Vector registers that are followed.
const VECTORS: usize = 512;

impl State {
    /// At the start of a kernel, without what is in registers by then.
    pub fn new(symbols: &mut Symbols) -> State {
        let scalar = (0..special::COUNT).map(|r| Scalar::Value(symbols.value(Origin::Scalar(r), 0, u32::MAX)));
        let unknown = Vector { value: None, of: Active::ALL };
        State { vector: vec![unknown; VECTORS], scalar: scalar.collect(), active: Active::ALL }
    }

    /// Sets a vector register for the lanes that are active.
    pub fn set_vector(&mut self, register: usize, value: Option<Sum>) {
        if let Some(slot) = self.vector.get_mut(register) {
            *slot = Vector { value, of: self.active };
        }
    }

    /// Makes a set of lanes the active one: registers that hold values of fewer lanes only hold nothing that is known.
    pub fn set_active(&mut self, active: Active, sets: &Sets) {
        if active == self.active {
            return;
        }
        self.active = active;
        for slot in &mut self.vector {
            if slot.value.is_some() && !sets.is_within(active, slot.of) {
                *slot = Vector { value: None, of: Active::ALL };
            }
        }
    }

    /// What holds at a block that can be entered with any of some states. All lanes of a wave come the same way, so that
    /// what they share stays shared. None without states.
    pub fn join(states: &[&State], block: usize, symbols: &mut Symbols, sets: &mut Sets) -> Option<State> {
        let first = *states.first()?;
        if states.iter().all(|s| *s == first) {
            return Some(first.clone());
        }
        let mut active = first.active;
        if states.iter().any(|s| s.active != active) {
            let parent = states.iter().fold(active, |all, s| sets.common(all, s.active));
            active = sets.make(Maker::Block(block), parent, None);
        }
        let vector = (0..first.vector.len()).map(|r| {
            let values: Option<Vec<&Sum>> = states.iter().map(|s| s.vector[r].value.as_ref()).collect();
            let value = values.and_then(|v| join_sums(&v, Origin::VectorAt(block, r as u16), symbols));
            let of = if value.is_some() { lanes_of(states, r, active, sets) } else { Active::ALL };
            Vector { value, of }
        });
        let vector = vector.collect();
        let scalar = (0..first.scalar.len()).map(|r| join_scalars(states, r, block, symbols, sets)).collect();
        Some(State { vector, scalar, active })
    }
}

/// The lanes whose values a register holds after a join.
fn lanes_of(states: &[&State], register: usize, active: Active, sets: &Sets) -> Active {
    let of = |s: &&State| s.vector[register].of;
    let first = of(&states[0]);
    if states.iter().all(|s| of(s) == first) && sets.is_within(active, first) {
        return first;
    }
    // On each way they are at least the values of those that are active. If these are the same, so is the smallest set.
    let inner = states.iter().map(of).reduce(|a, b| if sets.is_within(a, b) { a } else { b }).unwrap_or(active);
    let same = states.iter().all(|s| s.active == active && sets.is_within(inner, of(s)));
    if same { inner } else { active }
}

fn join_scalars(states: &[&State], register: usize, block: usize, symbols: &mut Symbols, sets: &Sets) -> Scalar {
    let all = || states.iter().map(|s| &s.scalar[register]);
    let first = &states[0].scalar[register];
    if all().all(|s| s == first) {
        return first.clone();
    }
    let masks: Option<Vec<Mask>> = all().map(|s| if let Scalar::Mask(m) = s { Some(*m) } else { None }).collect();
    if let Some(masks) = masks {
        let within = masks.iter().fold(masks[0].within, |all, m| sets.common(all, m.within));
        return Scalar::Mask(sets.part(None, within));
    }
    let origin = Origin::ScalarAt(block, register as u16);
    let values: Option<Vec<&Sum>> = all().map(|s| if let Scalar::Value(v) = s { Some(v) } else { None }).collect();
    let joined = values.and_then(|v| join_sums(&v, origin, symbols));
    Scalar::Value(joined.unwrap_or_else(|| symbols.value(origin, 0, u32::MAX)))
}

/// A value that is one of several: their common one, or the same known numbers plus something that all lanes share.
fn join_sums(sums: &[&Sum], origin: Origin, symbols: &mut Symbols) -> Option<Sum> {
    let first = *sums.first()?;
    if sums.iter().all(|s| *s == first) {
        return Some(first.clone());
    }
    let (rest, _) = shared_part(first);
    let (mut zeros, mut most) = (32, Some(0));
    for sum in sums {
        let (other, shared) = shared_part(sum);
        if other != rest {
            return None;
        }
        zeros = zeros.min(symbols.zeros(&shared.terms)).min(shared.lanes.at(0).trailing_zeros());
        most = most.zip(symbols.most(&shared)).map(|(a, b): (u32, u32)| a.max(b));
    }
    Some(rest.add(&symbols.value(origin, zeros, most.unwrap_or(u32::MAX))))
}

/// A sum as what differs among lanes, zero in the first of them, and what all share.
fn shared_part(sum: &Sum) -> (Sum, Sum) {
    let shared = sum.terms.iter().filter(|(_, times)| matches!(times, Lanes::All(_))).cloned().collect();
    let shared = Sum { lanes: Lanes::All(sum.lanes.at(0)), terms: shared };
    (sum.sub(&shared), shared)
}
