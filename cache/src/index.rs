//! Use counts in a sled database beside the entries: something to look at, nothing to rely on.
//!
//! sled takes an exclusive lock, starts threads and needs 6 to 10 ms to open, write and close
//! (20 keys, Zen 3, SSD), so it is never opened by a look-up or a write. These note their keys in memory; [`Cache::record_uses`] adds them to the
//! database when the caller has time (after the last output, or never). Eviction does not go by
//! it but by the files' time stamps.
//!
//! A database that is locked by another process is left alone. One that cannot be opened for any
//! other reason is removed and begun anew. sled may panic on damaged files, so every use of it is
//! fenced.

use std::collections::HashMap;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use crate::key::Key;
use crate::store::Cache;

/// The database must not use memory that the model needs.
const CACHE_BYTES: u64 = 1 << 20;

fn index_dir(dir: &Path) -> PathBuf {
    dir.join("index")
}

/// What came of opening the database.
enum Opened {
    Ready(sled::Db),
    /// Another process has it.
    Busy,
    Broken,
}

fn open(dir: &Path) -> Opened {
    let config = sled::Config::new()
        .path(index_dir(dir))
        .cache_capacity(CACHE_BYTES)
        .mode(sled::Mode::LowSpace)
        .flush_every_ms(None);
    match config.open() {
        Ok(db) => Opened::Ready(db),
        // sled wraps a refused lock into `ErrorKind::Other` with a text of its own.
        Err(sled::Error::Io(error)) if error.to_string().contains("acquire lock") => Opened::Busy,
        Err(_) => Opened::Broken,
    }
}

/// Does something with the database; `None` if that was not possible.
fn with_index<T>(dir: &Path, task: impl Fn(&sled::Db) -> sled::Result<T>) -> Option<T> {
    let attempt = || match open(dir) {
        Opened::Ready(db) => task(&db).map_err(|_| Opened::Broken),
        other => Err(other),
    };
    let fenced = || panic::catch_unwind(AssertUnwindSafe(attempt)).unwrap_or(Err(Opened::Broken));
    match fenced() {
        Ok(value) => Some(value),
        Err(Opened::Broken) => {
            let path = index_dir(dir);
            fs::remove_dir_all(&path)
                .or_else(|_| fs::remove_file(&path))
                .ok()?;
            fenced().ok()
        }
        Err(Opened::Ready(_) | Opened::Busy) => None,
    }
}

/// One more use than the stored count. A value of another length counts as none.
fn increment(count: Option<&[u8]>) -> Option<Vec<u8>> {
    let count = count.map_or(0, parse_count);
    Some(count.saturating_add(1).to_le_bytes().to_vec())
}

fn parse_count(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl Cache {
    /// Adds the reads and writes of this process to the index. Costs about what opening a
    /// database costs (see the module): call it at the end, if at all.
    ///
    /// Returns whether they were recorded; if not, they are lost, which harms nothing.
    pub fn record_uses(&self) -> bool {
        let uses = std::mem::take(&mut *self.uses.lock().unwrap_or_else(PoisonError::into_inner));
        // A directory that does not exist yet or cannot be written has no use for an index.
        let Some(dir) = self.dir().filter(|dir| dir.is_dir()) else {
            return false;
        };
        if uses.is_empty() {
            return true;
        }
        let record = |db: &sled::Db| {
            for key in &uses {
                db.update_and_fetch(key.as_bytes(), increment)?;
            }
            db.flush().map(drop)
        };
        with_index(dir, record).is_some()
    }

    /// The use count of every key that the index knows; empty if there is none to be had.
    pub(crate) fn use_counts(&self) -> HashMap<Key, u64> {
        let Some(dir) = self.dir().filter(|dir| index_dir(dir).is_dir()) else {
            return HashMap::new();
        };
        let read = |db: &sled::Db| {
            db.iter()
                .map(|item| {
                    let (key, count) = item?;
                    let key = <[u8; 32]>::try_from(&key[..]).map(Key::from_bytes).ok();
                    Ok(key.map(|key| (key, parse_count(&count))))
                })
                .filter_map(Result::transpose)
                .collect()
        };
        with_index(dir, read).unwrap_or_default()
    }

    /// Removes the index unless another process is using it.
    pub(crate) fn forget_uses(&self) {
        let Some(dir) = self.dir().filter(|dir| index_dir(dir).is_dir()) else {
            return;
        };
        self.uses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        with_index(dir, |db| db.clear());
    }
}
