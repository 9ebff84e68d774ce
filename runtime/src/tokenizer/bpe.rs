//! Byte-pair vocabularies (`tokenizer.ggml.model` = `gpt2`, `gemma4`).

use super::config::{MERGES, TokenizerConfig};
use super::merge::Merger;
use super::pretokenizer::PreTokenizer;
use super::strings::{Index, Strings};
use super::vocabulary::{Spelling, Vocabulary};
use super::{TokenizerError, byte_alphabet, escape_spaces, utf8};

/// Words by a pre-tokenizer, merges by rank.
#[derive(Debug)]
pub struct BytePair {
    pre: PreTokenizer,
    /// `left right`; the number of a merge is its rank.
    merges: Strings,
    ranks: Index,
}

impl BytePair {
    /// Takes the merges from `config`.
    pub fn new(config: &TokenizerConfig<'_>, pre: PreTokenizer) -> Result<BytePair, TokenizerError> {
        if config.merges.is_empty() {
            return Err(TokenizerError::MissingKey { key: MERGES });
        }
        let bytes: usize = config.merges.iter().map(|m| m.len()).sum();
        if bytes > Strings::LIMIT {
            return Err(TokenizerError::BadValue { key: MERGES, problem: format!("{bytes} bytes are too many") });
        }
        let mut merges = Strings::with_capacity(config.merges.len(), bytes);
        for (index, merge) in config.merges.iter().enumerate() {
            if separator(merge).is_none() {
                let problem = format!("entry {index} '{}' is not a pair", String::from_utf8_lossy(merge));
                return Err(TokenizerError::BadValue { key: MERGES, problem });
            }
            merges.push(&[merge]);
        }
        let ranks = Index::new(&merges, |merge| match separator(merge) {
            Some(at) => [&merge[..at], b" ", &merge[at + 1..]],
            None => [merge, &[], &[]],
        });
        Ok(BytePair { pre, merges, ranks })
    }

    /// The pre-tokenizer.
    pub fn pre(&self) -> &PreTokenizer {
        &self.pre
    }

    /// How normal tokens are spelled.
    pub fn spelling(pre: &PreTokenizer) -> Spelling {
        if pre.row().byte_level { Spelling::ByteLevel } else { Spelling::Escaped }
    }

    /// Appends the tokens of a stretch of ordinary text.
    pub fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &[u8],
        unknown: Option<u32>,
        merger: &mut Merger,
        tokens: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let row = self.pre.row();
        let escaped;
        let text = if row.byte_level {
            text
        } else {
            escaped = escape_spaces(text);
            &escaped
        };
        let repaired = utf8::repair(text)?;
        let mut spelled = String::new();
        for range in self.pre.split(&repaired.text)? {
            let bytes = &repaired.bytes[range];
            let word = if row.byte_level {
                spelled.clear();
                byte_alphabet::encode(bytes, &mut spelled);
                spelled.as_bytes()
            } else {
                bytes
            };
            // Without a byte alphabet, runs of line feeds are whole tokens that no merges lead to.
            let whole = row.ignore_merges || (!row.byte_level && word.iter().all(|b| *b == b'\n'));
            if let (true, Some(id)) = (whole, vocabulary.find(word)) {
                tokens.push(id);
                continue;
            }
            let priority = |pair: &[u8], cut: usize| {
                let rank = self.ranks.find(&self.merges, [&pair[..cut], b" ", &pair[cut..]])?;
                Some(u32::MAX - rank)
            };
            merger.merge(word, priority, |symbol| vocabulary.push_symbol(symbol, unknown, tokens))?;
        }
        Ok(())
    }
}

/// Where the two sides of a merge meet. The left side is not empty, but may be a space itself.
fn separator(merge: &[u8]) -> Option<usize> {
    merge.iter().skip(1).position(|b| *b == b' ').map(|at| at + 1)
}
