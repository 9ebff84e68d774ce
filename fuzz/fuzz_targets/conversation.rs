//! libFuzzer over [`hrx_fuzz::conversation`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = hrx_fuzz::conversation(data);
});
