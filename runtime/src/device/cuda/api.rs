//! The functions of CUDA's driver API that are used and that HIP has not got in the same form.
//!
//! Names, arguments and numbers are from NVIDIA's public header cuda.h (CUDA 12), which keeps them from version to
//! version.

use crate::device::gpu::call::functions;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

pub use crate::device::gpu::call::Handle;

/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: c_int = 100;
/// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`.
pub const UNSUPPORTED_PTX: c_int = 222;

/// `CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT`.
pub const ATTRIBUTE_MULTIPROCESSORS: c_int = 16;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
pub const ATTRIBUTE_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
pub const ATTRIBUTE_MINOR: c_int = 76;

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const FUNCTION_DYNAMIC_SHARED: c_int = 8;

/// `CU_LAUNCH_PARAM_END`: no more entries.
pub const LAUNCH_END: Handle = std::ptr::null_mut();

/// `CU_JIT_INPUT_PTX`.
pub const JIT_INPUT_PTX: c_int = 1;
/// `CU_JIT_ERROR_LOG_BUFFER`.
pub const JIT_ERROR_LOG: c_int = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
pub const JIT_ERROR_LOG_BYTES: c_int = 6;

functions! {
    /// What every library must have.
    Functions {
        /// Starts the driver API.
        cuInit(flags: c_uint);
        /// The version of CUDA that the driver has: 1000 · major + 10 · minor.
        cuDriverGetVersion(version: *mut c_int);
        /// The number of devices.
        cuDeviceGetCount(count: *mut c_int);
        /// A device of that number.
        cuDeviceGet(device: *mut c_int, number: c_int);
        /// Its name.
        cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int);
        /// Its place on the PCI bus.
        cuDeviceGetPCIBusId(name: *mut c_char, len: c_int, device: c_int);
        /// A number of it.
        cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
        /// Its memory.
        cuDeviceTotalMem as "cuDeviceTotalMem_v2"(bytes: *mut usize, device: c_int);
        /// Takes a share in the context that all users of a device in this process have together.
        cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int);
        /// Gives it back.
        cuDevicePrimaryCtxRelease as "cuDevicePrimaryCtxRelease_v2"(device: c_int);
        /// Makes a context this thread's.
        cuCtxSetCurrent(context: Handle);
        /// Copies from the host, in a stream's order.
        cuMemcpyHtoDAsync as "cuMemcpyHtoDAsync_v2"(to: u64, from: *const c_void, bytes: usize, stream: Handle);
        /// Copies to the host, in a stream's order.
        cuMemcpyDtoHAsync as "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: u64, bytes: usize, stream: Handle);
        /// Copies inside the device, in a stream's order.
        cuMemcpyDtoDAsync as "cuMemcpyDtoDAsync_v2"(to: u64, from: u64, bytes: usize, stream: Handle);
        /// Fills, in a stream's order.
        cuMemsetD8Async(to: u64, byte: c_uchar, bytes: usize, stream: Handle);
        /// Lets a function have what it can't have unasked.
        cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int);
        /// Begins to assemble and link. The options hold until the end.
        cuLinkCreate as "cuLinkCreate_v2"(
            count: c_uint,
            options: *mut c_int,
            values: *mut *mut c_void,
            state: *mut Handle
        );
        /// Adds code.
        cuLinkAddData as "cuLinkAddData_v2"(
            state: Handle,
            kind: c_int,
            data: *mut c_void,
            bytes: usize,
            name: *const c_char,
            count: c_uint,
            options: *mut c_int,
            values: *mut *mut c_void
        );
        /// Links; the result is the state's.
        cuLinkComplete(state: Handle, code: *mut *mut c_void, bytes: *mut usize);
        /// Ends that.
        cuLinkDestroy(state: Handle);
    }
}

functions! {
    /// What drivers for CUDA 11.8 and later have.
    Launches {
        /// Launches a kernel with attributes.
        cuLaunchKernelEx(
            config: *const LaunchConfig,
            function: Handle,
            params: *mut Handle,
            extra: *mut Handle
        );
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
pub struct LaunchConfig {
    /// Workgroups along the axes.
    pub grid: [c_uint; 3],
    /// Threads of one along the axes.
    pub block: [c_uint; 3],
    /// Bytes of dynamic shared memory.
    pub shared: c_uint,
    /// The stream.
    pub stream: Handle,
    /// Attributes.
    pub attributes: *const LaunchAttribute,
    /// How many.
    pub count: c_uint,
}

/// `CUlaunchAttribute`: a number, and from its eighth byte on a value of at most 64 bytes.
#[repr(C)]
pub struct LaunchAttribute {
    id: c_uint,
    _pad: c_uint,
    value: [u64; 8],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`, allowed: the launch may begin before the one in front of it
    /// in the stream has ended, and its code waits for that.
    pub fn early() -> LaunchAttribute {
        // The value is an int.
        LaunchAttribute { id: 6, _pad: 0, value: [1, 0, 0, 0, 0, 0, 0, 0] }
    }
}
