//! Time since the process was started, dynamic linking included.

use std::time::{Duration, Instant};

/// A clock that was started with the process.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    main: Instant,
    before_main: Option<Duration>,
}

impl Clock {
    /// To be called first in `main`.
    pub fn start() -> Clock {
        Clock { main: Instant::now(), before_main: age_of_process() }
    }

    /// Time from the start of the process to [`start`](Clock::start), where the system tells.
    pub fn before_main(&self) -> Option<Duration> {
        self.before_main
    }

    /// Time since the start of the process; since `main`, where the system does not tell.
    pub fn elapsed(&self) -> Duration {
        self.main.elapsed() + self.before_main.unwrap_or_default()
    }
}

/// How long ago the process was started. The kernel counts it in ticks (of 10 ms as a rule) and rounds the start down, so
/// that this is up to a tick too long and never too short.
fn age_of_process() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // Field 22, counted from 1; the name of the program, field 2, is in parentheses and may have spaces in it.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    // SAFETY: a plain query.
    let per_second = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|&n| n > 0)?;
    let started = Duration::from_nanos(ticks.checked_mul(1_000_000_000 / per_second)?);
    since_boot()?.checked_sub(started)
}

fn since_boot() -> Option<Duration> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the answer.
    let rc = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    (rc == 0).then_some(Duration::new(now.tv_sec.try_into().ok()?, now.tv_nsec.try_into().ok()?))
}
