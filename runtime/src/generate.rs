//! Generation with streaming, and embeddings.

use crate::error::Error;
use crate::model::Model;
use crate::sampler::{Sampler, SamplerOptions};
use crate::session::{Outputs, Session, SessionOptions};
use crate::stop::StopTexts;
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
    /// How many tokens of the prompt are evaluated together, the others one at a time; none for all.
    pub prefill: Option<usize>,
    /// Texts that end the answer; they are no part of it.
    pub stop: Vec<String>,
}

/// Why generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The model ended its answer.
    EndOfText,
    /// One of the texts that end an answer came.
    StopText,
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
    /// Tokens of the prompt that were evaluated.
    pub prompt_tokens: usize,
    /// Time for evaluating the prompt.
    pub prefill: Duration,
    /// Time for the steps after it, as many as `decode_steps`.
    pub decode: Duration,
    /// Steps of one token.
    pub decode_steps: usize,
    /// Time from the call to the first token.
    pub first_token: Option<Duration>,
}

/// What happens while a session generates.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// Tokens of the prompt have been evaluated: so many of so many.
    Prompt(usize, usize),
    /// A row of output: of each position if the session computes every one, else of the last of each step.
    Row(&'a [f32]),
    /// Whole characters of generated text.
    Text(&'a str),
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
        self.generate_with(model, prompt, options, |event| match event {
            Event::Text(text) => on_text(text),
            Event::Prompt(..) | Event::Row(_) => ControlFlow::Continue(()),
        })
    }

    /// As [`generate`](Session::generate), with all that happens told to `on_event`; it may end the generation at any
    /// time, even in the middle of the prompt. The repeat penalty looks at what was in the session before, too.
    ///
    /// # Errors
    /// As [`generate`](Session::generate).
    pub fn generate_with(
        &mut self,
        model: &Model,
        prompt: &[u32],
        options: &GenerateOptions,
        mut on_event: impl FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Generated, Error> {
        let mut sampler = Sampler::new(options.sampler.clone())?;
        self.tokens().iter().chain(prompt).for_each(|&t| sampler.accept(t));
        let start = Instant::now();
        let mut out = Generated {
            tokens: Vec::new(),
            stop: Stop::MaxTokens,
            prompt_tokens: 0,
            prefill: Duration::ZERO,
            decode: Duration::ZERO,
            decode_steps: 0,
            first_token: None,
        };
        let Some(mut logits) = self.prompt(prompt, options, &mut out, &mut on_event)? else {
            return Ok(out);
        };
        if options.max_tokens == Some(0) {
            return Ok(out);
        }
        let tokenizer = model.tokenizer()?;
        let mut text = StreamDecoder::new(tokenizer, options.special);
        let mut stops = StopTexts::new(&options.stop);
        loop {
            let token = sampler.sample(&mut logits);
            sampler.accept(token);
            out.first_token.get_or_insert_with(|| start.elapsed());
            if !options.ignore_eos && tokenizer.is_end_of_generation(token) {
                out.stop = Stop::EndOfText;
                break;
            }
            out.tokens.push(token);
            let (piece, stopped) = stops.push(&text.push(token));
            if stopped {
                out.stop = Stop::StopText;
            }
            if !piece.is_empty() && on_event(Event::Text(&piece)).is_break() {
                out.stop = Stop::Caller;
                break;
            }
            if stopped {
                return Ok(out);
            }
            if options.max_tokens == Some(out.tokens.len()) {
                break;
            }
            if self.used() == self.n_ctx() {
                out.stop = Stop::ContextFull;
                break;
            }
            let step = Instant::now();
            self.eval_into(&[token], &mut logits)?;
            out.decode += step.elapsed();
            out.decode_steps += 1;
            if on_event(Event::Row(&logits)).is_break() {
                out.stop = Stop::Caller;
                break;
            }
        }
        let rest = text.finish();
        let (rest, stopped) = stops.push(&rest);
        let rest = if stopped { rest } else { rest + &stops.finish() };
        if !rest.is_empty() {
            let _ = on_event(Event::Text(&rest));
        }
        Ok(out)
    }

    /// Evaluates the prompt in steps; returns the last row, or nothing if the caller ended it.
    fn prompt(
        &mut self,
        prompt: &[u32],
        options: &GenerateOptions,
        out: &mut Generated,
        on_event: &mut impl FnMut(Event) -> ControlFlow<()>,
    ) -> Result<Option<Vec<f32>>, Error> {
        // All or nothing: a prompt that does not fit is refused before its first step.
        self.check(prompt)?;
        let (first, rest) = prompt.split_at(options.prefill.unwrap_or(prompt.len()).min(prompt.len()));
        let mut logits = Vec::new();
        for step in first.chunks(self.n_batch() as usize).chain(rest.chunks(1)) {
            let mut flow = ControlFlow::Continue(());
            let start = Instant::now();
            self.eval_rows(step, |row| {
                if flow.is_continue() {
                    flow = on_event(Event::Row(row));
                }
                logits.clear();
                logits.extend_from_slice(row);
                Ok(())
            })?;
            out.prefill += start.elapsed();
            out.prompt_tokens += step.len();
            if flow.is_break() || on_event(Event::Prompt(out.prompt_tokens, prompt.len())).is_break() {
                out.stop = Stop::Caller;
                return Ok(None);
            }
        }
        Ok(Some(logits))
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
