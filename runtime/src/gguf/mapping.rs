//! The bytes of a file: a read-only mapping, shared by everything that borrows from it.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Advice, Mmap, MmapMut, MmapOptions, UncheckedAdvice};

use super::GgufError;

/// A file mapped into memory, or a copy of bytes in anonymous memory. Both begin at a page boundary, so data that is
/// aligned in the file is aligned in memory. Cloning shares the mapping.
///
/// The file must not be truncated while it is mapped: the operating system would end the process at the next read of
/// what is gone.
#[derive(Clone, Debug)]
pub struct Mapping {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    bytes: Mmap,
    /// False for anonymous memory, whose pages can't be read from a file again.
    from_file: bool,
}

impl Mapping {
    pub(super) fn open(path: &Path) -> Result<Mapping, GgufError> {
        let io = |action, source| GgufError::Io { file: path.to_path_buf(), action, source };
        let file = File::open(path).map_err(|e| io("open", e))?;
        // Mapping a folder fails too, but with "no such device".
        if file.metadata().map_err(|e| io("open", e))?.is_dir() {
            return Err(io("open", std::io::ErrorKind::IsADirectory.into()));
        }
        // SAFETY: the mapping is private and read-only. That nobody truncates or overwrites the file meanwhile is the
        // condition that every mmap of a file has; it is documented on `Mapping`. The bytes are never assumed valid
        // beyond the time of a check in a way that could index out of bounds: decoding re-checks its ranges.
        let bytes = unsafe { Mmap::map(&file) }.map_err(|e| io("map", e))?;
        Ok(Mapping { shared: Arc::new(Shared { path: path.to_path_buf(), bytes, from_file: true }) })
    }

    /// Copies `bytes` to memory of its own; `name` stands for the path in errors.
    pub(super) fn copy(name: &str, bytes: &[u8]) -> Result<Mapping, GgufError> {
        let io = |source| GgufError::Io { file: name.into(), action: "map", source };
        let mut memory = MmapMut::map_anon(bytes.len()).map_err(io)?;
        memory.copy_from_slice(bytes);
        let bytes = memory.make_read_only().map_err(io)?;
        Ok(Mapping { shared: Arc::new(Shared { path: name.into(), bytes, from_file: false }) })
    }

    /// The first bytes of a file of which nobody has the rest: it reads as zeros, and takes no memory unread.
    pub(super) fn header(name: &str, bytes: &[u8], whole: u64) -> Result<Mapping, GgufError> {
        let io = |source| GgufError::Io { file: name.into(), action: "map", source };
        let too_large = || io(std::io::ErrorKind::OutOfMemory.into());
        let whole = usize::try_from(whole).map_err(|_| too_large())?.max(bytes.len());
        let mut memory = MmapOptions::new().len(whole).no_reserve_swap().map_anon().map_err(io)?;
        memory[..bytes.len()].copy_from_slice(bytes);
        let bytes = memory.make_read_only().map_err(io)?;
        Ok(Mapping { shared: Arc::new(Shared { path: name.into(), bytes, from_file: false }) })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// All bytes of the file.
    pub fn bytes(&self) -> &[u8] {
        &self.shared.bytes
    }

    /// True where the bytes are a file's pages rather than a copy.
    pub fn is_file(&self) -> bool {
        self.shared.from_file
    }

    /// Asks the system to read a range ahead. A hint: failure is not an error.
    pub(super) fn prefetch(&self, range: &Range<usize>) {
        // A kernel that doesn't know the advice just reads on demand.
        let _ = self.shared.bytes.advise_range(Advice::WillNeed, range.start, range.len());
    }

    /// Lets the system take back the pages of a range of a file; they are read again if they are touched again.
    pub(super) fn release(&self, range: &Range<usize>) {
        if self.shared.from_file {
            // SAFETY: the mapping is of a file, private and never written, so a dropped page comes back from the file
            // with the same bytes.
            let _ = unsafe {
                self.shared.bytes.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len())
            };
        }
    }
}

/// A tensor's bytes with a share in the mapping that holds them: usable after the [`Gguf`](super::Gguf) is dropped.
#[derive(Clone, Debug)]
pub struct TensorData {
    mapping: Mapping,
    range: Range<usize>,
}

impl TensorData {
    /// `range` must lie inside the mapping.
    pub(super) fn new(mapping: &Mapping, range: Range<usize>) -> TensorData {
        TensorData { mapping: mapping.clone(), range }
    }

    /// The mapping that the data is in.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Where the data is, in bytes from the file's start.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

impl Deref for TensorData {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.mapping.bytes()[self.range.clone()]
    }
}
