//! The tokens of a vocabulary: spelling, kind, lookup by spelling, and the bytes each one stands for.

use super::config::{SCORES, TOKEN_TYPE, TOKENS, TokenizerConfig};
use super::strings::{Index, Strings};
use super::{TokenizerError, byte_alphabet};

/// What a token is. A set, because a file's type may be corrected by what the token is known to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind(u8);

impl Kind {
    /// Ordinary text.
    pub const NORMAL: Kind = Kind(1);
    /// Stands for what has no token.
    pub const UNKNOWN: Kind = Kind(2);
    /// Structure, not text: beginning and end of sequences, turns, tools.
    pub const CONTROL: Kind = Kind(4);
    /// Text that is always one token, found before anything is cut.
    pub const USER_DEFINED: Kind = Kind(8);
    /// One byte, spelled `<0xNN>`.
    pub const BYTE: Kind = Kind(16);
    /// Neither text nor structure.
    pub const UNUSED: Kind = Kind(32);
    /// Swallows the white space after it.
    pub const STRIPS_RIGHT: Kind = Kind(64);

    fn from_type(token_type: i32) -> Kind {
        match token_type {
            1 => Kind::NORMAL,
            2 => Kind::UNKNOWN,
            3 => Kind::CONTROL,
            4 => Kind::USER_DEFINED,
            6 => Kind::BYTE,
            _ => Kind::UNUSED,
        }
    }

    /// Whether it is any of `kinds`.
    pub fn is(self, kinds: Kind) -> bool {
        self.0 & kinds.0 != 0
    }
}

impl std::ops::BitOr for Kind {
    type Output = Kind;
    fn bitor(self, other: Kind) -> Kind {
        Kind(self.0 | other.0)
    }
}

/// How the spelling of a normal token relates to the text it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// Each character is one byte, in GPT-2's byte alphabet.
    ByteLevel,
    /// UTF-8, with `▁` (U+2581) for a space.
    Escaped,
}

/// The tokens, numbered by their ids.
#[derive(Debug)]
pub struct Vocabulary {
    texts: Strings,
    index: Index,
    kinds: Vec<Kind>,
    pieces: Strings,
    byte_tokens: Box<[Option<u32>; 256]>,
    /// Distinct lengths of special tokens by their first byte, longest first.
    special_lengths: Vec<Vec<u32>>,
}

impl Vocabulary {
    /// Takes the tokens and their types from `config`; `corrections` may change types after all tokens can be looked up.
    pub fn new(
        config: &TokenizerConfig<'_>,
        spelling: Spelling,
        corrections: impl FnOnce(&mut Vocabulary),
    ) -> Result<Vocabulary, TokenizerError> {
        let count = config.tokens.len();
        let bytes: usize = config.tokens.iter().map(|t| t.len()).sum();
        // Empty tokens get a name of at most 18 bytes.
        if count == 0 || bytes + 18 * count > Strings::LIMIT {
            let problem = if count == 0 { "no tokens".into() } else { format!("{bytes} bytes are too many") };
            return Err(TokenizerError::BadValue { key: TOKENS, problem });
        }
        for (key, length) in [(TOKEN_TYPE, config.token_types.len()), (SCORES, config.scores.len())] {
            if length != 0 && length < count {
                let problem = format!("{length} entries for {count} tokens");
                return Err(TokenizerError::BadValue { key, problem });
            }
        }
        let mut texts = Strings::with_capacity(count, bytes);
        for (id, text) in config.tokens.iter().enumerate() {
            if text.is_empty() {
                texts.push(&[format!("[EMPTY_{id}]").as_bytes()]);
            } else {
                texts.push(&[text]);
            }
        }
        let kinds = match config.token_types.get(..count) {
            Some(types) => types.iter().map(|t| Kind::from_type(*t)).collect(),
            None => vec![Kind::NORMAL; count],
        };
        let mut vocabulary = Vocabulary {
            index: Index::new(&texts, |text| [text, &[], &[]]),
            texts,
            kinds,
            pieces: Strings::default(),
            byte_tokens: Box::new([None; 256]),
            special_lengths: vec![Vec::new(); 256],
        };
        corrections(&mut vocabulary);
        vocabulary.spell_pieces(spelling, bytes);
        vocabulary.find_special_lengths();
        for byte in 0..=u8::MAX {
            let id = vocabulary.find(format!("<0x{byte:02X}>").as_bytes()).or_else(|| match spelling {
                Spelling::ByteLevel => None,
                Spelling::Escaped => vocabulary.find(&[byte]),
            });
            vocabulary.byte_tokens[usize::from(byte)] = id;
        }
        Ok(vocabulary)
    }

    fn spell_pieces(&mut self, spelling: Spelling, bytes: usize) {
        let as_spelled = Kind::UNKNOWN | Kind::CONTROL | Kind::USER_DEFINED;
        self.pieces = Strings::with_capacity(self.len(), bytes);
        for (id, kind) in self.kinds.iter().enumerate() {
            let text = self.texts.get(id as u32).unwrap_or_default();
            if kind.is(as_spelled) {
                self.pieces.push(&[text]);
            } else if kind.is(Kind::NORMAL) {
                self.pieces.push_with(|out| match spelling {
                    Spelling::ByteLevel => byte_alphabet::decode(text, out),
                    Spelling::Escaped => unescape_spaces(text, out),
                });
            } else if kind.is(Kind::BYTE) {
                match parse_byte(text) {
                    Some(byte) => self.pieces.push(&[&[byte]]),
                    None => self.pieces.push(&[text]),
                }
            } else {
                self.pieces.push(&[]);
            }
        }
    }

    fn find_special_lengths(&mut self) {
        let special = Kind::CONTROL | Kind::USER_DEFINED | Kind::UNKNOWN;
        for (id, kind) in self.kinds.iter().enumerate() {
            let text = self.texts.get(id as u32).unwrap_or_default();
            if let (true, Some(first)) = (kind.is(special), text.first()) {
                let lengths = &mut self.special_lengths[usize::from(*first)];
                if !lengths.contains(&(text.len() as u32)) {
                    lengths.push(text.len() as u32);
                }
            }
        }
        for lengths in &mut self.special_lengths {
            lengths.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// The token spelled `text`.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.index.find(&self.texts, [text, &[], &[]])
    }

    /// How token `id` is spelled.
    pub fn text(&self, id: u32) -> Option<&[u8]> {
        self.texts.get(id)
    }

    /// What token `id` is; `UNUSED` for an id outside the vocabulary.
    pub fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::UNUSED)
    }

    /// Corrects what token `id` is.
    pub fn set_kind(&mut self, id: u32, kind: Kind) {
        if let Some(slot) = self.kinds.get_mut(id as usize) {
            *slot = kind;
        }
    }

    /// All ids with their kinds.
    pub fn kinds(&self) -> impl Iterator<Item = (u32, Kind)> + '_ {
        self.kinds.iter().enumerate().map(|(id, kind)| (id as u32, *kind))
    }

    /// The bytes that token `id` stands for, special tokens as they are spelled.
    pub fn piece(&self, id: u32) -> &[u8] {
        self.pieces.get(id).unwrap_or_default()
    }

    /// Appends the token spelled `symbol` or, if there is none, a token for each byte: its byte token or else `unknown`.
    pub fn push_symbol(
        &self,
        symbol: &[u8],
        unknown: Option<u32>,
        tokens: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        if let Some(id) = self.find(symbol) {
            tokens.push(id);
            return Ok(());
        }
        for byte in symbol {
            let id = self.byte_tokens[usize::from(*byte)].or(unknown);
            tokens.push(id.ok_or(TokenizerError::NoTokenForByte { byte: *byte })?);
        }
        Ok(())
    }

    /// Lengths of the special tokens that start with `first`, longest first.
    pub fn special_lengths(&self, first: u8) -> &[u32] {
        &self.special_lengths[usize::from(first)]
    }
}

/// `▁` becomes a space, everything else stays.
fn unescape_spaces(text: &[u8], out: &mut Vec<u8>) {
    const ESCAPE: &[u8] = "▁".as_bytes();
    let mut rest = text;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(ESCAPE) {
            out.push(b' ');
            rest = after;
        } else {
            out.push(*first);
            rest = &rest[1..];
        }
    }
}

/// The value of `<0xNN>`.
fn parse_byte(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
