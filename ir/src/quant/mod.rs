//! Quantised block formats, each described once.
//!
//! A row of a quantised tensor is a sequence of blocks. A block holds integer *codes*, one an element, and scale data
//! for *groups* of consecutive elements. Every format here has the form
//!
//! ```text
//! element = scale[group] * (code - zero) - min[group]
//! ```
//!
//! with `scale` and `min` in f32 (a product of at most two factors) and `zero` an integer. Codes may be looked up in a
//! [`Table`]. What a format is — where the bits of a code lie, how scales are packed — is one [`Format`] value in
//! `table.rs`, made of [`Bytes`] and [`Scales`] expressions. The reference dequantisation ([`Format::dequantize_row`]), the tile interpreter and the compiler's
//! expansion to byte operations all read that value.
//!
//! The layouts follow GGML's block structures as the GGUF specification and `gguf-py`'s `quants` module describe them.

mod arranged;
mod expr;
mod packed;
mod random;
mod table;
mod tables;

pub use arranged::{ARRANGED, Arranged};
pub use expr::{Bytes, E4M3_FACTOR, E4M3_NAN, E8M0_SUBNORMAL, Number, Scales};
pub use packed::{FOURS, Packed, PackedFactors, PackedScales, Plane};
pub use table::FORMATS;
pub use tables::{PARITY, TABLES, Table};

use crate::tile::Elem;

/// Elements whose codes are read at once: every format's block is a multiple of it.
pub const CHUNK: u32 = 32;

/// A quantised block format.
pub struct Format {
    /// The name in the text form: GGML's name in lower case.
    pub name: &'static str,
    /// GGML's number of the type, as GGUF files have it.
    pub ggml_id: u32,
    /// Elements of a block.
    pub block: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Consecutive elements that share a scale.
    pub group: u32,
    /// Whether codes are signed bytes.
    pub signed: bool,
    /// The code that stands for zero before the minimum is taken off.
    pub zero: i32,
    /// The largest magnitude of a code.
    pub max_code: u32,
    /// The codes of a chunk of [`CHUNK`] elements.
    pub codes: fn(chunk: u32) -> Bytes,
    /// The scale of each group.
    pub scales: fn() -> Scales,
    /// The minimum of each group, where the format has one.
    pub mins: Option<fn() -> Scales>,
}

impl PartialEq for Format {
    fn eq(&self, other: &Format) -> bool {
        self.ggml_id == other.ggml_id
    }
}

impl Eq for Format {}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Format {
    /// All formats that kernels can read: those of files, and [arranged](Arranged) ones.
    pub fn all() -> impl Iterator<Item = &'static Format> + Clone {
        FORMATS.iter().chain(ARRANGED.iter().map(|a| &a.format))
    }

    /// The format of that name (lower case, as `q4_k`).
    pub fn from_name(name: &str) -> Option<&'static Format> {
        Format::all().find(|f| f.name == name)
    }

    /// The format with GGML's number.
    pub fn from_ggml_id(id: u32) -> Option<&'static Format> {
        FORMATS.iter().find(|f| f.ggml_id == id)
    }

    /// Chunks of a block.
    pub fn chunks(&self) -> u32 {
        self.block / CHUNK
    }

    /// How far apart chunks are whose codes are in the same bytes; none where each chunk has its own.
    pub fn chunks_of_bytes(&self) -> Option<u32> {
        let first = (self.codes)(0).first_byte()?;
        (1..self.chunks()).find(|&c| (self.codes)(c).first_byte() == Some(first))
    }

    /// Groups of a block.
    pub fn groups(&self) -> u32 {
        self.block / self.group
    }

    /// The element type of the codes.
    pub fn code_elem(&self) -> Elem {
        if self.signed { Elem::I8 } else { Elem::U8 }
    }

    /// Whether [`offset`](Format::offset) can be other than zero.
    pub fn has_offset(&self) -> bool {
        self.zero != 0 || self.mins.is_some()
    }

    /// The indices of a chunk's codes into a table that has one byte an entry, and the table; none where codes are made
    /// otherwise.
    pub fn indices(&self, chunk: u32) -> Option<(Bytes, &'static Table)> {
        match (self.codes)(chunk) {
            Bytes::Lookup { low, high: None, table } if table.width == 1 => Some((*low, table)),
            _ => None,
        }
    }

    /// The integers of the groups that scales (or minima) are made of, and whether they are signed; none where scales are
    /// made otherwise.
    pub fn factors(&self, of_minima: bool) -> Option<(Bytes, bool)> {
        let scales = if of_minima { (self.mins?)() } else { (self.scales)() };
        match scales {
            Scales::Scaled { by, signed, .. } => Some((by, signed)),
            _ => None,
        }
    }

    /// The codes of a chunk of one block, sign- or zero-extended.
    pub fn code_values(&self, block: &[u8], chunk: u32) -> Vec<i32> {
        (self.codes)(chunk).eval(block).into_iter().map(|b| self.code(b)).collect()
    }

    /// A code's value.
    fn code(&self, byte: u8) -> i32 {
        if self.signed { i32::from(byte as i8) } else { i32::from(byte) }
    }

    /// The scale of each group of one block.
    pub fn scale_values(&self, block: &[u8]) -> Vec<f32> {
        (self.scales)().eval(block, self.groups())
    }

    /// The minimum of each group of one block; zeros where the format has none.
    pub fn min_values(&self, block: &[u8]) -> Vec<f32> {
        match self.mins {
            Some(mins) => mins().eval(block, self.groups()),
            None => vec![0.0; self.groups() as usize],
        }
    }

    /// The offset of a group: what the scaled code exceeds the element by, `scale * zero + min`. A term that the format
    /// does not have is left out, so that a scale that is not finite does not spoil an offset it is no part of.
    pub fn offset(&self, scale: f32, min: f32) -> f32 {
        match (self.zero, self.mins) {
            (0, _) => min,
            (zero, None) => scale * zero as f32,
            (zero, Some(_)) => scale * zero as f32 + min,
        }
    }

    /// Dequantises whole blocks as the format's reference does, bit for bit: `out` gets `block` elements for each
    /// `block_bytes` of `bytes`.
    ///
    /// # Panics
    /// If the lengths do not match or are not whole blocks.
    pub fn dequantize_row(&self, bytes: &[u8], out: &mut [f32]) {
        let (n, size) = (self.block as usize, self.block_bytes as usize);
        assert!(
            bytes.len().is_multiple_of(size) && out.len() == bytes.len() / size * n,
            "whole blocks of {}",
            self.name
        );
        // The expressions are made once for all blocks.
        let codes: Vec<Bytes> = (0..self.chunks()).map(self.codes).collect();
        let (scales, mins) = ((self.scales)(), self.mins.map(|m| m()));
        let groups = self.groups();
        for (block, out) in bytes.chunks_exact(size).zip(out.chunks_exact_mut(n)) {
            let scales = scales.eval(block, groups);
            let mins = mins.as_ref().map_or_else(|| vec![0.0; groups as usize], |m| m.eval(block, groups));
            let codes = codes.iter().flat_map(|c| c.eval(block));
            for (i, (code, out)) in codes.zip(out).enumerate() {
                let g = i / self.group as usize;
                *out = scales[g] * (self.code(code) - self.zero) as f32 - mins[g];
            }
        }
    }
}
