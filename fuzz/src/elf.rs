//! What all readers of ELF files have in common.

use crate::Reached;
use std::fmt::Display;

/// Bytes of an ELF file's first header.
const HEADER: usize = 64;

/// How far a file got that was refused; the reason has to be one line.
pub fn refused(reason: impl Display, data: &[u8]) -> Reached {
    let reason = reason.to_string();
    assert!(!reason.is_empty() && !reason.contains('\n'), "{reason:?}");
    let is_elf = data.len() >= HEADER && data.starts_with(b"\x7fELF\x02\x01");
    if is_elf { Reached::Inside } else { Reached::FirstCheck }
}
