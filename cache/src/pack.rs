//! Packs: several entries in one file, to be carried to another machine and imported there.
//!
//! ```text
//! offset  bytes
//! 0       8      "HRXPACK\n"
//! 8       4      version of this format, little-endian
//! 12      4      number of entries, little-endian
//! then for each entry
//!         8      its bytes, little-endian
//!         n      the entry as its file has it (see `entry`), which begins with its key and ends in its checksum
//! end     32     BLAKE3 of all that comes before
//! ```
//!
//! Keys are made of everything that a value depends on, so a pack can't be stale: what it has for another compiler, chip
//! or kernel is never asked for.

use crate::entry::{Entry, Fault, Header};
use crate::{Cache, CacheError, Key, Stored};

const MAGIC: [u8; 8] = *b"HRXPACK\n";

/// The version of the pack format.
pub const PACK_VERSION: u32 = 1;

const CHECKSUM: usize = 32;
const HEAD: usize = 16;

/// What is wrong with a pack.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// It does not begin as a pack does.
    #[error("not a pack of kernels")]
    Magic,
    /// It was made by another version.
    #[error("pack of version {found}, this program reads version {PACK_VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// It ends too early, or goes on behind its end.
    #[error("damaged pack: it has {bytes} bytes, which is not where its entries end")]
    Length {
        /// Its size.
        bytes: usize,
    },
    /// Its checksum does not match.
    #[error("damaged pack: its checksum does not match")]
    Checksum,
    /// An entry is damaged.
    #[error("damaged pack: entry {number}: {fault}")]
    Entry {
        /// Which one, from 0.
        number: usize,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// Makes a pack of keys, metadata and payloads.
pub fn pack<'a>(entries: impl IntoIterator<Item = (Key, &'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(MAGIC);
    bytes.extend(PACK_VERSION.to_le_bytes());
    bytes.extend([0; 4]);
    let mut count = 0u32;
    for (key, meta, payload) in entries {
        let entry = Entry::encode(&key, meta, payload);
        bytes.extend((entry.len() as u64).to_le_bytes());
        bytes.extend(entry);
        count += 1;
    }
    bytes[12..HEAD].copy_from_slice(&count.to_le_bytes());
    let checksum = blake3::hash(&bytes);
    bytes.extend(checksum.as_bytes());
    bytes
}

/// The entries of a pack, all of them checked.
///
/// # Errors
/// Anything that is not as [`pack`] made it.
pub fn unpack(bytes: &[u8]) -> Result<Vec<(Key, Entry)>, PackError> {
    if bytes.get(..8) != Some(&MAGIC) {
        return Err(PackError::Magic);
    }
    let length = || PackError::Length { bytes: bytes.len() };
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let found = word(8).ok_or_else(length)?;
    if found != PACK_VERSION {
        return Err(PackError::Version { found });
    }
    let count = word(12).ok_or_else(length)?;
    let end = bytes.len().checked_sub(CHECKSUM).filter(|&e| e >= HEAD).ok_or_else(length)?;
    let mut entries = Vec::new();
    let mut rest = &bytes[HEAD..end];
    for number in 0..count as usize {
        let (size, after) = rest.split_first_chunk::<8>().ok_or_else(length)?;
        let size = usize::try_from(u64::from_le_bytes(*size)).map_err(|_| length())?;
        let (entry, after) = after.split_at_checked(size).ok_or_else(length)?;
        rest = after;
        let of = |fault| PackError::Entry { number, fault };
        let key = Header::parse(entry).map_err(of)?.key;
        entries.push((key, Entry::decode(&key, entry.to_vec()).map_err(of)?));
    }
    if !rest.is_empty() {
        return Err(length());
    }
    if blake3::hash(&bytes[..end]).as_bytes()[..] != bytes[end..] {
        return Err(PackError::Checksum);
    }
    Ok(entries)
}

/// What an import did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Entries written.
    pub written: usize,
    /// Entries that the cache does not keep: it is disabled, or can't be written.
    pub skipped: usize,
}

impl Cache {
    /// Puts the entries of a pack into the cache, in place of those with the same keys.
    ///
    /// # Errors
    /// As for [`Cache::put`].
    pub fn import(&self, entries: &[(Key, Entry)]) -> Result<Imported, CacheError> {
        let mut done = Imported::default();
        for (key, entry) in entries {
            match self.put(key, entry.meta(), entry.payload())? {
                Stored::Written => done.written += 1,
                Stored::Skipped => done.skipped += 1,
            }
        }
        Ok(done)
    }
}
