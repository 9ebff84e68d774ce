//! The functions of HIP's runtime that are used, as its library exports them.
//!
//! Names, arguments and numbers are from ROCm's public header hip/hip_runtime_api.h, versions 5.2 to 7.0, in which they
//! are the same; tests hold the numbers to the crate `hip-sys`. Statuses are numbers here, not an enum, because a library
//! may return one that this list has not got.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null_mut;

/// A handle of HIP's: a stream, an event, a module, a function, a graph.
pub type Handle = *mut c_void;

/// `hipSuccess`.
pub const SUCCESS: c_int = 0;
/// `hipErrorOutOfMemory`.
pub const OUT_OF_MEMORY: c_int = 2;
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

/// `hipStreamNonBlocking`: the stream does not wait for the default one.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `hipEventDisableTiming`.
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// `hipHostMallocDefault`.
pub const HOST_MALLOC_DEFAULT: c_uint = 0;
/// `hipStreamCaptureModeThreadLocal`: what other threads do does not disturb a capture.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`: the next entry of `extra` points to the arguments.
pub const LAUNCH_BUFFER: Handle = 1 as Handle;
/// `HIP_LAUNCH_PARAM_BUFFER_SIZE`: the next entry points to their size.
pub const LAUNCH_SIZE: Handle = 2 as Handle;
/// `HIP_LAUNCH_PARAM_END`.
pub const LAUNCH_END: Handle = 3 as Handle;

/// Bytes that are enough for the properties of a device in any layout: the older one has 792, that of ROCm 6 has 1472.
pub const PROPERTY_BYTES: usize = 8192;

/// Where `gcnArchName` is in the properties that `hipGetDeviceProperties` writes.
pub const ARCH_NAME: usize = 396;

/// Where it is in those of `hipGetDevicePropertiesR0600`, which libraries have from ROCm 6 on.
pub const ARCH_NAME_R0600: usize = 1160;

/// Bytes of `gcnArchName`.
pub const ARCH_NAME_BYTES: usize = 256;

/// A call that failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{call} failed: {name} ({status}): {text}")]
pub struct HipError {
    /// The function.
    pub call: &'static str,
    /// What it returned.
    pub status: i32,
    /// The library's name for that.
    pub name: String,
    /// What the library says of it.
    pub text: String,
}

/// What libraries say of statuses.
#[derive(Clone, Copy)]
pub struct Words {
    pub(super) name: unsafe extern "C" fn(c_int) -> *const c_char,
    pub(super) text: unsafe extern "C" fn(c_int) -> *const c_char,
}

impl Words {
    /// A status as a result.
    fn check(&self, call: &'static str, status: c_int) -> Result<(), HipError> {
        if status == SUCCESS {
            return Ok(());
        }
        let said = |f: unsafe extern "C" fn(c_int) -> *const c_char| {
            // SAFETY: hipGetErrorName and hipGetErrorString take any number and return a constant string or null.
            let text = unsafe { f(status) };
            // SAFETY: it is not null, so a string that ends with 0 and stays.
            let text = if text.is_null() { c"" } else { unsafe { CStr::from_ptr(text) } };
            text.to_string_lossy().into_owned()
        };
        Err(HipError { call, status, name: said(self.name), text: said(self.text) })
    }
}

/// A function that a library has not got.
#[derive(Debug)]
pub struct Missing(pub &'static str);

/// A table of functions, each with a method of its name that checks the status.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($(#[$fn_doc:meta])* $name:ident($($arg:ident: $ty:ty),*);)* }) => {
        $(#[$doc])*
        #[allow(non_snake_case, reason = "the library's names")]
        pub struct $table {
            words: Words,
            $($name: unsafe extern "C" fn($($ty),*) -> c_int,)*
        }

        #[allow(non_snake_case, reason = "the library's names")]
        #[allow(clippy::too_many_arguments, reason = "the library's")]
        impl $table {
            /// Looks the functions up.
            ///
            /// # Errors
            /// The first that the library has not got.
            pub(super) fn load(library: &libloading::Library, words: Words) -> Result<$table, Missing> {
                Ok($table {
                    words,
                    $($name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the type is the function's in HIP's header.
                        *unsafe { library.get(name.as_bytes()) }.map_err(|_| Missing(stringify!($name)))?
                    },)*
                })
            }

            $(
                $(#[$fn_doc])*
                ///
                /// # Errors
                /// Any status but success.
                ///
                /// # Safety
                /// As HIP's documentation says: handles and pointers are valid for what the function does with them.
                pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<(), HipError> {
                    // SAFETY: the caller's promise.
                    let status = unsafe { (self.$name)($($arg),*) };
                    self.words.check(stringify!($name), status)
                }
            )*
        }
    };
}

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
        /// Its memory, free and in all.
        hipMemGetInfo(free: *mut usize, total: *mut usize);
        /// Allocates its memory.
        hipMalloc(address: *mut Handle, bytes: usize);
        /// Frees it.
        hipFree(address: Handle);
        /// Allocates memory of the host that devices can read and write.
        hipHostMalloc(address: *mut Handle, bytes: usize, flags: c_uint);
        /// Frees it.
        hipHostFree(address: Handle);
        /// Copies, in a stream's order.
        hipMemcpyAsync(to: Handle, from: *const c_void, bytes: usize, kind: c_int, stream: Handle);
        /// Fills, in a stream's order.
        hipMemsetAsync(to: Handle, byte: c_int, bytes: usize, stream: Handle);
        /// Makes a stream.
        hipStreamCreateWithFlags(stream: *mut Handle, flags: c_uint);
        /// Waits for all of a stream.
        hipStreamSynchronize(stream: Handle);
        /// Ends a stream.
        hipStreamDestroy(stream: Handle);
        /// Makes an event.
        hipEventCreateWithFlags(event: *mut Handle, flags: c_uint);
        /// Puts it into a stream.
        hipEventRecord(event: Handle, stream: Handle);
        /// Waits for it.
        hipEventSynchronize(event: Handle);
        /// Ends it.
        hipEventDestroy(event: Handle);
        /// Loads a code object.
        hipModuleLoadData(module: *mut Handle, image: *const c_void);
        /// Unloads it.
        hipModuleUnload(module: Handle);
        /// A kernel of it.
        hipModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
        /// Launches a kernel.
        hipModuleLaunchKernel(
            function: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            lds: c_uint,
            stream: Handle,
            params: *mut Handle,
            extra: *mut Handle
        );
    }
}

functions! {
    /// Stream capture and graphs. Launches work without.
    Graphs {
        /// What the stream is given from now on is captured, not done.
        hipStreamBeginCapture(stream: Handle, mode: c_int);
        /// Ends that.
        hipStreamEndCapture(stream: Handle, graph: *mut Handle);
        /// Makes a graph executable.
        hipGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: c_ulonglong);
        /// Puts one into a stream.
        hipGraphLaunch(executable: Handle, stream: Handle);
        /// Ends one.
        hipGraphExecDestroy(executable: Handle);
        /// Ends a graph.
        hipGraphDestroy(graph: Handle);
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

/// A handle that a function of HIP writes.
pub(super) fn made(make: impl FnOnce(*mut Handle) -> Result<(), HipError>) -> Result<Handle, HipError> {
    let mut handle = null_mut();
    make(&raw mut handle).map(|()| handle)
}
