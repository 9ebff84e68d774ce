//! The numbers of a run.

use crate::failure::Failure;
use hrx::{Generated, Stop};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// What was evaluated, over all turns of a conversation.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Tokens of prompts that were evaluated.
    pub prompt_tokens: usize,
    /// Time for them.
    pub prefill: Duration,
    /// Tokens generated.
    pub generated_tokens: usize,
    /// Steps of one token after prompts.
    pub decode_steps: usize,
    /// Time for them.
    pub decode: Duration,
    /// Why the last text ended.
    pub stop: Option<&'static str>,
    /// Time from the start of the process to the first token.
    pub first_token: Option<Duration>,
}

impl Totals {
    /// Adds a text.
    pub fn add(&mut self, done: &Generated) {
        self.prompt_tokens += done.prompt_tokens;
        self.prefill += done.prefill;
        self.generated_tokens += done.tokens.len();
        self.decode_steps += done.decode_steps;
        self.decode += done.decode;
        self.stop = Some(match done.stop {
            Stop::EndOfText => "end_of_text",
            Stop::StopText => "stop_text",
            Stop::MaxTokens => "max_tokens",
            Stop::ContextFull => "context_full",
            Stop::Caller => "stopped",
        });
    }

    /// Prompt tokens a second.
    pub fn prefill_rate(&self) -> Option<f64> {
        rate(self.prompt_tokens, self.prefill)
    }

    /// Generated tokens a second.
    pub fn decode_rate(&self) -> Option<f64> {
        rate(self.decode_steps, self.decode)
    }

    /// As fields of a report; what was not measured is null.
    pub fn fields(&self) -> Value {
        json!({
            "prompt_tokens": self.prompt_tokens,
            "prefill_ms": ms(self.prefill),
            "prefill_tok_s": self.prefill_rate(),
            "generated_tokens": self.generated_tokens,
            "decode_ms": ms(self.decode),
            "decode_tok_s": self.decode_rate(),
            "first_token_ms": self.first_token.map(ms),
            "stop": self.stop,
        })
    }
}

fn rate(n: usize, time: Duration) -> Option<f64> {
    (n > 0 && !time.is_zero()).then(|| n as f64 / time.as_secs_f64())
}

/// Milliseconds, to the microsecond.
pub fn ms(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e3
}

/// The most memory that the process had resident, pages of the model's file included; the kernel's count.
pub fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// Writes a report; it appears under its name when it is complete.
///
/// # Errors
/// If it can't be written. A file that was there before stays then.
pub fn write(path: &Path, report: &Value) -> Result<(), Failure> {
    let text = format!("{report:#}\n");
    let failed = |action, source: io::Error| Failure::File { file: path.into(), action, source };
    // A pipe or a device is written to as it is.
    if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        return fs::write(path, text).map_err(|e| failed("write", e));
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    // Replaces what a link points to rather than the link.
    let target = path.canonicalize().unwrap_or_else(|_| path.into());
    let part = target.with_file_name(name);
    let done = fs::write(&part, text)
        .map_err(|e| failed("write", e))
        .and_then(|()| fs::rename(&part, &target).map_err(|e| failed("put in place", e)));
    if done.is_err() {
        // It may not be there at all.
        let _ = fs::remove_file(&part);
    }
    done
}
