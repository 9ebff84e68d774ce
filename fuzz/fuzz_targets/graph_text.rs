//! libFuzzer over [`hrx_fuzz::graph_text`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = hrx_fuzz::graph_text(data);
});
