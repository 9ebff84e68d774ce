//! libFuzzer over [`hrx_fuzz::cache_entry`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = hrx_fuzz::cache_entry(data);
});
