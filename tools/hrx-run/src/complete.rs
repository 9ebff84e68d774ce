//! Continues a text or a list of token ids, once.

use crate::args::Args;
use crate::clock::Clock;
use crate::console::Console;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::input;
use crate::interrupt;
use hrx::Stop;
use hrx::npy::NpyWriter;
use std::sync::Arc;

/// Runs; the result is the exit code.
///
/// # Errors
/// Whatever keeps the input from being evaluated or the results from being written.
pub fn run(args: &Args, clock: Clock, console: &Arc<Console>) -> Result<u8, Failure> {
    let text = input::text(args)?;
    let (mut engine, tokens) = Engine::open(args, clock, console, |model| match (&args.tokens, text) {
        (Some(tokens), _) => Ok(tokens.0.clone()),
        (None, text) => Ok(model.tokenizer()?.encode(text.unwrap_or_default(), true, true)?),
    })?;
    if tokens.is_empty() {
        return Err(Failure::Input("the prompt is empty, and this model adds no token before it".into()));
    }
    let mut logits = match &args.logits {
        Some(path) => Some(NpyWriter::create(path, engine.session.cols() as usize)?),
        None => None,
    };
    let answer = engine.answer(&tokens, logits.as_mut())?;
    if let (Some(writer), false) = (logits, answer.interrupted) {
        writer.finish()?;
    }
    engine.output.finish()?;
    if answer.done.stop == Stop::ContextFull {
        let n = engine.session.n_ctx();
        console.warn(&format!("the context of {n} tokens is full; -c makes it larger"));
    }
    engine.report()?;
    Ok(if answer.interrupted { interrupt::EXIT_CODE } else { 0 })
}
