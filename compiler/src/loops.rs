//! Loops of code, from its backward jumps.

use std::ops::Range;

/// A loop: what lies between where jumps go back to and the last of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Nested {
    /// Numbers of its instructions, those of loops in it among them.
    pub range: Range<usize>,
    /// How many loops it is in, itself one of them.
    pub depth: usize,
}

/// The loops that jumps `(from, to)` make, numbers of instructions both; outer ones before those in them.
pub(crate) fn nested(jumps: impl IntoIterator<Item = (usize, usize)>) -> Vec<Nested> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for (from, to) in jumps.into_iter().filter(|(from, to)| to <= from) {
        match ranges.iter_mut().find(|r| r.start == to) {
            Some(range) => range.end = range.end.max(from + 1),
            None => ranges.push(to..from + 1),
        }
    }
    ranges.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let depth = |of: &Range<usize>| ranges.iter().filter(|r| r.start <= of.start && r.end >= of.end).count();
    ranges.iter().map(|range| Nested { range: range.clone(), depth: depth(range) }).collect()
}

/// The innermost of the loops that an instruction is in.
pub(crate) fn innermost(loops: &[Nested], at: usize) -> Option<usize> {
    (0..loops.len()).filter(|&l| loops[l].range.contains(&at)).max_by_key(|&l| loops[l].depth)
}

#[cfg(test)]
mod tests {
    use super::{innermost, nested};

    #[test]
    fn loops_lie_in_one_another() {
        // Two jumps back to one place are one loop; a jump forward is none.
        let loops = nested([(3, 2), (5, 1), (6, 1), (4, 9), (8, 8)]);
        let found: Vec<_> = loops.iter().map(|l| (l.range.clone(), l.depth)).collect();
        assert_eq!(found, [(1..7, 1), (2..4, 2), (8..9, 1)]);
        let of = |at| innermost(&loops, at);
        assert_eq!([of(0), of(1), of(3), of(6), of(8)], [None, Some(0), Some(1), Some(0), Some(2)]);
    }
}
