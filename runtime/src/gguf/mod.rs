//! GGUF files: metadata and tensors, mapped into memory and checked.
//!
//! ```text
//! magic "GGUF" │ version u32 │ tensor count u64 │ entry count u64
//! metadata entries:  key string │ type u32 │ value
//! tensor entries:    name string │ rank u32 │ dims u64… │ type u32 │ offset u64
//! padding to general.alignment
//! data section:      each tensor at its offset
//! ```
//!
//! A string is a u64 length and its bytes; an array is a u32 element type, a u64 length and the elements. All fields are
//! little-endian. Versions 2 and 3 are read (they have the same layout in little-endian files). Source: the GGUF
//! specification in ggml's documentation.
//!
//! Opening a file checks every count, length, offset, type and product in it, once. After that, looking at metadata and
//! tensor data can't fail, and copies nothing: values are decoded from the mapping, data is borrowed from it.
//!
//! * `mapping` holds the bytes, `reader` is the checked cursor over them.
//! * `value` and `metadata` are the key/value pairs, `types` and `tensor` the tensor list.
//! * `split` finds and checks the shards of a model that is split over several files.
//! * [`mod@write`] builds files, for tests and for tools that make models.

mod error;
mod mapping;
mod metadata;
mod reader;
mod split;
mod tensor;
#[cfg(test)]
mod tests;
mod types;
mod value;
pub mod write;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

pub use error::{GgufError, Rule};
pub use mapping::{Mapping, TensorData};
pub use metadata::Metadata;
pub use tensor::TensorInfo;
pub use types::GgmlType;
pub use value::{Array, StrArray, Value, ValueType, Values};

use reader::Reader;

/// An open model: its metadata and its tensors, from one file or from all shards of a split one.
#[derive(Debug)]
pub struct Gguf {
    shards: Vec<Shard>,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<Box<str>, u32>,
}

/// One file of a model.
#[derive(Debug)]
struct Shard {
    mapping: Mapping,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
}

impl Gguf {
    /// Maps and checks a file and, where its metadata says that the model is split, the other shards beside it.
    /// A split model is opened by its first shard.
    pub fn open(path: &Path) -> Result<Gguf, GgufError> {
        let first = Shard::read(Mapping::open(path)?, 0)?;
        let others = match split::Split::of(&first)? {
            Some(split) => split.other_paths(path)?,
            None => Vec::new(),
        };
        Gguf::assemble(first, others.iter().map(|path| Mapping::open(path)))
    }

    /// Checks a copy of a file's bytes, as [`open`](Gguf::open) does with a file. Everything in them is looked at but
    /// tensor data, which may be any bytes.
    pub fn from_bytes(bytes: impl AsRef<[u8]>) -> Result<Gguf, GgufError> {
        Gguf::from_shards(&[bytes])
    }

    /// Checks what comes before a file's data, of a file of `whole` bytes. Whatever is behind the bytes reads as zeros.
    /// `name` stands for the path.
    pub fn from_header(name: &str, bytes: &[u8], whole: u64) -> Result<Gguf, GgufError> {
        Gguf::assemble(Shard::read(Mapping::header(name, bytes, whole)?, 0)?, std::iter::empty())
    }

    /// [`from_bytes`](Gguf::from_bytes) for a split model, all shards in order.
    pub fn from_shards<B: AsRef<[u8]>>(shards: &[B]) -> Result<Gguf, GgufError> {
        let copy = |(index, bytes): (usize, &B)| {
            let name = if index == 0 { "<memory>".to_owned() } else { format!("<memory, shard {index}>") };
            Mapping::copy(&name, bytes.as_ref())
        };
        let mut mappings = shards.iter().enumerate().map(copy);
        let first = mappings.next().unwrap_or_else(|| Mapping::copy("<memory>", &[]))?;
        Gguf::assemble(Shard::read(first, 0)?, mappings)
    }

    fn assemble(first: Shard, others: impl Iterator<Item = Result<Mapping, GgufError>>) -> Result<Gguf, GgufError> {
        let split = split::Split::of(&first)?;
        let mut shards = vec![first];
        for mapping in others {
            let shard = Shard::read(mapping?, shards.len() as u32)?;
            shards.push(shard);
        }
        split::check(split, &shards)?;

        let mut tensors = Vec::new();
        let mut by_name = HashMap::new();
        for shard in &mut shards {
            for tensor in std::mem::take(&mut shard.tensors) {
                if by_name.insert(tensor.name().into(), tensors.len() as u32).is_some() {
                    return Err(GgufError::Format {
                        file: shard.mapping.path().into(),
                        offset: tensor.entry_at() as u64,
                        rule: Rule::DuplicateTensor,
                        what: "name of a tensor".into(),
                        found: format!("`{}` again", tensor.name()),
                        want: "each name once".into(),
                    });
                }
                tensors.push(tensor);
            }
        }
        Ok(Gguf { shards, tensors, by_name })
    }

    /// The metadata (the first shard's, which is the model's).
    pub fn metadata(&self) -> &Metadata {
        &self.shards[0].metadata
    }

    /// All tensors in the order of the file, shard after shard.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|index| &self.tensors[*index as usize])
    }

    /// The tensor with this name; an absent one is an error.
    pub fn require_tensor(&self, name: &str) -> Result<&TensorInfo, GgufError> {
        self.tensor(name).ok_or_else(|| GgufError::MissingTensor { file: self.path().into(), name: name.into() })
    }

    /// The bytes of a tensor of this file, in place. They begin at a multiple of the file's alignment.
    ///
    /// # Panics
    /// May panic where `tensor` is of another [`Gguf`].
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        &self.mapping(tensor.shard()).bytes()[tensor.range()]
    }

    /// As [`data`](Gguf::data), with a share in the mapping, so that it may outlive this value.
    ///
    /// # Panics
    /// May panic where `tensor` is of another [`Gguf`].
    pub fn tensor_data(&self, tensor: &TensorInfo) -> TensorData {
        TensorData::new(self.mapping(tensor.shard()), tensor.range())
    }

    /// Number of files that hold the model.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The bytes of the file number `shard`, counted from 0.
    ///
    /// # Panics
    /// Where `shard` isn't below [`shards`](Gguf::shards).
    pub fn mapping(&self, shard: usize) -> &Mapping {
        &self.shards[shard].mapping
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        self.shards[0].mapping.path()
    }

    /// Size of all files together in bytes.
    pub fn file_size(&self) -> u64 {
        self.shards.iter().map(|shard| shard.mapping.bytes().len() as u64).sum()
    }

    /// Looks at everything: decodes each metadata value through its view and reads the first and last byte of each
    /// tensor. Gives a sum of what it saw, so that nothing is optimised away. This is what fuzzing calls after opening.
    pub fn walk(&self) -> u64 {
        fn visit(value: Value<'_>) -> u64 {
            match value {
                Value::Array(array) => array.iter().map(visit).fold(array.len() as u64, u64::wrapping_add),
                Value::String(bytes) => bytes.iter().map(|b| u64::from(*b)).fold(0, u64::wrapping_add),
                Value::F32(v) => v.to_bits().into(),
                Value::F64(v) => v.to_bits(),
                Value::Bool(v) => v.into(),
                integer => integer.integer().unwrap_or_default() as u64,
            }
        }
        let metadata = self.shards.iter().flat_map(|shard| shard.metadata.iter());
        let values = metadata.map(|(key, value)| visit(value).wrapping_add(key.len() as u64));
        let tensors = self.tensors.iter().map(|tensor| {
            let data = self.data(tensor);
            let ends = [data.first(), data.last()].into_iter().flatten().map(|b| u64::from(*b)).sum::<u64>();
            ends.wrapping_add(tensor.elements())
        });
        values.chain(tensors).fold(0, u64::wrapping_add)
    }

    /// Asks the system to read a tensor's data ahead of its use. Only a hint.
    pub fn prefetch(&self, tensor: &TensorInfo) {
        self.mapping(tensor.shard()).prefetch(&tensor.range());
    }

    /// Tells the system that a tensor's data isn't needed any more, e.g. after it was copied into another layout, so
    /// that its pages no longer count for the process. Data stays readable: it is then read from the file again.
    pub fn release(&self, tensor: &TensorInfo) {
        self.release_part(tensor, 0..tensor.byte_size());
    }

    /// As [`release`](Gguf::release), for a range of a tensor's bytes.
    pub fn release_part(&self, tensor: &TensorInfo, part: Range<usize>) {
        let range = tensor.range();
        let end = range.start.saturating_add(part.end).min(range.end);
        self.mapping(tensor.shard()).release(&(range.start.saturating_add(part.start).min(end)..end));
    }
}

impl Shard {
    fn read(mapping: Mapping, index: u32) -> Result<Shard, GgufError> {
        let path = mapping.path().to_path_buf();
        let bytes = mapping.bytes();
        let mut reader = Reader::new(&path, bytes);
        let magic = reader.take(4, || "magic".into())?;
        if magic != b"GGUF" {
            let found = format!("\"{}\"", magic.escape_ascii());
            return Err(reader.error(0, Rule::Magic, "magic", found, "\"GGUF\""));
        }
        let at = reader.offset();
        let version = reader.u32(|| "version".into())?;
        match version {
            2 | 3 => {}
            // The low half of a small version number is its high half in the other byte order.
            _ if version & 0xffff == 0 && version != 0 => {
                let found = format!("a big-endian file of version {}", version.swap_bytes());
                return Err(reader.error(at, Rule::Endianness, "version", found, "a little-endian file"));
            }
            _ => {
                return Err(reader.error(at, Rule::Version, "version", version.to_string(), "2 or 3"));
            }
        }
        let tensors_at = reader.offset();
        let tensor_count = reader.u64(|| "number of tensors".into())?;
        let entries_at = reader.offset();
        let entry_count = reader.u64(|| "number of metadata entries".into())?;
        // Each count is checked against what is left where its list begins.
        let metadata = Metadata::read(&mut reader, &mapping, entry_count, entries_at)?;
        let tensors = tensor::read(&mut reader, &metadata, index, tensor_count, tensors_at, bytes.len())?;
        Ok(Shard { mapping: mapping.clone(), metadata, tensors })
    }
}
