//! The numbers by which HIP is called, held to the crate `hip-sys`, which has them from ROCm's header (5.4).

use hip_sys::hiprt::{
    hipDeviceAttribute_t, hipDeviceProp_t, hipError_t, hipEventDisableTiming, hipHostMallocDefault, hipMemcpyKind,
    hipStreamCaptureMode, hipStreamNonBlocking,
};
use hrx::device::hip::api;
use std::mem::{offset_of, size_of};

#[test]
fn statuses_are_hips() {
    assert_eq!(api::SUCCESS, hipError_t::hipSuccess as i32);
    assert_eq!(api::OUT_OF_MEMORY, hipError_t::hipErrorOutOfMemory as i32);
    assert_eq!(api::NO_DEVICE, hipError_t::hipErrorNoDevice as i32);
    assert_eq!(api::INVALID_DEVICE, hipError_t::hipErrorInvalidDevice as i32);
}

#[test]
fn attributes_kinds_and_flags_are_hips() {
    assert_eq!(api::ATTRIBUTE_INTEGRATED, hipDeviceAttribute_t::hipDeviceAttributeIntegrated as i32);
    assert_eq!(api::HOST_TO_DEVICE, hipMemcpyKind::hipMemcpyHostToDevice as i32);
    assert_eq!(api::DEVICE_TO_HOST, hipMemcpyKind::hipMemcpyDeviceToHost as i32);
    assert_eq!(api::STREAM_NON_BLOCKING, hipStreamNonBlocking);
    assert_eq!(api::EVENT_DISABLE_TIMING, hipEventDisableTiming);
    assert_eq!(api::HOST_MALLOC_DEFAULT, hipHostMallocDefault);
    assert_eq!(api::CAPTURE_THREAD_LOCAL, hipStreamCaptureMode::hipStreamCaptureModeThreadLocal as i32);
}

#[test]
fn the_processors_name_is_where_it_is_looked_for() {
    assert_eq!(api::ARCH_NAME, offset_of!(hipDeviceProp_t, gcnArchName));
    assert_eq!(api::ARCH_NAME_BYTES, 256);
    assert!(api::PROPERTY_BYTES >= 2 * size_of::<hipDeviceProp_t>());
}
