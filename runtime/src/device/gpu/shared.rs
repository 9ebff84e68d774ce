//! The functions that HIP and CUDA both have, with the same arguments and numbers: CUDA's driver API, and what HIP made
//! after it. Addresses of devices are `u64`, which a pointer is passed like.
//!
//! Names, arguments and numbers are from the public headers hip/hip_runtime_api.h and cuda.h. CUDA's names end in `_v2`
//! where the header gives the plain name to the second version.

use super::call::Handle;
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

/// `hipStreamNonBlocking`, `CU_STREAM_NON_BLOCKING`: the stream does not wait for the default one.
pub const STREAM_NON_BLOCKING: c_uint = 1;
/// `hipEventDefault`, `CU_EVENT_DEFAULT`: the event keeps its time.
pub const EVENT_DEFAULT: c_uint = 0;
/// `hipEventDisableTiming`, `CU_EVENT_DISABLE_TIMING`.
pub const EVENT_DISABLE_TIMING: c_uint = 2;
/// `hipHostMallocDefault`; no `CU_MEMHOSTALLOC` flag.
pub const HOST_MALLOC_DEFAULT: c_uint = 0;
/// `hipStreamCaptureModeThreadLocal`, `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: what other threads do does not disturb a
/// capture.
pub const CAPTURE_THREAD_LOCAL: c_int = 1;

/// `HIP_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_POINTER`: the next entry points to the arguments.
pub const LAUNCH_BUFFER: Handle = 1 as Handle;
/// `HIP_LAUNCH_PARAM_BUFFER_SIZE`, `CU_LAUNCH_PARAM_BUFFER_SIZE`: the next entry points to their size.
pub const LAUNCH_SIZE: Handle = 2 as Handle;

/// Whose names the functions have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Api {
    /// AMD's.
    Hip,
    /// NVIDIA's.
    Cuda,
}

/// A table of functions under neutral names, with HIP's and CUDA's name of each.
macro_rules! shared {
    ($(#[$doc:meta])* $table:ident {
        $($(#[$fn_doc:meta])* $name:ident($($arg:ident: $ty:ty),*) = $hip:ident, $cuda:ident;)*
    }) => {
        $(#[$doc])*
        pub struct $table {
            words: super::call::Words,
            $($name: (&'static str, unsafe extern "C" fn($($ty),*) -> c_int),)*
        }

        #[allow(clippy::too_many_arguments, reason = "the library's")]
        impl $table {
            /// Looks the functions up.
            ///
            /// # Errors
            /// The first that the library has not got.
            pub(in crate::device) fn find(
                library: &libloading::Library,
                words: super::call::Words,
                api: Api,
            ) -> Result<$table, super::call::Missing> {
                Ok($table {
                    words,
                    $($name: {
                        let symbol = match api {
                            Api::Hip => stringify!($hip),
                            Api::Cuda => stringify!($cuda),
                        };
                        // SAFETY: the type is the function's in either header.
                        let function = unsafe { super::call::symbol(library, symbol)? };
                        (symbol.trim_end_matches("_v2"), function)
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
                /// As the library's documentation says: handles and pointers are valid for what the function does with
                /// them.
                pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<(), super::call::CallError> {
                    let (name, function) = self.$name;
                    // SAFETY: the caller's promise.
                    let status = unsafe { function($($arg),*) };
                    self.words.check(name, status)
                }
            )*
        }
    };
}

shared! {
    /// What every library must have.
    Shared {
        /// Bytes of the device's memory, free and in all.
        memory(free: *mut usize, total: *mut usize) = hipMemGetInfo, cuMemGetInfo_v2;
        /// Allocates memory of the device.
        allocate(address: *mut u64, bytes: usize) = hipMalloc, cuMemAlloc_v2;
        /// Frees it.
        free(address: u64) = hipFree, cuMemFree_v2;
        /// Allocates memory of the host that devices can read and write.
        allocate_pinned(address: *mut *mut c_void, bytes: usize, flags: c_uint) = hipHostMalloc, cuMemHostAlloc;
        /// Frees it.
        free_pinned(address: *mut c_void) = hipHostFree, cuMemFreeHost;
        /// Makes a stream.
        new_stream(stream: *mut Handle, flags: c_uint) = hipStreamCreateWithFlags, cuStreamCreate;
        /// Waits for all of a stream.
        synchronize(stream: Handle) = hipStreamSynchronize, cuStreamSynchronize;
        /// Ends a stream.
        end_stream(stream: Handle) = hipStreamDestroy, cuStreamDestroy_v2;
        /// Makes a stream wait for an event that has been recorded.
        await_event(stream: Handle, event: Handle, flags: c_uint) = hipStreamWaitEvent, cuStreamWaitEvent;
        /// Makes an event.
        new_event(event: *mut Handle, flags: c_uint) = hipEventCreateWithFlags, cuEventCreate;
        /// Puts it into a stream.
        record(event: Handle, stream: Handle) = hipEventRecord, cuEventRecord;
        /// Waits for it.
        wait(event: Handle) = hipEventSynchronize, cuEventSynchronize;
        /// Milliseconds between two.
        elapsed(time: *mut f32, from: Handle, to: Handle) = hipEventElapsedTime, cuEventElapsedTime;
        /// Ends it.
        end_event(event: Handle) = hipEventDestroy, cuEventDestroy_v2;
        /// Loads machine code.
        load(module: *mut Handle, image: *const c_void) = hipModuleLoadData, cuModuleLoadData;
        /// Unloads it.
        unload(module: Handle) = hipModuleUnload, cuModuleUnload;
        /// A kernel of it.
        function(function: *mut Handle, module: Handle, name: *const c_char) = hipModuleGetFunction, cuModuleGetFunction;
        /// Launches a kernel.
        launch(
            function: Handle,
            grid_x: c_uint,
            grid_y: c_uint,
            grid_z: c_uint,
            block_x: c_uint,
            block_y: c_uint,
            block_z: c_uint,
            local: c_uint,
            stream: Handle,
            params: *mut Handle,
            extra: *mut Handle
        ) = hipModuleLaunchKernel, cuLaunchKernel;
    }
}

shared! {
    /// Stream capture and graphs. Launches work without.
    Graphs {
        /// What the stream is given from now on is captured, not done.
        begin_capture(stream: Handle, mode: c_int) = hipStreamBeginCapture, cuStreamBeginCapture_v2;
        /// Ends that.
        end_capture(stream: Handle, graph: *mut Handle) = hipStreamEndCapture, cuStreamEndCapture;
        /// Makes a graph executable.
        instantiate(executable: *mut Handle, graph: Handle, flags: c_ulonglong)
            = hipGraphInstantiateWithFlags, cuGraphInstantiateWithFlags;
        /// Puts one into a stream.
        launch(executable: Handle, stream: Handle) = hipGraphLaunch, cuGraphLaunch;
        /// Ends one.
        end_executable(executable: Handle) = hipGraphExecDestroy, cuGraphExecDestroy;
        /// Ends a graph.
        end(graph: Handle) = hipGraphDestroy, cuGraphDestroy;
    }
}
