//! Keys: BLAKE3 over named parts.

use std::fmt;
use std::str::FromStr;

/// The address of an entry: a 256-bit BLAKE3 hash. Prints and parses as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// A key from its 32 bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the key.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// The text is not 64 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cache key (64 hexadecimal digits wanted): {text:?}")]
pub struct ParseKeyError {
    text: String,
}

impl FromStr for Key {
    type Err = ParseKeyError;

    fn from_str(text: &str) -> Result<Self, ParseKeyError> {
        let error = || ParseKeyError {
            text: text.chars().take(80).collect(),
        };
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(error());
        }
        let nibble = |digit: u8| char::from(digit).to_digit(16).ok_or_else(error);
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = (nibble(pair[0])? << 4 | nibble(pair[1])?) as u8;
        }
        Ok(Self(bytes))
    }
}

/// Builds a [`Key`] from everything that a value depends on.
///
/// Each part is hashed as name and bytes, both preceded by their length, so no two different
/// sequences of parts hash the same input. Order matters.
///
/// ```
/// use hrx_cache::KeyBuilder;
/// let key = KeyBuilder::new("example").part("kernel", b"...").part("target", b"znver3").finish();
/// let other = KeyBuilder::new("example").part("kernel", b"...").part("target", b"znver4").finish();
/// assert_ne!(key, other);
/// assert_eq!(key.to_string().parse(), Ok(key));
/// ```
#[derive(Debug, Clone)]
pub struct KeyBuilder(blake3::Hasher);

impl KeyBuilder {
    /// Starts a key; `domain` names the kind of value and keeps kinds apart.
    pub fn new(domain: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hash_prefixed(&mut hasher, domain.as_bytes());
        Self(hasher)
    }

    /// Adds one named part.
    #[must_use]
    pub fn part(mut self, name: &str, bytes: impl AsRef<[u8]>) -> Self {
        hash_prefixed(&mut self.0, name.as_bytes());
        hash_prefixed(&mut self.0, bytes.as_ref());
        self
    }

    /// The key of all parts so far.
    pub fn finish(self) -> Key {
        Key(*self.0.finalize().as_bytes())
    }
}

fn hash_prefixed(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_not_confused() {
        let keys = [
            KeyBuilder::new("d").finish(),
            KeyBuilder::new("d").part("", b"").finish(),
            KeyBuilder::new("d").part("a", b"bc").finish(),
            KeyBuilder::new("d").part("ab", b"c").finish(),
            KeyBuilder::new("da").part("b", b"c").finish(),
            KeyBuilder::new("d").part("a", b"b").part("c", b"").finish(),
            KeyBuilder::new("d").part("c", b"").part("a", b"b").finish(),
        ];
        for (i, a) in keys.iter().enumerate() {
            assert!(
                keys[i + 1..].iter().all(|b| a != b),
                "key {i} is not unique"
            );
        }
    }

    #[test]
    fn a_key_does_not_change_between_versions_of_this_crate() {
        // A silent change of the scheme would throw every user's cache away unnoticed. The value
        // is BLAKE3 of the length-prefixed parts, computed independently of `KeyBuilder`.
        let mut input = Vec::new();
        for part in ["domain", "name", "bytes"] {
            input.extend((part.len() as u64).to_le_bytes());
            input.extend(part.as_bytes());
        }
        let key = KeyBuilder::new("domain").part("name", b"bytes").finish();
        assert_eq!(key.as_bytes(), blake3::hash(&input).as_bytes());
    }

    #[test]
    fn text_round_trips_and_bad_text_is_refused() {
        let key = KeyBuilder::new("text").finish();
        assert_eq!(key.to_string().parse::<Key>(), Ok(key));
        assert_eq!(key.to_string().to_uppercase().parse::<Key>(), Ok(key));
        let long = "0".repeat(65);
        let odd = format!("+{}", "0".repeat(63));
        for bad in ["", "0", &long, &odd, &"é".repeat(32)] {
            assert!(bad.parse::<Key>().is_err(), "{bad:?} was accepted");
        }
    }
}
