//! Memory. Addresses of the device are addresses of the process, so copies need not be told their direction; one that is
//! told wrong is refused.

use crate::call::{functions, give};
use crate::graph::Operation;
use crate::state::{Handle, State};
use crate::status::Status;
use std::ffi::{c_int, c_uint, c_void};

/// `hipMemcpyHostToHost`, `…HostToDevice`, `…DeviceToHost`, `…DeviceToDevice`, `hipMemcpyDefault`.
const HOST_TO_HOST: c_int = 0;
const HOST_TO_DEVICE: c_int = 1;
const DEVICE_TO_HOST: c_int = 2;
const DEVICE_TO_DEVICE: c_int = 3;
const DEFAULT: c_int = 4;

functions! {
    /// Allocates memory of the device.
    fn hipMalloc(address: *mut Handle, bytes: usize) |state| allocate(state, address, bytes);
    /// Allocates memory of the device, in a stream's order.
    fn hipMallocAsync(address: *mut Handle, bytes: usize, stream: Handle) |state| {
        state.not_captured(stream)?;
        allocate(state, address, bytes)
    };
    /// Allocates memory that host and device use.
    fn hipMallocManaged(address: *mut Handle, bytes: usize, _flags: c_uint) |state| host_memory(state, address, bytes);
    /// Frees memory of the device. Null is nothing.
    fn hipFree(address: Handle) |state| free(state, address);
    /// Frees memory of the device, in a stream's order.
    fn hipFreeAsync(address: Handle, stream: Handle) |state| {
        state.not_captured(stream)?;
        free(state, address)
    };
    /// Allocates memory of the host that devices can use.
    fn hipHostMalloc(address: *mut Handle, bytes: usize, _flags: c_uint) |state| host_memory(state, address, bytes);
    /// The older name of that.
    fn hipMallocHost(address: *mut Handle, bytes: usize) |state| host_memory(state, address, bytes);
    /// Frees that.
    fn hipHostFree(address: Handle) |state| free(state, address);
    /// The older name of that.
    fn hipFreeHost(address: Handle) |state| free(state, address);
    /// The device's address of the host's memory: the same.
    fn hipHostGetDevicePointer(device: *mut Handle, host: Handle, _flags: c_uint) |state| {
        if !state.device()?.owns(host as u64) {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: HIP's callers pass room for an address.
        unsafe { give(device, host) }
    };
    /// Memory free and in all: the computer's, if the device has not been given less.
    fn hipMemGetInfo(free: *mut usize, total: *mut usize) |state| {
        let (all, available) = state.memory()?;
        // SAFETY: HIP's callers pass room for numbers.
        unsafe { give(free, available).and_then(|()| give(total, all)) }
    };
    /// Copies, and waits.
    fn hipMemcpy(to: Handle, from: *const c_void, bytes: usize, kind: c_int) |state| {
        copy(state, to, from, bytes, kind, std::ptr::null_mut())?;
        state.settle()
    };
    /// Copies in a stream's order, and waits.
    fn hipMemcpyWithStream(to: Handle, from: *const c_void, bytes: usize, kind: c_int, stream: Handle) |state| {
        state.not_captured(stream)?;
        copy(state, to, from, bytes, kind, stream)?;
        state.settle()
    };
    /// Copies in a stream's order.
    fn hipMemcpyAsync(to: Handle, from: *const c_void, bytes: usize, kind: c_int, stream: Handle) |state| {
        copy(state, to, from, bytes, kind, stream)
    };
    /// Copies from the host, and waits.
    fn hipMemcpyHtoD(to: Handle, from: *const c_void, bytes: usize) |state| {
        copy(state, to, from, bytes, HOST_TO_DEVICE, std::ptr::null_mut())?;
        state.settle()
    };
    /// Copies to the host, and waits.
    fn hipMemcpyDtoH(to: Handle, from: *const c_void, bytes: usize) |state| {
        copy(state, to, from, bytes, DEVICE_TO_HOST, std::ptr::null_mut())?;
        state.settle()
    };
    /// Copies inside the device, and waits.
    fn hipMemcpyDtoD(to: Handle, from: *const c_void, bytes: usize) |state| {
        copy(state, to, from, bytes, DEVICE_TO_DEVICE, std::ptr::null_mut())?;
        state.settle()
    };
    /// Copies from the host in a stream's order.
    fn hipMemcpyHtoDAsync(to: Handle, from: *const c_void, bytes: usize, stream: Handle) |state| {
        copy(state, to, from, bytes, HOST_TO_DEVICE, stream)
    };
    /// Copies to the host in a stream's order.
    fn hipMemcpyDtoHAsync(to: Handle, from: *const c_void, bytes: usize, stream: Handle) |state| {
        copy(state, to, from, bytes, DEVICE_TO_HOST, stream)
    };
    /// Copies inside the device in a stream's order.
    fn hipMemcpyDtoDAsync(to: Handle, from: *const c_void, bytes: usize, stream: Handle) |state| {
        copy(state, to, from, bytes, DEVICE_TO_DEVICE, stream)
    };
    /// Fills with a byte, and waits.
    fn hipMemset(to: Handle, value: c_int, bytes: usize) |state| {
        fill(state, to, [value as u32 & 0xff, 1], bytes, std::ptr::null_mut())?;
        state.settle()
    };
    /// Fills with a byte in a stream's order.
    fn hipMemsetAsync(to: Handle, value: c_int, bytes: usize, stream: Handle) |state| {
        fill(state, to, [value as u32 & 0xff, 1], bytes, stream)
    };
    /// Fills with a byte, and waits.
    fn hipMemsetD8(to: Handle, value: u8, count: usize) |state| {
        fill(state, to, [value.into(), 1], count, std::ptr::null_mut())?;
        state.settle()
    };
    /// Fills with 16 bits, and waits.
    fn hipMemsetD16(to: Handle, value: u16, count: usize) |state| {
        fill(state, to, [value.into(), 2], count, std::ptr::null_mut())?;
        state.settle()
    };
    /// Fills with 32 bits, and waits.
    fn hipMemsetD32(to: Handle, value: c_int, count: usize) |state| {
        fill(state, to, [value as u32, 4], count, std::ptr::null_mut())?;
        state.settle()
    };
    /// Fills with 32 bits in a stream's order.
    fn hipMemsetD32Async(to: Handle, value: c_int, count: usize, stream: Handle) |state| {
        fill(state, to, [value as u32, 4], count, stream)
    };
}

fn allocate(state: &mut State, address: *mut Handle, bytes: usize) -> Result<(), Status> {
    let machine = state.device()?;
    // Nothing is null, as HIP has it.
    let at = if bytes == 0 { 0 } else { machine.allocate(bytes)? };
    // SAFETY: HIP's callers pass room for an address.
    unsafe { give(address, at as Handle) }
}

/// What the host writes the sanitizer does not see, so all of it counts as written.
fn host_memory(state: &mut State, address: *mut Handle, bytes: usize) -> Result<(), Status> {
    let machine = state.device()?;
    let at = machine.allocate(bytes.max(1))?;
    machine.fill(at, &[0], bytes.max(1))?;
    // SAFETY: HIP's callers pass room for an address.
    unsafe { give(address, at as Handle) }
}

/// Waits, as HIP does.
fn free(state: &mut State, address: Handle) -> Result<(), Status> {
    let machine = state.device()?;
    if !address.is_null() {
        machine.free(address as u64)?;
    }
    Ok(())
}

fn copy(
    state: &mut State,
    to: Handle,
    from: *const c_void,
    bytes: usize,
    kind: c_int,
    stream: Handle,
) -> Result<(), Status> {
    let machine = state.device()?;
    let (to, from) = (to as u64, from as u64);
    if bytes == 0 {
        return Ok(());
    }
    if to == 0 || from == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let on_device = |wanted: bool, address: u64| wanted && !machine.owns(address);
    let [to_device, from_device] = match kind {
        HOST_TO_HOST | DEFAULT => [false, false],
        HOST_TO_DEVICE => [true, false],
        DEVICE_TO_HOST => [false, true],
        DEVICE_TO_DEVICE => [true, true],
        _ => return Err(Status::INVALID_MEMCPY_DIRECTION),
    };
    if on_device(to_device, to) || on_device(from_device, from) {
        return Err(Status::INVALID_DEVICE_POINTER);
    }
    state.give(stream, Operation::Copy { to, from, bytes })
}

fn fill(state: &mut State, to: Handle, [pattern, width]: [u32; 2], count: usize, stream: Handle) -> Result<(), Status> {
    if count == 0 {
        return Ok(());
    }
    state.give(stream, Operation::Fill { to: to as u64, pattern, width: width as usize, count })
}

/// Bytes of the computer's memory, in all and available.
fn system_memory() -> (usize, usize) {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|l| l.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<usize>().ok().map(|kib| kib * 1024)
    };
    (field("MemTotal:").unwrap_or(0), field("MemAvailable:").unwrap_or(0))
}

impl State {
    /// Bytes of the device's memory, in all and free.
    pub fn memory(&mut self) -> Result<(usize, usize), Status> {
        let machine = self.device()?;
        let (all, available) = system_memory();
        Ok(match self.limit() {
            Some(limit) => {
                let free = limit.saturating_sub(machine.allocated());
                (limit as usize, available.min(free as usize))
            }
            None => (all, available),
        })
    }
}
