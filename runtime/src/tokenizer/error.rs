//! What can be wrong with a vocabulary or with the text given to it.

use crate::gguf::GgufError;

/// An error of the tokenizer: either the file's vocabulary is unusable or a text cannot be encoded with it.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A metadata value has the wrong type (the message names the key).
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// A metadata key that this kind of vocabulary needs is absent.
    #[error("vocabulary: metadata key '{key}' is missing")]
    MissingKey {
        /// The full metadata key.
        key: &'static str,
    },
    /// A metadata value contradicts the others.
    #[error("vocabulary: metadata key '{key}': {problem}")]
    BadValue {
        /// The full metadata key.
        key: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// `tokenizer.ggml.model` or `tokenizer.ggml.pre` names something that this library does not know.
    #[error("vocabulary: metadata key '{key}' names the unknown {what} '{name}'; known: {known}")]
    UnknownName {
        /// The full metadata key.
        key: &'static str,
        /// "tokenizer model" or "pre-tokenizer".
        what: &'static str,
        /// The name found in the file.
        name: String,
        /// The names that would have worked, separated by commas.
        known: String,
    },
    /// The text encodes a code point above U+10FFFF, which no vocabulary can spell.
    #[error("text: byte {offset}: code point 0x{code:X} is beyond U+10FFFF")]
    CodePointTooLarge {
        /// Offset of its first byte within the encoded piece of text.
        offset: usize,
        /// The code point.
        code: u32,
    },
    /// A byte of the text is neither covered by a token nor by a byte token, and there is no unknown token.
    #[error("text: byte 0x{byte:02X} has no token in this vocabulary")]
    NoTokenForByte {
        /// The byte.
        byte: u8,
    },
    /// The text is longer than positions in it can count.
    #[error("text: {length} bytes are too many to encode at once (at most {limit})")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// The greatest length.
        limit: usize,
    },
    /// The pre-tokenizer's regular expression gave up (its backtracking limit).
    #[error("text: pre-tokenizer '{name}' failed: {problem}")]
    PreTokenizer {
        /// The pre-tokenizer's name.
        name: String,
        /// The regular expression engine's message.
        problem: String,
    },
}
