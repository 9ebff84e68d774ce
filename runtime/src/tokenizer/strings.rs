//! Many short byte strings in one allocation, and a hash index over them.

use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Byte strings numbered from zero.
#[derive(Debug, Default)]
pub struct Strings {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Strings {
    /// Room for `count` strings of `bytes` bytes in all, which [`LIMIT`](Self::LIMIT) bounds.
    pub fn with_capacity(count: usize, bytes: usize) -> Strings {
        Strings { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// Most bytes that all strings together may have.
    pub const LIMIT: usize = u32::MAX as usize;

    /// Appends a string made of `parts`.
    pub fn push(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        debug_assert!(self.bytes.len() <= Self::LIMIT);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Appends the string that `write` appends to the buffer.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.push(&[]);
    }

    /// The string numbered `index`, if there is one.
    pub fn get(&self, index: u32) -> Option<&[u8]> {
        let index = index as usize;
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        Some(&self.bytes[start..end])
    }

    /// How many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
}

/// A string cut in three. The middle part separates the others; it takes part in comparisons but not in the hash.
pub type Parts<'a> = [&'a [u8]; 3];

/// Finds the number of a string by its content. The strings stay outside and are handed to each call.
#[derive(Debug)]
pub struct Index {
    table: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Index {
    /// Indexes `strings`. Of equal strings the first is found.
    ///
    /// Strings are looked up by the parts into which `split` cuts them, so that a lookup need not join them.
    pub fn new(strings: &Strings, split: impl Fn(&[u8]) -> Parts<'_>) -> Index {
        let mut index = Index { table: HashTable::with_capacity(strings.len()), hasher: DefaultHashBuilder::default() };
        for number in 0..strings.len() as u32 {
            let parts = split(strings.get(number).unwrap_or_default());
            if index.find(strings, parts).is_none() {
                let hash = index.hash(parts);
                // The capacity suffices for all strings, so nothing is ever rehashed with this closure.
                index.table.insert_unique(hash, number, |_| hash);
            }
        }
        index
    }

    /// The number of the string made of `parts`, cut as `new`'s `split` cuts it.
    pub fn find(&self, strings: &Strings, parts: Parts<'_>) -> Option<u32> {
        let is_it = |number: &u32| {
            let mut rest = strings.get(*number);
            for part in parts {
                rest = rest.and_then(|r| r.strip_prefix(part));
            }
            rest.is_some_and(<[u8]>::is_empty)
        };
        self.table.find(self.hash(parts), is_it).copied()
    }

    fn hash(&self, [left, _, right]: Parts<'_>) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(left);
        hasher.write(right);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_by_their_parts() {
        let mut strings = Strings::default();
        for s in ["a bc", "ab c", "a bc", "", "x"] {
            strings.push(&[s.as_bytes()]);
        }
        let index = Index::new(&strings, |s| match s.iter().position(|b| *b == b' ') {
            Some(at) => [&s[..at], b" ", &s[at + 1..]],
            None => [s, b"", b""],
        });
        assert_eq!(index.find(&strings, [b"a", b" ", b"bc"]), Some(0));
        assert_eq!(index.find(&strings, [b"ab", b" ", b"c"]), Some(1));
        assert_eq!(index.find(&strings, [b"", b"", b""]), Some(3));
        assert_eq!(index.find(&strings, [b"x", b"", b""]), Some(4));
        assert_eq!(index.find(&strings, [b"abc", b"", b""]), None);
        assert_eq!(strings.get(5), None);
    }
}
