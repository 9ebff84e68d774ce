//! Where a test's time goes: by kernel, in launches, and between them.
//!
//! Kernels are timed one by one in steps of their own, which are not the steps that are measured: on a GPU each launch has
//! two events around it, and no graph. What a replay takes beside its kernels is said by comparing with measured steps.

use crate::measure::Test;
use crate::stats::median;
use hrx::device::LaunchTime;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Steps of one test, with the times of their launches.
pub struct Steps {
    /// Each step's launches.
    pub launches: Vec<Vec<LaunchTime>>,
    /// Times of steps that were replayed as always, of the same tokens.
    pub replayed: Vec<Duration>,
}

/// A kernel's part.
#[derive(Clone, Debug, Serialize)]
pub struct KernelPart {
    /// Its name.
    pub kernel: String,
    /// Launches of a step, on average.
    pub launches: f64,
    /// Time of a step, on average, in microseconds.
    pub us: f64,
    /// Part of all kernels' time.
    pub share: f64,
    /// Median time of a launch, in microseconds.
    pub median_us: f64,
    /// Programs of a launch, on average.
    pub programs: f64,
}

/// Where the time goes.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// The test.
    pub test: String,
    /// Steps that were timed.
    pub steps: usize,
    /// Tokens of a step, on average.
    pub tokens: f64,
    /// Launches of a step.
    pub launches: f64,
    /// Stages of a step.
    pub stages: f64,
    /// Time in kernels, of a step, in microseconds.
    pub kernels_us: f64,
    /// Time between launches, of a step, as they were timed: events and single launches cost more than a graph.
    pub gaps_us: f64,
    /// Median time of a step as it is measured, in microseconds: inputs, replay, reading of the logits.
    pub step_us: f64,
    /// Of that, what is not in kernels; less than nothing where kernels run side by side.
    pub outside_us: f64,
    /// By kernel, the longest first.
    pub by_kernel: Vec<KernelPart>,
}

fn us(d: Duration) -> f64 {
    d.as_secs_f64() * 1e6
}

impl Profile {
    /// Sums up.
    pub fn new(test: &Test, name: String, steps: &Steps) -> Profile {
        let n = steps.launches.len().max(1) as f64;
        let mut by_name: HashMap<&str, Vec<&LaunchTime>> = HashMap::new();
        for launch in steps.launches.iter().flatten() {
            by_name.entry(&launch.kernel).or_default().push(launch);
        }
        let took = |l: &LaunchTime| us(l.end.saturating_sub(l.start));
        let all: f64 = steps.launches.iter().flatten().map(took).sum();
        let mut by_kernel: Vec<KernelPart> = by_name
            .into_iter()
            .map(|(kernel, launches)| {
                let times: Vec<f64> = launches.iter().map(|l| took(l)).collect();
                let sum: f64 = times.iter().sum();
                KernelPart {
                    kernel: kernel.into(),
                    launches: launches.len() as f64 / n,
                    us: sum / n,
                    share: if all > 0.0 { sum / all } else { 0.0 },
                    median_us: median(&times).unwrap_or(0.0),
                    programs: launches.iter().map(|l| l.programs as f64).sum::<f64>() / launches.len() as f64,
                }
            })
            .collect();
        by_kernel.sort_by(|a, b| b.us.total_cmp(&a.us).then_with(|| a.kernel.cmp(&b.kernel)));
        let gap = |pair: &[LaunchTime]| us(pair[1].start.saturating_sub(pair[0].end));
        let gaps: f64 = steps.launches.iter().map(|step| step.windows(2).map(gap).sum::<f64>()).sum();
        let stages = |step: &Vec<LaunchTime>| step.last().map_or(0, |l| l.stage + 1) as f64;
        let step_us = median(&steps.replayed.iter().map(|&d| us(d)).collect::<Vec<_>>()).unwrap_or(0.0);
        Profile {
            test: name,
            steps: steps.launches.len(),
            tokens: f64::from(if test.n_gen > 0 { 1 } else { test.n_prompt }) / if test.n_gen > 0 { 1.0 } else { n },
            launches: steps.launches.iter().map(Vec::len).sum::<usize>() as f64 / n,
            stages: steps.launches.iter().map(stages).sum::<f64>() / n,
            kernels_us: all / n,
            gaps_us: gaps / n,
            step_us,
            outside_us: step_us - all / n,
            by_kernel,
        }
    }

    /// Writes it as a table.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        writeln!(
            out,
            "\n{}: a step of {:.0} tokens has {:.0} launches in {:.0} stages; {:.1} us in kernels and {:.1} us between them, \
             timed one by one; {:.1} us as measured, so {:.1} us outside kernels\n",
            self.test,
            self.tokens,
            self.launches,
            self.stages,
            self.kernels_us,
            self.gaps_us,
            self.step_us,
            self.outside_us
        )?;
        writeln!(out, "| {:70} | launches |       us | share | us a launch | programs |", "kernel")?;
        writeln!(out, "| {:-<70} | -------: | -------: | ----: | ----------: | -------: |", "")?;
        for k in &self.by_kernel {
            writeln!(
                out,
                "| {:70} | {:>8.1} | {:>8.1} | {:>5.1} | {:>11.2} | {:>8.0} |",
                k.kernel,
                k.launches,
                k.us,
                100.0 * k.share,
                k.median_us,
                k.programs
            )?;
        }
        out.flush()
    }
}

/// A trace in Chrome's JSON form, which Perfetto opens: a row of steps and a row of launches for each test.
#[derive(Default)]
pub struct Trace {
    events: Vec<Value>,
    tests: usize,
}

impl Trace {
    /// Adds a test's steps, one behind another.
    pub fn add(&mut self, name: &str, steps: &Steps) {
        self.tests += 1;
        let pid = self.tests;
        let mut meta = |what: &str, tid: usize, name: &str| {
            self.events.push(json!({ "ph": "M", "pid": pid, "tid": tid, "name": what, "args": { "name": name } }));
        };
        meta("process_name", 0, name);
        meta("thread_name", 0, "steps");
        meta("thread_name", 1, "launches");
        let mut begin = 0.0;
        for (number, step) in steps.launches.iter().enumerate() {
            let end = step.iter().map(|l| us(l.end)).fold(0.0, f64::max);
            self.events.push(json!({
                "ph": "X", "pid": pid, "tid": 0, "name": format!("step {number}"), "ts": begin, "dur": end,
                "args": { "launches": step.len() }
            }));
            for l in step {
                self.events.push(json!({
                    "ph": "X", "pid": pid, "tid": 1, "name": l.kernel, "ts": begin + us(l.start),
                    "dur": us(l.end.saturating_sub(l.start)), "args": { "stage": l.stage, "programs": l.programs }
                }));
            }
            begin += end + 10.0;
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let all = json!({ "displayTimeUnit": "ns", "traceEvents": self.events });
        std::fs::write(path, serde_json::to_vec(&all)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(kernel: &str, stage: usize, start: u64, end: u64) -> LaunchTime {
        let time = Duration::from_micros;
        LaunchTime { kernel: kernel.into(), stage, programs: 4, start: time(start), end: time(end) }
    }

    #[test]
    fn times_are_summed_by_kernel_and_gaps_by_step() {
        let step = vec![launch("a", 0, 0, 10), launch("b", 1, 12, 42), launch("a", 2, 45, 65)];
        let replayed = vec![Duration::from_micros(70); 3];
        let steps = Steps { launches: vec![step.clone(), step], replayed };
        let test = Test { n_prompt: 0, n_gen: 8, n_depth: 0, n_batch: 512, n_seq: 1 };
        let p = Profile::new(&test, "tg8".into(), &steps);
        assert_eq!((p.steps, p.launches, p.stages, p.tokens), (2, 3.0, 3.0, 1.0));
        assert_eq!((p.kernels_us, p.gaps_us, p.step_us, p.outside_us), (60.0, 5.0, 70.0, 10.0));
        let parts: Vec<_> =
            p.by_kernel.iter().map(|k| (k.kernel.as_str(), k.launches, k.us, k.share, k.median_us)).collect();
        assert_eq!(parts, [("a", 2.0, 30.0, 0.5, 15.0), ("b", 1.0, 30.0, 0.5, 30.0)]);
        let mut text = Vec::new();
        p.write(&mut text).expect("written");
        let text = String::from_utf8(text).expect("text");
        assert!(
            text.contains("tg8: a step of 1 tokens has 3 launches in 3 stages; 60.0 us in kernels and 5.0 us"),
            "{text}"
        );

        let mut trace = Trace::default();
        trace.add("tg8", &steps);
        let slices: Vec<_> = trace.events.iter().filter(|e| e["ph"] == "X" && e["tid"] == 1).collect();
        assert_eq!(slices.len(), 6);
        // The second step stands behind the first.
        assert_eq!((slices[4]["ts"].as_f64(), slices[4]["dur"].as_f64()), (Some(65.0 + 10.0 + 12.0), Some(30.0)));
    }
}
