//! Who runs which programs of a stage.
//!
//! Each thread begins with a range of its own, so that it reads memory from end to end, which is what the processor's
//! prefetching follows. A thread that is done takes from the end of what another one has left.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A thread takes its programs in this many portions: what is left in between others can take.
const PORTIONS: u32 = 8;

/// What is left of a thread's range: the first unit in the upper half, the end in the lower. Threads change theirs all
/// the time, so each has a cache line.
#[repr(align(64))]
struct Left(AtomicU64);

/// The programs of a stage, shared out.
pub(super) struct Shares {
    left: Vec<Left>,
    /// Units that are taken at once.
    portion: u32,
    /// Programs of a unit: one, where there are no more than 2^32.
    unit: usize,
    total: usize,
}

fn pack(range: Range<u32>) -> u64 {
    u64::from(range.start) << 32 | u64::from(range.end)
}

fn unpack(bits: u64) -> Range<u32> {
    (bits >> 32) as u32..bits as u32
}

impl Shares {
    /// No programs, for so many threads.
    pub(super) fn new(threads: usize) -> Shares {
        Shares { left: (0..threads.max(1)).map(|_| Left(AtomicU64::new(0))).collect(), portion: 1, unit: 1, total: 0 }
    }

    /// Shares out programs 0 to `total`.
    pub(super) fn deal(&mut self, total: usize) {
        self.total = total;
        self.unit = total.div_ceil(u32::MAX as usize).max(1);
        let total = total.div_ceil(self.unit) as u32;
        let threads = self.left.len() as u64;
        let bound = |thread: u64| (u64::from(total) * thread / threads) as u32;
        for (thread, left) in (0..).zip(&mut self.left) {
            *left.0.get_mut() = pack(bound(thread)..bound(thread + 1));
        }
        self.portion = (total / (threads as u32).saturating_mul(PORTIONS)).max(1);
    }

    /// Programs for a thread to run next: its own, else some that another thread has left. None where there are none left.
    pub(super) fn take(&self, thread: usize) -> Option<Range<usize>> {
        let from_front = |left: Range<u32>| {
            let n = self.portion.min(left.end - left.start);
            (left.start..left.start + n, left.start + n..left.end)
        };
        let from_back = |left: Range<u32>| {
            let n = self.portion.min((left.end - left.start).div_ceil(2));
            (left.end - n..left.end, left.start..left.end - n)
        };
        if let Some(taken) = self.cut(thread, from_front) {
            return Some(taken);
        }
        let n = self.left.len();
        (1..n).find_map(|i| self.cut((thread + i) % n, from_back))
    }

    /// Takes a part of what a thread has left, if it has anything: `part` gives it, and what remains.
    fn cut(&self, thread: usize, part: impl Fn(Range<u32>) -> (Range<u32>, Range<u32>)) -> Option<Range<usize>> {
        let left = &self.left[thread].0;
        let mut seen = left.load(Ordering::Relaxed);
        loop {
            let range = unpack(seen);
            if range.is_empty() {
                return None;
            }
            let (taken, rest) = part(range);
            match left.compare_exchange_weak(seen, pack(rest), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    let place = |unit: u32| (unit as usize).saturating_mul(self.unit).min(self.total);
                    return Some(place(taken.start)..place(taken.end));
                }
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_program_is_taken_once_whoever_takes_it() {
        for (threads, total) in [(1, 0), (1, 7), (2, 1), (2, 9), (3, 1000), (5, 3)] {
            let mut shares = Shares::new(threads);
            for takers in [threads, 1] {
                shares.deal(total);
                let taken = Mutex::new(Vec::new());
                std::thread::scope(|s| {
                    for thread in 0..takers {
                        let (shares, taken) = (&shares, &taken);
                        s.spawn(move || {
                            while let Some(programs) = shares.take(thread) {
                                taken.lock().unwrap().extend(programs);
                            }
                        });
                    }
                });
                let mut taken = taken.into_inner().unwrap();
                taken.sort_unstable();
                assert_eq!(taken, (0..total).collect::<Vec<_>>(), "{threads} threads, {takers} at work");
            }
        }
    }

    #[test]
    fn a_thread_goes_through_its_range_in_order() {
        let mut shares = Shares::new(2);
        shares.deal(40);
        let mine: Vec<usize> = std::iter::from_fn(|| shares.take(1)).take_while(|r| r.start >= 20).flatten().collect();
        assert_eq!(mine, (20..40).collect::<Vec<_>>());
    }
}
