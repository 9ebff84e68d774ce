//! What can be wrong with a GGUF file, and where.

use std::io;
use std::path::PathBuf;

use super::ValueType;

/// The rule of the format that a file breaks; the stable part of [`GgufError::Format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// The file ends before what it announces.
    Truncated,
    /// The file doesn't begin with `GGUF`.
    Magic,
    /// The file is big-endian.
    Endianness,
    /// The version isn't 2 or 3.
    Version,
    /// A count, or a length, exceeds what the rest of the file can hold, or the format's limit.
    Count,
    /// A key or tensor name isn't UTF-8.
    Utf8,
    /// A boolean is neither 0 nor 1.
    Bool,
    /// A metadata value has an unknown type.
    ValueType,
    /// Arrays are nested too deeply.
    ArrayDepth,
    /// Two metadata entries have the same key.
    DuplicateKey,
    /// Two tensors have the same name.
    DuplicateTensor,
    /// `general.alignment` isn't a power of two of at least 8.
    Alignment,
    /// A tensor has more dimensions than ggml allows.
    Rank,
    /// The element count or the byte size of a tensor overflows.
    Overflow,
    /// A tensor has an unknown type.
    TensorType,
    /// A tensor's row isn't a whole number of blocks.
    BlockMultiple,
    /// A tensor's data doesn't begin at a multiple of the alignment.
    Misaligned,
    /// A tensor's data reaches past the end of the file.
    PastEnd,
}

/// Why a GGUF file can't be used. The message names the file and the place in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The operating system refused the file.
    #[error("{}: can't {action}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What was tried: `open`, `map`.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The bytes break a rule of the format.
    #[error("{}: byte {offset}: {}: found {}, want {want}", file.display(), visible(what), visible(found))]
    Format {
        /// The file.
        file: PathBuf,
        /// Where the field begins, in bytes from the file's start.
        offset: u64,
        /// The rule broken.
        rule: Rule,
        /// The field that was read.
        what: String,
        /// What was there.
        found: String,
        /// What the format asks for.
        want: String,
    },
    /// A split file isn't complete or its shards don't belong together.
    #[error("{}: {}", file.display(), visible(problem))]
    Split {
        /// The shard that was opened or looked for.
        file: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A metadata key that is needed is absent.
    #[error("{}: metadata has no key `{key}`", file.display())]
    MissingKey {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
    },
    /// A metadata value has another type than the one asked for.
    #[error("{}: metadata key `{key}` is {found}, want {want}", file.display())]
    WrongType {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// The type in the file, e.g. `array of string`.
        found: String,
        /// The type asked for.
        want: &'static str,
    },
    /// A metadata value has a usable type, but not a value that the wanted type can hold.
    #[error("{}: metadata key `{key}` is {}, which isn't {want}", file.display(), visible(found))]
    BadValue {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// The value, with its index in an array.
        found: String,
        /// The type asked for.
        want: &'static str,
    },
    /// A tensor that is needed is absent.
    #[error("{}: no tensor `{name}`", file.display())]
    MissingTensor {
        /// The file.
        file: PathBuf,
        /// The tensor's name.
        name: String,
    },
}

/// Text from a file with its control characters escaped: a message stays on one line, and a file can't speak to the
/// terminal.
fn visible(text: &str) -> String {
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// The names of the value types, for the error about an unknown one.
pub(super) fn value_type_list() -> String {
    let known: Vec<String> = ValueType::ALL.iter().map(|t| format!("{t}={}", t.id())).collect();
    known.join(", ")
}
