//! A cursor over a file's bytes in which every read is checked.

use std::path::Path;

use super::{GgufError, Rule};

/// Longest key or tensor name, in bytes (the limit that the format gives for keys).
const MAX_NAME: u64 = 65535;

/// Reads little-endian fields from the front of `bytes`. A read that fails says where and what.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    file: &'a Path,
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a Path, bytes: &'a [u8]) -> Reader<'a> {
        Reader { file, bytes, offset: 0 }
    }

    /// Bytes from the file's start.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn remaining(&self) -> u64 {
        (self.bytes.len() - self.offset) as u64
    }

    /// An error about the field that begins at `offset`.
    pub(super) fn error(
        &self,
        offset: usize,
        rule: Rule,
        what: impl Into<String>,
        found: impl Into<String>,
        want: impl Into<String>,
    ) -> GgufError {
        GgufError::Format {
            file: self.file.to_path_buf(),
            offset: offset as u64,
            rule,
            what: what.into(),
            found: found.into(),
            want: want.into(),
        }
    }

    /// The next `length` bytes.
    pub(super) fn take(&mut self, length: u64, what: impl Fn() -> String) -> Result<&'a [u8], GgufError> {
        if length > self.remaining() {
            let found = format!("only {} bytes before the end of the file", self.remaining());
            return Err(self.error(self.offset, Rule::Truncated, what(), found, format!("{length} bytes")));
        }
        // In range: `length` is at most the rest of a slice.
        let end = self.offset + length as usize;
        let taken = &self.bytes[self.offset..end];
        self.offset = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: impl Fn() -> String) -> Result<[u8; N], GgufError> {
        let mut field = [0; N];
        field.copy_from_slice(self.take(N as u64, what)?);
        Ok(field)
    }

    pub(super) fn u32(&mut self, what: impl Fn() -> String) -> Result<u32, GgufError> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub(super) fn u64(&mut self, what: impl Fn() -> String) -> Result<u64, GgufError> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A count of things of at least `least` bytes each, so no larger than the rest of the file allows.
    pub(super) fn count(&mut self, least: u64, what: impl Fn() -> String) -> Result<u64, GgufError> {
        let offset = self.offset;
        let count = self.u64(&what)?;
        self.check_count(offset, count, least, what)?;
        Ok(count)
    }

    /// Refuses a count, read at `offset`, of more than the rest of the file can hold.
    pub(super) fn check_count(
        &self,
        offset: usize,
        count: u64,
        least: u64,
        what: impl Fn() -> String,
    ) -> Result<(), GgufError> {
        let most = self.remaining() / least;
        if count > most {
            let want = format!("at most {most}, as {} bytes are left in the file", self.remaining());
            return Err(self.error(offset, Rule::Count, what(), count.to_string(), want));
        }
        Ok(())
    }

    /// A string: its length as u64, then its bytes (any bytes).
    pub(super) fn string(&mut self, what: impl Fn() -> String) -> Result<&'a [u8], GgufError> {
        let length = self.count(1, || format!("length of {}", what()))?;
        self.take(length, what)
    }

    /// A key or a tensor name: a string of UTF-8 and of limited length.
    pub(super) fn name(&mut self, what: impl Fn() -> String) -> Result<&'a str, GgufError> {
        let offset = self.offset;
        let bytes = self.string(&what)?;
        if bytes.len() as u64 > MAX_NAME {
            let found = format!("{} bytes", bytes.len());
            return Err(self.error(offset, Rule::Count, what(), found, format!("at most {MAX_NAME} bytes")));
        }
        std::str::from_utf8(bytes).map_err(|e| {
            let found = format!("{:?} ({e})", String::from_utf8_lossy(&bytes[..bytes.len().min(64)]));
            self.error(offset, Rule::Utf8, what(), found, "UTF-8")
        })
    }
}
