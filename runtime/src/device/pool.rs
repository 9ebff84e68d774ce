//! The threads that run recorded steps.
//!
//! A job is one function that every thread calls with its number, the calling thread being number 0. Inside a job
//! threads meet at a barrier between stages. Waiting threads spin for a short while, then give their processor to
//! others; between jobs they sleep.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Turns of spinning before a waiting thread yields: some microseconds, about what a stage lasts.
const SPIN: u32 = 4096;

type Job = dyn Fn(usize) + Sync;

/// A pointer to a job that lives on the stack of the thread that runs it.
#[derive(Clone, Copy)]
struct JobRef(*const Job);

// SAFETY: the job is `Sync`, and `Pool::run` does not return before every thread is done with it.
unsafe impl Send for JobRef {}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Threads that have not finished the job yet, the caller's excluded.
    busy: AtomicUsize,
    panicked: AtomicU32,
}

#[derive(Default)]
struct State {
    job: Option<JobRef>,
    /// Counts jobs, so that a thread runs each once.
    number: u64,
    stop: bool,
}

/// A fixed number of threads.
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<std::thread::JoinHandle<()>>,
    /// One job at a time.
    turn: Mutex<()>,
}

impl Pool {
    /// A pool of `n` threads, of which the caller of [`run`](Pool::run) is one.
    pub(super) fn new(n: usize) -> std::io::Result<Pool> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            wake: Condvar::new(),
            busy: AtomicUsize::new(0),
            panicked: AtomicU32::new(0),
        });
        let spawn = |i: usize| {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name(format!("hrx-{i}")).spawn(move || work(&shared, i))
        };
        let threads = (1..n.max(1)).map(spawn).collect::<std::io::Result<_>>()?;
        Ok(Pool { shared, threads, turn: Mutex::new(()) })
    }

    /// The number of threads.
    pub(super) fn threads(&self) -> usize {
        self.threads.len() + 1
    }

    /// Calls `job` on every thread and returns when all have returned. False if one of them panicked.
    pub(super) fn run(&self, job: &(dyn Fn(usize) + Sync)) -> bool {
        let _turn = self.turn.lock().unwrap_or_else(|e| e.into_inner());
        self.shared.panicked.store(0, Ordering::Relaxed);
        self.shared.busy.store(self.threads.len(), Ordering::Release);
        // SAFETY: only the lifetime is erased; the wait below keeps the job alive until the last thread is done.
        let job_ref = JobRef(unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const Job>(job) });
        if !self.threads.is_empty() {
            let mut state = self.shared.state.lock().unwrap_or_else(|e| e.into_inner());
            state.job = Some(job_ref);
            state.number += 1;
            drop(state);
            self.shared.wake.notify_all();
        }
        let mine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(0)));
        wait_until(|| self.shared.busy.load(Ordering::Acquire) == 0);
        mine.is_ok() && self.shared.panicked.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap_or_else(|e| e.into_inner()).stop = true;
        self.shared.wake.notify_all();
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
    }
}

fn work(shared: &Shared, number: usize) {
    let mut seen = 0;
    loop {
        let job = {
            let mut state = shared.state.lock().unwrap_or_else(|e| e.into_inner());
            while state.number == seen && !state.stop {
                state = shared.wake.wait(state).unwrap_or_else(|e| e.into_inner());
            }
            if state.stop {
                return;
            }
            seen = state.number;
            state.job
        };
        if let Some(JobRef(job)) = job {
            // SAFETY: `run` waits for `busy` to reach 0 before the job goes away.
            let job = unsafe { &*job };
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(number))).is_err() {
                shared.panicked.fetch_add(1, Ordering::Relaxed);
            }
        }
        shared.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Spins for a while, then yields, until the condition holds.
fn wait_until(condition: impl Fn() -> bool) {
    let mut turns = 0u32;
    while !condition() {
        turns = turns.saturating_add(1);
        if turns < SPIN { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

/// Where the threads of a job meet.
pub(super) struct Barrier {
    threads: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
}

impl Barrier {
    pub(super) fn new(threads: usize) -> Barrier {
        Barrier { threads, arrived: AtomicUsize::new(0), generation: AtomicUsize::new(0) }
    }

    /// Returns when all threads have called it. The last one runs `last` before the others go on.
    pub(super) fn wait(&self, last: impl FnOnce()) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            last();
            self.generation.fetch_add(1, Ordering::AcqRel);
        } else {
            wait_until(|| self.generation.load(Ordering::Acquire) != generation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_runs_every_job_once() {
        for n in [1, 2, 4] {
            let pool = Pool::new(n).unwrap();
            let counts: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..100 {
                assert!(pool.run(&|i| {
                    counts[i].fetch_add(1, Ordering::Relaxed);
                }));
            }
            assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 100));
        }
    }

    #[test]
    fn stages_do_not_overlap() {
        let pool = Pool::new(3).unwrap();
        let barrier = Barrier::new(3);
        let counter = AtomicUsize::new(0);
        let ok = AtomicUsize::new(0);
        pool.run(&|_| {
            for stage in 1..=200 {
                counter.fetch_add(1, Ordering::Relaxed);
                barrier.wait(|| ());
                if counter.load(Ordering::Relaxed) == 3 * stage {
                    ok.fetch_add(1, Ordering::Relaxed);
                }
                barrier.wait(|| ());
            }
        });
        assert_eq!(ok.load(Ordering::Relaxed), 600);
    }

    #[test]
    fn a_panic_is_reported_and_the_pool_goes_on() {
        let pool = Pool::new(2).unwrap();
        assert!(!pool.run(&|i| assert_ne!(i, 1, "planted")));
        assert!(pool.run(&|_| ()));
    }
}
