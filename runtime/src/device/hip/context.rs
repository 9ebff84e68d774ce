//! A device with its stream, and memory on it.

use super::api::{
    DEVICE_TO_HOST, EVENT_DISABLE_TIMING, HOST_MALLOC_DEFAULT, HOST_TO_DEVICE, Handle, HipError, STREAM_NON_BLOCKING,
    made,
};
use super::library::Library;
use crate::device::DeviceError;
use std::sync::{Arc, Mutex};

/// Bytes of each buffer through which data goes to the device or comes from it.
const STAGING: usize = 4 << 20;

/// Buffers on the way to the device: while one is copied from, the next is filled.
const STAGES: usize = 4;

/// Pieces in a buffer begin at multiples of this.
const PIECE: usize = 256;

/// One device, used through one stream. All work is in that stream's order.
pub(super) struct Context {
    pub(super) library: Arc<Library>,
    pub(super) index: i32,
    /// What errors call it.
    pub(super) name: String,
    pub(super) stream: Handle,
    staging: Mutex<Option<Staging>>,
}

// SAFETY: HIP's functions may be called from any thread; the stream is a handle that is only passed to them.
unsafe impl Send for Context {}
// SAFETY: as above; what is changed is behind a mutex.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn new(library: Arc<Library>, index: i32, name: String) -> Result<Context, DeviceError> {
        let failed = |source| DeviceError::Hip { device: name.clone(), source };
        // SAFETY: the device is one that the library counts; the stream is written once.
        let stream = unsafe {
            library.hip.hipSetDevice(index).map_err(failed)?;
            made(|s| library.hip.hipStreamCreateWithFlags(s, STREAM_NON_BLOCKING)).map_err(failed)?
        };
        Ok(Context { library, index, name, stream, staging: Mutex::default() })
    }

    /// Calls HIP with this device being the thread's.
    pub(super) fn call<T>(&self, f: impl FnOnce(&Library) -> Result<T, HipError>) -> Result<T, DeviceError> {
        // SAFETY: the device exists.
        let current = unsafe { self.library.hip.hipSetDevice(self.index) };
        current.and_then(|()| f(&self.library)).map_err(|source| DeviceError::Hip { device: self.name.clone(), source })
    }

    /// Waits for everything so far.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: the stream is this context's.
        self.call(|l| unsafe { l.hip.hipStreamSynchronize(self.stream) })
    }

    /// Memory of the device, free and in all.
    pub(super) fn memory(&self) -> Result<(u64, u64), DeviceError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the call writes two numbers.
        self.call(|l| unsafe { l.hip.hipMemGetInfo(&raw mut free, &raw mut total) })?;
        Ok((free as u64, total as u64))
    }

    /// Copies to the device, in the stream's order. The bytes are taken before it returns.
    ///
    /// # Safety
    /// There are as many bytes of this device's memory at `to`.
    pub(super) unsafe fn copy_in(self: &Arc<Self>, to: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.staged(|staging, context| {
            let mut done = 0;
            while done < bytes.len() {
                let (from, room) = staging.room(context)?;
                let piece = &bytes[done..bytes.len().min(done + room)];
                // SAFETY: the room is this long and nothing else uses it; the caller promised the target.
                unsafe {
                    std::ptr::copy_nonoverlapping(piece.as_ptr(), from, piece.len());
                    let to = (to + done as u64) as Handle;
                    let (from, len, stream) = (from.cast_const().cast(), piece.len(), context.stream);
                    context.call(|l| l.hip.hipMemcpyAsync(to, from, len, HOST_TO_DEVICE, stream))?;
                }
                staging.take(piece.len());
                done += piece.len();
            }
            Ok(())
        })
    }

    /// Copies from the device, after all that is in the stream.
    ///
    /// # Safety
    /// There are as many bytes of this device's memory at `from`.
    pub(super) unsafe fn copy_out(self: &Arc<Self>, from: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.staged(|staging, context| {
            let landing = staging.landing.address;
            for (i, piece) in bytes.chunks_mut(STAGING).enumerate() {
                let from = (from + (i * STAGING) as u64) as *const std::ffi::c_void;
                // SAFETY: the landing buffer has room for a piece and is not used by anything else; the caller promised
                // the source; the copy has ended before the bytes are read.
                unsafe {
                    let (len, stream) = (piece.len(), context.stream);
                    context.call(|l| l.hip.hipMemcpyAsync(landing, from, len, DEVICE_TO_HOST, stream))?;
                    context.synchronize()?;
                    std::ptr::copy_nonoverlapping(landing.cast::<u8>().cast_const(), piece.as_mut_ptr(), len);
                }
            }
            Ok(())
        })
    }

    fn staged<T>(
        self: &Arc<Self>,
        f: impl FnOnce(&mut Staging, &Context) -> Result<T, DeviceError>,
    ) -> Result<T, DeviceError> {
        let mut staging = self.staging.lock().unwrap_or_else(|e| e.into_inner());
        match &mut *staging {
            Some(staging) => f(staging, self),
            none => f(none.insert(Staging::new(self)?), self),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(staging) = self.staging.get_mut().unwrap_or_else(|e| e.into_inner()).take() {
            staging.free(&self.library);
        }
        // SAFETY: nothing that uses the stream is left: it all holds the context. A failure has nobody to go to.
        let _ = unsafe { self.library.hip.hipStreamDestroy(self.stream) };
    }
}

/// Memory of the host that the device reads and writes directly.
struct Pinned {
    address: Handle,
}

/// A buffer on the way to the device.
struct Stage {
    memory: Pinned,
    /// Recorded behind the last copy from it.
    event: Handle,
    recorded: bool,
}

struct Staging {
    stages: Vec<Stage>,
    current: usize,
    used: usize,
    /// For what comes from the device.
    landing: Pinned,
}

// SAFETY: plain memory and handles, used under the context's lock.
unsafe impl Send for Staging {}

impl Staging {
    fn new(context: &Context) -> Result<Staging, DeviceError> {
        let pinned = || {
            // SAFETY: the call writes a handle.
            let address =
                context.call(|l| made(|p| unsafe { l.hip.hipHostMalloc(p, STAGING, HOST_MALLOC_DEFAULT) }))?;
            Ok::<_, DeviceError>(Pinned { address })
        };
        let stage = |_| {
            // SAFETY: the call writes a handle.
            let event =
                context.call(|l| made(|e| unsafe { l.hip.hipEventCreateWithFlags(e, EVENT_DISABLE_TIMING) }))?;
            Ok::<_, DeviceError>(Stage { memory: pinned()?, event, recorded: false })
        };
        let stages = (0..STAGES).map(stage).collect::<Result<_, _>>()?;
        Ok(Staging { stages, current: 0, used: 0, landing: pinned()? })
    }

    /// Where the next piece goes and how long it may be. Waits for the device if all buffers are on their way.
    fn room(&mut self, context: &Context) -> Result<(*mut u8, usize), DeviceError> {
        if self.used == STAGING {
            let stage = &mut self.stages[self.current];
            // SAFETY: event and stream are the context's.
            context.call(|l| unsafe { l.hip.hipEventRecord(stage.event, context.stream) })?;
            stage.recorded = true;
            self.current = (self.current + 1) % STAGES;
            self.used = 0;
            let next = &mut self.stages[self.current];
            if next.recorded {
                // SAFETY: the event has been recorded.
                context.call(|l| unsafe { l.hip.hipEventSynchronize(next.event) })?;
                next.recorded = false;
            }
        }
        let start = self.stages[self.current].memory.address.cast::<u8>();
        Ok((start.wrapping_add(self.used), STAGING - self.used))
    }

    fn take(&mut self, bytes: usize) {
        self.used = (self.used + bytes).next_multiple_of(PIECE).min(STAGING);
    }

    fn free(self, library: &Library) {
        // SAFETY: the handles are ours and used no more: freeing pinned memory waits for the device.
        unsafe {
            for stage in &self.stages {
                let _ = library.hip.hipEventSynchronize(stage.event);
                let _ = library.hip.hipEventDestroy(stage.event);
                let _ = library.hip.hipHostFree(stage.memory.address);
            }
            let _ = library.hip.hipHostFree(self.landing.address);
        }
    }
}

/// Memory of a device.
pub(super) struct DeviceMemory {
    context: Arc<Context>,
    address: Handle,
}

// SAFETY: an address that is only passed to HIP.
unsafe impl Send for DeviceMemory {}
// SAFETY: as above.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    pub(super) fn new(context: &Arc<Context>, bytes: u64) -> Result<DeviceMemory, DeviceError> {
        let len = bytes.max(1) as usize;
        // SAFETY: the call writes a handle.
        let address = context.call(|l| made(|p| unsafe { l.hip.hipMalloc(p, len) }))?;
        Ok(DeviceMemory { context: Arc::clone(context), address })
    }

    pub(super) fn address(&self) -> u64 {
        self.address as u64
    }

    /// Fills the first bytes with zeros, in the stream's order.
    pub(super) fn zero(&self, bytes: u64) -> Result<(), DeviceError> {
        if bytes == 0 {
            return Ok(());
        }
        let (to, stream) = (self.address, self.context.stream);
        // SAFETY: the memory is at least this long.
        self.context.call(|l| unsafe { l.hip.hipMemsetAsync(to, 0, bytes as usize, stream) })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: the last buffer that refers to it is gone; freeing waits for what the device does with it. A failure has
        // nobody to go to.
        let _ = self.context.call(|l| unsafe { l.hip.hipFree(self.address) });
    }
}
