//! The functions of HIP's runtime that are used, as its library exports them.
//!
//! Names, arguments and numbers are from ROCm's public header hip/hip_runtime_api.h, versions 5.2 to 7.0, in which they
//! are the same; tests hold the numbers to the crate `hip-sys`.

use crate::device::gpu::call::functions;
use std::ffi::{c_char, c_int, c_uint, c_void};

pub use crate::device::gpu::call::{Handle, OUT_OF_MEMORY, SUCCESS};
pub use crate::device::gpu::shared::{
    CAPTURE_THREAD_LOCAL, EVENT_DISABLE_TIMING, HOST_MALLOC_DEFAULT, STREAM_NON_BLOCKING,
};

/// `hipErrorNoDevice`.
pub const NO_DEVICE: c_int = 100;
/// `hipErrorInvalidDevice`.
pub const INVALID_DEVICE: c_int = 101;

/// `hipDeviceAttributeIntegrated`.
pub const ATTRIBUTE_INTEGRATED: c_int = 16;

/// `hipMemcpyHostToDevice`.
pub const HOST_TO_DEVICE: c_int = 1;
/// `hipMemcpyDeviceToHost`.
pub const DEVICE_TO_HOST: c_int = 2;
/// `hipMemcpyDeviceToDevice`.
pub const DEVICE_TO_DEVICE: c_int = 3;

/// `HIP_LAUNCH_PARAM_END`: no more entries.
pub const LAUNCH_END: Handle = 3 as Handle;

/// Bytes that are enough for the properties of a device in any layout: the older one has 792, that of ROCm 6 has 1472.
pub const PROPERTY_BYTES: usize = 8192;

/// Where `gcnArchName` is in the properties that `hipGetDeviceProperties` writes.
pub const ARCH_NAME: usize = 396;

/// Where it is in those of `hipGetDevicePropertiesR0600`, which libraries have from ROCm 6 on.
pub const ARCH_NAME_R0600: usize = 1160;

/// Bytes of `gcnArchName`.
pub const ARCH_NAME_BYTES: usize = 256;

functions! {
    /// What every library must have.
    Functions {
        /// Starts the runtime.
        hipInit(flags: c_uint);
        /// The runtime's version.
        hipRuntimeGetVersion(version: *mut c_int);
        /// The number of devices.
        hipGetDeviceCount(count: *mut c_int);
        /// Makes a device this thread's.
        hipSetDevice(device: c_int);
        /// Its name.
        hipDeviceGetName(name: *mut c_char, len: c_int, device: c_int);
        /// Its place on the PCI bus.
        hipDeviceGetPCIBusId(name: *mut c_char, len: c_int, device: c_int);
        /// A number of it.
        hipDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
        /// Its memory.
        hipDeviceTotalMem(bytes: *mut usize, device: c_int);
        /// Copies, in a stream's order.
        hipMemcpyAsync(to: Handle, from: *const c_void, bytes: usize, kind: c_int, stream: Handle);
        /// Fills, in a stream's order.
        hipMemsetAsync(to: Handle, byte: c_int, bytes: usize, stream: Handle);
    }
}

functions! {
    /// What libraries had before ROCm 6.
    OldProperties {
        /// A device's properties in the older layout.
        hipGetDeviceProperties(properties: *mut c_void, device: c_int);
    }
}

functions! {
    /// What libraries have from ROCm 6 on.
    Properties {
        /// A device's properties in that version's layout.
        hipGetDevicePropertiesR0600(properties: *mut c_void, device: c_int);
    }
}

functions! {
    /// What the emulator's library has besides.
    Emulator {
        /// Makes a chip of that name the only device. Fails once there is another.
        gfxEmuSetChip(name: *const c_char);
    }
}
