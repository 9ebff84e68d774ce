//! The file format of one entry. All numbers are little-endian.
//!
//! ```text
//! offset  bytes
//!      0      8  magic "hrxcache"
//!      8      4  format version
//!     12      4  length of the metadata, M
//!     16      8  length of the payload, P
//!     24     32  key
//!     56      M  metadata
//!             .  zeros up to a multiple of 16, so that the payload is as aligned as the buffer
//!             P  payload
//!            32  BLAKE3 of everything before it
//! ```
//!
//! The length of the file follows from M and P, so a truncated or an extended file is known
//! before anything is hashed.

use std::ops::Range;

use crate::key::Key;

/// Version of the entry format; an entry of another version counts as damaged and is rebuilt.
pub const FORMAT_VERSION: u32 = 1;

/// The most metadata that an entry takes, in bytes.
pub const MAX_META_BYTES: usize = 1 << 20;

const MAGIC: [u8; 8] = *b"hrxcache";
const HEADER: usize = 56;
const CHECKSUM: usize = 32;
const PAYLOAD_ALIGN: usize = 16;

/// Why a file is not the entry it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Too short for a header and a checksum.
    #[error("truncated: {bytes} bytes, at least {least} wanted", least = HEADER + CHECKSUM)]
    Truncated {
        /// Size of the file.
        bytes: u64,
    },
    /// The first bytes are not those of a cache entry.
    #[error("not a cache entry (wrong magic)")]
    Magic,
    /// Written by a version of this crate with another format.
    #[error("format version {found}, {FORMAT_VERSION} wanted")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// The entry of another key, under this key's name.
    #[error("entry of another key, {found}")]
    Key {
        /// The key in the file.
        found: Key,
    },
    /// The file's size is not the one that its header implies.
    #[error("{bytes} bytes, but the header implies {implied}")]
    Length {
        /// Size of the file.
        bytes: u64,
        /// Size according to the header.
        implied: u64,
    },
    /// The content is not what was written.
    #[error("wrong checksum")]
    Checksum,
    /// Larger than [`crate::CacheOptions::max_entry_bytes`]; not read.
    #[error("{bytes} bytes, more than any entry may have")]
    TooLarge {
        /// Size of the file.
        bytes: u64,
    },
    /// A directory, link, pipe or the like stands where the entry should be.
    #[error("not a regular file")]
    NotAFile,
}

/// The lengths and the key that an entry's header states.
pub(crate) struct Header {
    pub key: Key,
    meta: usize,
    payload: u64,
}

impl Header {
    /// Bytes of a header in a file.
    pub const BYTES: usize = HEADER;

    /// Reads the header alone. Nothing but magic and version has been checked afterwards.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let Some((header, _)) = bytes.split_first_chunk::<HEADER>() else {
            return Err(Fault::Truncated {
                bytes: bytes.len() as u64,
            });
        };
        if header[..8] != MAGIC {
            return Err(Fault::Magic);
        }
        let found = u32::from_le_bytes(array(header, 8));
        if found != FORMAT_VERSION {
            return Err(Fault::Version { found });
        }
        Ok(Self {
            key: Key::from_bytes(array(header, 24)),
            meta: u32::from_le_bytes(array(header, 12)) as usize,
            payload: u64::from_le_bytes(array(header, 16)),
        })
    }

    /// Where the metadata lies in the file.
    pub fn meta(&self) -> Range<usize> {
        HEADER..HEADER + self.meta
    }

    /// Size of the whole file; `None` if it is beyond 64 bits.
    pub fn file_bytes(&self) -> Option<u64> {
        let start = payload_start(self.meta) as u64;
        start
            .checked_add(self.payload)?
            .checked_add(CHECKSUM as u64)
    }
}

/// A complete, checked entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    bytes: Vec<u8>,
    meta: Range<usize>,
    payload: Range<usize>,
}

impl Entry {
    /// The bytes of an entry file.
    ///
    /// `meta` must have at most [`MAX_META_BYTES`] bytes; [`crate::Cache::put`] sees to it.
    pub fn encode(key: &Key, meta: &[u8], payload: &[u8]) -> Vec<u8> {
        let start = payload_start(meta.len());
        let mut bytes = Vec::with_capacity(start + payload.len() + CHECKSUM);
        bytes.extend(MAGIC);
        bytes.extend(FORMAT_VERSION.to_le_bytes());
        bytes.extend((meta.len() as u32).to_le_bytes());
        bytes.extend((payload.len() as u64).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend_from_slice(meta);
        bytes.resize(start, 0);
        bytes.extend_from_slice(payload);
        let checksum = blake3::hash(&bytes);
        bytes.extend(checksum.as_bytes());
        bytes
    }

    /// Takes over the bytes of an entry file after checking all of them.
    ///
    /// # Errors
    /// The first [`Fault`] found, in the order magic, version, key, length, checksum.
    pub fn decode(key: &Key, bytes: Vec<u8>) -> Result<Self, Fault> {
        if bytes.len() < HEADER + CHECKSUM {
            return Err(Fault::Truncated {
                bytes: bytes.len() as u64,
            });
        }
        let header = Header::parse(&bytes)?;
        if header.key != *key {
            return Err(Fault::Key { found: header.key });
        }
        let size = bytes.len() as u64;
        let implied = header.file_bytes().unwrap_or(u64::MAX);
        if implied != size {
            return Err(Fault::Length {
                bytes: size,
                implied,
            });
        }
        let end = bytes.len() - CHECKSUM;
        if blake3::hash(&bytes[..end]).as_bytes()[..] != bytes[end..] {
            return Err(Fault::Checksum);
        }
        let meta = header.meta();
        let payload = payload_start(meta.len())..end;
        Ok(Self {
            bytes,
            meta,
            payload,
        })
    }

    /// What the writer said about the payload, for people and tools. Opaque here.
    pub fn meta(&self) -> &[u8] {
        &self.bytes[self.meta.clone()]
    }

    /// The value.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[self.payload.clone()]
    }
}

/// Offset of the payload behind `meta` bytes of metadata.
fn payload_start(meta: usize) -> usize {
    (HEADER + meta).next_multiple_of(PAYLOAD_ALIGN)
}

/// `N` bytes of the header at a constant offset.
fn array<const N: usize>(header: &[u8; HEADER], at: usize) -> [u8; N] {
    std::array::from_fn(|i| header[at + i])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::KeyBuilder;

    fn key() -> Key {
        KeyBuilder::new("entry tests").finish()
    }

    #[test]
    fn each_fault_is_named() {
        let key = key();
        let good = Entry::encode(&key, b"meta", b"payload");
        let entry = Entry::decode(&key, good.clone()).expect("a good entry");
        assert_eq!(
            (entry.meta(), entry.payload()),
            (&b"meta"[..], &b"payload"[..])
        );

        let other = KeyBuilder::new("another").finish();
        assert_eq!(
            Entry::decode(&other, good.clone()),
            Err(Fault::Key { found: key })
        );

        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Entry::decode(&key, bytes).unwrap_err()
        };
        let size = good.len() as u64;
        assert_eq!(changed(0, b'H'), Fault::Magic);
        assert_eq!(changed(8, 9), Fault::Version { found: 9 });
        assert_eq!(
            changed(16, 8),
            Fault::Length {
                bytes: size,
                implied: size + 1
            }
        );
        assert_eq!(
            changed(23, 255),
            Fault::Length {
                bytes: size,
                implied: 255 << 56 | (size)
            }
        );
        assert_eq!(changed(HEADER, b'M'), Fault::Checksum);
        assert_eq!(
            changed(good.len() - 1, good[good.len() - 1] ^ 1),
            Fault::Checksum
        );
        // Metadata may grow into the padding without changing the implied size.
        assert_eq!(changed(12, 5), Fault::Checksum);

        let mut huge = good.clone();
        huge[16..24].fill(255);
        assert_eq!(
            Entry::decode(&key, huge),
            Err(Fault::Length {
                bytes: size,
                implied: u64::MAX
            })
        );
        let mut long = good.clone();
        long.push(0);
        assert_eq!(
            Entry::decode(&key, long),
            Err(Fault::Length {
                bytes: size + 1,
                implied: size
            })
        );
        assert_eq!(
            Entry::decode(&key, Vec::new()),
            Err(Fault::Truncated { bytes: 0 })
        );
    }

    #[test]
    fn payload_is_aligned_in_the_file() {
        for meta in 0..40 {
            let bytes = Entry::encode(&key(), &vec![1; meta], b"x");
            let entry = Entry::decode(&key(), bytes).expect("a good entry");
            assert_eq!(entry.payload.start % PAYLOAD_ALIGN, 0);
        }
    }

    proptest! {
        #[test]
        fn round_trip(meta: Vec<u8>, payload: Vec<u8>) {
            let entry = Entry::decode(&key(), Entry::encode(&key(), &meta, &payload)).unwrap();
            prop_assert_eq!(entry.meta(), meta);
            prop_assert_eq!(entry.payload(), payload);
        }

        #[test]
        fn every_change_is_noticed(
            payload in prop::collection::vec(any::<u8>(), 0..300),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            cut in prop::option::of(any::<prop::sample::Index>()),
            tail in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let good = Entry::encode(&key(), b"{\"name\":\"k\"}", &payload);
            let mut bytes = good.clone();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes.extend(tail);
            prop_assert_eq!(Entry::decode(&key(), bytes.clone()).is_ok(), bytes == good);
        }

        #[test]
        fn noise_is_refused(bytes: Vec<u8>) {
            prop_assert!(Entry::decode(&key(), bytes).is_err());
        }
    }
}
