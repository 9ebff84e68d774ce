//! A small mutation driver: seeded, so that every run with one seed makes the same inputs in the
//! same order; without dependencies. It knows nothing about formats but that they hold counts,
//! lengths and offsets as little-endian integers.

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use crate::{Reached, Target};

/// Inputs never grow beyond this.
const MAX_BYTES: usize = 1 << 16;
/// Mutated inputs that got inside are kept and mutated further, up to this many.
const MAX_POOL: usize = 256;
/// An input that takes longer is a failure: the target hangs or its cost is out of proportion.
const MAX_TIME: Duration = Duration::from_secs(2);

/// xorshift64* (Vigna 2016): enough for mutations.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator whose numbers depend on `seed` alone.
    pub fn new(seed: u64) -> Self {
        // Zero is the one state that it cannot leave.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, or 0 for 0.
    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 32) as usize % bound.max(1)
    }

    /// A range within `0..len`, short more often than long.
    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.below(len);
        let longest = [4, 16, 64, len][self.below(4)];
        start..(start + 1 + self.below(longest)).min(len)
    }
}

/// Changes `input` in one to four places; `other` is a source of foreign pieces.
pub fn mutate(random: &mut Random, input: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..1 + random.below(4) {
        let len = input.len();
        match random.below(8) {
            _ if len == 0 => input.extend_from_slice(&other[random.range(other.len())]),
            0 | 1 => input[random.below(len)] ^= 1 << random.below(8),
            2 => input[random.below(len)] = random.next() as u8,
            3 | 4 => write_integer(random, input),
            5 => match random.below(2) {
                0 => input.truncate(random.below(len)),
                _ => drop(input.drain(random.range(len))),
            },
            6 => {
                let piece = input[random.range(len)].to_vec();
                let at = random.below(len + 1);
                input.splice(at..at, piece);
            }
            _ => {
                let piece = other[random.range(other.len())].to_vec();
                let to = random.range(len);
                input.splice(to, piece);
            }
        }
    }
    input.truncate(MAX_BYTES);
}

/// Overwrites 1, 2, 4 or 8 bytes with a value at an edge of some range, or moves the one there.
fn write_integer(random: &mut Random, input: &mut [u8]) {
    let width = (1 << random.below(4)).min(input.len());
    let at = random.below(input.len() - width + 1);
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(&input[at..at + width]);
    let present = u64::from_le_bytes(bytes);
    let power = 1_u64 << random.below(64);
    let value = match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => power,
        3 => power.wrapping_sub(1),
        4 => (input.len() as u64).wrapping_add(random.below(17) as u64).wrapping_sub(8),
        5 => present.wrapping_add(1),
        6 => present.wrapping_sub(1),
        _ => present.wrapping_mul(power),
    };
    input[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
}

/// What a run came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Inputs tried, seeds included.
    pub inputs: u64,
    /// Of these, refused by the first check.
    pub wasted: u64,
    /// Of these, accepted.
    pub accepted: u64,
}

/// An input that made a target panic or hang.
#[derive(Debug)]
pub struct Failure {
    /// The input.
    pub input: Vec<u8>,
    /// The panic's message.
    pub message: String,
}

/// Runs a target on the seeds and then on mutations of them until `time` is over.
///
/// # Errors
/// The first input that makes it panic or take more than two seconds.
pub fn drive(target: &Target, seeds: &[Vec<u8>], time: Duration) -> Result<Report, Failure> {
    let start = Instant::now();
    let mut report = Report::default();
    let mut pool = seeds.to_vec();
    let mut random = Random::new(target.name.bytes().fold(1, |h, b| h * 31 + u64::from(b)));
    for seed in seeds {
        run_one(target, seed, &mut report)?;
    }
    while !pool.is_empty() && start.elapsed() < time {
        let mut input = pool[random.below(pool.len())].clone();
        let other = random.below(pool.len());
        mutate(&mut random, &mut input, &pool[other]);
        if run_one(target, &input, &mut report)? != Reached::FirstCheck && random.below(16) == 0 {
            match pool.len() {
                full if full >= MAX_POOL.max(2 * seeds.len()) => {
                    let replaced = seeds.len() + random.below(full - seeds.len());
                    pool[replaced] = input;
                }
                _ => pool.push(input),
            }
        }
    }
    Ok(report)
}

fn run_one(target: &Target, input: &[u8], report: &mut Report) -> Result<Reached, Failure> {
    let failure = |message| Failure { input: input.to_vec(), message };
    let begin = Instant::now();
    let reached = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input))).map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        failure(text.unwrap_or("a panic without a message").to_owned())
    })?;
    if begin.elapsed() > MAX_TIME {
        return Err(failure(format!("took {:?}", begin.elapsed())));
    }
    report.inputs += 1;
    report.wasted += u64::from(reached == Reached::FirstCheck);
    report.accepted += u64::from(reached == Reached::End);
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A parser with a mistake: it trusts the length in the third byte.
    fn careless(data: &[u8]) -> Reached {
        match data {
            [b'M', b'G', len, rest @ ..] => {
                let payload = &rest[..usize::from(*len)];
                if payload.is_empty() { Reached::Inside } else { Reached::End }
            }
            _ => Reached::FirstCheck,
        }
    }

    #[test]
    fn a_mistake_is_found_and_the_input_reproduces_it() {
        let target = Target { name: "careless", run: careless };
        let failure = drive(&target, &[b"MG\x02ab".to_vec()], Duration::from_secs(20)).unwrap_err();
        assert!(failure.message.contains("out of range"), "{}", failure.message);
        assert!(panic::catch_unwind(|| careless(&failure.input)).is_err());
    }

    #[test]
    fn one_seed_one_sequence() {
        let sequence = || {
            let mut random = Random::new(7);
            let mut input = b"some bytes to begin with".to_vec();
            let inputs: Vec<_> = (0..2000)
                .map(|_| {
                    mutate(&mut random, &mut input, b"foreign");
                    input.clone()
                })
                .collect();
            inputs
        };
        let inputs = sequence();
        assert_eq!(inputs, sequence());
        assert!(inputs.windows(2).filter(|pair| pair[0] != pair[1]).count() > 1500);
        assert!(inputs.iter().all(|input| input.len() <= MAX_BYTES));
    }

    #[test]
    fn empty_inputs_are_bearable() {
        let mut random = Random::new(3);
        for _ in 0..1000 {
            mutate(&mut random, &mut Vec::new(), b"");
        }
    }
}
