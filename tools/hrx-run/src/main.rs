//! hrx-run: continues a text, holds a conversation, or writes logits, with a model from a GGUF file.
//!
//! * [`args`]: the command line, whose help is the manual.
//! * [`engine`]: opens the model and evaluates; everything else goes through it.
//! * [`complete`]: a text or token ids, once. [`chat`]: a conversation, with [`lines`] to read it from and [`prompts`] to
//!   write it for the model. [`explain`]: what the model is, without running it.
//! * [`console`]: what people see on standard error. [`output`]: the text on standard output.
//! * [`clock`]: time since the process started. [`stats`]: the numbers of a run. [`interrupt`]: Ctrl-C.

mod args;
mod chat;
mod clock;
mod complete;
mod console;
mod engine;
mod explain;
mod failure;
mod input;
mod interrupt;
mod lines;
mod output;
mod prompts;
mod stats;

use args::Args;
use clap::Parser;
use clock::Clock;
use console::Console;
use failure::Failure;
use output::Output;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let clock = Clock::start();
    let args = Args::parse();
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // What the template engine fails at comes back as an error, which is a line of its own.
        if std::thread::current().name() != Some(hrx::chat::RENDER_THREAD) {
            report(panic);
        }
    }));
    let console = Arc::new(Console::new());
    let done = run(&args, clock, &console);
    console.clear();
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            console.line(&format!("error: {}", one_line(&failure.to_string())));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, clock: Clock, console: &Arc<Console>) -> Result<u8, Failure> {
    if args.list_devices {
        return list_devices(args).map(|()| 0);
    }
    if args.explain {
        return explain::run(args, console).map(|()| 0);
    }
    if args.converses() { chat::run(args, clock, console) } else { complete::run(args, clock, console) }
}

fn list_devices(args: &Args) -> Result<(), Failure> {
    let mut output = Output::new();
    for device in hrx::device::devices(args.threads()) {
        let name = device.name.map(|n| format!("{n}: ")).unwrap_or_default();
        if output.write(&format!("{name}{}\n", device.description)).is_break() {
            break;
        }
    }
    output.finish()
}

/// An error is one line, whatever its parts had in mind, and moves no terminal's cursor.
fn one_line(text: &str) -> String {
    let line = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ");
    line.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}
