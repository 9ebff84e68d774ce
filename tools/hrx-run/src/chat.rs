//! A conversation: messages in, answers out, the KV cache kept from turn to turn.

use crate::args::Args;
use crate::clock::Clock;
use crate::console::Console;
use crate::engine::{Answer, Engine};
use crate::failure::Failure;
use crate::input;
use crate::interrupt;
use crate::lines::Lines;
use hrx::Stop;
use hrx::chat::{ChatTemplate, Message, RenderOptions, encode_prompt};
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
    let (engine, template) = Engine::open(args, clock, console, |model| Ok(model.chat_template()?))?;
    if template.is_fallback() {
        let name = template.names().first().map_or("plain", String::as_str);
        console.warn(&format!("the file has no chat template; the one called {name} is used"));
    }
    let messages: Vec<Message> = args.system.iter().map(|text| Message::new("system", text)).collect();
    let mut chat = Chat { engine, template, n_system: messages.len(), messages };
    let code = chat.hold(first, alone)?;
    chat.engine.output.finish()?;
    chat.engine.report()?;
    Ok(code)
}

struct Chat<'a> {
    engine: Engine<'a>,
    template: ChatTemplate,
    messages: Vec<Message>,
    /// How many of them are there from the start.
    n_system: usize,
}

impl Chat<'_> {
    /// Answers until there are no more messages.
    fn hold(&mut self, mut first: Option<String>, alone: bool) -> Result<u8, Failure> {
        let mut lines = Lines::open(&self.engine.console)?;
        if let (Lines::Editor(_), false) = (&lines, alone) {
            self.engine.console.line("Ctrl-C stops an answer, Ctrl-D ends; /clear starts over");
        }
        loop {
            let message = match first.take() {
                Some(text) => Some(text),
                None => lines.next()?,
            };
            match message.as_deref() {
                None | Some("/exit") => return Ok(0),
                Some("/clear") => self.messages.truncate(self.n_system),
                Some("") => {}
                Some(text) => {
                    let answer = self.turn(text)?;
                    if self.engine.output.is_closed() {
                        return Ok(0);
                    }
                    // At a terminal only the answer is stopped.
                    let at_terminal = matches!(lines, Lines::Editor(_)) && !alone;
                    match answer {
                        Some(Answer { interrupted: true, .. }) if !at_terminal => return Ok(interrupt::EXIT_CODE),
                        // A message that can't be answered is an error, unless a person can do something about it.
                        None if !at_terminal => return Err(self.full()),
                        None => self.engine.console.line(&format!("error: {}", self.full())),
                        Some(_) if alone => return Ok(0),
                        Some(_) => {}
                    }
                }
            }
        }
    }

    /// Answers a message; none if the context has no room for it, which is then as if it had not been said.
    fn turn(&mut self, text: &str) -> Result<Option<Answer>, Failure> {
        self.messages.push(Message::new("user", text));
        let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
        let prompt = self.template.render(&self.messages, &options)?;
        let tokens = encode_prompt(self.engine.model.tokenizer()?, &prompt)?;
        if tokens.len() >= self.engine.session.n_ctx() as usize {
            self.messages.pop();
            return Ok(None);
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
            self.engine.console.warn(&format!("the answer is cut short: {}", self.full()));
        }
        self.messages.push(Message::new("assistant", &answer.text));
        Ok(Some(answer))
    }

    fn full(&self) -> Failure {
        let n = self.engine.session.n_ctx();
        Failure::Input(format!("the context of {n} tokens is full: /clear starts over, and -c makes it larger"))
    }
}
