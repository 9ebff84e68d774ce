//! Who runs which programs of a stage.
//!
//! Each thread begins with a range of its own, so that it reads memory from end to end, which is what the processor's
//! prefetching follows. A thread that is done takes from the end of what another one has left. A stage is over when all
//! programs have been run, by whichever threads: one that has none at hand is not waited for.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A thread takes its programs in this many portions: what is left in between others can take.
const PORTIONS: u32 = 8;

/// What threads change all the time has a cache line of its own.
#[repr(align(64))]
struct Line<T>(T);

/// The programs of a stage, shared out.
pub(super) struct Shares {
    /// What is left of each thread's range: the first unit in the upper half, the end in the lower.
    left: Vec<Line<AtomicU64>>,
    /// Units that are taken at once.
    portion: u32,
    /// Programs of a unit: one, where there are no more than 2^32.
    unit: usize,
    total: usize,
    /// Programs that have been run.
    done: Line<AtomicUsize>,
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
        let left = (0..threads.max(1)).map(|_| Line(AtomicU64::new(0))).collect();
        Shares { left, portion: 1, unit: 1, total: 0, done: Line(AtomicUsize::new(0)) }
    }

    /// Shares out programs 0 to `total`.
    pub(super) fn deal(&mut self, total: usize) {
        self.total = total;
        *self.done.0.get_mut() = 0;
        self.unit = total.div_ceil(u32::MAX as usize).max(1);
        let total = total.div_ceil(self.unit) as u32;
        let threads = self.left.len() as u64;
        let bound = |thread: u64| (u64::from(total) * thread / threads) as u32;
        for (thread, left) in (0..).zip(&mut self.left) {
            *left.0.get_mut() = pack(bound(thread)..bound(thread + 1));
        }
        self.portion = (total / (threads as u32).saturating_mul(PORTIONS)).max(1);
    }

    /// Runs programs as a thread, until there are none left that nobody has begun.
    pub(super) fn run(&self, thread: usize, mut programs: impl FnMut(Range<usize>)) {
        while let Some(taken) = self.take(thread) {
            let n = taken.len();
            programs(taken);
            // What programs have written is seen by who sees this.
            self.done.0.fetch_add(n, Ordering::Release);
        }
    }

    /// Whether all programs have been run.
    pub(super) fn are_done(&self) -> bool {
        self.done.0.load(Ordering::Acquire) == self.total
    }

    /// Programs for a thread to run next: its own, else some that another thread has left. None where there are none left.
    fn take(&self, thread: usize) -> Option<Range<usize>> {
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
    fn stages_do_not_overlap() {
        let stages: Vec<Shares> = [1, 40, 7, 0, 100]
            .into_iter()
            .map(|total| {
                let mut shares = Shares::new(3);
                shares.deal(total);
                shares
            })
            .collect();
        let counter = AtomicUsize::new(0);
        // One thread is not there: the others do its share.
        std::thread::scope(|s| {
            for thread in 0..2 {
                let (stages, counter) = (&stages, &counter);
                s.spawn(move || {
                    let mut before = 0;
                    for stage in stages {
                        stage.run(thread, |programs| {
                            assert!(counter.load(Ordering::Relaxed) >= before);
                            counter.fetch_add(programs.len(), Ordering::Relaxed);
                        });
                        crate::device::pool::wait_until(|| stage.are_done());
                        before += stage.total;
                        assert!(counter.load(Ordering::Relaxed) >= before);
                    }
                });
            }
        });
        assert_eq!(counter.into_inner(), 148);
    }

    #[test]
    fn a_thread_goes_through_its_range_in_order() {
        let mut shares = Shares::new(2);
        shares.deal(40);
        let mine: Vec<usize> = std::iter::from_fn(|| shares.take(1)).take_while(|r| r.start >= 20).flatten().collect();
        assert_eq!(mine, (20..40).collect::<Vec<_>>());
    }
}
