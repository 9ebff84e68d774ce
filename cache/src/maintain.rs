//! Looking over the whole directory: statistics, listing, checking, clearing, eviction.
//!
//! Files that this crate did not make (by their names) are neither counted nor touched.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::entry::Header;
use crate::error::CacheError;
use crate::key::Key;
use crate::store::{Cache, Damage, read_entry, remove_damaged, temp_dir};
use crate::temp;

/// Totals of a cache directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Files being written, or left by a dead process.
    pub temporary: u64,
}

/// One entry as [`Cache::list`] sees it. Its content has not been checked.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The key, from the file name.
    pub key: Key,
    /// The entry file.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Last use, to the hour; `None` if the file system keeps no times.
    pub last_use: Option<SystemTime>,
    /// How often it was read or written; `None` where the index does not know.
    pub uses: Option<u64>,
    /// Metadata given by the writer; `None` if the header cannot be read.
    pub meta: Option<Vec<u8>>,
}

/// Result of [`Cache::verify`].
#[derive(Debug, Default)]
pub struct Verified {
    /// Number of good entries.
    pub good: u64,
    /// The others, which have been removed where possible.
    pub damaged: Vec<Damage>,
}

/// Result of [`Cache::clear`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleared {
    /// Entries removed.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Result of [`Cache::prune`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// What was removed.
    pub removed: Cleared,
    /// Bytes of the entries that stay.
    pub bytes_left: u64,
}

/// An entry file found by walking the directory.
struct Found {
    key: Key,
    path: PathBuf,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Cache {
    /// Counts entries, bytes and temporary files.
    ///
    /// # Errors
    /// [`CacheError::Io`] if a directory cannot be read.
    pub fn stat(&self) -> Result<Stat, CacheError> {
        let Some(dir) = self.dir() else {
            return Ok(Stat::default());
        };
        let entries = entries(dir)?;
        Ok(Stat {
            entries: entries.len() as u64,
            bytes: entries.iter().map(|entry| entry.bytes).sum(),
            temporary: read_dir(&temp_dir(dir))?.len() as u64,
        })
    }

    /// All entries with their metadata, the most recently used first.
    ///
    /// # Errors
    /// [`CacheError::Io`] if a directory cannot be read.
    pub fn list(&self) -> Result<Vec<Listed>, CacheError> {
        let Some(dir) = self.dir() else {
            return Ok(Vec::new());
        };
        let uses = self.use_counts();
        let listed = |found: Found| Listed {
            uses: uses.get(&found.key).copied(),
            meta: read_meta(&found),
            key: found.key,
            path: found.path,
            bytes: found.bytes,
            last_use: found.modified,
        };
        Ok(entries(dir)?.into_iter().rev().map(listed).collect())
    }

    /// Reads and checks every entry; removes the damaged ones as [`Cache::get`] does, and the
    /// files of dead writers.
    ///
    /// # Errors
    /// [`CacheError::Io`] if a directory or an entry cannot be read.
    pub fn verify(&self) -> Result<Verified, CacheError> {
        let mut verified = Verified::default();
        let Some(dir) = self.dir() else {
            return Ok(verified);
        };
        temp::remove_stale(&temp_dir(dir));
        for Found { key, path, .. } in entries(dir)? {
            match read_entry(&path, &key, self.max_entry_bytes()) {
                Ok(Some(Ok(_))) => verified.good += 1,
                Ok(Some(Err(reason))) => verified.damaged.push(remove_damaged(path, reason)),
                Ok(None) => {}
                Err(error) => return Err(CacheError::io("read", &path, error)),
            }
        }
        Ok(verified)
    }

    /// Removes all entries, the index and the files of dead writers. Entries that other processes
    /// write meanwhile may stay.
    ///
    /// # Errors
    /// [`CacheError::Io`] at the first file that cannot be removed.
    pub fn clear(&self) -> Result<Cleared, CacheError> {
        let Some(dir) = self.dir() else {
            return Ok(Cleared::default());
        };
        temp::remove_stale(&temp_dir(dir));
        let cleared = remove(entries(dir)?.iter())?;
        self.forget_uses();
        for shard in shards(dir)? {
            // Fails where something is left in it, as it should.
            let _ = fs::remove_dir(shard);
        }
        Ok(cleared)
    }

    /// Removes the least recently used entries until the rest has at most `max_bytes` bytes.
    ///
    /// # Errors
    /// [`CacheError::Io`] if a directory cannot be read or an entry cannot be removed.
    pub fn prune(&self, max_bytes: u64) -> Result<Pruned, CacheError> {
        let Some(dir) = self.dir() else {
            return Ok(Pruned::default());
        };
        temp::remove_stale(&temp_dir(dir));
        let entries = entries(dir)?;
        let mut bytes_left: u64 = entries.iter().map(|entry| entry.bytes).sum();
        let excess = |entry: &&Found| {
            let goes = bytes_left > max_bytes;
            if goes {
                bytes_left -= entry.bytes;
            }
            goes
        };
        let removed = remove(entries.iter().take_while(excess))?;
        Ok(Pruned {
            removed,
            bytes_left,
        })
    }
}

fn remove<'a>(entries: impl Iterator<Item = &'a Found>) -> Result<Cleared, CacheError> {
    let mut cleared = Cleared::default();
    for Found { path, bytes, .. } in entries {
        match fs::remove_file(path) {
            Ok(()) => {
                cleared.entries += 1;
                cleared.bytes += bytes;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(CacheError::io("remove", path, error)),
        }
    }
    Ok(cleared)
}

/// The metadata of an entry without reading its payload.
fn read_meta(found: &Found) -> Option<Vec<u8>> {
    let mut file = File::open(&found.path).ok()?;
    let mut header = [0; Header::BYTES];
    file.read_exact(&mut header).ok()?;
    let header = Header::parse(&header).ok()?;
    if header.key != found.key || header.file_bytes()? != found.bytes {
        return None;
    }
    let mut meta = vec![0; header.meta().len()];
    file.read_exact(&mut meta).ok()?;
    Some(meta)
}

/// All entry files, the least recently used first; of equal times, in order of key.
fn entries(dir: &Path) -> Result<Vec<Found>, CacheError> {
    let mut entries = Vec::new();
    for shard in shards(dir)? {
        for file in read_dir(&shard)? {
            let name = file.file_name();
            let key = name
                .to_str()
                .and_then(|name| name.strip_suffix(".entry")?.parse().ok());
            // A file may vanish between the two calls.
            let (Some(key), Ok(metadata)) = (key, file.metadata()) else {
                continue;
            };
            let (bytes, modified) = (metadata.len(), metadata.modified().ok());
            entries.push(Found {
                key,
                path: file.path(),
                bytes,
                modified,
            });
        }
    }
    entries.sort_by_key(|entry| (entry.modified, entry.key));
    Ok(entries)
}

fn shards(dir: &Path) -> Result<Vec<PathBuf>, CacheError> {
    let is_shard = |file: &fs::DirEntry| {
        let name = file.file_name();
        let digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
        name.len() == 2
            && name.as_encoded_bytes().iter().all(digit)
            && file.file_type().is_ok_and(|kind| kind.is_dir())
    };
    Ok(read_dir(dir)?
        .into_iter()
        .filter(is_shard)
        .map(|file| file.path())
        .collect())
}

/// The files in `dir`; none if there is no such directory.
fn read_dir(dir: &Path) -> Result<Vec<fs::DirEntry>, CacheError> {
    match fs::read_dir(dir).and_then(Iterator::collect) {
        Ok(files) => Ok(files),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(CacheError::io("read directory", dir, error)),
    }
}
