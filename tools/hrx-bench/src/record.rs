//! What is reported of a test. Field names and units are those of llama-bench's JSON; its fields that say nothing here
//! (layers on a GPU, ways to split tensors and so on) are left out.

use crate::against::Against;
use crate::args::Args;
use crate::limits::Limits;
use crate::measure::{Samples, Test};
use crate::profile::Profile;
use crate::stats::{deviation, mean, median};
use hrx::Model;
use serde::Serialize;
use std::time::SystemTime;

/// A test with its results.
#[derive(Debug, Serialize)]
pub struct Record {
    /// The commit that the program was built from.
    pub build_commit: &'static str,
    /// The processor.
    pub cpu_info: String,
    /// What the device is, with its driver.
    pub gpu_info: String,
    /// The kind of device.
    pub backends: String,
    /// The model's file as given.
    pub model_filename: String,
    /// Architecture, size and quantisation.
    pub model_type: String,
    /// Bytes of all tensors.
    pub model_size: u64,
    /// Elements of all tensors.
    pub model_n_params: u64,
    /// The most tokens of a step.
    pub n_batch: u32,
    /// Threads.
    pub n_threads: u32,
    /// The type of keys in the cache.
    pub type_k: &'static str,
    /// The type of values in the cache.
    pub type_v: &'static str,
    /// Tokens evaluated together.
    pub n_prompt: u32,
    /// Tokens evaluated one at a time.
    pub n_gen: u32,
    /// Sequences that are generated together.
    pub n_seq: u32,
    /// Tokens in the context before.
    pub n_depth: u32,
    /// What another engine reached in turn with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// When the test began: UTC, RFC 3339.
    pub test_time: String,
    /// Mean time of a repetition, in nanoseconds.
    pub avg_ns: u64,
    /// Sample standard deviation of the times.
    pub stddev_ns: u64,
    /// Mean of the repetitions' tokens a second.
    pub avg_ts: f64,
    /// Sample standard deviation of the speeds.
    pub stddev_ts: f64,
    /// Median of the repetitions' tokens a second.
    pub median_ts: f64,
    /// Launches of a step that generates a token.
    pub launches: usize,
    /// Kernels that were made for the model so far.
    pub kernels: usize,
    /// Of these, those that were not in the cache.
    pub kernels_compiled: usize,
    /// Wall-clock time of compiling them.
    pub compile_ms: f64,
    /// Wall-clock time of the driver's assembler.
    pub assemble_ms: f64,
    /// Bytes that a token takes at the least: weights, and of the cache what it sees.
    pub bytes_per_token: f64,
    /// Multiplications and additions that a token takes at the least.
    pub ops_per_token: f64,
    /// The bandwidth that this makes at the median speed, in bytes a second.
    pub bandwidth: f64,
    /// The rate of operations that this makes at the median speed, a second.
    pub rate: f64,
    /// The bandwidth of a copy on the device, read and written, in bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_bandwidth: Option<f64>,
    /// The bandwidth of a loop that only reads, in bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bandwidth: Option<f64>,
    /// The rate of operations of products that need no memory, a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product_rate: Option<f64>,
    /// `bandwidth` over `copy_bandwidth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_share: Option<f64>,
    /// `bandwidth` over `read_bandwidth`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_share: Option<f64>,
    /// `rate` over `product_rate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_share: Option<f64>,
    /// Where the time goes, where kernels were timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// Each repetition's time.
    pub samples_ns: Vec<u64>,
    /// Each repetition's speed.
    pub samples_ts: Vec<f64>,
}

impl Record {
    /// The record of a test.
    pub fn new(
        model: &Model,
        args: &Args,
        threads: u32,
        test: &Test,
        samples: &Samples,
        limits: Option<&Limits>,
    ) -> Record {
        let summary = model.summary();
        let samples_ns: Vec<u64> = samples.times.iter().map(|t| t.as_nanos() as u64).collect();
        let speed = |&ns: &u64| f64::from(test.tokens()) * 1e9 / (ns.max(1) as f64);
        let samples_ts: Vec<f64> = samples_ns.iter().map(speed).collect();
        let times: Vec<f64> = samples_ns.iter().map(|&ns| ns as f64).collect();
        let cache = hrx::exec::lower::CACHE_ELEM.name();
        let work = match test.n_gen {
            0 => hrx::work::tokens(model.graph(), test.n_depth, test.n_prompt, test.n_batch),
            n => hrx::work::generation(model.graph(), test.n_depth, n, test.n_seq),
        };
        let per_token = |all: f64| all / f64::from(test.tokens().max(1));
        let median_ts = median(&samples_ts).unwrap_or(0.0);
        let (bytes_per_token, ops_per_token) = (per_token(work.bytes()), per_token(work.operations));
        let (bandwidth, rate) = (bytes_per_token * median_ts, ops_per_token * median_ts);
        let device = model.kernels().device().info();
        let kernels = model.kernels().stats();
        Record {
            build_commit: commit(),
            cpu_info: cpu_info().unwrap_or_default(),
            gpu_info: device.description,
            backends: device.name.split(':').next().unwrap_or_default().to_uppercase(),
            model_filename: args.model_name(),
            model_type: format!("{} {} {}", summary.architecture, size(summary.n_params), summary.file_type),
            model_size: summary.tensor_bytes,
            model_n_params: summary.n_params,
            n_batch: test.n_batch,
            n_threads: threads,
            type_k: cache,
            type_v: cache,
            n_prompt: test.n_prompt,
            n_gen: test.n_gen,
            n_seq: test.n_seq,
            n_depth: test.n_depth,
            against: None,
            test_time: utc(samples.start),
            avg_ns: mean(&times).round() as u64,
            stddev_ns: deviation(&times).round() as u64,
            avg_ts: mean(&samples_ts),
            stddev_ts: deviation(&samples_ts),
            median_ts,
            launches: samples.launches,
            kernels: kernels.kernels,
            kernels_compiled: kernels.misses,
            compile_ms: kernels.compile.as_secs_f64() * 1e3,
            assemble_ms: kernels.assemble.as_secs_f64() * 1e3,
            bytes_per_token,
            ops_per_token,
            bandwidth,
            rate,
            copy_bandwidth: limits.map(|l| l.copy),
            read_bandwidth: limits.map(|l| l.read),
            product_rate: limits.map(|l| l.products),
            bandwidth_share: limits.map(|l| bandwidth / l.copy),
            read_share: limits.map(|l| bandwidth / l.read),
            rate_share: limits.map(|l| rate / l.products),
            profile: samples.steps.as_ref().map(|steps| Profile::new(test, test.name(), steps)),
            samples_ns,
            samples_ts,
        }
    }

    /// The test's name.
    pub fn test(&self) -> String {
        let &Record { n_prompt, n_gen, n_depth, n_batch, n_seq, .. } = self;
        Test { n_prompt, n_gen, n_depth, n_batch, n_seq }.name()
    }
}

/// The commit that the program was built from.
pub fn commit() -> &'static str {
    option_env!("HRX_COMMIT").unwrap_or("unknown")
}

/// A number of parameters as people say it: `134.52M`.
fn size(n: u64) -> String {
    match n {
        0..1_000_000 => format!("{:.2}K", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2}M", n as f64 / 1e6),
        _ => format!("{:.2}B", n as f64 / 1e9),
    }
}

fn cpu_info() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// UTC in RFC 3339's form, to the second.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days as i64);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// The Gregorian date of a day counted from 1970-01-01. The year is taken to begin in March, so that the leap day is its
/// last: then 153 days are five months, 1461 four years (but for centuries), 146097 four hundred.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates() {
        let at = |s| utc(SystemTime::UNIX_EPOCH + Duration::from_secs(s));
        // As GNU date gives them.
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(at(1_796_057_892), "2026-11-30T16:58:12Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }
}
