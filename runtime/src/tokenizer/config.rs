//! The vocabulary as a file states it: metadata keys in, plain data out. Nothing is interpreted here.

use super::TokenizerError;
use crate::gguf::Metadata;

pub(super) const MODEL: &str = "tokenizer.ggml.model";
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const SCORES: &str = "tokenizer.ggml.scores";
pub(super) const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";
pub(super) const MERGES: &str = "tokenizer.ggml.merges";
pub(super) const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
pub(super) const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";

/// The `tokenizer.ggml.*` keys of a file. Names of fields follow the keys.
#[derive(Debug, Clone, Default)]
pub struct TokenizerConfig<'a> {
    /// `model`: the kind of vocabulary.
    pub model: &'a str,
    /// `pre`: the pre-tokenizer of a byte-pair vocabulary.
    pub pre: Option<&'a str>,
    /// `general.name`; a few models are known by it.
    pub name: &'a str,
    /// `tokens`: the spelling of each token.
    pub tokens: Vec<&'a [u8]>,
    /// `scores`: merge priorities of a SentencePiece vocabulary, larger first. Empty if absent.
    pub scores: Vec<f32>,
    /// `token_type`: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte. Empty if absent.
    pub token_types: Vec<i32>,
    /// `merges`: pairs of a byte-pair vocabulary, `left right`, best first. Empty if absent.
    pub merges: Vec<&'a [u8]>,
    /// `bos_token_id`
    pub bos: Option<u32>,
    /// `eos_token_id`
    pub eos: Option<u32>,
    /// `eot_token_id`: end of turn.
    pub eot: Option<u32>,
    /// `eom_token_id`: end of message.
    pub eom: Option<u32>,
    /// `unknown_token_id`
    pub unknown: Option<u32>,
    /// `fim_pad_token_id`
    pub fim_pad: Option<u32>,
    /// `fim_rep_token_id`
    pub fim_rep: Option<u32>,
    /// `fim_sep_token_id`
    pub fim_sep: Option<u32>,
    /// `add_bos_token`
    pub add_bos: Option<bool>,
    /// `add_eos_token`
    pub add_eos: Option<bool>,
    /// `add_space_prefix`
    pub add_space_prefix: Option<bool>,
}

impl<'a> TokenizerConfig<'a> {
    /// Reads the keys. Special token ids outside the vocabulary count as absent.
    ///
    /// # Errors
    /// A key of the wrong type, or no `model` or `tokens` key.
    pub fn from_metadata(metadata: &'a Metadata) -> Result<TokenizerConfig<'a>, TokenizerError> {
        let strings = |key| metadata.str_array(key).map(|a| a.map(|a| a.bytes().collect::<Vec<_>>()));
        let tokens = strings(TOKENS)?.ok_or(TokenizerError::MissingKey { key: TOKENS })?;
        let count = tokens.len();
        let id = |name: &str| -> Result<Option<u32>, TokenizerError> {
            let id = metadata.i64(&format!("tokenizer.ggml.{name}_token_id"))?;
            Ok(id.and_then(|id| u32::try_from(id).ok()).filter(|id| (*id as usize) < count))
        };
        Ok(TokenizerConfig {
            model: metadata.str(MODEL)?.ok_or(TokenizerError::MissingKey { key: MODEL })?,
            pre: metadata.str("tokenizer.ggml.pre")?,
            name: metadata.str("general.name")?.unwrap_or_default(),
            scores: metadata.f32_array(SCORES)?.unwrap_or_default(),
            token_types: metadata.i32_array(TOKEN_TYPE)?.unwrap_or_default(),
            merges: strings(MERGES)?.unwrap_or_default(),
            bos: id("bos")?,
            eos: id("eos")?,
            eot: id("eot")?,
            eom: id("eom")?,
            unknown: id("unknown")?,
            fim_pad: id("fim_pad")?,
            fim_rep: id("fim_rep")?,
            fim_sep: id("fim_sep")?,
            add_bos: metadata.bool(ADD_BOS)?,
            add_eos: metadata.bool(ADD_EOS)?,
            add_space_prefix: metadata.bool("tokenizer.ggml.add_space_prefix")?,
            tokens,
        })
    }
}
