//! What HIP does in its own way of that which GPUs share.

use super::api::{DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, Handle, LAUNCH_END};
use super::layout::layout;
use super::library::Library;
use crate::device::gpu::call::CallError;
use crate::device::gpu::driver::Driver;
use crate::device::gpu::kernel::Layout;
use crate::device::gpu::shared::{Graphs, Shared};
use hrx_compiler::target::amd::Chip;
use hrx_ir::tile::Kernel;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// A device of a library's.
pub(super) struct HipDriver {
    pub(super) library: Arc<Library>,
    pub(super) index: c_int,
    pub(super) chip: &'static Chip,
}

impl Driver for HipDriver {
    fn shared(&self) -> &Shared {
        &self.library.shared
    }

    fn graphs(&self) -> Option<&Graphs> {
        self.library.graphs.as_ref()
    }

    fn launch_end(&self) -> Handle {
        LAUNCH_END
    }

    fn make_current(&self) -> Result<(), CallError> {
        // SAFETY: the device is one that the library counts.
        unsafe { self.library.hip.hipSetDevice(self.index) }
    }

    fn branches(&self) -> usize {
        1
    }

    fn room(&self, bytes: usize) -> usize {
        bytes.max(1)
    }

    unsafe fn copy_in(&self, to: u64, from: *const u8, bytes: usize, stream: Handle) -> Result<(), CallError> {
        // SAFETY: the caller's promise, here and below.
        unsafe { self.library.hip.hipMemcpyAsync(to as Handle, from.cast(), bytes, HOST_TO_DEVICE, stream) }
    }

    unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize, stream: Handle) -> Result<(), CallError> {
        // SAFETY: as above.
        unsafe { self.library.hip.hipMemcpyAsync(to.cast(), from as *const c_void, bytes, DEVICE_TO_HOST, stream) }
    }

    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, stream: Handle) -> Result<(), CallError> {
        let (to, from) = (to as Handle, from as *const c_void);
        // SAFETY: as above.
        unsafe { self.library.hip.hipMemcpyAsync(to, from, bytes, DEVICE_TO_DEVICE, stream) }
    }

    unsafe fn zero(&self, to: u64, bytes: usize, stream: Handle) -> Result<(), CallError> {
        // SAFETY: as above.
        unsafe { self.library.hip.hipMemsetAsync(to as Handle, 0, bytes, stream) }
    }

    fn layout(&self, kernel: &Kernel, object: &[u8]) -> Result<Layout, String> {
        layout(kernel, self.chip, object)
    }

    unsafe fn prepare(&self, _function: Handle, _layout: &Layout) -> Result<(), CallError> {
        Ok(())
    }

    fn assemble(&self, _object: &[u8]) -> Option<Result<Vec<u8>, String>> {
        None
    }

    fn assembler(&self) -> Option<String> {
        None
    }
}
