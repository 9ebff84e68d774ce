//! Building GGUF files: for tests, which then damage them, and for tools that make models.
//!
//! ```
//! use hrx::gguf::{Gguf, GgmlType, write::Builder};
//!
//! let data: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|v| v.to_le_bytes()).collect();
//! let mut file = Builder::new();
//! file.value("general.architecture", "llama");
//! file.value("llama.block_count", 2u32);
//! file.tensor("output_norm.weight", &[2], GgmlType::F32, data);
//! let gguf = Gguf::from_bytes(file.to_bytes()?)?;
//! assert_eq!(gguf.metadata().require_u32("llama.block_count")?, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::collections::HashSet;

use super::{GgmlType, Value, ValueType};

/// A metadata value to be written. Made from Rust's numbers, booleans, strings, and vectors of them with `into()`.
#[allow(missing_docs, reason = "the variants are the types of ValueType")]
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedValue {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(Vec<u8>),
    /// Elements, all of the type given.
    Array(ValueType, Vec<OwnedValue>),
}

macro_rules! from_scalars {
    ($($variant:ident($type:ty) = $convert:expr;)*) => {
        $(
            impl From<$type> for OwnedValue {
                fn from(value: $type) -> OwnedValue {
                    OwnedValue::$variant($convert(value))
                }
            }

            impl From<Vec<$type>> for OwnedValue {
                fn from(values: Vec<$type>) -> OwnedValue {
                    OwnedValue::Array(ValueType::$variant, values.into_iter().map(OwnedValue::from).collect())
                }
            }
        )*
    };
}

from_scalars! {
    U8(u8) = |v| v;
    I8(i8) = |v| v;
    U16(u16) = |v| v;
    I16(i16) = |v| v;
    U32(u32) = |v| v;
    I32(i32) = |v| v;
    U64(u64) = |v| v;
    I64(i64) = |v| v;
    F32(f32) = |v| v;
    F64(f64) = |v| v;
    Bool(bool) = |v| v;
    String(&str) = |v: &str| v.as_bytes().to_vec();
    String(&[u8]) = |v: &[u8]| v.to_vec();
}

/// A value that was read, to be written again.
impl From<Value<'_>> for OwnedValue {
    fn from(value: Value<'_>) -> OwnedValue {
        match value {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            Value::F32(v) => v.into(),
            Value::F64(v) => v.into(),
            Value::Bool(v) => v.into(),
            Value::String(v) => v.into(),
            Value::Array(v) => OwnedValue::Array(v.element_type(), v.iter().map(OwnedValue::from).collect()),
        }
    }
}

impl OwnedValue {
    fn value_type(&self) -> ValueType {
        match self {
            OwnedValue::U8(_) => ValueType::U8,
            OwnedValue::I8(_) => ValueType::I8,
            OwnedValue::U16(_) => ValueType::U16,
            OwnedValue::I16(_) => ValueType::I16,
            OwnedValue::U32(_) => ValueType::U32,
            OwnedValue::I32(_) => ValueType::I32,
            OwnedValue::U64(_) => ValueType::U64,
            OwnedValue::I64(_) => ValueType::I64,
            OwnedValue::F32(_) => ValueType::F32,
            OwnedValue::F64(_) => ValueType::F64,
            OwnedValue::Bool(_) => ValueType::Bool,
            OwnedValue::String(_) => ValueType::String,
            OwnedValue::Array(..) => ValueType::Array,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        match self {
            OwnedValue::U8(v) => out.push(*v),
            OwnedValue::I8(v) => out.extend(v.to_le_bytes()),
            OwnedValue::U16(v) => out.extend(v.to_le_bytes()),
            OwnedValue::I16(v) => out.extend(v.to_le_bytes()),
            OwnedValue::U32(v) => out.extend(v.to_le_bytes()),
            OwnedValue::I32(v) => out.extend(v.to_le_bytes()),
            OwnedValue::U64(v) => out.extend(v.to_le_bytes()),
            OwnedValue::I64(v) => out.extend(v.to_le_bytes()),
            OwnedValue::F32(v) => out.extend(v.to_le_bytes()),
            OwnedValue::F64(v) => out.extend(v.to_le_bytes()),
            OwnedValue::Bool(v) => out.push(u8::from(*v)),
            OwnedValue::String(bytes) => encode_string(bytes, out),
            OwnedValue::Array(element_type, elements) => {
                out.extend(element_type.id().to_le_bytes());
                out.extend((elements.len() as u64).to_le_bytes());
                for element in elements {
                    if element.value_type() != *element_type {
                        return Err(WriteError::MixedArray { want: *element_type, found: element.value_type() });
                    }
                    element.encode(out)?;
                }
            }
        }
        Ok(())
    }
}

fn encode_string(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend(bytes);
}

/// Why a file can't be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// A key or a tensor name was given twice.
    #[error("`{0}` is given twice")]
    Duplicate(String),
    /// An array has an element of another type than its own.
    #[error("an array of {want} has an element of type {found}")]
    MixedArray {
        /// The array's element type.
        want: ValueType,
        /// The element's type.
        found: ValueType,
    },
    /// A tensor's data isn't as long as its shape and type say, or these give no whole blocks.
    #[error("tensor `{name}` has {found} bytes of data, but {ggml_type} {dims:?} {}", match want {
        Some(bytes) => format!("is {bytes} bytes"),
        None => "isn't whole blocks".into(),
    })]
    DataSize {
        /// The tensor.
        name: String,
        /// Its type.
        ggml_type: GgmlType,
        /// Its dimensions in ggml's order.
        dims: Vec<u64>,
        /// Bytes given.
        found: usize,
        /// Bytes wanted, where the shape is possible.
        want: Option<u64>,
    },
    /// The alignment isn't a power of two of at least 8.
    #[error("the alignment is {0}, want a power of two, at least 8")]
    Alignment(u32),
}

#[derive(Clone, Debug)]
struct Tensor {
    name: String,
    dims: Vec<u64>,
    ggml_type: GgmlType,
    data: Data,
}

#[derive(Clone, Debug)]
enum Data {
    Bytes(Vec<u8>),
    /// As many as shape and type say, which the builder has not got.
    Elsewhere,
}

impl Tensor {
    /// The bytes that shape and type say, where they are possible.
    fn size(&self) -> Option<u64> {
        let row = self.dims.first().copied().unwrap_or(1);
        let elements = self.dims.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim));
        elements
            .filter(|_| row.is_multiple_of(self.ggml_type.block_elements()))
            .and_then(|elements| self.ggml_type.bytes_for(elements))
    }

    fn wrong_size(&self, found: usize) -> WriteError {
        let (name, dims, want) = (self.name.clone(), self.dims.clone(), self.size());
        WriteError::DataSize { name, ggml_type: self.ggml_type, dims, found, want }
    }

    fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(bytes) => bytes,
            Data::Elsewhere => &[],
        }
    }
}

/// Collects metadata and tensors, and lays them out as a file.
#[derive(Clone, Debug)]
pub struct Builder {
    version: u32,
    alignment: u32,
    values: Vec<(String, OwnedValue)>,
    tensors: Vec<Tensor>,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    /// A file of version 3 without metadata or tensors, aligned to 32 bytes.
    pub fn new() -> Builder {
        Builder { version: 3, alignment: 32, values: Vec::new(), tensors: Vec::new() }
    }

    /// Sets the version number in the header.
    pub fn version(&mut self, version: u32) -> &mut Builder {
        self.version = version;
        self
    }

    /// Sets the alignment of tensor data in bytes, and the key `general.alignment`.
    pub fn alignment(&mut self, alignment: u32) -> &mut Builder {
        self.alignment = alignment;
        self.value("general.alignment", alignment)
    }

    /// Adds a metadata entry.
    pub fn value(&mut self, key: &str, value: impl Into<OwnedValue>) -> &mut Builder {
        self.values.push((key.into(), value.into()));
        self
    }

    /// Adds a tensor; `dims[0]` is the row's length.
    pub fn tensor(&mut self, name: &str, dims: &[u64], ggml_type: GgmlType, data: Vec<u8>) -> &mut Builder {
        self.tensors.push(Tensor { name: name.into(), dims: dims.into(), ggml_type, data: Data::Bytes(data) });
        self
    }

    /// Adds a tensor whose data is elsewhere: the file is one for [`header`](Builder::header).
    pub fn tensor_elsewhere(&mut self, name: &str, dims: &[u64], ggml_type: GgmlType) -> &mut Builder {
        self.tensors.push(Tensor { name: name.into(), dims: dims.into(), ggml_type, data: Data::Elsewhere });
        self
    }

    /// What comes before the data, and the bytes of the whole file. Of no tensor has data to be there.
    pub fn header(&self) -> Result<(Vec<u8>, u64), WriteError> {
        self.check()?;
        let (mut out, data) = self.head()?;
        self.pad(&mut out);
        let whole = out.len() as u64 + data;
        Ok((out, whole))
    }

    /// The file's bytes, with metadata and tensors in the order in which they were added.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        self.check()?;
        if let Some(absent) = self.tensors.iter().find(|t| matches!(t.data, Data::Elsewhere)) {
            return Err(absent.wrong_size(0));
        }
        let (mut out, _) = self.head()?;
        for tensor in &self.tensors {
            self.pad(&mut out);
            out.extend(tensor.bytes());
        }
        self.pad(&mut out);
        Ok(out)
    }

    /// Metadata and the list of tensors, and the bytes of all data.
    fn head(&self) -> Result<(Vec<u8>, u64), WriteError> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.values.len() as u64).to_le_bytes());
        for (key, value) in &self.values {
            encode_string(key.as_bytes(), &mut out);
            out.extend(value.value_type().id().to_le_bytes());
            value.encode(&mut out)?;
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            encode_string(tensor.name.as_bytes(), &mut out);
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            for dim in &tensor.dims {
                out.extend(dim.to_le_bytes());
            }
            out.extend(tensor.ggml_type.id().to_le_bytes());
            out.extend(offset.to_le_bytes());
            let size = tensor.size().unwrap_or(0).next_multiple_of(self.alignment.into());
            offset = offset.checked_add(size).ok_or_else(|| tensor.wrong_size(0))?;
        }
        Ok((out, offset))
    }

    fn pad(&self, out: &mut Vec<u8>) {
        out.resize(out.len().next_multiple_of(self.alignment as usize), 0);
    }

    fn check(&self) -> Result<(), WriteError> {
        if !self.alignment.is_power_of_two() || self.alignment < 8 {
            return Err(WriteError::Alignment(self.alignment));
        }
        unique(self.values.iter().map(|(key, _)| key.as_str()))?;
        unique(self.tensors.iter().map(|tensor| tensor.name.as_str()))?;
        for tensor in &self.tensors {
            let fits = match &tensor.data {
                Data::Bytes(bytes) => tensor.size() == Some(bytes.len() as u64),
                Data::Elsewhere => tensor.size().is_some(),
            };
            if !fits {
                return Err(tensor.wrong_size(tensor.bytes().len()));
            }
        }
        Ok(())
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), WriteError> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(WriteError::Duplicate(name.into()));
        }
    }
    Ok(())
}
