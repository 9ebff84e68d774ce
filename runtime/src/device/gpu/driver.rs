//! A device as its driver's library gives it.

use super::call::{CallError, Handle, made};
use super::kernel::Layout;
use super::shared::{
    CAPTURE_THREAD_LOCAL, EVENT_DEFAULT, EVENT_DISABLE_TIMING, Graphs, HOST_MALLOC_DEFAULT, LAUNCH_BUFFER, LAUNCH_SIZE,
    STREAM_NON_BLOCKING, Shared,
};
use hrx_ir::tile::Kernel;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::time::Duration;

/// One device of a driver's: the tables of functions, and what differs from one driver to the other. Addresses are numbers;
/// work goes into a stream, in whose order it is done.
///
/// The unsafe functions are so in the way of the library's: addresses and handles are valid for what is done with them,
/// and memory that is copied stays until the stream has come past the copy.
#[allow(clippy::missing_safety_doc, reason = "said once for all above")]
pub(in crate::device) trait Driver: Send + Sync {
    /// What drivers have in common.
    fn shared(&self) -> &Shared;
    /// Graphs, where the library has them.
    fn graphs(&self) -> Option<&Graphs>;
    /// The number that ends the description of a launch's arguments.
    fn launch_end(&self) -> Handle;

    /// Makes the device the calling thread's.
    fn make_current(&self) -> Result<(), CallError>;
    /// Into how many branches launches of one stage are cut in a graph: one for one behind another.
    fn branches(&self) -> usize;
    /// How many bytes to allocate for so many that are used.
    fn room(&self, bytes: usize) -> usize;
    /// Copies from pinned memory of the host.
    unsafe fn copy_in(&self, to: u64, from: *const u8, bytes: usize, stream: Handle) -> Result<(), CallError>;
    /// Copies to pinned memory of the host.
    unsafe fn copy_out(&self, to: *mut u8, from: u64, bytes: usize, stream: Handle) -> Result<(), CallError>;
    /// Copies inside the device.
    unsafe fn copy(&self, to: u64, from: u64, bytes: usize, stream: Handle) -> Result<(), CallError>;
    /// Fills with zeros.
    unsafe fn zero(&self, to: u64, bytes: usize, stream: Handle) -> Result<(), CallError>;

    /// How the arguments of a kernel lie and how it is launched, as the compiler's object says, held to the kernel.
    fn layout(&self, kernel: &Kernel, object: &[u8]) -> Result<Layout, String>;
    /// What a function needs before it is launched with a layout.
    unsafe fn prepare(&self, function: Handle, layout: &Layout) -> Result<(), CallError>;
    /// Launches a kernel whose code waits for the launch in front of it, which may not have ended when it begins; none
    /// where the driver can't.
    unsafe fn launch_early(
        &self,
        _function: Handle,
        _grid: [u32; 3],
        _layout: &Layout,
        _extra: *mut Handle,
        _stream: Handle,
    ) -> Option<Result<(), CallError>> {
        None
    }
    /// Machine code of an object, where the driver makes it; none where objects are machine code.
    fn assemble(&self, object: &[u8]) -> Option<Result<Vec<u8>, String>>;
    /// All that [`assemble`](Driver::assemble)'s result depends on beside the object; none where it makes nothing.
    fn assembler(&self) -> Option<String>;
}

/// What is the same with every driver.
#[allow(clippy::missing_safety_doc, reason = "said once for all above")]
impl dyn Driver + '_ {
    /// Bytes of the device's memory, free and in all.
    pub(super) fn memory(&self) -> Result<[u64; 2], CallError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the call writes two numbers.
        unsafe { self.shared().memory(&raw mut free, &raw mut total)? };
        Ok([free as u64, total as u64])
    }

    /// Allocates memory of the device.
    pub(super) fn allocate(&self, bytes: u64) -> Result<u64, CallError> {
        let room = self.room(usize::try_from(bytes).unwrap_or(usize::MAX));
        let mut address = 0;
        // SAFETY: the call writes an address.
        unsafe { self.shared().allocate(&raw mut address, room)? };
        Ok(address)
    }

    /// Allocates memory of the host that the device reads and writes directly.
    pub(super) fn allocate_pinned(&self, bytes: usize) -> Result<*mut u8, CallError> {
        // SAFETY: the call writes an address.
        made(|p| unsafe { self.shared().allocate_pinned(p, bytes, HOST_MALLOC_DEFAULT) }).map(|p| p.cast())
    }

    /// Makes a stream.
    pub(super) fn new_stream(&self) -> Result<Handle, CallError> {
        // SAFETY: the call writes a handle.
        made(|s| unsafe { self.shared().new_stream(s, STREAM_NON_BLOCKING) })
    }

    /// Makes an event, which may keep the time at which it was reached.
    pub(super) fn new_event(&self, timed: bool) -> Result<Handle, CallError> {
        let flags = if timed { EVENT_DEFAULT } else { EVENT_DISABLE_TIMING };
        // SAFETY: the call writes a handle.
        made(|e| unsafe { self.shared().new_event(e, flags) })
    }

    /// The time between two timed events that have been reached.
    pub(super) unsafe fn elapsed(&self, from: Handle, to: Handle) -> Result<Duration, CallError> {
        let mut ms = 0.0;
        // SAFETY: the caller's promise, here and below; the call writes a number.
        unsafe { self.shared().elapsed(&raw mut ms, from, to)? };
        Ok(Duration::try_from_secs_f64(f64::from(ms) / 1e3).unwrap_or_default())
    }

    /// Loads machine code: a whole image.
    pub(super) unsafe fn load(&self, image: &[u8]) -> Result<Handle, CallError> {
        // SAFETY: as above.
        made(|m| unsafe { self.shared().load(m, image.as_ptr().cast()) })
    }

    /// A kernel of loaded code, ready to be launched with that layout.
    pub(super) unsafe fn function(&self, module: Handle, name: &CStr, layout: &Layout) -> Result<Handle, CallError> {
        // SAFETY: as above.
        let function = made(|f| unsafe { self.shared().function(f, module, name.as_ptr()) })?;
        // SAFETY: as above.
        unsafe { self.prepare(function, layout)? };
        Ok(function)
    }

    /// Launches a kernel, `early` if it may begin before the launch in front of it has ended. The arguments are copied.
    pub(super) unsafe fn launch(
        &self,
        function: Handle,
        [x, y, z]: [u32; 3],
        layout: &Layout,
        arguments: &[u64],
        (stream, early): (Handle, bool),
    ) -> Result<(), CallError> {
        let mut bytes = layout.bytes;
        let mut extra: [Handle; 5] = [
            LAUNCH_BUFFER,
            arguments.as_ptr().cast_mut().cast(),
            LAUNCH_SIZE,
            (&raw mut bytes).cast(),
            self.launch_end(),
        ];
        let (block, local, extra) = (layout.block, layout.local, extra.as_mut_ptr());
        if early && layout.awaits {
            // SAFETY: as below.
            if let Some(launched) = unsafe { self.launch_early(function, [x, y, z], layout, extra, stream) } {
                return launched;
            }
        }
        // SAFETY: as above; arguments of so many bytes are described in the way that the library takes.
        unsafe { self.shared().launch(function, x, y, z, block, 1, 1, local, stream, null_mut(), extra) }
    }
}

impl Graphs {
    /// What this thread gives the stream from now on is captured, not done.
    pub(super) unsafe fn begin(&self, stream: Handle) -> Result<(), CallError> {
        // SAFETY: as above.
        unsafe { self.begin_capture(stream, CAPTURE_THREAD_LOCAL) }
    }

    /// Ends that; the graph is the caller's.
    pub(super) unsafe fn captured(&self, stream: Handle) -> Result<Handle, CallError> {
        // SAFETY: as above.
        made(|g| unsafe { self.end_capture(stream, g) })
    }

    /// Makes a graph executable.
    pub(super) unsafe fn executable(&self, graph: Handle) -> Result<Handle, CallError> {
        // SAFETY: as above.
        made(|e| unsafe { self.instantiate(e, graph, 0) })
    }
}
