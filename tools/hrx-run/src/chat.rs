//! A conversation: messages in, answers out, the KV cache kept from turn to turn.

use crate::args::Args;
use crate::clock::Clock;
use crate::console::Console;
use crate::engine::{Answer, Engine};
use crate::failure::Failure;
use crate::input;
use crate::interrupt;
use crate::lines::Lines;
use crate::prompts::{self, Prompts};
use hrx::Stop;
use hrx::chat::Message;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Runs; the result is the exit code.
///
/// # Errors
/// Whatever keeps the conversation from going on.
pub fn run(args: &Args, clock: Clock, console: &Arc<Console>) -> Result<u8, Failure> {
    let first = input::text(args)?;
    let first = first.map(String::from_utf8).transpose();
    let first = first.map_err(|_| Failure::Input("the first message is not UTF-8".into()))?;
    let alone = args.single_turn || (first.is_some() && !io::stdin().is_terminal());
    // Before anything takes time.
    let said = prompts::messages(args, None)?;
    let (engine, prompts) = Engine::open(args, clock, console, |model| Prompts::open(args, model))?;
    prompts.warn(args, console);
    let messages = match engine.found.defaults.system.as_deref() {
        Some(system) => prompts::messages(args, Some(system))?,
        None => said,
    };
    let mut chat = Chat { engine, prompts, begun: messages.clone(), messages };
    let code = chat.hold(first, alone)?;
    chat.engine.output.finish()?;
    chat.engine.report()?;
    Ok(code)
}

struct Chat<'a> {
    engine: Engine<'a>,
    prompts: Prompts,
    messages: Vec<Message>,
    /// Those that were there from the start.
    begun: Vec<Message>,
}

impl Chat<'_> {
    /// Answers until there are no more messages.
    fn hold(&mut self, mut first: Option<String>, alone: bool) -> Result<u8, Failure> {
        let mut lines = Lines::open(&self.engine.console)?;
        if let (Lines::Editor(_), false) = (&lines, alone) {
            self.engine.console.line("Ctrl-C stops an answer, Ctrl-D ends; /clear starts over");
        }
        // A conversation that waits for an answer gets it first.
        let waits =
            self.messages.last().is_some_and(|m| !matches!(m.role.as_str(), "system" | "developer" | "assistant"));
        let mut waits = waits && first.is_none();
        loop {
            let message = match first.take() {
                _ if std::mem::take(&mut waits) => Some(None),
                Some(text) => Some(Some(text)),
                None => lines.next()?.map(Some),
            };
            match message.as_ref().map(Option::as_deref) {
                None | Some(Some("/exit")) => return Ok(0),
                Some(Some("/clear")) => self.messages.clone_from(&self.begun),
                Some(Some("")) => {}
                Some(text) => {
                    let answer = self.turn(text)?;
                    if self.engine.output.is_closed() {
                        return Ok(0);
                    }
                    // At a terminal only the answer is stopped.
                    let at_terminal = matches!(lines, Lines::Editor(_)) && !alone;
                    match answer {
                        Ok(Answer { interrupted: true, .. }) if !at_terminal => return Ok(interrupt::EXIT_CODE),
                        // A message that can't be answered is an error, unless a person can do something about it.
                        Err(tokens) if !at_terminal => return Err(self.full(tokens)),
                        Err(tokens) => self.engine.console.line(&format!("error: {}", self.full(tokens))),
                        Ok(_) if alone => return Ok(0),
                        Ok(_) => {}
                    }
                }
            }
        }
    }

    /// Answers a message, or what has been said so far. If the context has no room for that, the conversation's tokens are
    /// the inner error, and it is as if the message had not been said.
    fn turn(&mut self, text: Option<&str>) -> Result<Result<Answer, usize>, Failure> {
        let before = self.messages.len();
        self.messages.extend(text.map(|text| Message::new("user", text)));
        let tokens = self.prompts.encode(&self.engine.model, &self.messages)?;
        if tokens.len() >= self.engine.session.n_ctx() as usize {
            self.messages.truncate(before);
            return Ok(Err(tokens.len()));
        }
        // What the cache and the conversation have in common need not be evaluated again, but for one token at least:
        // there are no logits otherwise.
        let session = &mut self.engine.session;
        let common = session.tokens().iter().zip(&tokens).take_while(|(a, b)| a == b).count();
        let kept = common.min(tokens.len().saturating_sub(1));
        session.truncate(kept as u32)?;
        let answer = self.engine.answer(&tokens[kept..], None)?;
        if let ControlFlow::Continue(()) = self.engine.output.end_line()
            && answer.done.stop == Stop::ContextFull
        {
            let tokens = tokens.len() + answer.done.tokens.len();
            self.engine.console.warn(&format!("the answer is cut short: {}", self.full(tokens)));
        }
        self.messages.push(Message::answer(&answer.text));
        Ok(Ok(answer))
    }

    fn full(&self, tokens: usize) -> Failure {
        let n = self.engine.session.n_ctx();
        Failure::Input(format!(
            "the context of {n} tokens is full: the conversation has {tokens}; /clear starts over, and -c makes it larger"
        ))
    }
}
