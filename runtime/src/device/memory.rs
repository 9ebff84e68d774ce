//! Anonymous host memory: zeroed, page-aligned, and not resident before it is touched.

use std::ptr::NonNull;

/// A private anonymous mapping.
pub(super) struct HostMemory {
    base: NonNull<u8>,
    len: usize,
    /// Bytes before the first one that is used.
    skipped: usize,
}

/// Bytes of a large page of x86-64.
const LARGE_PAGE: u64 = 2 << 20;

// SAFETY: the mapping is plain memory; who may touch it when is the device's contract, not this type's.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Maps at least `bytes` bytes.
    pub(super) fn new(bytes: u64) -> std::io::Result<HostMemory> {
        let too_large = || std::io::Error::new(std::io::ErrorKind::OutOfMemory, "more than the address space");
        let len = usize::try_from(bytes.max(1)).map_err(|_| too_large())?;
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match NonNull::new(p.cast::<u8>()) {
            Some(base) if p != libc::MAP_FAILED => Ok(HostMemory { base, len, skipped: 0 }),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// As [`new`](HostMemory::new), for what is read from end to end: in large pages where the system has any, so that
    /// neither looking addresses up nor a page's end interrupts reading.
    pub(super) fn in_large_pages(bytes: u64) -> std::io::Result<HostMemory> {
        let mut memory = HostMemory::new(bytes.saturating_add(LARGE_PAGE))?;
        let begin = (memory.base.as_ptr() as usize).next_multiple_of(LARGE_PAGE as usize);
        memory.skipped = begin - memory.base.as_ptr() as usize;
        // SAFETY: the advice changes no byte, and the range is the mapping's. A system that doesn't know it is one without
        // such pages.
        unsafe { libc::madvise(memory.address().cast(), memory.len - memory.skipped, libc::MADV_HUGEPAGE) };
        Ok(memory)
    }

    /// The address of the first byte.
    pub(super) fn address(&self) -> *mut u8 {
        // SAFETY: what is skipped is less than the mapping has.
        unsafe { self.base.as_ptr().add(self.skipped) }
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its owner is dropped with the last buffer that refers to it.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Bytes of memory in all and free (as the kernel estimates it, caches that can be dropped included).
pub(super) fn system_memory() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
    };
    (field("MemTotal:").unwrap_or(0), field("MemAvailable:").unwrap_or(0))
}
