//! What CUDA does in its own way of that which GPUs share.

use super::api::{
    FUNCTION_DYNAMIC_SHARED, Handle, JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, JIT_INPUT_PTX, LAUNCH_END, LaunchAttribute,
    LaunchConfig, UNSUPPORTED_PTX,
};
use super::found::Found;
use super::layout::layout;
use super::library::Library;
use crate::device::gpu::call::{CallError, made};
use crate::device::gpu::driver::Driver;
use crate::device::gpu::kernel::Layout;
use crate::device::gpu::shared::{Graphs, Shared};
use hrx_compiler::target::nvidia::Chip;
use hrx_ir::tile::Kernel;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// Generated code reads up to so many bytes behind a buffer, and masks what it read.
const BEHIND: usize = 16;

/// Allocations are multiples of this.
const GRANULE: usize = 256;

/// Bytes of dynamic shared memory that a function has unasked.
const SHARED_UNASKED: u32 = 48 << 10;

/// The variable that says into how many branches graphs cut a stage's launches.
const BRANCHES: &str = "HRX_CUDA_BRANCHES";

/// The variable that is 0 where launches are to wait until those in front have ended.
const EARLY: &str = "HRX_CUDA_EARLY";

/// Branches of a graph: few stages have more launches than that.
const MOST_BRANCHES: usize = 4;

/// Bytes that the assembler's messages may take.
const LOG: usize = 16 << 10;

/// A device of the driver's, in its primary context.
pub(super) struct CudaDriver {
    library: Arc<Library>,
    device: c_int,
    context: Handle,
    chip: &'static Chip,
    compute: String,
    branches: usize,
    early: bool,
}

// SAFETY: a handle that is only passed to the driver, which takes it from any thread.
unsafe impl Send for CudaDriver {}
// SAFETY: as above.
unsafe impl Sync for CudaDriver {}

impl CudaDriver {
    /// Takes a share in a device's primary context, until it is dropped.
    pub(super) fn new(library: Arc<Library>, found: &Found, chip: &'static Chip) -> Result<CudaDriver, CallError> {
        let mut device = 0;
        // SAFETY: the device is one that the driver counts; the calls write a number and a handle.
        let context = unsafe {
            library.cuda.cuDeviceGet(&raw mut device, found.index)?;
            made(|c| library.cuda.cuDevicePrimaryCtxRetain(c, device))?
        };
        let branches = match std::env::var(BRANCHES).ok().and_then(|n| n.parse().ok()) {
            Some(n @ 1..=MOST_BRANCHES) => n,
            _ => MOST_BRANCHES,
        };
        let early = std::env::var(EARLY).map_or(true, |v| v != "0");
        Ok(CudaDriver { library, device, context, chip, compute: found.compute(), branches, early })
    }

    /// Assembles and links PTX that ends with a 0.
    ///
    /// # Errors
    /// What the driver says, with its log.
    fn link(&self, ptx: &[u8]) -> Result<Vec<u8>, String> {
        let mut log = vec![0u8; LOG];
        let mut options = [JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), LOG as *mut c_void];
        let cuda = &self.library.cuda;
        let linked = (|| {
            // SAFETY: options and values are as many as is said, and live with the log until the state is destroyed.
            let state = made(|s| unsafe { cuda.cuLinkCreate(2, options.as_mut_ptr(), values.as_mut_ptr(), s) })?;
            let (data, name) = (ptx.as_ptr().cast_mut().cast(), c"kernel.ptx".as_ptr());
            let (mut code, mut bytes) = (null_mut::<c_void>(), 0);
            // SAFETY: the text is so long, with the 0 at its end, and is only read; what the link completes is the
            // state's, and copied before that ends.
            unsafe {
                let added = cuda.cuLinkAddData(state, JIT_INPUT_PTX, data, ptx.len(), name, 0, null_mut(), null_mut());
                let linked = added.and_then(|()| cuda.cuLinkComplete(state, &raw mut code, &raw mut bytes));
                let copied = linked.map(|()| std::slice::from_raw_parts(code.cast::<u8>(), bytes).to_vec());
                let destroyed = cuda.cuLinkDestroy(state);
                copied.and_then(|c| destroyed.map(|()| c))
            }
        })();
        linked.map_err(|e: CallError| {
            let said = CStr::from_bytes_until_nul(&log).map_or("".into(), |t| t.to_string_lossy());
            let lines: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
            let log = if lines.is_empty() { String::new() } else { format!(": {}", lines.join("; ")) };
            let old = match e.status {
                UNSUPPORTED_PTX => {
                    format!(" (the driver is for CUDA {}, and the code for a later one)", self.library.version())
                }
                _ => String::new(),
            };
            format!("the driver does not assemble its code: {e}{old}{log}")
        })
    }
}

impl Drop for CudaDriver {
    fn drop(&mut self) {
        // SAFETY: nothing that uses the context is left: it all holds this. A failure has nobody to go to.
        let _ = unsafe { self.library.cuda.cuDevicePrimaryCtxRelease(self.device) };
    }
}

impl Driver for CudaDriver {
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
        // SAFETY: the context is retained.
        unsafe { self.library.cuda.cuCtxSetCurrent(self.context) }
    }

    fn branches(&self) -> usize {
        self.branches
    }

    fn room(&self, bytes: usize) -> usize {
        bytes.saturating_add(BEHIND).checked_next_multiple_of(GRANULE).unwrap_or(usize::MAX)
    }

    unsafe fn copy_in(&self, to: u64, from: *const u8, bytes: usize, stream: Handle) -> Result<(), CallError> {
        // SAFETY: the caller's promise, here and below.
        unsafe { self.library.cuda.cuMemcpyHtoDAsync(to, from.cast(), bytes, stream) }
    }

    unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize, stream: Handle) -> Result<(), CallError> {
        // SAFETY: as above.
        unsafe { self.library.cuda.cuMemcpyDtoHAsync(to.cast(), from, bytes, stream) }
    }

    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, stream: Handle) -> Result<(), CallError> {
        // SAFETY: as above.
        unsafe { self.library.cuda.cuMemcpyDtoDAsync(to, from, bytes, stream) }
    }

    unsafe fn zero(&self, to: u64, bytes: usize, stream: Handle) -> Result<(), CallError> {
        // SAFETY: as above.
        unsafe { self.library.cuda.cuMemsetD8Async(to, 0, bytes, stream) }
    }

    fn layout(&self, kernel: &Kernel, object: &[u8]) -> Result<Layout, String> {
        layout(kernel, object)
    }

    unsafe fn launch_early(
        &self,
        function: Handle,
        grid: [u32; 3],
        layout: &Layout,
        extra: *mut Handle,
        stream: Handle,
    ) -> Option<Result<(), CallError>> {
        let launches = self.library.early.as_ref().filter(|_| self.early)?;
        let attribute = LaunchAttribute::early();
        let config = LaunchConfig {
            grid,
            block: [layout.block, 1, 1],
            shared: layout.local,
            stream,
            attributes: &raw const attribute,
            count: 1,
        };
        // SAFETY: the caller's promise; the description and its attribute live until the call has read them.
        Some(unsafe { launches.cuLaunchKernelEx(&raw const config, function, null_mut(), extra) })
    }

    unsafe fn prepare(&self, function: Handle, layout: &Layout) -> Result<(), CallError> {
        if layout.local <= SHARED_UNASKED {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { self.library.cuda.cuFuncSetAttribute(function, FUNCTION_DYNAMIC_SHARED, layout.local as c_int) }
    }

    fn assemble(&self, object: &[u8]) -> Option<Result<Vec<u8>, String>> {
        Some(match object.last() {
            Some(0) => self.link(object),
            _ => self.link(&[object, &[0]].concat()),
        })
    }

    fn assembler(&self) -> Option<String> {
        // The version that the kernel's module has is more exact than that of CUDA.
        let module = std::fs::read_to_string("/sys/module/nvidia/version").unwrap_or_default();
        let (chip, compute, cuda) = (self.chip.name, &self.compute, self.library.version());
        Some(format!("{chip} on {compute}, CUDA {cuda}, driver {}", module.trim()))
    }
}
