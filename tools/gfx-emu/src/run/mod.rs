//! Launches: workgroups spread over threads, waves of a workgroup in turns.

mod context;
mod entry;
mod pending;
mod wave;

pub use context::{Between, Context, Launch, PRIVATE_APERTURE, SHARED_APERTURE};
pub use entry::Entry;
pub use wave::{State, Wave, each};

use crate::exec::{Next, step, stretch};
use crate::random::Random;
use crate::report::{Counters, Kind, Report, Run};
use crate::{Error, Options};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Instructions that a wave executes before others get their turn.
const TURN: u64 = 4096;

/// A launch with all that its workgroups start with.
#[derive(Debug)]
pub struct Job<'a> {
    pub launch: Launch,
    pub entry: Entry<'a>,
    pub grid: [u32; 3],
    /// Bytes of LDS of a workgroup.
    pub lds: usize,
    pub options: Options,
    /// Whether one thread must do it all, so that results do not depend on threads.
    pub alone: bool,
}

/// What threads share.
struct Shared {
    next: AtomicU64,
    stop: AtomicBool,
    done: Mutex<Done>,
}

/// What all threads' workgroups came to, and the first error by the workgroup's number.
type Done = (Vec<Outcome>, Option<(u64, Error)>);

/// What a thread's workgroups came to.
struct Outcome {
    reports: context::Reports,
    counters: Counters,
}

impl Job<'_> {
    /// Runs all workgroups.
    pub fn run(&self) -> Result<Run, Error> {
        let count = self.grid.iter().map(|&n| u64::from(n)).product::<u64>();
        let shared = Shared { next: AtomicU64::new(0), stop: AtomicBool::new(false), done: Mutex::default() };
        let threads = if self.alone { 1 } else { self.options.threads.max(1).min(count as usize).max(1) };
        if threads == 1 {
            self.work(&shared, count);
        } else {
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| self.work(&shared, count));
                }
            });
        }
        let (outcomes, error) = shared.done.into_inner().unwrap_or_else(|e| e.into_inner());
        if let Some((_, error)) = error {
            return Err(error);
        }
        let mut all = context::Reports::new();
        let mut counters = Counters::default();
        for outcome in outcomes {
            counters.add(&outcome.counters);
            for (key, (linear, report)) in outcome.reports {
                match all.entry(key) {
                    std::collections::btree_map::Entry::Vacant(place) => {
                        place.insert((linear, report));
                    }
                    std::collections::btree_map::Entry::Occupied(mut place) => {
                        let times = place.get().1.times + report.times;
                        if linear < place.get().0 {
                            place.insert((linear, report));
                        }
                        place.get_mut().1.times = times;
                    }
                }
            }
        }
        let mut reports: Vec<(u64, Report)> = all.into_values().collect();
        reports.sort_by_key(|(linear, report)| (*linear, report.pc, report.kind));
        Ok(Run { reports: reports.into_iter().map(|(_, r)| r).collect(), counters })
    }

    /// Workgroups until there are none.
    fn work(&self, shared: &Shared, count: u64) {
        let mut cx = Context::new(&self.launch, self.lds);
        let mut waves = self.entry.waves(&self.launch.code);
        loop {
            let linear = shared.next.fetch_add(1, Relaxed);
            if linear >= count || shared.stop.load(Relaxed) {
                break;
            }
            if let Err(error) = self.workgroup(&mut cx, &mut waves, linear) {
                shared.stop.store(true, Relaxed);
                let mut done = shared.done.lock().unwrap_or_else(|e| e.into_inner());
                if done.1.as_ref().is_none_or(|(first, _)| linear < *first) {
                    done.1 = Some((linear, error));
                }
            }
        }
        cx.count_visits();
        let mut done = shared.done.lock().unwrap_or_else(|e| e.into_inner());
        done.0.push(Outcome { reports: cx.reports, counters: cx.counters });
    }

    fn workgroup(&self, cx: &mut Context<'_>, waves: &mut [Wave], linear: u64) -> Result<(), Error> {
        let [x, y] = [self.grid[0], self.grid[1]].map(u64::from);
        cx.workgroup = [linear % x, linear / x % y, linear / (x * y)].map(|n| n as u32);
        cx.linear = linear;
        cx.epoch = 0;
        cx.signals = 0;
        cx.between.clear();
        cx.waves = waves.len() as u32;
        cx.lds.fill(0xA5);
        cx.shadow.reset();
        cx.counters.workgroups += 1;
        cx.counters.waves += waves.len() as u64;
        self.entry.start(waves, cx.workgroup);
        let mut random = Random::new(self.options.seed ^ linear.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let mut order: Vec<usize> = (0..waves.len()).collect();
        let mut executed = 0;
        loop {
            if self.options.shuffle {
                for i in (1..order.len()).rev() {
                    order.swap(i, random.bits() as usize % (i + 1));
                }
            }
            let mut ran = false;
            for &at in &order {
                if waves[at].state != State::Ready {
                    continue;
                }
                ran = true;
                let turn = if self.options.shuffle { 1 + random.bits() % TURN } else { TURN };
                // SAFETY: whoever makes a `Gpu` has looked that the CPU has these features.
                executed += unsafe { self.turn(cx, &mut waves[at], turn) }?;
            }
            if waves.iter().all(|w| w.state == State::Ended) {
                return Ok(());
            }
            if executed > self.options.most_instructions {
                return Err(self.stuck(cx, format!("more than {} instructions", self.options.most_instructions)));
            }
            if !release(cx, waves) && !ran {
                self.deadlock(cx, waves);
                return Ok(());
            }
        }
    }

    fn stuck(&self, cx: &Context<'_>, reason: String) -> Error {
        Error::Stuck { kernel: self.launch.kernel.clone(), workgroup: cx.workgroup, reason }
    }

    /// A wave until it blocks, ends or has had its turn; how many instructions it executed.
    #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
    fn turn(&self, cx: &mut Context<'_>, w: &mut Wave, most: u64) -> Result<u64, Error> {
        let code = &self.launch.code;
        cx.wave = w.number;
        let beyond = self.launch.beyond;
        let mut left = most;
        let mut pc = w.pc;
        // Where the instructions started that were executed one after the other up to here.
        let mut start = pc;
        while left > 0 {
            let Some(inst) = code.insts.get(pc) else {
                return Err(self.unknown(pc, "execution runs beyond the code".into()));
            };
            if inst.stretch.rest > 0 && !beyond && stretch::is_free(w, cx, inst, &code.stretches) {
                let count = left.min(inst.stretch.rest.into());
                let end = pc + count as usize;
                stretch::run(w, code.stretches.between(inst, code.insts.get(end)), &code.stretches.prepares);
                left -= count;
                pc = end;
                continue;
            }
            cx.pc = pc;
            if beyond {
                cx.counted(inst.needs);
            }
            left -= 1;
            let next = step(w, cx, inst);
            pc += 1;
            match next {
                Next::Follows => {}
                Next::Jump(to) => {
                    cx.visited(start, pc);
                    pc = to as usize;
                    start = pc;
                }
                Next::Blocked => break,
                Next::Ended => {
                    cx.visited(start, pc);
                    pc -= 1;
                    start = pc;
                    break;
                }
                Next::Unknown => {
                    let reason = std::mem::take(&mut cx.trouble);
                    return Err(self.unknown(cx.pc, reason));
                }
            }
        }
        cx.visited(start, pc);
        w.pc = pc;
        w.executed += most - left;
        Ok(most - left)
    }

    fn unknown(&self, pc: usize, reason: String) -> Error {
        let code = &self.launch.code;
        Error::Instruction {
            kernel: self.launch.kernel.clone(),
            pc: code.address + code.offset(pc),
            text: code.texts.get(pc).cloned().unwrap_or_default(),
            reason,
        }
    }

    /// Reports that no wave can go on.
    fn deadlock(&self, cx: &mut Context<'_>, waves: &[Wave]) {
        let blocked = waves.iter().find_map(|w| match w.state {
            State::Barrier(pc) | State::Split(pc) => Some((w.number, pc)),
            _ => None,
        });
        let Some((number, pc)) = blocked else { return };
        (cx.pc, cx.wave) = (pc, number);
        cx.report(Kind::Deadlock, None, || "the wave waits at a barrier that no other wave will come to".into());
    }
}

/// Lets waves go on that all have come to a barrier; whether there were any.
fn release(cx: &mut Context<'_>, waves: &mut [Wave]) -> bool {
    let alive = waves.iter().filter(|w| w.state != State::Ended).count();
    let at = |w: &Wave| if let State::Barrier(pc) = w.state { Some(pc) } else { None };
    let waiting: Vec<usize> = waves.iter().filter_map(at).collect();
    if alive > 0 && waiting.len() == alive {
        let first = waiting[0];
        let ended = waves.len() - alive;
        let who = waves.iter().find(|w| at(w).is_some()).map_or(0, |w| w.number);
        (cx.pc, cx.wave) = (first, who);
        if ended > 0 && cx.check() {
            cx.report(Kind::BarrierDivergence, None, || format!("{ended} waves ended before the barrier"));
        }
        if waiting.iter().any(|&pc| pc != first) && cx.check() {
            cx.report(Kind::BarrierDivergence, None, || "waves are at different barriers".into());
        }
        cx.epoch += 1;
        waves.iter_mut().filter(|w| w.state != State::Ended).for_each(|w| w.state = State::Ready);
        return true;
    }
    release_split(cx, waves, alive)
}

/// The same of barriers whose arrival and wait are apart.
fn release_split(cx: &mut Context<'_>, waves: &mut [Wave], alive: usize) -> bool {
    let split = |w: &Wave| matches!(w.state, State::Split(_));
    if !waves.iter().any(split) || (cx.signals as usize) < alive {
        return false;
    }
    // Only waves that have signalled go on; the others would wait for the next one.
    let ended = waves.len() - alive;
    if ended > 0
        && cx.check()
        && let Some((number, State::Split(pc))) = waves.iter().find(|w| split(w)).map(|w| (w.number, w.state))
    {
        (cx.pc, cx.wave) = (pc, number);
        cx.report(Kind::BarrierDivergence, None, || format!("{ended} waves ended before the barrier"));
    }
    if waves.iter().filter(|w| w.state != State::Ended).any(|w| !split(w) || w.signalled == 0) {
        return false;
    }
    cx.signals = 0;
    cx.epoch += 1;
    // What waves did after they signalled may come after the barrier as well.
    for b in std::mem::take(&mut cx.between) {
        if b.atomic {
            cx.shadow.note_atomic(b.at, b.bytes, b.wave, cx.epoch);
        } else {
            cx.shadow.note(b.at, b.bytes, b.wave, cx.epoch, b.writes, b.reads);
        }
    }
    for w in waves.iter_mut().filter(|w| w.state != State::Ended) {
        w.signalled -= 1;
        w.state = State::Ready;
    }
    true
}
