//! What can go wrong with the directory itself. Damaged entries are not errors but
//! [`crate::Lookup::Damaged`].

use std::io;
use std::path::{Path, PathBuf};

/// A failure of the cache. None is fatal: warn and go on without the cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Neither `HRX_CACHE_DIR`, nor an absolute `XDG_CACHE_HOME`, nor `HOME` is set.
    #[error("no cache directory: none of HRX_CACHE_DIR, XDG_CACHE_HOME and HOME is set")]
    NoDirectory,
    /// The operating system refused; `source` says why (full disk, read-only, ...).
    #[error("cache: cannot {action} {}: {source}", path.display())]
    Io {
        /// What was being done, as a verb phrase: "write", "read", "create directory".
        action: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The reason given by the operating system.
        source: io::Error,
    },
    /// The value is larger than [`crate::CacheOptions::max_entry_bytes`], or its metadata larger
    /// than [`crate::MAX_META_BYTES`].
    #[error("cache: {what} of {bytes} bytes exceeds the limit of {limit} bytes")]
    TooLarge {
        /// "entry" or "metadata".
        what: &'static str,
        /// Its size.
        bytes: u64,
        /// The most that is allowed.
        limit: u64,
    },
}

impl CacheError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
