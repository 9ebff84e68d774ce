//! Slices of the caller's as arguments of launches, for the duration of a call.

use super::{Buffer, Device, DeviceError};

/// Makes buffers of slices: in place where the device can use the host's memory, else copies, which are copied back at
/// the end.
pub(crate) struct HostSlices<'a> {
    device: &'a dyn Device,
    copies: Vec<(Buffer, &'a mut [u8])>,
}

impl<'a> HostSlices<'a> {
    pub(crate) fn new(device: &'a dyn Device) -> HostSlices<'a> {
        HostSlices { device, copies: Vec::new() }
    }

    /// A buffer for what launches read.
    ///
    /// # Safety
    /// The buffer and its clones are dropped before the slice's lifetime ends, and no launch writes to it.
    pub(crate) unsafe fn read(&self, bytes: &'a [u8], what: &str) -> Result<Buffer, DeviceError> {
        let len = bytes.len() as u64;
        // SAFETY: the slice outlives the buffer by the caller's promise; it is borrowed, so nothing writes it meanwhile.
        match unsafe { self.device.borrow_host(bytes.as_ptr().cast_mut(), len) } {
            Some(buffer) => Ok(buffer),
            None => self.copy(bytes, what),
        }
    }

    /// A buffer for what launches write, and perhaps read.
    ///
    /// # Safety
    /// The buffer and its clones are dropped before the slice's lifetime ends.
    pub(crate) unsafe fn write(&mut self, bytes: &'a mut [u8], what: &str) -> Result<Buffer, DeviceError> {
        let len = bytes.len() as u64;
        // SAFETY: the slice outlives the buffer by the caller's promise; it is borrowed exclusively for as long.
        if let Some(buffer) = unsafe { self.device.borrow_host(bytes.as_mut_ptr(), len) } {
            return Ok(buffer);
        }
        // What launches leave alone keeps its value.
        let buffer = self.copy(bytes, what)?;
        self.copies.push((buffer.clone(), bytes));
        Ok(buffer)
    }

    fn copy(&self, bytes: &[u8], what: &str) -> Result<Buffer, DeviceError> {
        let buffer = self.device.alloc(bytes.len() as u64, what)?;
        self.device.write(&buffer, 0, bytes)?;
        Ok(buffer)
    }

    /// Copies back what launches wrote to copies. To be called when they have ended.
    pub(crate) fn finish(self) -> Result<(), DeviceError> {
        self.copies.into_iter().try_for_each(|(buffer, bytes)| self.device.read(&buffer, 0, bytes))
    }
}
