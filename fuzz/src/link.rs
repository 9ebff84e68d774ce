//! Relocatable objects for AMD GPUs.

use hrx_compiler::hsaco::Hsaco;

use crate::Reached;
use crate::elf::refused;

/// More than links add to an object: page alignment of segments, tables.
const MARGIN: usize = 1 << 20;

/// Links an object. What it makes is the same each time, has sane size, and is read or refused by the reader.
pub fn link(data: &[u8]) -> Reached {
    match hrx_compiler::link(data, "fuzz") {
        Err(error) => {
            assert!(error.to_string().starts_with("object of fuzz: "), "{error}");
            refused(error, data)
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
