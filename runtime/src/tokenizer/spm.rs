//! SentencePiece vocabularies with scores (`tokenizer.ggml.model` = `llama`).

use super::TokenizerError;
use super::config::{SCORES, TokenizerConfig};
use super::merge::Merger;
use super::vocabulary::Vocabulary;

/// Merges by the score of the joined token; characters that are no token are spelled in byte tokens.
#[derive(Debug)]
pub struct SentencePiece {
    /// Scores mapped to integers of the same order.
    priorities: Vec<u32>,
}

impl SentencePiece {
    /// Takes the scores from `config`.
    pub fn new(config: &TokenizerConfig<'_>) -> Result<SentencePiece, TokenizerError> {
        if config.scores.is_empty() {
            return Err(TokenizerError::MissingKey { key: SCORES });
        }
        if let Some(id) = config.scores.iter().position(|s| s.is_nan()) {
            return Err(TokenizerError::BadValue { key: SCORES, problem: format!("entry {id} is not a number") });
        }
        Ok(SentencePiece { priorities: config.scores.iter().map(|s| ordered(*s)).collect() })
    }

    /// Appends the tokens of a stretch of ordinary text whose spaces are already escaped.
    pub fn encode(
        &self,
        vocabulary: &Vocabulary,
        text: &[u8],
        unknown: Option<u32>,
        merger: &mut Merger,
        tokens: &mut Vec<u32>,
    ) -> Result<(), TokenizerError> {
        let priority = |pair: &[u8], _| {
            let id = vocabulary.find(pair)?;
            self.priorities.get(id as usize).copied()
        };
        merger.merge(text, priority, |symbol| vocabulary.push_symbol(symbol, unknown, tokens))
    }
}

/// An integer that compares like `score`, which is not NaN. Both zeros are equal.
fn ordered(score: f32) -> u32 {
    let bits = (score + 0.0).to_bits();
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

#[cfg(test)]
mod tests {
    use super::ordered;

    #[test]
    fn scores_keep_their_order() {
        let rising = [f32::NEG_INFINITY, -1000.0, -1.5, -1e-40, 0.0, 1e-40, 3.0, f32::INFINITY];
        assert!(rising.windows(2).all(|w| ordered(w[0]) < ordered(w[1])));
        assert_eq!(ordered(-0.0), ordered(0.0));
    }
}
