//! Which lanes are active, as far as it can be followed.
//!
//! Code narrows the mask of active lanes where lanes part ways, and restores what it saved where they meet. A [`Active`]
//! names a set of active lanes by the instruction that made it, and knows a larger set that it is part of.

use std::collections::HashMap;

/// A set of active lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Active(u32);

impl Active {
    /// All lanes that the wave started with.
    pub const ALL: Active = Active(0);
}

/// What makes a set.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Maker {
    /// An instruction.
    Inst(usize),
    /// Ways that meet at a block.
    Block(usize),
}

/// A mask of lanes in scalar registers: some lanes of a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mask {
    /// Which lanes of the set, if that is known; what it has of others means nothing.
    pub lanes: Option<u64>,
    /// The set.
    pub within: Active,
    /// Whether it is all of the set.
    pub whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Set {
    parent: Active,
    lanes: Option<u64>,
    /// How often it turned out to be another.
    revisions: u32,
}

/// How often a set may turn out to be another before less is taken to be known of it.
const MOST_REVISIONS: u32 = 8;

/// All sets of active lanes of a kernel.
#[derive(Debug)]
pub struct Sets {
    sets: Vec<Set>,
    by_maker: HashMap<Maker, Active>,
    /// Whether something that was known of a set turned out not to hold.
    pub changed: bool,
    /// All lanes of a wave.
    pub full: u64,
}

impl Sets {
    /// For waves that start with these lanes.
    pub fn new(full: u64) -> Sets {
        let all = Set { parent: Active::ALL, lanes: Some(full), revisions: 0 };
        Sets { sets: vec![all], by_maker: HashMap::new(), changed: false, full }
    }

    /// The lanes of a set, if they are known.
    pub fn lanes(&self, set: Active) -> Option<u64> {
        self.sets[set.0 as usize].lanes
    }

    /// Whether a set is part of another for certain.
    pub fn is_within(&self, inner: Active, outer: Active) -> bool {
        self.up(inner).any(|set| set == outer)
    }

    /// A set and those that it is known to be part of, from the inside.
    fn up(&self, from: Active) -> impl Iterator<Item = Active> {
        let mut next = Some(from);
        // A set made in a loop can come to be its own ancestor: no way is longer than there are sets.
        std::iter::from_fn(move || {
            let set = next?;
            next = (set != Active::ALL).then(|| self.sets[set.0 as usize].parent);
            Some(set)
        })
        .take(self.sets.len() + 1)
    }

    /// The smallest known set that two are part of.
    pub fn common(&self, a: Active, b: Active) -> Active {
        self.up(a).find(|&set| self.is_within(b, set)).unwrap_or(Active::ALL)
    }

    /// The set that a maker makes: part of `parent`.
    pub fn make(&mut self, maker: Maker, parent: Active, lanes: Option<u64>) -> Active {
        let next = Active(self.sets.len() as u32);
        let set = *self.by_maker.entry(maker).or_insert(next);
        if set == next {
            self.sets.push(Set { parent, lanes, revisions: 0 });
            return set;
        }
        let parent = if self.is_within(parent, set) { Active::ALL } else { parent };
        let before = self.sets[set.0 as usize];
        if (before.parent, before.lanes) == (parent, lanes) {
            return set;
        }
        // The first times may not have seen all ways to here. What does not settle is given up.
        let revisions = before.revisions + 1;
        let now = match revisions {
            ..=MOST_REVISIONS => Set { parent, lanes, revisions },
            _ => Set { parent: self.common(before.parent, parent), lanes: None, revisions },
        };
        self.changed |= (now.parent, now.lanes) != (before.parent, before.lanes);
        self.sets[set.0 as usize] = now;
        set
    }

    /// The mask of a set.
    pub fn mask(&self, set: Active) -> Mask {
        Mask { lanes: Some(self.full), within: set, whole: true }
    }

    /// Some lanes of a set.
    pub fn part(&self, lanes: Option<u64>, within: Active) -> Mask {
        Mask { lanes, within, whole: false }
    }

    /// A mask of any lanes.
    pub fn unknown(&self) -> Mask {
        self.part(None, Active::ALL)
    }

    /// All lanes of a mask, if they are known.
    pub fn exact(&self, mask: Mask) -> Option<u64> {
        Some(mask.lanes? & self.lanes(mask.within)?)
    }

    /// What of a mask is seen from lanes of a set.
    pub fn seen(&self, mask: Mask, from: Active) -> Option<u64> {
        if self.is_within(from, mask.within) { mask.lanes } else { self.exact(mask) }
    }

    /// The lanes of both masks.
    pub fn and(&self, a: Mask, b: Mask) -> Mask {
        // The one whose set is part of the other's says more.
        let (outer, inner) = if self.is_within(a.within, b.within) { (b, a) } else { (a, b) };
        let lanes = inner.lanes.zip(self.seen(outer, inner.within)).map(|(a, b)| a & b);
        Mask {
            lanes,
            within: inner.within,
            whole: inner.whole && outer.whole && self.is_within(inner.within, outer.within),
        }
    }

    /// The lanes of the one mask that are not in the other.
    pub fn and_not(&self, a: Mask, b: Mask) -> Mask {
        self.part(a.lanes.zip(self.seen(b, a.within)).map(|(a, b)| a & !b), a.within)
    }

    /// The lanes of either mask.
    pub fn or(&self, a: Mask, b: Mask) -> Mask {
        for (outer, inner) in [(a, b), (b, a)] {
            if outer.whole && self.is_within(inner.within, outer.within) {
                return outer;
            }
        }
        self.merged(a, b, |a, b| a | b)
    }

    /// The lanes of one mask only.
    pub fn xor(&self, a: Mask, b: Mask) -> Mask {
        self.merged(a, b, |a, b| a ^ b)
    }

    fn merged(&self, a: Mask, b: Mask, f: fn(u64, u64) -> u64) -> Mask {
        let within = self.common(a.within, b.within);
        // Seen from a set that holds both, lanes have to be known exactly, unless it is the set of both.
        let seen = |m: Mask| if m.within == within { m.lanes } else { self.exact(m) };
        self.part(seen(a).zip(seen(b)).map(|(a, b)| f(a, b)), within)
    }

    /// The set that is active after an instruction has written this mask.
    pub fn write(&mut self, at: usize, mask: Mask) -> Active {
        if mask.whole { mask.within } else { self.make(Maker::Inst(at), mask.within, self.exact(mask)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_restored() {
        let mut sets = Sets::new(0xffff_ffff);
        let compared = sets.part(Some(0xf), Active::ALL);
        let saved = sets.mask(Active::ALL);
        let inner = sets.and(saved, compared);
        let inner = sets.write(3, inner);
        assert!(sets.is_within(inner, Active::ALL) && !sets.is_within(Active::ALL, inner));
        assert_eq!(sets.lanes(inner), Some(0xf));
        let now = sets.mask(inner);
        let restored = sets.or(now, saved);
        assert_eq!(sets.write(5, restored), Active::ALL);
        // The other lanes, as code for an alternative makes them.
        let others = sets.xor(saved, now);
        let others = sets.write(6, others);
        assert_eq!((sets.lanes(others), sets.common(others, inner)), (Some(0xffff_fff0), Active::ALL));
    }

    #[test]
    fn sets_that_turn_out_otherwise_are_that() {
        let mut sets = Sets::new(0xf);
        let a = sets.make(Maker::Inst(1), Active::ALL, Some(1));
        let b = sets.make(Maker::Inst(2), a, Some(1));
        assert!(!sets.changed);
        assert_eq!(sets.make(Maker::Inst(2), Active::ALL, Some(2)), b);
        assert!(sets.changed);
        assert_eq!((sets.lanes(b), sets.is_within(b, a)), (Some(2), false));
        for lanes in 0..20 {
            sets.make(Maker::Inst(2), if lanes % 2 == 0 { a } else { Active::ALL }, Some(lanes));
        }
        assert_eq!((sets.lanes(b), sets.is_within(b, a)), (None, false), "it does not settle");
        sets.changed = false;
        sets.make(Maker::Inst(2), a, Some(7));
        assert!(!sets.changed);
    }

    #[test]
    fn no_set_is_its_own_ancestor() {
        let mut sets = Sets::new(0xf);
        let a = sets.make(Maker::Inst(1), Active::ALL, None);
        let b = sets.make(Maker::Inst(2), a, None);
        sets.make(Maker::Inst(1), b, None);
        assert!(sets.is_within(b, Active::ALL));
        assert!(!sets.is_within(a, b));
    }
}
