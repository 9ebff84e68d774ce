//! Files being written, and those that a dead process left behind.
//!
//! A writer holds an exclusive `flock` on its temporary file. The kernel drops the lock when the
//! process ends, however it ends, so an old file that can be locked has no writer any more. That
//! holds across containers and reused process ids, where a pid in the name would not. A file is
//! left alone in its first minute, which covers the moment between creation and locking.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// No file younger than this is taken for stale.
const GRACE: Duration = Duration::from_secs(60);
/// Where the file system cannot lock, age alone decides.
const GRACE_WITHOUT_LOCKS: Duration = Duration::from_secs(24 * 60 * 60);

/// A file under a name of its own that is removed unless it is renamed into place.
#[derive(Debug)]
pub(crate) struct TempFile {
    path: PathBuf,
    file: File,
    kept: bool,
}

impl TempFile {
    /// Creates and locks a new file in `dir`, which must exist.
    pub fn create(dir: &Path) -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            // Process id and counter are unique on one machine; the time tells machines and
            // containers apart that share a directory. `create_new` catches what is left.
            let nanos = SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_nanos());
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = dir.join(format!("{:x}-{nanos:x}-{count:x}", std::process::id()));
            match OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
            {
                Ok(file) => {
                    let temp = Self {
                        path,
                        file,
                        kept: false,
                    };
                    // Failing to lock is no reason not to write: the grace period protects us.
                    let _ = temp.file.try_lock();
                    return Ok(temp);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes everything, and waits for the disk if `sync`.
    pub fn write(&mut self, bytes: &[u8], sync: bool) -> io::Result<()> {
        self.file.write_all(bytes)?;
        if sync { self.file.sync_data() } else { Ok(()) }
    }

    /// Gives the file its final name. On failure it still counts as temporary.
    pub fn rename(&mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.kept {
            // If even this fails, the next process to clean up removes the file.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the files in `dir` whose writer is gone; says how many.
pub(crate) fn remove_stale(dir: &Path) -> usize {
    let Ok(files) = fs::read_dir(dir) else {
        return 0;
    };
    files
        .flatten()
        .filter(|file| is_stale(file) && fs::remove_file(file.path()).is_ok())
        .count()
}

fn is_stale(file: &fs::DirEntry) -> bool {
    let Ok(metadata) = file.metadata() else {
        return false;
    };
    if !metadata.is_file() {
        return false;
    }
    let age = metadata
        .modified()
        .ok()
        .and_then(|at| at.elapsed().ok())
        .unwrap_or_default();
    if age < GRACE {
        return false;
    }
    // Opened for writing because some network file systems want that for an exclusive lock.
    let Ok(handle) = OpenOptions::new().write(true).open(file.path()) else {
        return false;
    };
    match handle.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock) => false,
        Err(TryLockError::Error(_)) => age >= GRACE_WITHOUT_LOCKS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make_old(file: &File) {
        file.set_modified(SystemTime::now() - 2 * GRACE)
            .expect("set the time");
    }

    #[test]
    fn only_files_without_a_writer_are_stale() {
        let dir = tempfile::tempdir().expect("a directory");
        let live = TempFile::create(dir.path()).expect("a file");
        make_old(&live.file);
        let fresh = dir.path().join("fresh");
        File::create(&fresh).expect("a file");
        let dead = dir.path().join("dead");
        make_old(&File::create(&dead).expect("a file"));

        assert_eq!(remove_stale(dir.path()), 1);
        assert!(live.path.exists() && fresh.exists() && !dead.exists());
        let path = live.path.clone();
        drop(live);
        assert!(!path.exists(), "an abandoned temporary file stays");
        assert_eq!(remove_stale(&dir.path().join("missing")), 0);
    }
}
