//! Relocatable objects for AMD GPUs.

use hrx_compiler::hsaco::Hsaco;

use crate::Reached;

/// Bytes of an ELF file's first header.
const HEADER: usize = 64;

/// More than links add to an object: page alignment of segments, tables.
const MARGIN: usize = 1 << 20;

/// Links an object. What it makes is the same each time, has sane size, and is read or refused by the reader.
pub fn link(data: &[u8]) -> Reached {
    match hrx_compiler::link(data, "fuzz") {
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("object of fuzz: ") && !error.contains('\n'), "{error:?}");
            if data.len() < HEADER || !data.starts_with(b"\x7fELF\x02\x01") {
                Reached::FirstCheck
            } else {
                Reached::Inside
            }
        }
        Ok(linked) => {
            assert!(linked.len() < 4 * data.len() + MARGIN, "{} bytes", linked.len());
            assert_eq!(hrx_compiler::link(data, "fuzz").ok().as_ref(), Some(&linked), "not the same each time");
            if let Err(error) = Hsaco::read(&linked) {
                assert!(!error.to_string().is_empty());
            }
            Reached::End
        }
    }
}
