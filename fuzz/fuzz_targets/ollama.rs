//! libFuzzer over [`hrx_fuzz::ollama`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = hrx_fuzz::ollama(data);
});
