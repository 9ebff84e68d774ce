//! libFuzzer over [`hrx_fuzz::x86_object`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = hrx_fuzz::x86_object(data);
});
