//! Weights packed for vectors that have a row in each lane.
//!
//! A *panel* is as many rows as a vector has lanes. For each panel and block of K there is a *record*, all of its bytes one
//! behind another, records of a panel in the order of K:
//!
//! ```text
//! numbers  what scales whole blocks (or groups): a number a row
//! minima   likewise
//! then for each chunk of 32 elements
//!   factors  the integers of the groups' scales: a byte a row
//!   factors  of minima
//!   codes    for each plane: vectors of 4 bytes a row
//! ```
//!
//! So all of it is read in the order in which it lies: one stream, which the processor's prefetching follows.
//!
//! A code of b bits lies in planes of 8, 4, 2 or 1 bits each, the lowest bits in the widest plane: 6 bits are 4 and 2. Four
//! neighbours along K, as the dot product of bytes takes them, are the bytes of one lane. Vector v of a plane of w bits has
//! the fours 8v/w, 8v/w + 1, … of the chunk, the first one in the lowest w bits of each byte. So a few loads, shifts and
//! masks give codes as they are multiplied, and no lane needs what another one has.
//!
//! All of it follows from the format's description; nothing here names a format.

use super::{CHUNK, Format, Number, Scales, Table};
use crate::tile::Elem;

/// Fours of a chunk: what [`Packed::planes`] shares out to vectors.
pub const FOURS: u32 = CHUNK / 4;

/// How many times larger than in a file packed weights may be.
const LARGEST: f64 = 1.25;

/// Some bits of each code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plane {
    /// How many bits: 8, 4, 2 or 1. As many vectors hold them for a chunk.
    pub width: u32,
    /// The first of the bits, counted in the code.
    pub bit: u32,
    /// The first of its vectors, counted in the chunk.
    pub vector: u32,
}

impl Plane {
    /// Fours in each of the plane's vectors.
    pub fn fours(&self) -> u32 {
        8 / self.width
    }
}

/// Where scales or minima lie in a record, in bytes of a row; times the rows of a panel these are the record's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PackedScales {
    /// The type of the numbers.
    pub elem: Elem,
    /// Where they begin.
    pub at: u32,
    /// How many there are: one, or one a group.
    pub count: u32,
    /// The integers that the number is multiplied by.
    pub factors: Option<PackedFactors>,
}

/// Integers of groups: the scale is the number times the sum of `plus` and `times` the integer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PackedFactors {
    /// Where those of the first chunk begin, in bytes of a row.
    pub at: u32,
    /// Whether they are signed bytes.
    pub signed: bool,
    /// What the integer is multiplied by.
    pub times: f32,
    /// What is added then.
    pub plus: f32,
}

/// How a format's blocks are packed.
#[derive(Clone, PartialEq, Debug)]
pub struct Packed {
    /// The format.
    pub format: &'static Format,
    /// What codes are looked up in; stored are indices then.
    pub table: Option<&'static Table>,
    /// Where the bits of stored codes lie.
    pub planes: Vec<Plane>,
    /// Where the first chunk's codes begin in a record, in bytes of a row.
    pub codes_at: u32,
    /// Bytes of a row from a chunk to the next.
    pub chunk_bytes: u32,
    /// The scales.
    pub scales: PackedScales,
    /// The minima, where the format has any.
    pub minima: Option<PackedScales>,
    /// Bytes of a row in a record.
    pub row_bytes: u32,
}

impl Packed {
    /// How a format is packed; none if that takes much more room than its blocks, or its scales are of another form.
    pub fn of(format: &'static Format) -> Option<Packed> {
        let table = format.indices(0).map(|(_, table)| table);
        let bits = match table {
            Some(table) => table.entries().trailing_zeros(),
            None if format.signed => 8,
            None => 32 - format.max_code.leading_zeros(),
        };
        if table.is_some_and(|t| t.entries() != 16) || (format.zero != 0 && format.mins.is_some()) {
            return None;
        }
        let mut planes = Vec::new();
        let (mut bit, mut vector) = (0, 0);
        while bit < bits {
            let left = bits - bit;
            // What is left to 8 bits is one plane where it would be three.
            let width = if left == 7 { 8 } else { 1 << left.ilog2() };
            planes.push(Plane { width, bit, vector });
            bit += width;
            vector += width;
        }
        let mut at = 0;
        let mut scales = numbers(&(format.scales)(), format, &mut at)?;
        let mut minima = match format.mins {
            Some(mins) => Some(numbers(&mins(), format, &mut at)?),
            None => None,
        };
        let numbers_end = at;
        for factors in [Some(&mut scales), minima.as_mut()].into_iter().flatten().filter_map(|s| s.factors.as_mut()) {
            factors.at = at;
            at += CHUNK / format.group;
        }
        let codes_at = at;
        let chunk_bytes = codes_at - numbers_end + 4 * vector;
        // Numbers lie at multiples of their size in whichever record.
        let row_bytes = (numbers_end + format.chunks() * chunk_bytes).next_multiple_of(scales.elem.bytes());
        let fits = f64::from(row_bytes) <= LARGEST * f64::from(format.block_bytes);
        fits.then_some(Packed { format, table, planes, codes_at, chunk_bytes, scales, minima, row_bytes })
    }

    /// Vectors of a chunk's codes.
    pub fn vectors(&self) -> u32 {
        self.planes.iter().map(|p| p.width).sum()
    }
}

/// The place of numbers, from `at` on, which is moved behind them. Factors get theirs later.
fn numbers(scales: &Scales, format: &Format, at: &mut u32) -> Option<PackedScales> {
    let (elem, count, factors) = match *scales {
        Scales::One { d, .. } => (number_elem(d), 1, None),
        // A binary16 has every number that eight bits of exponent and mantissa make.
        Scales::E4m3 { .. } => (Elem::F16, format.groups(), None),
        Scales::Scaled { d: d @ (Number::F16(_) | Number::F32(_)), signed, times, plus, .. } => {
            (number_elem(d), 1, Some(PackedFactors { at: 0, signed, times, plus }))
        }
        Scales::Scaled { .. } => return None,
    };
    let place = PackedScales { elem, at: *at, count, factors };
    *at += count * elem.bytes();
    Some(place)
}

/// The smallest float that has every number of a kind.
fn number_elem(d: Number) -> Elem {
    match d {
        Number::F16(_) | Number::Nibbles(_) => Elem::F16,
        Number::F32(_) => Elem::F32,
        Number::E8m0(_) => Elem::BF16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::FORMATS;

    #[test]
    fn what_is_met_often_is_packed_in_about_its_own_room() {
        let packed: Vec<Packed> = FORMATS.iter().filter_map(Packed::of).collect();
        let names: Vec<&str> = packed.iter().map(|p| p.format.name).collect();
        for wanted in ["q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mxfp4"] {
            assert!(names.contains(&wanted), "{wanted} is not packed");
        }
        for p in &packed {
            // Every bit of a code has a place, and vectors are one behind another.
            let code = if p.format.signed && p.table.is_none() { 8 } else { 32 - p.format.max_code.leading_zeros() };
            let code = p.table.map_or(code, |_| 4);
            let bits: u32 = p.planes.iter().map(|plane| plane.width).sum();
            assert!((code..=8).contains(&bits), "{}: {bits} bits", p.format.name);
            assert_eq!(p.vectors(), bits);
            assert!(
                p.row_bytes >= p.codes_at + (p.format.chunks() - 1) * p.chunk_bytes + bits * 4,
                "{}",
                p.format.name
            );
            assert!(p.row_bytes.is_multiple_of(p.scales.elem.bytes()), "{}", p.format.name);
        }
    }
}
