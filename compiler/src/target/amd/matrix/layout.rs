//! Fragments as permutations of bits.

/// What one bit of a lane's or of an element's number says about the element's place in the tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bit {
    /// A bit of the row of A, or of the column of B: both fragments have the same form.
    Outer(u8),
    /// A bit of k.
    K(u8),
    /// A bit of the row of D.
    M(u8),
    /// A bit of the column of D.
    N(u8),
    /// None: the element is held again for the other value of the bit, and must be the same.
    Repeat,
    /// None: where the bit is set there is no element. What is there is not read, or undefined.
    Unused,
}

/// The elements that a wave's lanes hold, as bits from the lowest up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment {
    /// The bits of the lane's number.
    pub lane: &'static [Bit],
    /// The bits of the element's number in the lane.
    pub element: &'static [Bit],
}

/// A place in a tile; only the coordinates that the fragment has are other than 0.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Place {
    pub outer: u32,
    pub k: u32,
    pub m: u32,
    pub n: u32,
    pub unused: bool,
}

impl Fragment {
    pub(super) fn at(&self, lane: u32, element: u32) -> Place {
        debug_assert!(lane >> self.lane.len() == 0 && element >> self.element.len() == 0, "no such lane or element");
        let mut place = Place::default();
        let numbers = [(self.lane, lane), (self.element, element)];
        for (bits, number) in numbers {
            for (at, bit) in bits.iter().enumerate() {
                let set = number >> at & 1;
                match *bit {
                    Bit::Outer(to) => place.outer |= set << to,
                    Bit::K(to) => place.k |= set << to,
                    Bit::M(to) => place.m |= set << to,
                    Bit::N(to) => place.n |= set << to,
                    Bit::Repeat => {}
                    Bit::Unused => place.unused |= set == 1,
                }
            }
        }
        place
    }
}

/// The fragments of a matrix instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// A, with [`Bit::Outer`] as its row, and B, with it as its column.
    pub factor: Fragment,
    /// C and D.
    pub result: Fragment,
}

/// Lanes and elements of a fragment, as in `fragment!([Outer(0), K(1)], [K(0)])`.
macro_rules! fragment {
    ([$($lane:expr),*], [$($element:expr),*]) => {{
        #[allow(unused_imports)]
        use super::layout::Bit::{K, M, N, Outer, Repeat, Unused};
        super::layout::Fragment { lane: &[$($lane),*], element: &[$($element),*] }
    }};
}
pub(super) use fragment;
