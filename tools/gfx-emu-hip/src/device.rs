//! The device, versions and errors.

use crate::call::{functions, give, last_error};
use crate::properties::{GRID, Properties};
use crate::state::State;
use crate::status::{self, Status};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// The version of HIP that the functions are as of: 6.4.0, as 10 000 000 · major + 100 000 · minor + patch.
const VERSION: c_int = 60_400_000;

/// The place on the PCI bus: one that no device has.
const PCI: &CStr = c"ffff:00:00.0";

functions! {
    /// Starts the runtime.
    fn hipInit(_flags: c_uint) |state| state.device().map(|_| ());
    /// The runtime's version.
    fn hipRuntimeGetVersion(version: *mut c_int) |_| {
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(version, VERSION) }
    };
    /// The driver's version: the same.
    fn hipDriverGetVersion(version: *mut c_int) |_| {
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(version, VERSION) }
    };
    /// The number of devices: one if a chip is named.
    fn hipGetDeviceCount(count: *mut c_int) |state| {
        let found = state.chip();
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(count, c_int::from(found.is_ok()))? };
        found.map(|_| ())
    };
    /// Makes a device the thread's.
    fn hipSetDevice(device: c_int) |state| known(state, device).map(|_| ());
    /// The thread's device.
    fn hipGetDevice(device: *mut c_int) |state| {
        state.chip()?;
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(device, 0) }
    };
    /// The handle of a device: its number.
    fn hipDeviceGet(handle: *mut c_int, device: c_int) |state| {
        known(state, device)?;
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(handle, device) }
    };
    /// Its name.
    fn hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int) |state| {
        let text = known(state, device)?.name();
        // SAFETY: HIP's callers pass room for that many characters.
        unsafe { give_text(name, len, text.as_bytes()) }
    };
    /// Its place on the PCI bus.
    fn hipDeviceGetPCIBusId(name: *mut c_char, len: c_int, device: c_int) |state| {
        known(state, device)?;
        // SAFETY: HIP's callers pass room for that many characters.
        unsafe { give_text(name, len, PCI.to_bytes()) }
    };
    /// Bytes of its memory.
    fn hipDeviceTotalMem(bytes: *mut usize, device: c_int) |state| {
        let memory = known(state, device)?.memory;
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(bytes, memory) }
    };
    /// Its version.
    fn hipDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, device: c_int) |state| {
        let version = known(state, device)?.version();
        // SAFETY: HIP's callers pass room for numbers.
        unsafe { give(major, version[0]).and_then(|()| give(minor, version[1])) }
    };
    /// A number of it.
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) |state| {
        let found = self::attribute(&known(state, device)?, attribute).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(value, found) }
    };
    /// Its properties in the older layout.
    fn hipGetDeviceProperties(properties: *mut c_void, device: c_int) |state| {
        let bytes = known(state, device)?.old();
        // SAFETY: HIP's callers pass room for the struct.
        unsafe { give_bytes(properties, &bytes) }
    };
    /// Its properties in the layout of ROCm 6.
    fn hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int) |state| {
        let bytes = known(state, device)?.r0600();
        // SAFETY: HIP's callers pass room for the struct.
        unsafe { give_bytes(properties, &bytes) }
    };
    /// Waits for the device: tells what has been wrong.
    fn hipDeviceSynchronize() |state| {
        state.device()?;
        state.settle()
    };
    /// Ends everything of the device's: nothing has to be.
    fn hipDeviceReset() |state| state.settle();
    /// Whether one device can use another's memory: there is no other.
    fn hipDeviceCanAccessPeer(can: *mut c_int, device: c_int, _peer: c_int) |state| {
        known(state, device)?;
        // SAFETY: HIP's callers pass room for a number.
        unsafe { give(can, 0) }
    };
    /// Makes a chip of that name the only device; not a function of HIP's. Fails once another is in use.
    fn gfxEmuSetChip(name: *const c_char) |state| {
        if name.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller passes a string that ends with 0.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Status::INVALID_VALUE)?;
        state.set_chip(name)
    };
}

/// The status of this thread's last call that failed; success from then on.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetLastError() -> c_int {
    last_error(true)
}

/// The status of this thread's last call that failed.
#[unsafe(no_mangle)]
pub extern "C" fn hipPeekAtLastError() -> c_int {
    last_error(false)
}

/// The name of a status.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorName(status: c_int) -> *const c_char {
    status::name(status).as_ptr()
}

/// What a status means.
#[unsafe(no_mangle)]
pub extern "C" fn hipGetErrorString(status: c_int) -> *const c_char {
    status::text(status).as_ptr()
}

/// What is known of a device.
fn known(state: &mut State, device: c_int) -> Result<Properties, Status> {
    let chip = state.chip()?;
    if device != 0 {
        return Err(Status::INVALID_DEVICE);
    }
    Ok(Properties { chip, memory: state.memory()?.0 })
}

/// A device's number by HIP's number for it, of those that are known.
fn attribute(properties: &Properties, attribute: c_int) -> Option<c_int> {
    let chip = properties.chip;
    let items = chip.max_work_items as c_int;
    Some(match attribute {
        // hipDeviceAttributeCanMapHostMemory, ConcurrentKernels
        3 | 8 => 1,
        // Integrated, CooperativeLaunch, EccEnabled, ManagedMemory
        16 | 10 | 0 | 24 => 0,
        // ComputeCapabilityMajor, Minor
        23 => properties.version()[0],
        61 => properties.version()[1],
        // MaxBlockDimX, Y, Z
        26..=28 => items,
        // MaxGridDimX, Y, Z
        29..=31 => GRID[attribute as usize - 29],
        // MaxThreadsPerBlock
        56 => items,
        // MaxThreadsPerMultiProcessor
        57 => (chip.simds * chip.max_waves * chip.wave) as c_int,
        // MultiprocessorCount
        63 => properties.units(),
        // MaxSharedMemoryPerBlock
        74 => chip.lds as c_int,
        // WarpSize
        87 => chip.wave as c_int,
        _ => return None,
    })
}

/// Writes text that ends with 0, as much as there is room for.
///
/// # Safety
/// The pointer is null or good for `len` characters.
unsafe fn give_text(to: *mut c_char, len: c_int, text: &[u8]) -> Result<(), Status> {
    let room = usize::try_from(len).ok().filter(|&n| n > 0 && !to.is_null()).ok_or(Status::INVALID_VALUE)?;
    let mut bytes = text[..text.len().min(room - 1)].to_vec();
    bytes.push(0);
    // SAFETY: they are at most as many as there is room for.
    unsafe { give_bytes(to.cast(), &bytes) }
}

/// Writes bytes.
///
/// # Safety
/// The pointer is null or good for them.
unsafe fn give_bytes(to: *mut c_void, bytes: &[u8]) -> Result<(), Status> {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len()) };
    Ok(())
}
