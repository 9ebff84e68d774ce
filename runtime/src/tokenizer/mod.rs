//! Tokenizers: text to token ids and back, from the vocabulary in a model file.
//!
//! ```text
//! text ── special ──▶ fragments ──▶ words (bpe: pretokenizer) or whole (spm)
//!                                     │ merge (rank or score)
//! ids  ◀── vocabulary ◀── symbols ◀───┘
//! ```
//!
//! * [`TokenizerConfig`] is the file's `tokenizer.ggml.*` metadata as plain data.
//! * `special` finds special tokens in the text before anything else is done with it.
//! * `pretokenizer` is the table of pre-tokenizers; `utf8` repairs what is not valid text.
//! * `merge` is the one merge loop; `bpe` and `spm` give it their priorities.
//! * `vocabulary` looks up spellings and holds the bytes of each token; `roles` knows which tokens end generation.
//! * `stream` and `decode` turn ids into text.
//!
//! Results equal llama.cpp's for every case under `golden/tokenizers`, invalid UTF-8 included.

mod bpe;
mod byte_alphabet;
mod config;
mod decode;
mod error;
mod merge;
mod pretokenizer;
mod roles;
mod special;
mod spm;
mod stream;
mod strings;
mod utf8;
mod vocabulary;

pub use config::TokenizerConfig;
pub use error::TokenizerError;
pub use stream::StreamDecoder;

use bpe::BytePair;
use config::{ADD_BOS, ADD_EOS, MODEL};
use merge::Merger;
use pretokenizer::{AddBos, PreTokenizer};
use special::Fragment;
use spm::SentencePiece;
use vocabulary::{Kind, Spelling, Vocabulary};

use crate::gguf::Metadata;

/// Longest text of one [`Tokenizer::encode`] call in bytes; escaping may make it three times as long.
const LONGEST_TEXT: usize = 1 << 30;

#[derive(Debug)]
enum Model {
    BytePair(BytePair),
    SentencePiece(SentencePiece),
}

/// A vocabulary with the rules of its model.
#[derive(Debug)]
pub struct Tokenizer {
    model: Model,
    vocabulary: Vocabulary,
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    ends: Vec<u32>,
    /// Added at the start and end of a text when asked for special tokens.
    added_start: Option<u32>,
    added_end: Option<u32>,
    add_space_prefix: bool,
    clean_spaces: bool,
}

impl Tokenizer {
    /// The tokenizer of a model file.
    ///
    /// # Errors
    /// Missing, contradictory or ill-typed metadata; a tokenizer model or pre-tokenizer that is not known.
    pub fn from_metadata(metadata: &Metadata) -> Result<Tokenizer, TokenizerError> {
        Tokenizer::new(&TokenizerConfig::from_metadata(metadata)?)
    }

    /// The tokenizer of a vocabulary. A byte-pair vocabulary that names no pre-tokenizer gets the one called `default`.
    ///
    /// # Errors
    /// As [`from_metadata`](Self::from_metadata).
    pub fn new(config: &TokenizerConfig<'_>) -> Result<Tokenizer, TokenizerError> {
        let mut config = config.clone();
        let pre = match config.model {
            "gpt2" => Some(PreTokenizer::named(config.pre.unwrap_or("default"))?),
            "gemma4" => Some(PreTokenizer::named("gemma4")?),
            "llama" => None,
            name => {
                return Err(TokenizerError::UnknownName {
                    key: MODEL,
                    what: "tokenizer model",
                    name: name.to_owned(),
                    known: "gpt2, gemma4, llama".into(),
                });
            }
        };
        if pre.is_none() {
            // SentencePiece's own defaults, for files that leave them out.
            let id = |id: u32| Some(id).filter(|id| (*id as usize) < config.tokens.len());
            config.unknown = config.unknown.or(id(0));
            config.bos = config.bos.or(id(1));
            config.eos = config.eos.or(id(2));
        }
        let spelling = pre.as_ref().map_or(Spelling::Escaped, BytePair::spelling);
        let row = pre.as_ref().map(PreTokenizer::row);
        let add_bos = match row.map_or(AddBos::UnlessSaid, |row| row.add_bos) {
            AddBos::IfSaid => config.add_bos == Some(true),
            AddBos::UnlessSaid => config.add_bos != Some(false),
            AddBos::Always => true,
        };
        let added = |add: bool, id: Option<u32>, key| match (add, id) {
            (true, None) => {
                Err(TokenizerError::BadValue { key, problem: "asks for a token that the file does not name".into() })
            }
            (true, id) => Ok(id),
            (false, _) => Ok(None),
        };
        let mut ends = Vec::new();
        let vocabulary = Vocabulary::new(&config, spelling, |v| ends = roles::find_ends(&config, v))?;
        Ok(Tokenizer {
            vocabulary,
            ends,
            bos: config.bos,
            eos: config.eos,
            unknown: config.unknown,
            added_start: added(add_bos, config.bos, ADD_BOS)?,
            added_end: added(config.add_eos == Some(true), config.eos, ADD_EOS)?,
            add_space_prefix: config.add_space_prefix.unwrap_or(row.is_none()),
            clean_spaces: row.is_some_and(|row| row.clean_spaces),
            model: match pre {
                Some(pre) => Model::BytePair(BytePair::new(&config, pre)?),
                None => Model::SentencePiece(SentencePiece::new(&config)?),
            },
        })
    }

    /// The ids of `text`, which need not be valid UTF-8.
    ///
    /// With `add_special`, the tokens that the model wants at the start and end are added. With `parse_special`, control
    /// tokens spelled in the text become those tokens, as a chat template needs; without it they are ordinary text.
    ///
    /// # Errors
    /// A code point above U+10FFFF, a byte that the vocabulary cannot express, a text above 1 GiB, or a pre-tokenizer that
    /// gives up.
    pub fn encode(
        &self,
        text: impl AsRef<[u8]>,
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<u32>, TokenizerError> {
        let text = text.as_ref();
        if text.len() > LONGEST_TEXT {
            return Err(TokenizerError::TooLong { length: text.len(), limit: LONGEST_TEXT });
        }
        let mut tokens = Vec::with_capacity(text.len() / 3 + 2);
        tokens.extend(self.added_start.filter(|_| add_special));
        let mut merger = Merger::default();
        let mut after_special = true;
        for fragment in special::partition(&self.vocabulary, text, parse_special) {
            match fragment {
                Fragment::Token(id) => tokens.push(id),
                Fragment::Text(ref range) => {
                    let prefix = self.add_space_prefix && after_special;
                    self.encode_text(&text[range.clone()], prefix, &mut merger, &mut tokens)?;
                }
            }
            after_special = matches!(fragment, Fragment::Token(_));
        }
        tokens.extend(self.added_end.filter(|_| add_special));
        Ok(tokens)
    }

    fn encode_text(
        &self,
        text: &[u8],
        prefix: bool,
        merger: &mut Merger,
        tokens: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        match &self.model {
            Model::BytePair(model) => model.encode(&self.vocabulary, text, self.unknown, merger, tokens),
            Model::SentencePiece(model) => {
                let mut escaped = escape_spaces(if prefix { b" " } else { b"" });
                escaped.extend(escape_spaces(text));
                model.encode(&self.vocabulary, &escaped, self.unknown, merger, tokens)
            }
        }
    }

    /// The bytes that a token stands for; empty for an id outside the vocabulary and, without `special`, for control and
    /// unknown tokens. A token may hold a part of a character.
    pub fn piece(&self, id: u32, special: bool) -> &[u8] {
        if !special && self.vocabulary.kind(id).is(Kind::CONTROL | Kind::UNKNOWN) {
            return &[];
        }
        self.vocabulary.piece(id)
    }

    /// The bytes of a whole text: pieces joined, less the space that encoding put before the text, and for some
    /// vocabularies less the space before punctuation and contractions.
    pub fn decode(&self, tokens: &[u32], special: bool) -> Vec<u8> {
        decode::decode(self, tokens, special)
    }

    /// Number of tokens.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// The beginning-of-sequence token.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The end-of-sequence token.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether [`encode`](Self::encode) adds a beginning-of-sequence token.
    pub fn adds_bos(&self) -> bool {
        self.added_start.is_some()
    }

    /// Whether [`encode`](Self::encode) adds an end-of-sequence token.
    pub fn adds_eos(&self) -> bool {
        self.added_end.is_some()
    }

    /// Whether generation ends at this token: the end of the sequence, of a turn or of a message.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// Every token at which generation ends, rising.
    pub fn ends_of_generation(&self) -> &[u32] {
        &self.ends
    }

    /// The token spelled exactly `text` in the file, as special tokens such as `<|im_start|>` are.
    pub fn token(&self, text: &str) -> Option<u32> {
        self.vocabulary.find(text.as_bytes())
    }

    /// How a token is spelled in the file.
    pub fn spelling(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.text(id)
    }

    /// The pre-tokenizer's name; `None` for a SentencePiece vocabulary.
    pub fn pre_tokenizer(&self) -> Option<&'static str> {
        match &self.model {
            Model::BytePair(model) => Some(model.pre().name()),
            Model::SentencePiece(_) => None,
        }
    }
}

/// `text` with `▁` for each space.
fn escape_spaces(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len() + text.len() / 2);
    for byte in text {
        match byte {
            b' ' => escaped.extend_from_slice("▁".as_bytes()),
            other => escaped.push(*other),
        }
    }
    escaped
}
