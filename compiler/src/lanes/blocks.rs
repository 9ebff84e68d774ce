//! Where the codes of a quantised block lie, word by word.
//!
//! A format describes its codes as an expression over bytes for each chunk. For lanes that read different parts of a
//! block with the same instructions, that is brought to one form: word w of the codes (elements 4w to 4w + 3) is the
//! disjunction of some terms, each a word of the block, shifted and masked, and the bits of w add to the word's address
//! and to the shift. Which bits do what is found by evaluating the expression, and checked on all words.

use hrx_ir::quant::{Bytes, CHUNK, Format};

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

/// A term for all words of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TermOfBlock {
    /// The term of word 0.
    pub first: Term,
    /// What each bit of the word's number adds to the address.
    pub at: Vec<u32>,
    /// What each bit of the word's number adds to the shift.
    pub shift: Vec<u32>,
}

/// The terms of word `j` (bytes 4j to 4j + 3) of an expression; none where it has not that form.
pub(super) fn terms(e: &Bytes, j: u32) -> Option<Vec<Term>> {
    let map = |a: &Bytes, f: &dyn Fn(Term) -> Option<Term>| -> Option<Vec<Term>> {
        terms(a, j)?.into_iter().map(f).collect()
    };
    match e {
        Bytes::Raw { at, .. } => Some(vec![Term { at: at + 4 * j, shift: 0, mask: 0xFF, left: 0, spread: false }]),
        Bytes::Bits { at, .. } => {
            Some(vec![Term { at: at + 4 * (j / 8), shift: 4 * (j % 8), mask: 1, left: 0, spread: true }])
        }
        Bytes::Shr(a, n) => map(a, &|t| {
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
        }),
        Bytes::Shl(a, n) => map(a, &|t| {
            let left = t.left + u32::from(*n);
            (left < 8).then(|| Term { left, mask: t.mask & (0xFF >> left), ..t })
        }),
        Bytes::And(a, m) => map(a, &|t| Some(Term { mask: t.mask & (u32::from(*m) >> t.left), ..t })),
        Bytes::Or(a, b) => Some([terms(a, j)?, terms(b, j)?].concat()),
        Bytes::Concat(a, b) => {
            let words = a.len() / 4;
            if !a.len().is_multiple_of(4) {
                return None;
            }
            if j < words { terms(a, j) } else { terms(b, j - words) }
        }
    }
}

/// The terms of a format's codes; none where their addresses and shifts are not sums over the bits of the word's number.
pub(super) fn block_terms(f: &Format) -> Option<Vec<TermOfBlock>> {
    let words = f.block / 4;
    let of = |w: u32| terms(&(f.codes)(w / (CHUNK / 4)), w % (CHUNK / 4));
    let first = of(0)?;
    let bits = words.trailing_zeros();
    let mut out: Vec<TermOfBlock> =
        first.iter().map(|&first| TermOfBlock { first, at: Vec::new(), shift: Vec::new() }).collect();
    for bit in 0..bits {
        let there = of(1 << bit)?;
        if there.len() != out.len() {
            return None;
        }
        for (t, n) in out.iter_mut().zip(there) {
            t.at.push(n.at.checked_sub(t.first.at)?);
            t.shift.push(n.shift.checked_sub(t.first.shift)?);
        }
    }
    for w in 0..words {
        let sum = |list: &[u32]| list.iter().enumerate().map(|(i, n)| (w >> i & 1) * n).sum::<u32>();
        let made: Vec<Term> = out
            .iter()
            .map(|t| Term { at: t.first.at + sum(&t.at), shift: t.first.shift + sum(&t.shift), ..t.first })
            .collect();
        if of(w)? != made {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::{Term, block_terms};
    use hrx_ir::quant::FORMATS;

    fn eval(t: Term, block: &[u8]) -> u32 {
        let byte = |i: u32| u32::from(block.get((t.at + i) as usize).copied().unwrap_or(0));
        let word = (0..4).fold(0, |w, i| w | byte(i) << (8 * i));
        let moved = word >> t.shift;
        if t.spread {
            return (0..4).fold(0, |w, i| w | (moved >> i & 1) << (8 * i + t.left));
        }
        (moved & (t.mask * 0x0101_0101)) << t.left
    }

    #[test]
    fn every_format_has_the_form_and_its_codes() {
        for f in FORMATS {
            let terms = block_terms(f).unwrap_or_else(|| panic!("{} has not the form", f.name));
            let block: Vec<u8> = (0..f.block_bytes).map(|i| (i * 89 + 37) as u8 ^ (i / 3) as u8).collect();
            for w in 0..f.block / 4 {
                let sum = |list: &[u32]| list.iter().enumerate().map(|(i, n)| (w >> i & 1) * n).sum::<u32>();
                let word = terms.iter().fold(0, |acc, t| {
                    let t = Term { at: t.first.at + sum(&t.at), shift: t.first.shift + sum(&t.shift), ..t.first };
                    acc | eval(t, &block)
                });
                let chunk = (f.codes)(w / 8).eval(&block);
                let want = chunk[4 * (w as usize % 8)..][..4].iter().rev().fold(0, |n, &b| n << 8 | u32::from(b));
                assert_eq!(word, want, "{} word {w}", f.name);
            }
        }
    }
}
