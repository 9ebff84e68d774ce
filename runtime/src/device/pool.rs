//! The threads that run recorded steps.
//!
//! A job is one function that threads call with their number, the calling thread being number 0. Those of the others take
//! part that come before the caller is through: what is to be done is shared out by the job itself, so a thread whose
//! processor another program has is not waited for, unless it is in the middle of something. Waiting threads spin for a
//! short while, then give their processor to others; between jobs they sleep.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Turns of spinning before a waiting thread yields: some microseconds, about what a stage lasts.
const SPIN: u32 = 4096;

type Job = dyn Fn(usize) + Sync;

/// A pointer to a job that lives on the stack of the thread that runs it.
#[derive(Clone, Copy)]
struct JobRef(*const Job);

// SAFETY: the job is `Sync`, and `Pool::run` does not return before every thread that began it is done with it.
unsafe impl Send for JobRef {}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    /// Threads at the job, the caller's excluded. Grows only while the state is locked.
    busy: AtomicUsize,
    panicked: AtomicBool,
}

#[derive(Default)]
struct State {
    /// None when it is too late to begin.
    job: Option<JobRef>,
    /// Counts jobs, so that a thread runs each once at most.
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
            panicked: AtomicBool::new(false),
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

    /// Calls `job` on this thread and on those of the others that come meanwhile; returns when all these have returned.
    /// False if one of them panicked.
    pub(super) fn run(&self, job: &(dyn Fn(usize) + Sync)) -> bool {
        let _turn = self.turn.lock().unwrap_or_else(|e| e.into_inner());
        self.shared.panicked.store(false, Ordering::Relaxed);
        // SAFETY: only the lifetime is erased; the wait below keeps the job alive until the last thread is done.
        let job_ref = JobRef(unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const Job>(job) });
        if !self.threads.is_empty() {
            let mut state = self.shared.lock();
            state.job = Some(job_ref);
            state.number += 1;
            drop(state);
            self.shared.wake.notify_all();
        }
        self.shared.call(job, 0);
        if !self.threads.is_empty() {
            self.shared.lock().job = None;
            wait_until(|| self.shared.busy.load(Ordering::Acquire) == 0);
        }
        !self.has_failed()
    }

    /// Whether a thread panicked in this job: what it had begun will not be done.
    pub(super) fn has_failed(&self) -> bool {
        self.shared.panicked.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn call(&self, job: &(dyn Fn(usize) + Sync), number: usize) {
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(number))).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
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
            let mut state = shared.lock();
            while state.number == seen && !state.stop {
                state = shared.wake.wait(state).unwrap_or_else(|e| e.into_inner());
            }
            if state.stop {
                return;
            }
            seen = state.number;
            if state.job.is_some() {
                shared.busy.fetch_add(1, Ordering::Relaxed);
            }
            state.job
        };
        if let Some(JobRef(job)) = job {
            // SAFETY: `run` waits for `busy` to reach 0 before the job goes away, and takes it out of the state before.
            shared.call(unsafe { &*job }, number);
            shared.busy.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Spins for a while, then yields, until the condition holds.
pub(super) fn wait_until(condition: impl Fn() -> bool) {
    let mut turns = 0u32;
    while !condition() {
        turns = turns.saturating_add(1);
        if turns < SPIN { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_a_job_once_at_most_and_the_caller_each() {
        for n in [1, 2, 4] {
            let pool = Pool::new(n).unwrap();
            let counts: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            for job in 1..=100 {
                assert!(pool.run(&|i| {
                    counts[i].fetch_add(1, Ordering::Relaxed);
                }));
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) <= job));
            }
            assert_eq!(counts[0].load(Ordering::Relaxed), 100);
        }
    }

    #[test]
    fn all_threads_come_where_there_is_time() {
        let pool = Pool::new(4).unwrap();
        let here = AtomicUsize::new(0);
        assert!(pool.run(&|_| {
            here.fetch_add(1, Ordering::Relaxed);
            wait_until(|| here.load(Ordering::Relaxed) == 4);
        }));
    }

    #[test]
    fn a_panic_is_reported_and_the_pool_goes_on() {
        let pool = Pool::new(2).unwrap();
        for panicking in [0, 1] {
            let here = AtomicUsize::new(0);
            let done = pool.run(&|i| {
                here.fetch_add(1, Ordering::Relaxed);
                wait_until(|| here.load(Ordering::Relaxed) == 2);
                assert_ne!(i, panicking, "planted");
            });
            assert!(!done && pool.has_failed());
            assert!(pool.run(&|_| ()) && !pool.has_failed());
        }
    }
}
