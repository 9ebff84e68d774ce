//! A device with its stream, and memory on it.

use super::call::{CallError, Handle};
use super::driver::Driver;
use crate::device::DeviceError;
use std::sync::{Arc, Mutex, OnceLock};

/// Bytes of each buffer through which data goes to the device or comes from it.
const STAGING: usize = 4 << 20;

/// Buffers on the way to the device: while one is copied from, the next is filled.
const STAGES: usize = 4;

/// Pieces in a buffer begin at multiples of this.
const PIECE: usize = 256;

/// One device, used through one stream. All work is in that stream's order.
pub(in crate::device) struct Context {
    pub(super) driver: Box<dyn Driver>,
    /// What errors call it.
    pub(super) name: String,
    pub(super) stream: Handle,
    staging: Mutex<Option<Staging>>,
    /// Made with the first graph that wants them.
    branches: OnceLock<Vec<Branch>>,
}

/// A stream beside the context's, on which a graph's launches are captured that need not wait for one another.
pub(super) struct Branch {
    pub(super) stream: Handle,
    /// Recorded where the branch begins or ends.
    pub(super) event: Handle,
}

// SAFETY: handles that are only passed to the driver.
unsafe impl Send for Branch {}
// SAFETY: as above.
unsafe impl Sync for Branch {}

// SAFETY: a driver's functions may be called from any thread; the stream is a handle that is only passed to them.
unsafe impl Send for Context {}
// SAFETY: as above; what is changed is behind a mutex.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn new(driver: Box<dyn Driver>, name: String) -> Result<Context, DeviceError> {
        let stream = driver.make_current().and_then(|()| driver.new_stream());
        let stream = stream.map_err(|source| DeviceError::Call { device: name.clone(), source })?;
        Ok(Context { driver, name, stream, staging: Mutex::default(), branches: OnceLock::new() })
    }

    /// Calls the driver with this device being the thread's.
    pub(super) fn call<T>(&self, f: impl FnOnce(&dyn Driver) -> Result<T, CallError>) -> Result<T, DeviceError> {
        let driver = &*self.driver;
        let done = driver.make_current().and_then(|()| f(driver));
        done.map_err(|source| DeviceError::Call { device: self.name.clone(), source })
    }

    /// Streams for branches of graphs, as many as the driver says; the first is the context's own.
    pub(super) fn branches(&self) -> Result<&[Branch], DeviceError> {
        if let Some(branches) = self.branches.get() {
            return Ok(branches);
        }
        let made = self.call(|d| {
            let branch = |i: usize| {
                let event = d.new_event(false)?;
                Ok(Branch { stream: if i == 0 { self.stream } else { d.new_stream()? }, event })
            };
            (0..d.branches().max(1)).map(branch).collect::<Result<Vec<_>, CallError>>()
        })?;
        // If another thread was faster, these are not needed.
        if let Err(made) = self.branches.set(made) {
            self.end(&made);
        }
        Ok(self.branches.get().map_or(&[], |b| b))
    }

    fn end(&self, branches: &[Branch]) {
        for (i, branch) in branches.iter().enumerate() {
            // SAFETY: the handles are ours and used no more. Failures have nobody to go to.
            unsafe {
                let _ = self.driver.shared().end_event(branch.event);
                if i > 0 {
                    let _ = self.driver.shared().end_stream(branch.stream);
                }
            }
        }
    }

    /// Waits for everything so far.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: the stream is this context's.
        self.call(|d| unsafe { d.shared().synchronize(self.stream) })
    }

    /// Memory of the device, free and in all.
    pub(super) fn memory(&self) -> Result<[u64; 2], DeviceError> {
        self.call(|d| d.memory())
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
                    let (to, stream) = (to + done as u64, context.stream);
                    context.call(|d| d.copy_in(to, from, piece.len(), stream))?;
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
        for (i, piece) in bytes.chunks_mut(STAGING).enumerate() {
            let from = from + (i * STAGING) as u64;
            // SAFETY: the caller's promise.
            unsafe { self.landed(from, piece.len() as u64, &mut |landed| piece.copy_from_slice(landed))? };
        }
        Ok(())
    }

    /// Gives bytes of the device's, after all that is in the stream, to a function: where they landed, if they are few.
    ///
    /// # Safety
    /// There are as many bytes of this device's memory at `from`.
    pub(super) unsafe fn landed(
        self: &Arc<Self>,
        from: u64,
        len: u64,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<(), DeviceError> {
        let len = len as usize;
        if len > STAGING {
            let mut bytes = vec![0; len];
            // SAFETY: the caller's promise.
            unsafe { self.copy_out(from, &mut bytes)? };
            take(&bytes);
            return Ok(());
        }
        self.staged(|staging, context| {
            let landing = staging.landing.address;
            // SAFETY: the landing buffer has room for this and is not used by anything else; the caller promised the source;
            // the copy has ended before the bytes are read.
            unsafe {
                context.call(|d| d.copy_out(landing, from, len, context.stream))?;
                context.synchronize()?;
                take(std::slice::from_raw_parts(landing, len));
            }
            Ok(())
        })
    }

    /// Copies inside the device, in the stream's order.
    ///
    /// # Safety
    /// Both are this device's memory, of at least so many bytes, and do not overlap.
    pub(super) unsafe fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        self.call(|d| unsafe { d.copy(to, from, bytes as usize, self.stream) })
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
            staging.free(&*self.driver);
        }
        if let Some(branches) = self.branches.take() {
            let _ = self.driver.make_current();
            self.end(&branches);
        }
        // SAFETY: nothing that uses the stream is left: it all holds the context. A failure has nobody to go to.
        let _ = self.driver.make_current().and_then(|()| unsafe { self.driver.shared().end_stream(self.stream) });
    }
}

/// Memory of the host that the device reads and writes directly.
struct Pinned {
    address: *mut u8,
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
            let address = context.call(|d| d.allocate_pinned(STAGING))?;
            Ok::<_, DeviceError>(Pinned { address })
        };
        let stage = |_| {
            let event = context.call(|d| d.new_event(false))?;
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
            context.call(|d| unsafe { d.shared().record(stage.event, context.stream) })?;
            stage.recorded = true;
            self.current = (self.current + 1) % STAGES;
            self.used = 0;
            let next = &mut self.stages[self.current];
            if next.recorded {
                // SAFETY: the event has been recorded.
                context.call(|d| unsafe { d.shared().wait(next.event) })?;
                next.recorded = false;
            }
        }
        let start = self.stages[self.current].memory.address;
        Ok((start.wrapping_add(self.used), STAGING - self.used))
    }

    fn take(&mut self, bytes: usize) {
        self.used = (self.used + bytes).next_multiple_of(PIECE).min(STAGING);
    }

    fn free(self, driver: &dyn Driver) {
        let _ = driver.make_current();
        // SAFETY: the handles are ours and used no more: freeing pinned memory waits for the device.
        unsafe {
            for stage in &self.stages {
                let _ = driver.shared().wait(stage.event);
                let _ = driver.shared().end_event(stage.event);
                let _ = driver.shared().free_pinned(stage.memory.address.cast());
            }
            let _ = driver.shared().free_pinned(self.landing.address.cast());
        }
    }
}

/// Memory of a device.
pub(super) struct DeviceMemory {
    context: Arc<Context>,
    pub(super) address: u64,
}

impl DeviceMemory {
    pub(super) fn new(context: &Arc<Context>, bytes: u64) -> Result<DeviceMemory, DeviceError> {
        let address = context.call(|d| d.allocate(bytes))?;
        Ok(DeviceMemory { context: Arc::clone(context), address })
    }

    /// Fills the first bytes with zeros, in the stream's order.
    pub(super) fn zero(&self, bytes: u64) -> Result<(), DeviceError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the memory is at least this long.
        self.context.call(|d| unsafe { d.zero(self.address, bytes as usize, self.context.stream) })
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: the last buffer that refers to it is gone; freeing waits for what the device does with it. A failure has
        // nobody to go to.
        let _ = self.context.call(|d| unsafe { d.shared().free(self.address) });
    }
}
