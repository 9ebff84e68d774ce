//! One test: the same tokens again and again.

use crate::profile::Steps;
use hrx::exec::Activations;
use hrx::{Error, Model, Session, SessionOptions};
use std::time::{Duration, Instant, SystemTime};

/// Where random token ids start.
const SEED: u64 = 1;

/// What is measured: either a prompt or generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Test {
    /// Tokens evaluated together, or 0.
    pub n_prompt: u32,
    /// Tokens evaluated one at a time, or 0.
    pub n_gen: u32,
    /// Tokens in the context before.
    pub n_depth: u32,
    /// The most tokens of a step.
    pub n_batch: u32,
    /// Sequences that are generated together, each so many tokens.
    pub n_seq: u32,
}

impl Test {
    /// Tokens of a sequence whose time is measured.
    pub fn of_sequence(&self) -> u32 {
        self.n_prompt.max(self.n_gen)
    }

    /// Tokens whose time is measured.
    pub fn tokens(&self) -> u32 {
        self.of_sequence() * self.n_seq
    }

    /// Its name, as in llama-bench's table: `pp512`, `tg128 @ d1024`; of several sequences `tg128 x4`.
    pub fn name(&self) -> String {
        let mut name = if self.n_gen > 0 { format!("tg{}", self.n_gen) } else { format!("pp{}", self.n_prompt) };
        if self.n_seq > 1 {
            name += &format!(" x{}", self.n_seq);
        }
        if self.n_depth > 0 { format!("{name} @ d{}", self.n_depth) } else { name }
    }
}

/// Times of a test.
pub struct Samples {
    /// When it began.
    pub start: SystemTime,
    /// Each repetition's time.
    pub times: Vec<Duration>,
    /// Launches of a step that generates a token.
    pub launches: usize,
    /// Steps whose kernels were timed, where that is wanted.
    pub steps: Option<Steps>,
}

/// How tests are measured.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// In which form products with quantised weights read activations.
    pub activations: Activations,
    /// How often.
    pub repetitions: u32,
    /// Whether something is done before that is not measured.
    pub warm_up: bool,
    /// Whether kernels are timed as well.
    pub profile: bool,
}

/// A test that is being measured.
pub struct Running<'a> {
    session: Session,
    test: &'a Test,
    how: How,
    tokens: Vec<u32>,
    start: SystemTime,
    times: Vec<Duration>,
}

impl<'a> Running<'a> {
    /// Makes a session and does what is not measured.
    ///
    /// # Errors
    /// If the tokens don't fit the device's memory or the device fails.
    pub fn start(model: &Model, test: &'a Test, how: How) -> Result<Running<'a>, Error> {
        let n = u64::from(test.of_sequence()) + u64::from(test.n_depth);
        let n_ctx =
            u32::try_from(n).map_err(|_| Error::Invalid(format!("{n} tokens are more than a context holds")))?;
        let (n_batch, sequences, activations) = (test.n_batch, test.n_seq, how.activations);
        let options = SessionOptions { n_ctx, n_batch, activations, sequences, ..SessionOptions::default() };
        let mut session = model.session(&options)?;
        let mut random = Random(SEED);
        let n_vocab = u64::from(model.config().n_vocab);
        let mut ids = |n: u32| -> Vec<u32> { (0..n).map(|_| (random.next() % n_vocab) as u32).collect() };
        let (depth, tokens) = (ids(test.n_depth), ids(test.of_sequence()));

        let start = SystemTime::now();
        if how.warm_up {
            // All of a prompt, since its length decides which kernels run; one token of a generation.
            let few = if test.n_gen > 0 { &tokens[..1] } else { &tokens[..] };
            step(&mut session, test, few)?;
            cut_back(&mut session, 0)?;
        }
        if !depth.is_empty() {
            for sequence in 0..test.n_seq {
                session.select(sequence)?;
                session.eval(&depth)?;
            }
        }
        Ok(Running { session, test, how, tokens, start, times: Vec::new() })
    }

    /// Measures once.
    ///
    /// # Errors
    /// If the device fails.
    pub fn repeat(&mut self) -> Result<(), Error> {
        let begin = Instant::now();
        step(&mut self.session, self.test, &self.tokens)?;
        self.times.push(begin.elapsed());
        cut_back(&mut self.session, self.test.n_depth)
    }

    /// Times kernels, where that is wanted, and gives what was measured.
    ///
    /// # Errors
    /// If the device fails.
    pub fn finish(mut self) -> Result<Samples, Error> {
        let profile = self.how.profile && self.test.n_seq == 1;
        let steps = if profile { Some(profiled(&mut self.session, self.test, &self.tokens)?) } else { None };
        Ok(Samples { start: self.start, times: self.times, launches: self.session.decode_launches().0, steps })
    }
}

/// Measures.
///
/// # Errors
/// If the tokens don't fit the device's memory or the device fails.
pub fn run(model: &Model, test: &Test, how: How) -> Result<Samples, Error> {
    let mut running = Running::start(model, test, how)?;
    for _ in 0..how.repetitions {
        running.repeat()?;
    }
    running.finish()
}

/// Tokens of a generation whose kernels are timed.
const PROFILED: usize = 16;

/// Times the kernels of a prompt, or of some tokens of a generation; and the same steps as they are always run.
fn profiled(session: &mut Session, test: &Test, tokens: &[u32]) -> Result<Steps, Error> {
    let mut replayed = Vec::new();
    let pieces: Vec<&[u32]> = match test.n_gen {
        0 => tokens.chunks(session.n_batch() as usize).collect(),
        _ => tokens.chunks(1).take(PROFILED).collect(),
    };
    for piece in &pieces {
        let begin = Instant::now();
        session.eval_rows(piece, |_| Ok(()))?;
        replayed.push(begin.elapsed());
    }
    session.truncate(test.n_depth)?;
    let mut launches = Vec::new();
    for piece in pieces {
        launches.extend(session.profile(piece)?);
    }
    session.truncate(test.n_depth)?;
    Ok(Steps { launches, replayed })
}

/// Cuts all sequences back to so many tokens.
fn cut_back(session: &mut Session, n: u32) -> Result<(), Error> {
    (0..session.sequences()).try_for_each(|sequence| {
        session.select(sequence)?;
        session.truncate(n)
    })
}

fn step(session: &mut Session, test: &Test, tokens: &[u32]) -> Result<(), Error> {
    if test.n_seq > 1 {
        // Each sequence gets another token, so that experts are not all the same.
        let of = |sequence: u32, i: usize| tokens[(i + sequence as usize) % tokens.len()];
        return (0..tokens.len()).try_for_each(|i| {
            let each: Vec<(u32, u32)> = (0..test.n_seq).map(|s| (s, of(s, i))).collect();
            session.eval_each(&each, |_, _| Ok(()))
        });
    }
    // The logits are read, but nobody wants to keep them.
    let mut eval = |tokens: &[u32]| session.eval_rows(tokens, |_| Ok(()));
    if test.n_gen == 0 {
        return eval(tokens);
    }
    tokens.chunks(1).try_for_each(eval)
}

/// Steele and others' SplitMix64 (OOPSLA 2014): enough for token ids.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
