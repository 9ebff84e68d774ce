//! The memory a kernel runs on: byte buffers that know which of their bytes were ever written.

use super::super::types::Elem;
use super::bits;

/// One of a [`Memory`]'s buffers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BufferId(pub(super) usize);

/// Buffers of bytes as a device holds them: little-endian elements, blocks of quantised formats as they lie in a file.
#[derive(Clone, Default, Debug)]
pub struct Memory {
    pub(super) buffers: Vec<Buffer>,
}

/// Bytes, and which of them hold something.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    /// Which bytes were written; none if all hold something from the start.
    pub(super) written: Option<Vec<bool>>,
}

impl Buffer {
    /// A buffer in which nothing was written.
    pub(super) fn uninit(len: usize) -> Buffer {
        Buffer { bytes: vec![0xA5; len], written: Some(vec![false; len]) }
    }

    /// Forgets what was written.
    pub(super) fn forget(&mut self) {
        if let Some(w) = &mut self.written {
            w.fill(false)
        }
    }

    /// The bytes of the range, if all were written.
    pub(super) fn read(&self, range: std::ops::Range<usize>) -> Option<&[u8]> {
        match &self.written {
            Some(w) if !w[range.clone()].iter().all(|&w| w) => None,
            _ => Some(&self.bytes[range]),
        }
    }

    /// Writes bytes from `at` on.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        if let Some(w) = &mut self.written {
            w[at..at + bytes.len()].fill(true);
        }
    }
}

impl Memory {
    /// No buffers.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Adds a buffer with these bytes.
    pub fn add(&mut self, bytes: Vec<u8>) -> BufferId {
        self.push(Buffer { bytes, written: None })
    }

    /// Adds a buffer of `len` bytes whose contents must not be read before they are written.
    pub fn add_uninit(&mut self, len: usize) -> BufferId {
        self.push(Buffer::uninit(len))
    }

    /// Adds a buffer of elements: floats rounded to the type, integers truncated and saturated.
    pub fn add_elems(&mut self, elem: Elem, elems: &[f64]) -> BufferId {
        let bits = |&x: &f64| match elem.is_float() {
            true => bits::float_bits(elem, x),
            false => bits::int_bits(elem, bits::truncate(elem, x)),
        };
        let size = elem.bytes() as usize;
        self.add(elems.iter().flat_map(|x| bits(x).to_le_bytes().into_iter().take(size)).collect())
    }

    /// The buffer's bytes.
    ///
    /// # Panics
    /// If the id is another memory's.
    pub fn bytes(&self, id: BufferId) -> &[u8] {
        &self.buffers[id.0].bytes
    }

    /// The buffer's bytes as elements, which f64 holds exactly; bytes behind the last whole element are left out.
    ///
    /// # Panics
    /// If the id is another memory's.
    pub fn elems(&self, id: BufferId, elem: Elem) -> Vec<f64> {
        let decode = |chunk: &[u8]| match (elem.is_float(), le_bits(chunk)) {
            (true, b) => bits::float_from_bits(elem, b),
            (false, b) => bits::wrap(elem, i64::from(b)) as f64,
        };
        self.bytes(id).chunks_exact(elem.bytes() as usize).map(decode).collect()
    }

    /// Whether a byte of the buffer holds something.
    ///
    /// # Panics
    /// If the id is another memory's, or the byte is behind the buffer's end.
    pub fn is_written(&self, id: BufferId, byte: usize) -> bool {
        self.buffers[id.0].written.as_ref().is_none_or(|w| w[byte])
    }

    /// The first byte of the buffer that holds nothing, if there is one.
    ///
    /// # Panics
    /// If the id is another memory's.
    pub fn first_unwritten(&self, id: BufferId) -> Option<usize> {
        self.buffers[id.0].written.as_ref()?.iter().position(|w| !w)
    }

    pub(super) fn push(&mut self, buffer: Buffer) -> BufferId {
        self.buffers.push(buffer);
        BufferId(self.buffers.len() - 1)
    }
}

/// Up to four little-endian bytes as a number.
pub(super) fn le_bits(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u32::from(b))
}
