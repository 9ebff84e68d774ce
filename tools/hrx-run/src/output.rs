//! Generated text on standard output.

use crate::failure::Failure;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::ops::ControlFlow;

/// Standard output, written to at once. A reader that has gone away ends the run quietly.
pub struct Output {
    out: io::Stdout,
    failed: Option<io::Error>,
    /// Whether the last thing written ended a line; so does nothing.
    at_line_start: bool,
}

impl Output {
    /// Standard output.
    pub fn new() -> Output {
        Output { out: io::stdout(), failed: None, at_line_start: true }
    }

    /// Writes text; breaks if that fails, now or before.
    pub fn write(&mut self, text: &str) -> ControlFlow<()> {
        if self.failed.is_some() {
            return ControlFlow::Break(());
        }
        let mut out = self.out.lock();
        match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
            Ok(()) => {
                self.at_line_start = text.chars().last().map_or(self.at_line_start, |c| c == '\n');
                ControlFlow::Continue(())
            }
            Err(e) => {
                self.failed = Some(e);
                ControlFlow::Break(())
            }
        }
    }

    /// Ends a line that was begun.
    pub fn end_line(&mut self) -> ControlFlow<()> {
        if self.at_line_start { ControlFlow::Continue(()) } else { self.write("\n") }
    }

    /// Whether nobody reads any more.
    pub fn is_closed(&self) -> bool {
        self.failed.is_some()
    }

    /// Ends the text: on a terminal the next prompt of the shell begins a line.
    ///
    /// # Errors
    /// If something could not be written, unless the reader has gone away.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if self.out.is_terminal() {
            // What fails is kept.
            let _ = self.end_line();
        }
        match self.failed.take() {
            Some(source) if source.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::Stream { action: "write to standard output", source })
            }
            _ => Ok(()),
        }
    }
}
