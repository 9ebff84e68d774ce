//! The text that a run begins with.

use crate::args::Args;
use crate::failure::Failure;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

/// The bytes of `-p` or `-f`, if either is given.
///
/// # Errors
/// If the file can't be read.
pub fn text(args: &Args) -> Result<Option<Vec<u8>>, Failure> {
    if let Some(prompt) = &args.prompt {
        return Ok(Some(prompt.as_bytes().to_vec()));
    }
    let Some(file) = &args.file else { return Ok(None) };
    let mut text = if file.as_os_str() == "-" {
        let mut text = Vec::new();
        let read = io::stdin().lock().read_to_end(&mut text);
        read.map_err(|source| Failure::Stream { action: "read standard input", source })?;
        text
    } else {
        fs::read(file).map_err(|source| Failure::File { file: file.clone(), action: "read", source })?
    };
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    Ok(Some(text))
}
