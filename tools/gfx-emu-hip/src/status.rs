//! HIP's statuses: those that functions here return, and the names of the others that a program may ask for. Numbers and
//! names are from the public header hip/hip_runtime_api.h.

use std::ffi::CStr;

/// A status other than success.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Status(pub i32);

/// Success.
pub const SUCCESS: i32 = 0;

macro_rules! rows {
    ($($name:ident $number:literal $hip:ident $text:literal)*) => {
        impl Status {
            $(
                #[doc = concat!("`", stringify!($hip), "`: ", $text, ".")]
                pub const $name: Status = Status($number);
            )*
        }

        /// Number, name and text of each.
        const TABLE: &[(i32, &str, &str)] = &[
            (SUCCESS, "hipSuccess\0", "no error\0"),
            $(($number, concat!(stringify!($hip), "\0"), concat!($text, "\0")),)*
        ];
    };
}

rows! {
    INVALID_VALUE 1 hipErrorInvalidValue "an argument has no valid value"
    OUT_OF_MEMORY 2 hipErrorOutOfMemory "out of memory"
    NOT_INITIALIZED 3 hipErrorNotInitialized "the emulator does not start"
    INVALID_CONFIGURATION 9 hipErrorInvalidConfiguration "a launch with a grid or block that is not possible"
    INVALID_SYMBOL 13 hipErrorInvalidSymbol "no such variable on the device"
    INVALID_DEVICE_POINTER 17 hipErrorInvalidDevicePointer "an address that is not the device's"
    INVALID_MEMCPY_DIRECTION 21 hipErrorInvalidMemcpyDirection "a copy in a direction that does not exist"
    MISSING_CONFIGURATION 52 hipErrorMissingConfiguration "a launch without a configuration"
    INVALID_DEVICE_FUNCTION 98 hipErrorInvalidDeviceFunction "no such kernel"
    NO_DEVICE 100 hipErrorNoDevice "no device: HRX_EMU_CHIP names no chip"
    INVALID_DEVICE 101 hipErrorInvalidDevice "no such device"
    INVALID_IMAGE 200 hipErrorInvalidImage "not a code object"
    NO_BINARY_FOR_GPU 209 hipErrorNoBinaryForGpu "no code object for the emulated chip"
    FILE_NOT_FOUND 301 hipErrorFileNotFound "no such file"
    INVALID_HANDLE 400 hipErrorInvalidHandle "a handle of nothing that exists"
    ILLEGAL_STATE 401 hipErrorIllegalState "nothing of the kind goes on"
    NOT_FOUND 500 hipErrorNotFound "no such name"
    NOT_READY 600 hipErrorNotReady "not ready"
    ILLEGAL_ADDRESS 700 hipErrorIllegalAddress "a kernel accessed memory that is not its own"
    LAUNCH_FAILURE 719 hipErrorLaunchFailure "the sanitizer has reports of a launch; they are on standard error"
    NOT_SUPPORTED 801 hipErrorNotSupported "the emulator's library does not have that"
    CAPTURE_UNSUPPORTED 900 hipErrorStreamCaptureUnsupported "not possible while the stream is captured"
    CAPTURE_INVALIDATED 901 hipErrorStreamCaptureInvalidated "the capture was spoilt"
    CAPTURE_UNMATCHED 903 hipErrorStreamCaptureUnmatched "the capture did not begin in this stream"
    UNKNOWN 999 hipErrorUnknown "unknown error"
}

/// HIP's name of a status.
pub fn name(status: i32) -> &'static CStr {
    text_of(row(status).map_or("hipErrorUnknown\0", |r| r.1))
}

/// What it means.
pub fn text(status: i32) -> &'static CStr {
    text_of(row(status).map_or("unknown error\0", |r| r.2))
}

fn row(status: i32) -> Option<&'static (i32, &'static str, &'static str)> {
    TABLE.iter().find(|r| r.0 == status)
}

fn text_of(text: &'static str) -> &'static CStr {
    CStr::from_bytes_until_nul(text.as_bytes()).unwrap_or(c"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_names_and_texts() {
        assert_eq!(name(0), c"hipSuccess");
        assert_eq!(name(Status::OUT_OF_MEMORY.0), c"hipErrorOutOfMemory");
        assert_eq!(name(-5), c"hipErrorUnknown");
        assert!(TABLE.iter().all(|r| !name(r.0).is_empty() && !text(r.0).is_empty()));
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0), "each number once");
    }

    #[test]
    fn numbers_and_names_are_hips() {
        use hip_sys::hiprt::hipError_t as E;
        let all = [
            E::hipSuccess,
            E::hipErrorInvalidValue,
            E::hipErrorOutOfMemory,
            E::hipErrorNotInitialized,
            E::hipErrorInvalidConfiguration,
            E::hipErrorInvalidSymbol,
            E::hipErrorInvalidDevicePointer,
            E::hipErrorInvalidMemcpyDirection,
            E::hipErrorMissingConfiguration,
            E::hipErrorInvalidDeviceFunction,
            E::hipErrorNoDevice,
            E::hipErrorInvalidDevice,
            E::hipErrorInvalidImage,
            E::hipErrorNoBinaryForGpu,
            E::hipErrorFileNotFound,
            E::hipErrorInvalidHandle,
            E::hipErrorIllegalState,
            E::hipErrorNotFound,
            E::hipErrorNotReady,
            E::hipErrorIllegalAddress,
            E::hipErrorLaunchFailure,
            E::hipErrorNotSupported,
            E::hipErrorStreamCaptureUnsupported,
            E::hipErrorStreamCaptureInvalidated,
            E::hipErrorStreamCaptureUnmatched,
            E::hipErrorUnknown,
        ];
        let theirs: Vec<(i32, String)> = all.iter().map(|e| (*e as i32, format!("{e:?}"))).collect();
        let ours: Vec<(i32, String)> = TABLE.iter().map(|r| (r.0, name(r.0).to_string_lossy().into_owned())).collect();
        assert_eq!(ours, theirs);
    }
}
