//! libFuzzer over [`hrx_fuzz::template`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = hrx_fuzz::template(data);
});
