//! Choosing the next token from logits.
//!
//! ```text
//! logits ─ repeat penalty ─┬─ temperature 0: the greatest
//!                          └─ top-k ─ top-p ─ min-p ─ temperature ─ draw
//! ```
//!
//! The order is llama.cpp's: the cuts look at probabilities before the temperature is applied. Every step is arithmetic
//! that gives the same bits on every platform (the exponential is `libm`'s), so a seed gives the same tokens everywhere.
//! Equal logits are ordered by token id. A logit that is not a number is never chosen.

mod random;

use std::collections::VecDeque;

use random::Random;

/// How tokens are chosen. The defaults are llama.cpp's.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits before the draw; 0 always takes the greatest logit (the first of equals).
    pub temperature: f32,
    /// Keeps this many of the greatest logits; 0 keeps all.
    pub top_k: usize,
    /// Keeps the fewest tokens whose probabilities add up to this, greatest first; 1 keeps all.
    pub top_p: f32,
    /// Keeps tokens with at least this share of the greatest probability; 0 keeps all.
    pub min_p: f32,
    /// Divides positive and multiplies negative logits of recent tokens; 1 changes nothing.
    pub repeat_penalty: f32,
    /// How many of the last accepted tokens the penalty looks at.
    pub penalty_last_n: usize,
    /// Where the random numbers start.
    pub seed: u64,
}

impl Default for SamplerOptions {
    fn default() -> SamplerOptions {
        SamplerOptions {
            temperature: 0.8,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            repeat_penalty: 1.0,
            penalty_last_n: 64,
            seed: 0,
        }
    }
}

impl SamplerOptions {
    /// The greatest logit, always.
    pub fn greedy() -> SamplerOptions {
        SamplerOptions { temperature: 0.0, ..SamplerOptions::default() }
    }
}

/// A sampling option outside its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("sampling: {option} is {value}, it must be {range}")]
pub struct SamplerError {
    /// The option's name, as a field of [`SamplerOptions`].
    pub option: &'static str,
    /// The value given.
    pub value: f32,
    /// The values that would do, in words.
    pub range: &'static str,
}

/// A sampler with its random numbers and its memory of recent tokens.
#[derive(Debug, Clone)]
pub struct Sampler {
    options: SamplerOptions,
    random: Random,
    recent: VecDeque<u32>,
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    logit: f32,
    id: u32,
}

impl Sampler {
    /// A sampler at the start of its random numbers, remembering nothing.
    ///
    /// # Errors
    /// An option outside its range.
    pub fn new(options: SamplerOptions) -> Result<Sampler, SamplerError> {
        let checks = [
            ("temperature", options.temperature, "a number from 0", 0.0, f32::MAX),
            ("top_p", options.top_p, "a number from 0 to 1", 0.0, 1.0),
            ("min_p", options.min_p, "a number from 0 to 1", 0.0, 1.0),
            ("repeat_penalty", options.repeat_penalty, "a number above 0", f32::MIN_POSITIVE, f32::MAX),
        ];
        for (option, value, range, least, most) in checks {
            if !(least..=most).contains(&value) {
                return Err(SamplerError { option, value, range });
            }
        }
        let random = Random::new(options.seed);
        Ok(Sampler { options, random, recent: VecDeque::new(), candidates: Vec::new() })
    }

    /// The options.
    pub fn options(&self) -> &SamplerOptions {
        &self.options
    }

    /// Remembers a token of the text, of the prompt or chosen, for the repeat penalty.
    pub fn accept(&mut self, token: u32) {
        if self.options.penalty_last_n == 0 {
            return;
        }
        if self.recent.len() >= self.options.penalty_last_n {
            self.recent.pop_front();
        }
        self.recent.push_back(token);
    }

    /// Chooses a token; `logits[id]` belongs to token `id`. The repeat penalty is applied in place. The token is not
    /// [`accept`](Self::accept)ed. Where no logit is a number the answer is 0.
    pub fn sample(&mut self, logits: &mut [f32]) -> u32 {
        self.penalize(logits);
        let greatest = argmax(logits);
        let Some(max) = logits.get(greatest as usize).copied() else { return greatest };
        if self.options.temperature == 0.0 || !max.is_finite() {
            return greatest;
        }
        let all = logits.iter().zip(0..).map(|(logit, id)| Candidate { logit: *logit, id });
        // What has probability 0 in single precision even at temperature 1 is dropped only by being infinite.
        self.candidates.clear();
        self.candidates.extend(all.filter(|c| c.logit > f32::NEG_INFINITY));
        self.keep_top_k();
        self.keep_top_p();
        self.keep_min_p(max);
        self.draw(max)
    }

    fn penalize(&self, logits: &mut [f32]) {
        let penalty = self.options.repeat_penalty;
        if penalty == 1.0 {
            return;
        }
        let mut tokens: Vec<u32> = self.recent.iter().copied().collect();
        tokens.sort_unstable();
        tokens.dedup();
        for token in tokens {
            if let Some(logit) = logits.get_mut(token as usize) {
                *logit = if *logit > 0.0 { *logit / penalty } else { *logit * penalty };
            }
        }
    }

    /// Leaves the `top_k` greatest, sorted if a later step needs an order.
    fn keep_top_k(&mut self) {
        let k = self.options.top_k;
        if k > 0 && k < self.candidates.len() {
            self.candidates.select_nth_unstable_by(k - 1, by_logit);
            self.candidates.truncate(k);
        }
        if k > 0 || self.options.top_p < 1.0 {
            self.candidates.sort_unstable_by(by_logit);
        }
    }

    fn keep_top_p(&mut self) {
        let p = f64::from(self.options.top_p);
        let Some(first) = self.candidates.first().copied().filter(|_| p < 1.0) else { return };
        let weights = || self.candidates.iter().map(|c| weight(*c, first.logit, 1.0));
        let enough = p * weights().sum::<f64>();
        let mut sum = 0.0;
        let kept = weights().take_while(|w| {
            let needed = sum < enough;
            sum += w;
            needed
        });
        let kept = kept.count().max(1);
        self.candidates.truncate(kept);
    }

    fn keep_min_p(&mut self, max: f32) {
        let min_p = f64::from(self.options.min_p);
        if min_p > 0.0 {
            self.candidates.retain(|c| weight(*c, max, 1.0) >= min_p);
        }
    }

    fn draw(&mut self, max: f32) -> u32 {
        let temperature = f64::from(self.options.temperature);
        let weights = || self.candidates.iter().map(|c| (c.id, weight(*c, max, temperature)));
        let mut left = self.random.unit() * weights().map(|w| w.1).sum::<f64>();
        let mut last = 0;
        for (id, weight) in weights() {
            // A token of weight 0 is not chosen even if the draw is 0.
            if weight > 0.0 {
                last = id;
                if left < weight {
                    return id;
                }
                left -= weight;
            }
        }
        last
    }
}

/// Greatest logit first, lower id first among equals. No logit is NaN.
fn by_logit(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let logits = b.logit.partial_cmp(&a.logit).unwrap_or(std::cmp::Ordering::Equal);
    logits.then(a.id.cmp(&b.id))
}

/// Probability of a candidate relative to one with the logit `max`.
fn weight(candidate: Candidate, max: f32, temperature: f64) -> f64 {
    libm::exp((f64::from(candidate.logit) - f64::from(max)) / temperature)
}

/// The index of the greatest value, the first of equals; 0 if there is no number.
pub fn argmax(values: &[f32]) -> u32 {
    let mut best = (0, f32::NEG_INFINITY);
    for (value, index) in values.iter().zip(0..) {
        if *value > best.1 {
            best = (index, *value);
        }
    }
    best.0
}

#[cfg(test)]
mod tests;
