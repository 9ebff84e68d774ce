//! Where the codes of a quantised block lie, word by word.
//!
//! A format describes its codes as an expression over bytes for each chunk. For lanes that make different words of a
//! block with the same instructions, that is brought to one form: word w of the codes (elements 4w to 4w + 3) is the
//! same tree of operations for every w, in which only numbers differ: addresses, shifts, powers. Each of them is a
//! function of w, most often a sum over its bits; lanes compute it from their own. Scales of groups, which are one small
//! number each, are brought to such a form too.

use hrx_ir::quant::{Bytes, CHUNK, Format, Table};

/// A part of a word of codes: `(((word at byte) >> shift) & mask) << left` in each byte, or with `spread` the four bits
/// from `shift` on spread to the four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Term {
    pub at: u32,
    pub shift: u32,
    pub mask: u32,
    pub left: u32,
    pub spread: bool,
}

/// A word of codes.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Word {
    /// A word of the block.
    Term(Term),
    /// Two words combined.
    Or(Box<Word>, Box<Word>),
    /// The bits that differ.
    Xor(Box<Word>, Box<Word>),
    /// Four bits of a number from `shift` on spread to the four bytes, moved left.
    Spread { of: Small, shift: u32, left: u32 },
    /// A number in each byte, moved left.
    Splat { of: Small, left: u32 },
    /// The digit in base 3 of each byte, times this power of 3.
    Trit(Box<Word>, u32),
    /// The entry of a table of 16 bytes for each byte.
    Lookup(Box<Word>, &'static Table),
    /// Word `part` of a table's entry.
    Entry { low: Small, high: Option<Small>, part: u32, table: &'static Table },
    /// The first one's bytes, none of them zero, negated where the second one's are 1 and not 0.
    Negate(Box<Word>, Box<Word>),
}

/// A number of at most 11 bits.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Small {
    /// `(((word at byte) >> shift) & mask) << left`.
    Field { at: u32, shift: u32, mask: u32, left: u32 },
    /// Two numbers combined.
    Or(Box<Small>, Box<Small>),
    /// With the parity of its 7 bits as an eighth.
    Even(Box<Small>),
}

/// A tree with numbers in it that differ between the words of a block.
pub(super) trait Tree: Clone + PartialEq {
    /// Calls `f` with each of them in a fixed order.
    fn numbers(&mut self, f: &mut impl FnMut(&mut u32));
}

impl Tree for Small {
    fn numbers(&mut self, f: &mut impl FnMut(&mut u32)) {
        match self {
            Small::Field { at, shift, .. } => {
                f(at);
                f(shift);
            }
            Small::Or(a, b) => {
                a.numbers(f);
                b.numbers(f);
            }
            Small::Even(a) => a.numbers(f),
        }
    }
}

impl Tree for Word {
    fn numbers(&mut self, f: &mut impl FnMut(&mut u32)) {
        match self {
            Word::Term(t) => {
                f(&mut t.at);
                f(&mut t.shift);
            }
            Word::Or(a, b) | Word::Xor(a, b) | Word::Negate(a, b) => {
                a.numbers(f);
                b.numbers(f);
            }
            Word::Spread { of, shift, .. } => {
                of.numbers(f);
                f(shift);
            }
            Word::Splat { of, .. } => of.numbers(f),
            Word::Trit(a, power) => {
                a.numbers(f);
                f(power);
            }
            Word::Lookup(a, _) => a.numbers(f),
            Word::Entry { low, high, part, .. } => {
                low.numbers(f);
                if let Some(high) = high {
                    high.numbers(f);
                }
                f(part);
            }
        }
    }
}

/// What all words of a block, or all groups, have in common: the tree with a place in `numbers` for each of its numbers,
/// and for each place the number of every word.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Common<T> {
    pub tree: T,
    pub numbers: Vec<Vec<u32>>,
}

impl<T: Tree> Common<T> {
    /// None where the trees differ in more than their numbers.
    fn of(trees: impl Iterator<Item = Option<T>>) -> Option<Common<T>> {
        let mut out: Option<Common<T>> = None;
        for tree in trees {
            let mut tree = tree?;
            let mut own = Vec::new();
            tree.numbers(&mut |n| own.push(std::mem::replace(n, own.len() as u32)));
            let out = out.get_or_insert_with(|| Common { tree: tree.clone(), numbers: vec![Vec::new(); own.len()] });
            if out.tree != tree {
                return None;
            }
            out.numbers.iter_mut().zip(own).for_each(|(list, n)| list.push(n));
        }
        out
    }

    /// The tree of one word.
    #[cfg(test)]
    fn at(&self, w: usize) -> T {
        let mut tree = self.tree.clone();
        tree.numbers(&mut |n| *n = self.numbers[*n as usize][w]);
        tree
    }
}

/// The words of a format's codes.
pub(super) fn block_words(f: &Format) -> Option<Common<Word>> {
    let chunk = CHUNK / 4;
    Common::of((0..f.block / 4).map(|w| word(&(f.codes)(w / chunk), w % chunk, f.block_bytes)))
}

/// The numbers that the groups of a format have, one for each element of an expression.
pub(super) fn group_numbers(e: &Bytes, f: &Format) -> Option<Common<Small>> {
    Common::of((0..f.groups()).map(|g| small(e, g, f.block_bytes)))
}

/// Word `j` (bytes 4j to 4j + 3) of an expression over a block of `size` bytes; none where it has not that form.
fn word(e: &Bytes, j: u32, size: u32) -> Option<Word> {
    let of = |a: &Bytes| word(a, j, size);
    let both = |a: &Bytes, b: &Bytes| Some((Box::new(of(a)?), Box::new(of(b)?)));
    Some(match e {
        Bytes::Raw { at, .. } => Word::Term(Term { at: at + 4 * j, shift: 0, mask: 0xFF, left: 0, spread: false }),
        Bytes::Spread(a) => match **a {
            Bytes::Raw { at, len } if len % 4 == 0 => {
                Word::Term(Term { at: at + 4 * (j / 8), shift: 4 * (j % 8), mask: 1, left: 0, spread: true })
            }
            _ => Word::Spread { of: small(a, j / 2, size)?, shift: 4 * (j % 2), left: 0 },
        },
        Bytes::Shr(a, n) => of(a)?.terms(&|t| {
            let n = u32::from(*n);
            if t.spread {
                return None;
            }
            // What was moved left comes back; the rest is a shift of the word.
            let back = n.min(t.left);
            let more = n - back;
            (t.left == 0 || more == 0).then_some(Term {
                shift: t.shift + more,
                mask: if back > 0 { t.mask } else { t.mask >> more },
                left: t.left - back,
                ..t
            })
        })?,
        Bytes::Shl(a, n) => match of(a)? {
            // Numbers of 0 and 1: what is moved stays in its byte.
            Word::Spread { of, shift, left } if left + u32::from(*n) < 8 => {
                Word::Spread { of, shift, left: left + u32::from(*n) }
            }
            Word::Splat { of: Small::Field { at, shift, mask: 1, left: 0 }, left } if left + u32::from(*n) < 8 => {
                Word::Splat { of: Small::Field { at, shift, mask: 1, left: 0 }, left: left + u32::from(*n) }
            }
            other => other.terms(&|t| {
                let left = t.left + u32::from(*n);
                (left < 8).then(|| Term { left, mask: t.mask & (0xFF >> left), ..t })
            })?,
        },
        Bytes::And(a, m) => of(a)?.terms(&|t| Some(Term { mask: t.mask & (u32::from(*m) >> t.left), ..t }))?,
        Bytes::Or(a, b) => both(a, b).map(|(a, b)| Word::Or(a, b))?,
        Bytes::Xor(a, b) => both(a, b).map(|(a, b)| Word::Xor(a, b))?,
        Bytes::Negate(a, b) => both(a, b).map(|(a, b)| Word::Negate(a, b))?,
        Bytes::Concat(a, b) => {
            let words = a.len() / 4;
            if !a.len().is_multiple_of(4) {
                return None;
            }
            if j < words { of(a)? } else { word(b, j - words, size)? }
        }
        Bytes::Repeat(a, times) if times % 4 == 0 => Word::Splat { of: small(a, 4 * j / times, size)?, left: 0 },
        Bytes::Trit(a, n) => Word::Trit(Box::new(of(a)?), 3u32.pow(u32::from(*n))),
        Bytes::Lookup { low, high: None, table } if table.width == 1 && table.entries() == 16 => {
            Word::Lookup(Box::new(of(low)?), table)
        }
        Bytes::Lookup { low, high, table } if table.width >= 4 => {
            let words = table.width / 4;
            let high = match high {
                Some(h) => Some(small(h, j / words, size)?),
                None => None,
            };
            Word::Entry { low: small(low, j / words, size)?, high, part: j % words, table }
        }
        Bytes::Repeat(..) | Bytes::Lookup { .. } | Bytes::Fields { .. } | Bytes::Even(_) => return None,
    })
}

impl Word {
    /// A word of nothing but terms with each of them changed.
    fn terms(self, f: &dyn Fn(Term) -> Option<Term>) -> Option<Word> {
        match self {
            Word::Term(t) => f(t).map(Word::Term),
            Word::Or(a, b) => Some(Word::Or(Box::new(a.terms(f)?), Box::new(b.terms(f)?))),
            _ => None,
        }
    }
}

/// The terms whose disjunction is a word of an expression; none where it is something else.
pub(super) fn terms(e: &Bytes, j: u32, size: u32) -> Option<Vec<Term>> {
    fn collect(w: Word, out: &mut Vec<Term>) -> Option<()> {
        match w {
            Word::Term(t) => out.push(t),
            Word::Or(a, b) => {
                collect(*a, out)?;
                collect(*b, out)?;
            }
            _ => return None,
        }
        Some(())
    }
    let mut out = Vec::new();
    collect(word(e, j, size)?, &mut out)?;
    Some(out)
}

/// Element `i` of an expression over a block of `size` bytes; none where it has not that form.
fn small(e: &Bytes, i: u32, size: u32) -> Option<Small> {
    // The word that a field is in, moved into the block where it would reach beyond it.
    let field = |at: u32, shift: u32, mask: u32| {
        let beyond = (at + 4).saturating_sub(size);
        Small::Field { at: at - beyond, shift: shift + 8 * beyond, mask, left: 0 }
    };
    Some(match e {
        Bytes::Raw { at, .. } => field(at + 4 * (i / 4), 8 * (i % 4), 0xFF),
        Bytes::Fields { at, bit, step, width, .. } => {
            let from = bit + i * step;
            if from % 32 + width > 32 {
                return None;
            }
            field(at + 4 * (from / 32), from % 32, (1 << width) - 1)
        }
        Bytes::Spread(a) => match small(a, i / 8, size)? {
            Small::Field { at, shift, mask, left: 0 } => {
                Small::Field { at, shift: shift + i % 8, mask: mask >> (i % 8) & 1, left: 0 }
            }
            _ => return None,
        },
        Bytes::Shr(a, n) => match small(a, i, size)? {
            Small::Field { at, shift, mask, left: 0 } => {
                Small::Field { at, shift: shift + u32::from(*n), mask: mask >> n, left: 0 }
            }
            _ => return None,
        },
        Bytes::Shl(a, n) => match small(a, i, size)? {
            Small::Field { at, shift, mask, left } => {
                let left = left + u32::from(*n);
                Small::Field { at, shift, mask: mask & (0xFF >> left), left }
            }
            _ => return None,
        },
        Bytes::And(a, m) => match small(a, i, size)? {
            Small::Field { at, shift, mask, left } => {
                Small::Field { at, shift, mask: mask & (u32::from(*m) >> left), left }
            }
            _ => return None,
        },
        Bytes::Or(a, b) => Small::Or(Box::new(small(a, i, size)?), Box::new(small(b, i, size)?)),
        Bytes::Concat(a, b) if i < a.len() => small(a, i, size)?,
        Bytes::Concat(a, b) => small(b, i - a.len(), size)?,
        Bytes::Even(a) => Small::Even(Box::new(small(a, i, size)?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Small, Term, Word, block_words, group_numbers, terms};
    use hrx_ir::quant::{Bytes, Format, Scales};

    fn word_at(block: &[u8], at: u32) -> u32 {
        u32::from_le_bytes(block[at as usize..at as usize + 4].try_into().expect("words lie in the block"))
    }

    fn term(t: Term, block: &[u8]) -> u32 {
        let moved = word_at(block, t.at) >> t.shift;
        if t.spread {
            return (0..4).fold(0, |w, i| w | (moved >> i & 1) << (8 * i + t.left));
        }
        (moved & (t.mask * 0x0101_0101)) << t.left
    }

    fn small(s: &Small, block: &[u8]) -> u32 {
        match s {
            Small::Field { at, shift, mask, left } => (word_at(block, *at) >> shift & mask) << left,
            Small::Or(a, b) => small(a, block) | small(b, block),
            Small::Even(a) => {
                let x = small(a, block);
                x | (x.count_ones() & 1) << 7
            }
        }
    }

    fn word(w: &Word, block: &[u8]) -> u32 {
        let bytes = |a: &Word, b: Option<&Word>, f: &dyn Fn(u8, u8) -> u8| {
            let (a, b) = (word(a, block).to_le_bytes(), b.map_or(0, |b| word(b, block)).to_le_bytes());
            u32::from_le_bytes([f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])])
        };
        match w {
            Word::Term(t) => term(*t, block),
            Word::Or(a, b) => word(a, block) | word(b, block),
            Word::Xor(a, b) => word(a, block) ^ word(b, block),
            Word::Spread { of, shift, left } => {
                (0..4).fold(0, |w, i| w | (small(of, block) >> (shift + i) & 1) << (8 * i + left))
            }
            Word::Splat { of, left } => (small(of, block) * 0x0101_0101) << left,
            Word::Trit(a, power) => bytes(a, None, &|x, _| ((u32::from(x.wrapping_mul(*power as u8)) * 3) >> 8) as u8),
            Word::Lookup(a, table) => bytes(a, None, &|x, _| table.bytes[usize::from(x)]),
            Word::Entry { low, high, part, table } => {
                let index = small(low, block) | high.as_ref().map_or(0, |h| small(h, block) << 8);
                word_at(table.entry(index as usize), 4 * part)
            }
            Word::Negate(a, b) => bytes(a, Some(b), &|x, s| if s == 1 { x.wrapping_neg() } else { x }),
        }
    }

    fn block(f: &Format) -> Vec<u8> {
        (0..f.block_bytes).map(|i| (i * 89 + 37) as u8 ^ (i / 3) as u8).collect()
    }

    #[test]
    fn every_format_has_the_form_and_its_codes() {
        for f in Format::all() {
            let common = block_words(f).unwrap_or_else(|| panic!("{} has not the form", f.name));
            let block = block(f);
            for w in 0..f.block / 4 {
                let chunk = (f.codes)(w / 8).eval(&block);
                let want = chunk[4 * (w as usize % 8)..][..4].iter().rev().fold(0, |n, &b| n << 8 | u32::from(b));
                assert_eq!(word(&common.at(w as usize), &block), want, "{} word {w}", f.name);
            }
        }
    }

    #[test]
    fn the_integers_of_scales_have_one_of_two_forms() {
        for f in Format::all() {
            let all = [Some((f.scales)()), f.mins.map(|m| m())];
            let integers = |s: Scales| match s {
                Scales::Scaled { by, .. } | Scales::E4m3 { by } => Some(by),
                Scales::One { .. } => None,
            };
            for by in all.into_iter().flatten().filter_map(integers) {
                check(f, &by);
            }
        }
    }

    fn check(f: &Format, by: &Bytes) {
        let block = block(f);
        for (g, want) in by.eval(&block).into_iter().enumerate() {
            let got = match terms(by, g as u32 / 4, f.block_bytes) {
                Some(list) => list.iter().fold(0, |w, &t| w | term(t, &block)) >> (8 * (g % 4)) & 0xFF,
                None => small(&group_numbers(by, f).unwrap_or_else(|| panic!("{}", f.name)).at(g), &block),
            };
            assert_eq!(got, u32::from(want), "{} group {g}", f.name);
        }
    }
}
