//! Whether what a sequence gets depends on the sequences that are evaluated with it.

use hrx::exec::Activations;
use hrx::sampler::argmax;
use hrx::{Error, Model, Session, SessionOptions};

/// How many sequences there are.
pub const SEQUENCES: u32 = 8;
/// Tokens that each generates.
const GENERATED: usize = 6;
/// Room for the longest prompt and what is generated.
const N_CTX: u32 = 64;

/// A row of logits that differs from that of the sequence alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// How many were evaluated together.
    pub together: usize,
    /// Whose row it is.
    pub sequence: u32,
    /// Tokens generated before it.
    pub step: usize,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Difference { together, sequence, step } = self;
        write!(f, "sequence {sequence}, with {} others, has other logits behind token {step}", together - 1)
    }
}

/// Prompts of different lengths.
fn prompts(n_vocab: u32) -> Vec<Vec<u32>> {
    let token = |sequence: u32, i: u32| (sequence * 7919 + i * 104_729 + 17) % n_vocab;
    (0..SEQUENCES).map(|s| (0..1 + 6 * s).map(|i| token(s, i)).collect()).collect()
}

/// Generates greedily from [`SEQUENCES`] prompts, each alone in a session of its own, and then in one session, so many of
/// them at a time as each of `groups` says, with other neighbours at each step. Gives the rows of logits that are not the
/// same to the bit.
///
/// # Errors
/// If a session can't be made or run.
pub fn differences(model: &Model, groups: &[usize], activations: Activations) -> Result<Vec<Difference>, Error> {
    let options = SessionOptions { n_ctx: N_CTX, activations, ..SessionOptions::default() };
    let prompts = prompts(model.config().n_vocab);
    let alone = prompts.iter().map(|prompt| generate(&mut model.session(&options)?, prompt));
    let alone: Vec<Vec<Vec<f32>>> = alone.collect::<Result<_, Error>>()?;
    let differs = |row: &[f32], sequence: u32, step: usize| row != alone[sequence as usize][step];
    let mut out = Vec::new();
    for &together in groups {
        let mut session = model.session(&SessionOptions { sequences: SEQUENCES, ..options.clone() })?;
        let mut next = Vec::with_capacity(prompts.len());
        for (sequence, prompt) in (0..).zip(&prompts) {
            session.select(sequence)?;
            let row = session.eval(prompt)?;
            out.extend(differs(&row, sequence, 0).then_some(Difference { together, sequence, step: 0 }));
            next.push(argmax(&row));
        }
        for step in 1..=GENERATED {
            let mut order: Vec<u32> = (0..SEQUENCES).collect();
            order.rotate_left(step % SEQUENCES as usize);
            for group in order.chunks(together.max(1)) {
                let tokens: Vec<(u32, u32)> = group.iter().map(|&s| (s, next[s as usize])).collect();
                session.eval_each(&tokens, |i, row| {
                    let sequence = group[i];
                    out.extend(differs(row, sequence, step).then_some(Difference { together, sequence, step }));
                    next[sequence as usize] = argmax(row);
                    Ok(())
                })?;
            }
        }
    }
    Ok(out)
}

/// The logits behind a prompt and behind each token that is generated.
fn generate(session: &mut Session, prompt: &[u32]) -> Result<Vec<Vec<f32>>, Error> {
    let mut rows = vec![session.eval(prompt)?];
    for _ in 0..GENERATED {
        let next = argmax(&rows[rows.len() - 1]);
        rows.push(session.eval(&[next])?);
    }
    Ok(rows)
}
