//! The metadata of a file: keys with typed values, read through getters that check the type.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use super::mapping::Mapping;
use super::reader::Reader;
use super::value::{self, Array, StrArray, Value, ValueType};
use super::{GgufError, Rule};

/// Fewest bytes of an entry: key length, value type, one byte of value.
const LEAST_ENTRY: u64 = 8 + 4 + 1;

/// The key/value pairs of a file (of the first shard of a split one).
///
/// Every getter takes a key and gives `Ok(None)` where the key is absent; `require_…` makes that an error. A value of
/// the wrong type is an error that names the key, the type found and the type wanted. Integers of any width are taken
/// where the value fits.
#[derive(Clone, Debug)]
pub struct Metadata {
    mapping: Mapping,
    entries: Vec<Entry>,
    by_key: HashMap<Box<str>, u32>,
}

#[derive(Clone, Debug)]
struct Entry {
    /// Where the key is; UTF-8.
    key: Range<usize>,
    value_type: ValueType,
    /// Where the value is.
    value: Range<usize>,
}

macro_rules! getters {
    ($($get:ident, $require:ident, $type:ty, $want:literal, $convert:expr, $what:literal;)*) => {
        $(
            #[doc = concat!("The value of `key` as ", $what, ".")]
            pub fn $get(&self, key: &str) -> Result<Option<$type>, GgufError> {
                let convert: fn(Source<'_>, Value<'_>) -> Result<$type, GgufError> = $convert;
                self.get(key).map(|value| convert(Source { metadata: self, key, want: $want }, value)).transpose()
            }

            #[doc = concat!("The value of `key` as ", $what, "; an absent key is an error.")]
            pub fn $require(&self, key: &str) -> Result<$type, GgufError> {
                self.$get(key)?.ok_or_else(|| self.missing(key))
            }
        )*
    };
}

macro_rules! borrowing_getters {
    ($($get:ident, $require:ident, $type:ty, $want:literal, $convert:expr, $what:literal;)*) => {
        $(
            #[doc = concat!("The value of `key` as ", $what, ".")]
            pub fn $get(&self, key: &str) -> Result<Option<$type>, GgufError> {
                let Some(value) = self.get(key) else { return Ok(None) };
                let source = Source { metadata: self, key, want: $want };
                Ok(Some($convert(source, value)?))
            }

            #[doc = concat!("The value of `key` as ", $what, "; an absent key is an error.")]
            pub fn $require(&self, key: &str) -> Result<$type, GgufError> {
                self.$get(key)?.ok_or_else(|| self.missing(key))
            }
        )*
    };
}

impl Metadata {
    /// Reads `count` entries; `count` has not been checked against the file's size.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        mapping: &Mapping,
        count: u64,
        count_offset: usize,
    ) -> Result<Metadata, GgufError> {
        reader.check_count(count_offset, count, LEAST_ENTRY, || "number of metadata entries".into())?;
        let mut entries = Vec::new();
        let mut by_key = HashMap::new();
        for index in 0..count {
            let offset = reader.offset();
            let key = reader.name(|| format!("key of metadata entry {index}"))?;
            let key_end = reader.offset();
            let value_type = value::read_type(reader, || format!("type of key `{key}`"))?;
            let start = reader.offset();
            value::check(reader, value_type, key, 0)?;
            entries.push(Entry { key: key_end - key.len()..key_end, value_type, value: start..reader.offset() });
            // The file would be above 50 GB of metadata before the index didn't fit.
            if by_key.insert(key.into(), index as u32).is_some() {
                return Err(reader.error(
                    offset,
                    Rule::DuplicateKey,
                    format!("key of metadata entry {index}"),
                    format!("`{key}` again"),
                    "each key once",
                ));
            }
        }
        Ok(Metadata { mapping: mapping.clone(), entries, by_key })
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.by_key.get(key).map(|index| self.value(&self.entries[*index as usize]))
    }

    /// The value of `key`; an absent key is an error.
    pub fn require(&self, key: &str) -> Result<Value<'_>, GgufError> {
        self.get(key).ok_or_else(|| self.missing(key))
    }

    /// All keys and values in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Value<'_>)> {
        self.entries.iter().map(|entry| {
            let key = std::str::from_utf8(&self.mapping.bytes()[entry.key.clone()]).unwrap_or_default();
            (key, self.value(entry))
        })
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True where the file has no metadata.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    getters! {
        u32, require_u32, u32, "uint32", |s, v| s.integer(v), "an unsigned 32-bit integer";
        u64, require_u64, u64, "uint64", |s, v| s.integer(v), "an unsigned 64-bit integer";
        i32, require_i32, i32, "int32", |s, v| s.integer(v), "a signed 32-bit integer";
        i64, require_i64, i64, "int64", |s, v| s.integer(v), "a signed 64-bit integer";
        f32, require_f32, f32, "float32", |s, v| s.float(v), "a 32-bit float (a 64-bit one is rounded)";
        bool, require_bool, bool, "bool", |s, v| s.bool(v), "a boolean";
        u32_array, require_u32_array, Vec<u32>, "array of uint32", |s, v| s.array(v, Source::integer),
            "an array of unsigned 32-bit integers";
        i32_array, require_i32_array, Vec<i32>, "array of int32", |s, v| s.array(v, Source::integer),
            "an array of signed 32-bit integers";
        f32_array, require_f32_array, Vec<f32>, "array of float32", |s, v| s.array(v, Source::float),
            "an array of 32-bit floats (64-bit ones are rounded)";
        bool_array, require_bool_array, Vec<bool>, "array of bool", |s, v| s.array(v, Source::bool),
            "an array of booleans";
    }

    borrowing_getters! {
        str, require_str, &str, "string", Source::str, "a string of UTF-8";
        bytes, require_bytes, &[u8], "string", Source::bytes, "the bytes of a string";
        str_array, require_str_array, StrArray<'_>, "array of string", Source::str_array, "an array of strings";
        array, require_array, Array<'_>, "array", Source::any_array, "an array of any element type";
    }

    /// The error about an absent key.
    pub fn missing(&self, key: &str) -> GgufError {
        GgufError::MissingKey { file: self.file().into(), key: key.into() }
    }

    /// The file that the metadata is from.
    pub fn file(&self) -> &Path {
        self.mapping.path()
    }

    /// Where the value of `key` begins, in bytes from the file's start.
    pub(super) fn value_offset(&self, key: &str) -> Option<usize> {
        self.by_key.get(key).map(|index| self.entries[*index as usize].value.start)
    }

    fn value(&self, entry: &Entry) -> Value<'_> {
        Value::decode_all(entry.value_type, &self.mapping.bytes()[entry.value.clone()])
    }
}

/// A key whose value is being converted to the type `want`.
#[derive(Clone, Copy)]
struct Source<'a> {
    metadata: &'a Metadata,
    key: &'a str,
    want: &'static str,
}

impl Source<'_> {
    fn wrong_type(self, value: Value<'_>) -> GgufError {
        GgufError::WrongType {
            file: self.metadata.file().into(),
            key: self.key.into(),
            found: value.describe_type(),
            want: self.want,
        }
    }

    fn bad_value(self, found: String) -> GgufError {
        GgufError::BadValue { file: self.metadata.file().into(), key: self.key.into(), found, want: self.want }
    }

    fn integer<T: TryFrom<i128>>(self, value: Value<'_>) -> Result<T, GgufError> {
        let integer = value.integer().ok_or_else(|| self.wrong_type(value))?;
        T::try_from(integer).map_err(|_| self.bad_value(integer.to_string()))
    }

    fn float(self, value: Value<'_>) -> Result<f32, GgufError> {
        match value {
            Value::F32(v) => Ok(v),
            Value::F64(v) if v.is_finite() && !(v as f32).is_finite() => Err(self.bad_value(v.to_string())),
            Value::F64(v) => Ok(v as f32),
            _ => Err(self.wrong_type(value)),
        }
    }

    fn bool(self, value: Value<'_>) -> Result<bool, GgufError> {
        match value {
            Value::Bool(v) => Ok(v),
            _ => Err(self.wrong_type(value)),
        }
    }

    fn bytes<'v>(self, value: Value<'v>) -> Result<&'v [u8], GgufError> {
        match value {
            Value::String(bytes) => Ok(bytes),
            _ => Err(self.wrong_type(value)),
        }
    }

    fn str<'v>(self, value: Value<'v>) -> Result<&'v str, GgufError> {
        std::str::from_utf8(self.bytes(value)?).map_err(|e| self.bad_value(format!("not UTF-8 ({e})")))
    }

    fn any_array<'v>(self, value: Value<'v>) -> Result<Array<'v>, GgufError> {
        match value {
            Value::Array(array) => Ok(array),
            _ => Err(self.wrong_type(value)),
        }
    }

    fn str_array<'v>(self, value: Value<'v>) -> Result<StrArray<'v>, GgufError> {
        self.any_array(value)?.strings().ok_or_else(|| self.wrong_type(value))
    }

    /// Converts each element with `convert`; an error says which one. An empty array is one of any type.
    fn array<T>(
        self,
        value: Value<'_>,
        convert: impl Fn(Self, Value<'_>) -> Result<T, GgufError>,
    ) -> Result<Vec<T>, GgufError> {
        let array = self.any_array(value)?;
        let mut elements = Vec::with_capacity(array.len());
        for (index, element) in array.iter().enumerate() {
            elements.push(convert(self, element).map_err(|error| match error {
                GgufError::BadValue { found, .. } => self.bad_value(format!("{found} at index {index}")),
                _ => self.wrong_type(value),
            })?);
        }
        Ok(elements)
    }
}
