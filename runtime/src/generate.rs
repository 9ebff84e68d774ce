//! Generation with streaming, and embeddings.

use crate::error::Error;
use crate::model::Model;
use crate::sampler::{Sampler, SamplerOptions};
use crate::session::{Outputs, Session, SessionOptions};
use crate::tokenizer::StreamDecoder;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// When generation ends, and how tokens are chosen.
#[derive(Clone, Debug, Default)]
pub struct GenerateOptions {
    /// The most tokens to generate; none for as many as the context holds.
    pub max_tokens: Option<usize>,
    /// How tokens are chosen.
    pub sampler: SamplerOptions,
    /// Whether tokens that end an answer are generated like others.
    pub ignore_eos: bool,
    /// Whether control tokens are part of the text.
    pub special: bool,
}

/// Why generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The model ended its answer.
    EndOfText,
    /// As many tokens as were asked for.
    MaxTokens,
    /// The context is full.
    ContextFull,
    /// The caller said so.
    Caller,
}

/// What was generated.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The tokens, without the one that ended the answer.
    pub tokens: Vec<u32>,
    /// Why it ended.
    pub stop: Stop,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Time for the prompt.
    pub prefill: Duration,
    /// Time for the steps after it, as many as `decode_steps`.
    pub decode: Duration,
    /// Steps of one token.
    pub decode_steps: usize,
    /// Time from the call to the first token.
    pub first_token: Option<Duration>,
}

impl Session {
    /// Adds a prompt and generates tokens, calling `on_text` with each whole piece of text as it comes. The session keeps
    /// the prompt and all that was generated but the last token.
    ///
    /// # Errors
    /// If the prompt is empty or does not fit the context, the sampler's options are out of range, or the device fails.
    pub fn generate(
        &mut self,
        model: &Model,
        prompt: &[u32],
        options: &GenerateOptions,
        mut on_text: impl FnMut(&str) -> ControlFlow<()>,
    ) -> Result<Generated, Error> {
        let tokenizer = model.tokenizer()?;
        let mut sampler = Sampler::new(options.sampler.clone())?;
        prompt.iter().for_each(|&t| sampler.accept(t));
        let mut text = StreamDecoder::new(tokenizer, options.special);
        let start = Instant::now();
        let mut logits = self.eval(prompt)?;
        let prefill = start.elapsed();
        let mut out = Generated {
            tokens: Vec::new(),
            stop: Stop::MaxTokens,
            prompt_tokens: prompt.len(),
            prefill,
            decode: Duration::ZERO,
            decode_steps: 0,
            first_token: None,
        };
        while options.max_tokens.is_none_or(|n| out.tokens.len() < n) {
            let token = sampler.sample(&mut logits);
            sampler.accept(token);
            out.first_token.get_or_insert_with(|| start.elapsed());
            if !options.ignore_eos && tokenizer.is_end_of_generation(token) {
                out.stop = Stop::EndOfText;
                break;
            }
            out.tokens.push(token);
            let piece = text.push(token);
            if !piece.is_empty() && on_text(&piece).is_break() {
                out.stop = Stop::Caller;
                break;
            }
            if options.max_tokens == Some(out.tokens.len()) {
                break;
            }
            if self.used() == self.n_ctx() {
                out.stop = Stop::ContextFull;
                break;
            }
            let step = Instant::now();
            logits = self.eval(&[token])?;
            out.decode += step.elapsed();
            out.decode_steps += 1;
        }
        let rest = text.finish();
        if !rest.is_empty() {
            let _ = on_text(&rest);
        }
        Ok(out)
    }
}

impl Model {
    /// An embedding of a text: the mean over its tokens of the normed hidden state, scaled to length 1.
    ///
    /// # Errors
    /// If the text has no tokens or the device fails.
    pub fn embed(&self, text: &str) -> Result<Vec<f32>, Error> {
        let tokens = self.tokenizer()?.encode(text, true, false)?;
        let n_ctx = u32::try_from(tokens.len()).unwrap_or(u32::MAX);
        let mut session =
            self.session(&SessionOptions { n_ctx, outputs: Outputs::Hidden, ..SessionOptions::default() })?;
        let mut sum = vec![0f64; session.cols() as usize];
        session.eval_rows(&tokens, |row| {
            sum.iter_mut().zip(row).for_each(|(s, &x)| *s += f64::from(x));
            Ok(())
        })?;
        let length = sum.iter().map(|x| x * x).sum::<f64>().sqrt();
        Ok(sum.iter().map(|x| if length > 0.0 { (x / length) as f32 } else { 0.0 }).collect())
    }
}
