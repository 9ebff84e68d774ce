//! What people see on standard error: progress on a terminal, warnings and timings anywhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Standard error with at most one progress bar, which lines don't garble.
pub struct Console {
    terminal: bool,
    bar: Mutex<Option<ProgressBar>>,
}

impl Console {
    /// Standard error.
    pub fn new() -> Console {
        Console { terminal: io::stderr().is_terminal(), bar: Mutex::new(None) }
    }

    /// Writes a line.
    pub fn line(&self, text: &str) {
        let write = || {
            // Where standard error fails there is nobody to tell.
            let _ = writeln!(io::stderr().lock(), "{text}");
        };
        match &*self.bar() {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Writes a warning.
    pub fn warn(&self, text: &str) {
        self.line(&format!("warning: {text}"));
    }

    /// Shows that something goes on whose end is not known. Replaces what was shown.
    pub fn spinner(&self, what: &'static str) {
        self.show(|| {
            let bar = ProgressBar::new_spinner().with_message(what);
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
    }

    /// Shows a bar of `total` tokens. Replaces what was shown.
    pub fn prompt_bar(&self, total: usize) {
        self.show(|| {
            let bar = ProgressBar::new(total as u64).with_message("prompt");
            match ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} tokens") {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        });
    }

    /// Moves the bar.
    pub fn position(&self, done: usize) {
        if let Some(bar) = &*self.bar() {
            bar.set_position(done as u64);
        }
    }

    /// Shows nothing any more.
    pub fn clear(&self) {
        if let Some(bar) = self.bar().take() {
            bar.finish_and_clear();
        }
    }

    fn show(&self, make: impl FnOnce() -> ProgressBar) {
        if self.terminal {
            self.clear();
            *self.bar() = Some(make());
        }
    }

    fn bar(&self) -> MutexGuard<'_, Option<ProgressBar>> {
        self.bar.lock().unwrap_or_else(|e| e.into_inner())
    }
}
