//! The merge loop that byte-pair and SentencePiece vocabularies share.
//!
//! A word starts as a chain of characters. The adjacent pair of highest priority (the leftmost on a tie) becomes one
//! symbol, until no pair has a priority. A heap holds the candidates; one that names a symbol that has grown or gone since
//! it was pushed is skipped when it comes up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::utf8::announced_width;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Symbol {
    start: u32,
    /// Zero once merged into its left neighbour.
    len: u32,
    previous: u32,
    next: u32,
}

/// The bytes of `word` at `start..start + len`.
fn stretch(word: &[u8], start: u32, len: u32) -> &[u8] {
    &word[start as usize..(start + len) as usize]
}

/// Ordered by priority, then leftmost first. `right` and `total` tell whether the pair is still the one that was pushed.
type Candidate = (u32, Reverse<u32>, u32, u32);

/// The merge loop with its buffers, for one encoding after another.
#[derive(Default)]
pub struct Merger {
    symbols: Vec<Symbol>,
    candidates: BinaryHeap<Candidate>,
}

impl Merger {
    /// Merges `word`, which is shorter than 4 GiB, and calls `emit` with each remaining symbol from left to right.
    ///
    /// `priority(pair, cut)` is the priority of joining `pair[..cut]` and `pair[cut..]`, larger first, or `None` if they
    /// may not be joined.
    pub fn merge<E>(
        &mut self,
        word: &[u8],
        priority: impl Fn(&[u8], usize) -> Option<u32>,
        mut emit: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.split_characters(word);
        for left in 1..self.symbols.len() as u32 {
            self.consider(word, left - 1, left, &priority);
        }
        while let Some((_, Reverse(left), right, total)) = self.candidates.pop() {
            let (l, r) = (self.symbols[left as usize], self.symbols[right as usize]);
            if l.len == 0 || r.len == 0 || l.len + r.len != total {
                continue;
            }
            self.symbols[left as usize].len = total;
            self.symbols[left as usize].next = r.next;
            self.symbols[right as usize].len = 0;
            if r.next != NONE {
                self.symbols[r.next as usize].previous = left;
            }
            self.consider(word, l.previous, left, &priority);
            self.consider(word, left, r.next, &priority);
        }
        self.symbols.iter().filter(|s| s.len > 0).try_for_each(|s| emit(stretch(word, s.start, s.len)))
    }

    fn split_characters(&mut self, word: &[u8]) {
        self.symbols.clear();
        self.candidates.clear();
        let mut at = 0;
        while at < word.len() {
            let index = self.symbols.len() as u32;
            let len = announced_width(word[at]).min(word.len() - at);
            let end = at + len;
            self.symbols.push(Symbol {
                start: at as u32,
                len: len as u32,
                previous: if index == 0 { NONE } else { index - 1 },
                next: if end == word.len() { NONE } else { index + 1 },
            });
            at = end;
        }
    }

    fn consider(&mut self, word: &[u8], left: u32, right: u32, priority: &impl Fn(&[u8], usize) -> Option<u32>) {
        if left == NONE || right == NONE {
            return;
        }
        let (l, r) = (self.symbols[left as usize], self.symbols[right as usize]);
        let total = l.len + r.len;
        if let Some(p) = priority(stretch(word, l.start, total), l.len as usize) {
            self.candidates.push((p, Reverse(left), right, total));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(word: &str, ranks: &[(&str, &str)]) -> Vec<String> {
        let mut out = Vec::new();
        Merger::default()
            .merge::<()>(
                word.as_bytes(),
                |pair, cut| {
                    let pair = (&pair[..cut], &pair[cut..]);
                    let rank = ranks.iter().position(|p| (p.0.as_bytes(), p.1.as_bytes()) == pair)?;
                    Some(u32::MAX - rank as u32)
                },
                |symbol| {
                    out.push(String::from_utf8(symbol.to_vec()).unwrap());
                    Ok(())
                },
            )
            .unwrap();
        out
    }

    #[test]
    fn the_best_pair_goes_first_and_the_leftmost_of_equals() {
        assert_eq!(merged("abc", &[("b", "c"), ("a", "b")]), ["a", "bc"]);
        assert_eq!(merged("aaa", &[("a", "a")]), ["aa", "a"]);
        assert_eq!(merged("aaaa", &[("a", "a"), ("aa", "aa")]), ["aaaa"]);
        assert_eq!(merged("", &[("a", "a")]), Vec::<String>::new());
        assert_eq!(merged("éa", &[("é", "a")]), ["éa"]);
    }
}
