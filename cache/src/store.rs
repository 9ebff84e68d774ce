//! Opening, looking up, storing.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, SystemTime};

use crate::entry::{Entry, Fault, MAX_META_BYTES};
use crate::error::CacheError;
use crate::key::Key;
use crate::temp::{self, TempFile};

/// A use is written to the file's time stamp only when the stamp is older than this: eviction
/// needs no finer order, and look-ups then rarely write anything.
const USE_RESOLUTION: Duration = Duration::from_secs(60 * 60);

/// How often a write is tried while others clear the cache; what fails for another reason fails every time.
const MAX_ATTEMPTS: u32 = 1000;

/// When a stored entry is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When the kernel gets to it. A power failure may lose or tear the entry; the checksum then
    /// says so and it is built again. An `fsync` an entry would cost more than it saves.
    #[default]
    Eventual,
    /// Before [`Cache::put`] returns.
    Synced,
}

/// Where the cache lies and how it behaves.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// The directory; created at the first write.
    pub dir: PathBuf,
    /// Whether writes wait for the disk.
    pub durability: Durability,
    /// Largest entry file that is written or read into memory, in bytes.
    pub max_entry_bytes: u64,
}

impl CacheOptions {
    /// The defaults, in `dir`: no waiting for the disk, entries of at most 256 MiB.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), durability: Durability::default(), max_entry_bytes: 256 << 20 }
    }

    /// The defaults, in the user's cache directory: the first that is set of `$HRX_CACHE_DIR`,
    /// `$XDG_CACHE_HOME/hrx` (if absolute, as the XDG base directory specification asks) and
    /// `$HOME/.cache/hrx`.
    ///
    /// # Errors
    /// [`CacheError::NoDirectory`] if none is set.
    pub fn from_env() -> Result<Self, CacheError> {
        dir_from(|name| std::env::var_os(name)).map(Self::at).ok_or(CacheError::NoDirectory)
    }
}

fn dir_from(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("HRX_CACHE_DIR")
        .or_else(|| set("XDG_CACHE_HOME").filter(|dir| dir.is_absolute()).map(|d| d.join("hrx")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/hrx")))
}

/// What a look-up found.
#[derive(Debug)]
pub enum Lookup {
    /// The entry, checked.
    Hit(Entry),
    /// No entry. Also the answer of a disabled cache.
    Miss,
    /// Something else in its place: build the value again, and say so.
    Damaged(Damage),
}

impl Lookup {
    /// The entry of a hit.
    pub fn hit(self) -> Option<Entry> {
        match self {
            Self::Hit(entry) => Some(entry),
            Self::Miss | Self::Damaged(_) => None,
        }
    }
}

/// A damaged or foreign file where an entry should be.
#[derive(Debug)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: Fault,
    /// Whether it could be removed. If not, it will be found again.
    pub removed: bool,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let done = if self.removed { "removed" } else { "cannot be removed" };
        write!(f, "damaged cache entry {} ({}): {done}", self.path.display(), self.reason)
    }
}

/// What became of a value given to [`Cache::put`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It is in the cache.
    Written,
    /// The cache is disabled, or an earlier write failed and was reported then.
    Skipped,
}

/// A cache directory, or a disabled cache that never has anything. Shared between threads by
/// reference; shared between processes freely.
#[derive(Debug)]
pub struct Cache {
    options: Option<CacheOptions>,
    writes_failed: AtomicBool,
    cleaned: Once,
    /// Hits and writes since the last [`Cache::record_uses`], for the index.
    pub(crate) uses: Mutex<Vec<Key>>,
}

impl Cache {
    /// Opens a cache. Nothing is read or written yet, so this takes no time and a cache in a
    /// read-only directory can still be read.
    ///
    /// # Errors
    /// [`CacheError::Io`] if the path exists and is not a directory, or cannot be looked at.
    pub fn open(options: CacheOptions) -> Result<Self, CacheError> {
        match fs::metadata(&options.dir) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => {
                let error = io::Error::from(io::ErrorKind::NotADirectory);
                return Err(CacheError::io("open", &options.dir, error));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(CacheError::io("open", &options.dir, error)),
        }
        Ok(Self { options: Some(options), ..Self::disabled() })
    }

    /// A cache that has nothing and keeps nothing.
    pub fn disabled() -> Self {
        Self {
            options: None,
            writes_failed: AtomicBool::new(false),
            cleaned: Once::new(),
            uses: Mutex::new(Vec::new()),
        }
    }

    /// The directory; `None` if disabled.
    pub fn dir(&self) -> Option<&Path> {
        self.options.as_ref().map(|options| options.dir.as_path())
    }

    pub(crate) fn max_entry_bytes(&self) -> u64 {
        self.options.as_ref().map_or(0, |options| options.max_entry_bytes)
    }

    /// Reads and checks the entry of `key`.
    ///
    /// # Errors
    /// [`CacheError::Io`] if the entry is there but cannot be read; treat it as a miss.
    pub fn get(&self, key: &Key) -> Result<Lookup, CacheError> {
        let Some(options) = &self.options else {
            return Ok(Lookup::Miss);
        };
        let path = entry_path(&options.dir, key);
        match read_entry(&path, key, options.max_entry_bytes) {
            Ok(Some(Ok(entry))) => {
                self.note_use(key);
                Ok(Lookup::Hit(entry))
            }
            Ok(Some(Err(reason))) => Ok(Lookup::Damaged(remove_damaged(path, reason))),
            Ok(None) => Ok(Lookup::Miss),
            Err(error) => Err(CacheError::io("read", &path, error)),
        }
    }

    /// [`Cache::get`] for each key, in order.
    pub fn get_many(&self, keys: &[Key]) -> Vec<Result<Lookup, CacheError>> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Stores a value under `key`, in place of any earlier one. `meta` describes it for people
    /// and tools and does not belong to the value.
    ///
    /// # Errors
    /// [`CacheError::Io`] if it cannot be written; nothing half-written stays. This is reported
    /// once: afterwards all writes of this `Cache` are [`Stored::Skipped`].
    /// [`CacheError::TooLarge`] for this value alone.
    pub fn put(&self, key: &Key, meta: &[u8], payload: &[u8]) -> Result<Stored, CacheError> {
        let Some(options) = &self.options else {
            return Ok(Stored::Skipped);
        };
        if meta.len() > MAX_META_BYTES {
            let (bytes, limit) = (meta.len() as u64, MAX_META_BYTES as u64);
            return Err(CacheError::TooLarge { what: "metadata", bytes, limit });
        }
        if self.writes_failed.load(Ordering::Relaxed) {
            return Ok(Stored::Skipped);
        }
        let bytes = Entry::encode(key, meta, payload);
        let limit = options.max_entry_bytes;
        if bytes.len() as u64 > limit {
            return Err(CacheError::TooLarge { what: "entry", bytes: bytes.len() as u64, limit });
        }
        match self.write(options, key, &bytes) {
            Ok(()) => {
                self.note_use(key);
                Ok(Stored::Written)
            }
            // Only the first of several threads reports it.
            Err(_) if self.writes_failed.swap(true, Ordering::Relaxed) => Ok(Stored::Skipped),
            Err(error) => Err(error),
        }
    }

    fn write(&self, options: &CacheOptions, key: &Key, bytes: &[u8]) -> Result<(), CacheError> {
        let temp_dir = temp_dir(&options.dir);
        // Others may clear the cache at any moment of these steps, its empty directories too, or remove it as a whole: then
        // a step says that a directory or our own file is missing, or that one exists and then does not. Each attempt loses
        // to one such removal, and begins anew, as what was written may be gone.
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.write_once(options, &temp_dir, key, bytes) {
                Err(CacheError::Io { source, .. }) if is_removal(&source) && attempts < MAX_ATTEMPTS => {}
                written => return written,
            }
        }
    }

    fn write_once(&self, options: &CacheOptions, temp_dir: &Path, key: &Key, bytes: &[u8]) -> Result<(), CacheError> {
        create_dir(temp_dir)?;
        self.cleaned.call_once(|| {
            temp::remove_stale(temp_dir);
        });
        let target = entry_path(&options.dir, key);
        let failed = |action| {
            let target = &target;
            move |error| CacheError::io(action, target, error)
        };
        let mut file = TempFile::create(temp_dir).map_err(failed("create a temporary file for"))?;
        file.write(bytes, options.durability == Durability::Synced).map_err(failed("write"))?;
        create_dir(&shard_dir(&options.dir, key))?;
        file.rename(&target).map_err(failed("put in place"))
    }

    fn note_use(&self, key: &Key) {
        if cfg!(feature = "index") {
            self.uses.lock().unwrap_or_else(PoisonError::into_inner).push(*key);
        }
    }
}

/// Whether an error can come of another process that removes the directory.
fn is_removal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists)
}

/// Reads the file at `path` as the entry of `key`: `None` if there is no file.
pub(crate) fn read_entry(path: &Path, key: &Key, limit: u64) -> io::Result<Option<Result<Entry, Fault>>> {
    // Looked at before opening: opening a pipe would wait for a writer.
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !metadata.is_file() {
        return Ok(Some(Err(Fault::NotAFile)));
    }
    if metadata.len() > limit {
        return Ok(Some(Err(Fault::TooLarge { bytes: metadata.len() })));
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // One byte more than expected, so that the read that finds the end needs no larger buffer.
    let mut bytes = Vec::with_capacity(metadata.len() as usize + 1);
    file.by_ref().take(limit).read_to_end(&mut bytes)?;
    let entry = Entry::decode(key, bytes);
    if entry.is_ok() {
        touch(&file, metadata.modified().ok());
    }
    Ok(Some(entry))
}

/// Notes a use in the file's time stamp, which is what eviction goes by.
fn touch(file: &File, modified: Option<SystemTime>) {
    let now = SystemTime::now();
    let recent = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age < USE_RESOLUTION);
    if !modified.is_some_and(recent) {
        // Not ours or read-only: eviction is then less exact, and nothing else.
        let _ = file.set_modified(now);
    }
}

pub(crate) fn remove_damaged(path: PathBuf, reason: Fault) -> Damage {
    // A directory is removed only if empty: what is in it is not ours.
    let removed = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).is_ok();
    Damage { path, reason, removed }
}

/// First directory level: the first byte of the key, in hex.
pub(crate) fn shard_dir(dir: &Path, key: &Key) -> PathBuf {
    dir.join(format!("{:02x}", key.as_bytes()[0]))
}

pub(crate) fn entry_path(dir: &Path, key: &Key) -> PathBuf {
    shard_dir(dir, key).join(format!("{key}.entry"))
}

pub(crate) fn temp_dir(dir: &Path) -> PathBuf {
    dir.join("tmp")
}

fn create_dir(dir: &Path) -> Result<(), CacheError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| CacheError::io("create directory", dir, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(set: &[(&str, &str)]) -> Option<PathBuf> {
        dir_from(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn default_directory() {
        let all = [("HRX_CACHE_DIR", "here"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/home/a")];
        assert_eq!(dir(&all), Some("here".into()));
        assert_eq!(dir(&all[1..]), Some("/xdg/hrx".into()));
        assert_eq!(dir(&all[2..]), Some("/home/a/.cache/hrx".into()));
        let relative = [("XDG_CACHE_HOME", "xdg"), ("HOME", "/home/a")];
        assert_eq!(dir(&relative), Some("/home/a/.cache/hrx".into()));
        assert_eq!(dir(&[("HRX_CACHE_DIR", ""), ("HOME", "/h")]), Some("/h/.cache/hrx".into()));
        assert_eq!(dir(&[]), None);
    }
}
