//! Metadata values: checked once when the file is opened, then decoded in place whenever they are looked at.

use std::fmt;
use std::str::Utf8Error;

use super::error::value_type_list;
use super::reader::Reader;
use super::{GgufError, Rule};

/// Deepest nesting of arrays that is read. The format sets no limit; no known file nests at all.
const MAX_ARRAY_DEPTH: u32 = 4;

/// The type of a metadata value. Its value is the id that the file stores.
#[allow(missing_docs, reason = "Display documents the names")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum ValueType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl ValueType {
    /// Every type, in order of its id.
    pub const ALL: [ValueType; 13] = [
        ValueType::U8,
        ValueType::I8,
        ValueType::U16,
        ValueType::I16,
        ValueType::U32,
        ValueType::I32,
        ValueType::F32,
        ValueType::Bool,
        ValueType::String,
        ValueType::Array,
        ValueType::U64,
        ValueType::I64,
        ValueType::F64,
    ];

    /// The id stored in the file.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The type with this id.
    pub fn from_id(id: u32) -> Option<ValueType> {
        ValueType::ALL.get(id as usize).copied()
    }

    /// Bytes of a value, or the fewest that a string (its length) or an array (element type and count) can have.
    const fn least_bytes(self) -> usize {
        match self {
            ValueType::U8 | ValueType::I8 | ValueType::Bool => 1,
            ValueType::U16 | ValueType::I16 => 2,
            ValueType::U32 | ValueType::I32 | ValueType::F32 => 4,
            ValueType::U64 | ValueType::I64 | ValueType::F64 | ValueType::String => 8,
            ValueType::Array => 12,
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::U8 => "uint8",
            ValueType::I8 => "int8",
            ValueType::U16 => "uint16",
            ValueType::I16 => "int16",
            ValueType::U32 => "uint32",
            ValueType::I32 => "int32",
            ValueType::F32 => "float32",
            ValueType::Bool => "bool",
            ValueType::String => "string",
            ValueType::Array => "array",
            ValueType::U64 => "uint64",
            ValueType::I64 => "int64",
            ValueType::F64 => "float64",
        })
    }
}

/// A metadata value, borrowed from the file. Strings are bytes: vocabularies hold pieces that aren't UTF-8.
#[allow(missing_docs, reason = "the variants are the types of ValueType")]
#[derive(Clone, Copy, PartialEq)]
pub enum Value<'a> {
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
    String(&'a [u8]),
    Array(Array<'a>),
}

impl<'a> Value<'a> {
    /// The value's type.
    pub fn value_type(&self) -> ValueType {
        match self {
            Value::U8(_) => ValueType::U8,
            Value::I8(_) => ValueType::I8,
            Value::U16(_) => ValueType::U16,
            Value::I16(_) => ValueType::I16,
            Value::U32(_) => ValueType::U32,
            Value::I32(_) => ValueType::I32,
            Value::U64(_) => ValueType::U64,
            Value::I64(_) => ValueType::I64,
            Value::F32(_) => ValueType::F32,
            Value::F64(_) => ValueType::F64,
            Value::Bool(_) => ValueType::Bool,
            Value::String(_) => ValueType::String,
            Value::Array(_) => ValueType::Array,
        }
    }

    /// The value of any integer type; `None` for other types.
    pub fn integer(&self) -> Option<i128> {
        Some(match *self {
            Value::U8(v) => v.into(),
            Value::I8(v) => v.into(),
            Value::U16(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::U32(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::U64(v) => v.into(),
            Value::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// The type for a message, e.g. `uint32` or `array of string`.
    pub(super) fn describe_type(&self) -> String {
        match self {
            Value::Array(array) => format!("array of {}", array.element_type()),
            scalar => scalar.value_type().to_string(),
        }
    }

    /// Decodes a value that [`check`] has passed and that takes up all of `bytes`, in constant time.
    pub(super) fn decode_all(value_type: ValueType, bytes: &'a [u8]) -> Value<'a> {
        match value_type {
            ValueType::Array => Value::Array(Array::decode(bytes)),
            other => Value::decode(other, bytes).0,
        }
    }

    /// Decodes a value that [`check`] has passed from the front of `bytes`; also says how long it is.
    ///
    /// Bytes that were not checked give zeros and empty strings rather than a panic.
    fn decode(value_type: ValueType, bytes: &'a [u8]) -> (Value<'a>, usize) {
        let value = match value_type {
            ValueType::U8 => Value::U8(u8::from_le_bytes(le(bytes))),
            ValueType::I8 => Value::I8(i8::from_le_bytes(le(bytes))),
            ValueType::U16 => Value::U16(u16::from_le_bytes(le(bytes))),
            ValueType::I16 => Value::I16(i16::from_le_bytes(le(bytes))),
            ValueType::U32 => Value::U32(u32::from_le_bytes(le(bytes))),
            ValueType::I32 => Value::I32(i32::from_le_bytes(le(bytes))),
            ValueType::U64 => Value::U64(u64::from_le_bytes(le(bytes))),
            ValueType::I64 => Value::I64(i64::from_le_bytes(le(bytes))),
            ValueType::F32 => Value::F32(f32::from_le_bytes(le(bytes))),
            ValueType::F64 => Value::F64(f64::from_le_bytes(le(bytes))),
            ValueType::Bool => Value::Bool(u8::from_le_bytes(le(bytes)) != 0),
            ValueType::String => {
                let length = u64::from_le_bytes(le(bytes)) as usize;
                let text = bytes.get(8..).and_then(|rest| rest.get(..length)).unwrap_or_default();
                return (Value::String(text), 8 + text.len());
            }
            ValueType::Array => {
                let Array { element_type, length, data } = Array::decode(bytes);
                let size = match element_type {
                    ValueType::String | ValueType::Array => {
                        let elements = Values { element_type, left: length, bytes: data };
                        data.len() - elements.end().len()
                    }
                    scalar => length * scalar.least_bytes(),
                };
                return (Value::Array(Array { element_type, length, data: &data[..size] }), 12 + size);
            }
        };
        (value, value_type.least_bytes())
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(bytes) => write!(f, "{:?}", String::from_utf8_lossy(bytes)),
            Value::Array(array) => write!(f, "{array:?}"),
            Value::Bool(v) => write!(f, "{v}"),
            Value::F32(v) => write!(f, "{v:?}"),
            Value::F64(v) => write!(f, "{v:?}"),
            integer => write!(f, "{}", integer.integer().unwrap_or_default()),
        }
    }
}

/// An array of metadata values, all of one type, borrowed from the file.
#[derive(Clone, Copy, PartialEq)]
pub struct Array<'a> {
    element_type: ValueType,
    length: usize,
    data: &'a [u8],
}

/// The first `N` bytes.
fn le<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

impl<'a> Array<'a> {
    /// Decodes the header of an array at the front of `bytes`; all that follows it becomes the data.
    fn decode(bytes: &'a [u8]) -> Array<'a> {
        let element_type = ValueType::from_id(u32::from_le_bytes(le(bytes))).unwrap_or(ValueType::U8);
        let data = bytes.get(12..).unwrap_or_default();
        let length = u64::from_le_bytes(le(bytes.get(4..).unwrap_or_default())) as usize;
        Array { element_type, length: length.min(data.len() / element_type.least_bytes()), data }
    }

    /// The elements' type.
    pub fn element_type(&self) -> ValueType {
        self.element_type
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.length
    }

    /// True for an array of no elements.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The elements, decoded as they are reached. Each step costs constant time; there is no random access.
    pub fn iter(&self) -> Values<'a> {
        Values { element_type: self.element_type, left: self.length, bytes: self.data }
    }

    /// The elements as strings, where they are strings.
    pub fn strings(&self) -> Option<StrArray<'a>> {
        (self.element_type == ValueType::String).then_some(StrArray { array: *self })
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        write!(f, "[{}; {}]", self.element_type, self.length)?;
        f.debug_list().entries(self.iter().take(SHOWN)).finish()
    }
}

/// Iterator over an [`Array`].
#[derive(Clone)]
pub struct Values<'a> {
    element_type: ValueType,
    left: usize,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    /// What follows the last element.
    fn end(mut self) -> &'a [u8] {
        while self.next().is_some() {}
        self.bytes
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (value, size) = Value::decode(self.element_type, self.bytes);
        self.bytes = self.bytes.get(size..).unwrap_or_default();
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Values<'_> {}

/// An array of strings, such as a vocabulary. Nothing is copied; iterating walks the file.
#[derive(Clone, Copy, PartialEq)]
pub struct StrArray<'a> {
    array: Array<'a>,
}

impl<'a> StrArray<'a> {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.array.len()
    }

    /// True for an array of no strings.
    pub fn is_empty(&self) -> bool {
        self.array.is_empty()
    }

    /// The strings' bytes in order. Collect them into a `Vec<&[u8]>` for access by index.
    pub fn bytes(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        self.array.iter().map(|value| match value {
            Value::String(bytes) => bytes,
            _ => &[],
        })
    }

    /// The strings in order, each with a check that it is UTF-8.
    pub fn strs(&self) -> impl ExactSizeIterator<Item = Result<&'a str, Utf8Error>> + Clone + use<'a> {
        self.bytes().map(std::str::from_utf8)
    }
}

impl fmt::Debug for StrArray<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.array.fmt(f)
    }
}

/// Reads the id of a value type.
pub(super) fn read_type(reader: &mut Reader<'_>, what: impl Fn() -> String) -> Result<ValueType, GgufError> {
    let offset = reader.offset();
    let id = reader.u32(&what)?;
    ValueType::from_id(id).ok_or_else(|| {
        reader.error(offset, Rule::ValueType, what(), id.to_string(), format!("one of {}", value_type_list()))
    })
}

/// Steps over a value and checks all of it, so that [`Value::decode`] can't go wrong on it later.
pub(super) fn check(reader: &mut Reader<'_>, value_type: ValueType, key: &str, depth: u32) -> Result<(), GgufError> {
    let what = || format!("value of key `{key}`");
    let offset = reader.offset();
    match value_type {
        ValueType::Bool => check_bools(reader, 1, key)?,
        ValueType::String => {
            reader.string(what)?;
        }
        ValueType::Array => {
            if depth == MAX_ARRAY_DEPTH {
                let found = format!("arrays nested more than {MAX_ARRAY_DEPTH} deep");
                return Err(reader.error(offset, Rule::ArrayDepth, what(), found, "fewer levels"));
            }
            let element_type = read_type(reader, || format!("element type of key `{key}`"))?;
            let least = element_type.least_bytes() as u64;
            let length = reader.count(least, || format!("array length of key `{key}`"))?;
            match element_type {
                ValueType::Bool => check_bools(reader, length, key)?,
                ValueType::String | ValueType::Array => {
                    for _ in 0..length {
                        check(reader, element_type, key, depth + 1)?;
                    }
                }
                // count() has shown that length * least is within the file.
                _ => drop(reader.take(length * least, what)?),
            }
        }
        scalar => drop(reader.take(scalar.least_bytes() as u64, what)?),
    }
    Ok(())
}

fn check_bools(reader: &mut Reader<'_>, count: u64, key: &str) -> Result<(), GgufError> {
    let what = || format!("value of key `{key}`");
    let offset = reader.offset();
    let bytes = reader.take(count, what)?;
    match bytes.iter().position(|b| *b > 1) {
        Some(i) => Err(reader.error(offset + i, Rule::Bool, what(), bytes[i].to_string(), "0 or 1")),
        None => Ok(()),
    }
}
