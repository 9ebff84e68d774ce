//! Memory of the operating system between pages that cannot be touched.

use crate::Error;
use std::ptr::NonNull;

const PAGE: usize = 4096;

/// An anonymous mapping with a page before and after it that cannot be touched. Fresh pages are zero, and take no memory
/// until they are written.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    mapped: usize,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; whoever accesses it answers for races.
unsafe impl Send for Mapping {}
// SAFETY: as above: all that is shared is the address.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Memory of so many bytes, aligned to a page.
    pub fn new(len: usize) -> Result<Mapping, Error> {
        let refused = |reason: String| Error::Memory { bytes: len as u64, reason };
        let room = len.max(1).checked_next_multiple_of(PAGE).ok_or_else(|| refused("too much".into()))?;
        let mapped = room.checked_add(2 * PAGE).ok_or_else(|| refused("too much".into()))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0) };
        let failed = || refused(std::io::Error::last_os_error().to_string());
        if base == libc::MAP_FAILED {
            return Err(failed());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(failed)?;
        let mapping = Mapping { base, mapped, len };
        // SAFETY: the pages lie inside the mapping.
        let rc = unsafe { libc::mprotect(mapping.start().cast(), room, libc::PROT_READ | libc::PROT_WRITE) };
        if rc == 0 { Ok(mapping) } else { Err(failed()) }
    }

    /// Where it starts.
    pub fn start(&self) -> *mut u8 {
        // SAFETY: the page before the memory is part of the mapping.
        unsafe { self.base.as_ptr().add(PAGE) }
    }

    /// Its bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Gives the pages back and keeps the addresses: they are no one else's until this is dropped.
    pub fn give_back(&self) {
        // SAFETY: the pages lie inside the mapping, and the caller has seen to it that no one uses them.
        unsafe {
            libc::madvise(self.base.as_ptr().cast(), self.mapped, libc::MADV_DONTNEED);
            libc::mprotect(self.base.as_ptr().cast(), self.mapped, libc::PROT_NONE);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and its address is not used any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}
