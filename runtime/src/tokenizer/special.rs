//! Finding special tokens in text before anything else is done with it.

use std::cmp::Reverse;
use std::ops::Range;

use super::vocabulary::{Kind, Vocabulary};

/// A stretch of text, or a special token found in it.
#[derive(Debug, PartialEq, Eq)]
pub enum Fragment {
    /// Bytes of the input that are ordinary text.
    Text(Range<usize>),
    /// A special token.
    Token(u32),
}

/// Cuts `text` at the special tokens it spells. User-defined tokens are always found, control and unknown tokens only
/// with `parse_special`.
///
/// A longer token wins over a shorter one that overlaps it, wherever they start; of equally long ones the one with the
/// lower id; of occurrences of the same token the first.
pub fn partition(vocabulary: &Vocabulary, text: &[u8], parse_special: bool) -> Vec<Fragment> {
    let wanted = match parse_special {
        true => Kind::USER_DEFINED | Kind::CONTROL | Kind::UNKNOWN,
        false => Kind::USER_DEFINED,
    };
    let mut found = Vec::new();
    for (at, first) in text.iter().enumerate() {
        for length in vocabulary.special_lengths(*first) {
            let spelled = text.get(at..at + *length as usize);
            let Some(id) = spelled.and_then(|s| vocabulary.find(s)) else { continue };
            let kind = vocabulary.kind(id);
            let hidden = !parse_special && kind.is(Kind::CONTROL | Kind::UNKNOWN);
            if kind.is(wanted) && !hidden {
                found.push((Reverse(*length as usize), id, at));
            }
        }
    }
    let mut fragments = Vec::new();
    if found.is_empty() {
        if !text.is_empty() {
            fragments.push(Fragment::Text(0..text.len()));
        }
        return fragments;
    }
    found.sort_unstable();
    let mut taken = vec![false; text.len()];
    let mut tokens = Vec::new();
    for (Reverse(length), id, at) in found {
        let mut end = at + length;
        if taken[at..end].contains(&true) {
            continue;
        }
        if vocabulary.kind(id).is(Kind::STRIPS_RIGHT) {
            end += (end..text.len()).take_while(|i| !taken[*i] && is_space(text[*i])).count();
        }
        taken[at..end].fill(true);
        tokens.push((at..end, id));
    }
    tokens.sort_unstable_by_key(|t| t.0.start);
    let mut from = 0;
    for (range, id) in tokens {
        if range.start > from {
            fragments.push(Fragment::Text(from..range.start));
        }
        fragments.push(Fragment::Token(id));
        from = range.end;
    }
    if from < text.len() {
        fragments.push(Fragment::Text(from..text.len()));
    }
    fragments
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
