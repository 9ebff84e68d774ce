//! How the C library's `malloc` deals with the memory that LLVM frees.
//!
//! LLVM takes and frees the same megabytes for each kernel: tables of the backend's thousands of registers above all. As
//! it comes, glibc gives them back to the system each time, and each time they come back page by page: a tenth of the
//! time of a compilation. Other C libraries have no such settings and are left as they are.

#[cfg(target_env = "gnu")]
mod glibc {
    use std::sync::Once;

    /// Bytes that may lie unused before they are given back.
    const KEPT: libc::c_int = 32 << 20;

    /// Bytes from which on a block is mapped for itself: more than a table of LLVM's, less than a model's buffers.
    const MAPPED: libc::c_int = 4 << 20;

    /// Lets freed memory stay with the process until [`give_back`].
    pub(crate) fn keep() {
        static SET: Once = Once::new();
        SET.call_once(|| {
            // SAFETY: the calls set two numbers under malloc's own lock; a value that is refused changes nothing.
            unsafe {
                libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT);
                libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED);
            }
        });
    }

    /// Gives what lies unused back to the system: the model wants the memory after a compilation.
    pub(crate) fn give_back() {
        // SAFETY: the call takes malloc's own locks and moves nothing that is in use.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(target_env = "gnu"))]
mod glibc {
    pub(crate) fn keep() {}
    pub(crate) fn give_back() {}
}

pub(crate) use glibc::{give_back, keep};
