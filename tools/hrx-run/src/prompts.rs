//! A conversation as the model reads it: its template, tools and switches.

use crate::args::Args;
use crate::console::Console;
use crate::failure::Failure;
use hrx::Model;
use hrx::chat::{ChatError, ChatTemplate, Message, RenderOptions, encode_prompt, parse_tools};
use std::fs;
use std::path::Path;

/// Writes conversations as prompts.
pub struct Prompts {
    template: ChatTemplate,
    options: RenderOptions,
    has_switch: bool,
    /// Whether the template is the model's.
    is_own: bool,
}

impl Prompts {
    /// The template of the command line, else the model's.
    ///
    /// # Errors
    /// If a file can't be read or is none of its kind, or the template can't be parsed.
    pub fn open(args: &Args, model: &Model) -> Result<Prompts, Failure> {
        let template = match &args.chat_template {
            Some(file) => {
                let source = read(file)?;
                ChatTemplate::from_sources(&[(&file.display().to_string(), &source)], model.tokenizer()?)?
            }
            None => model.chat_template().map_err(of_model)?,
        };
        let tools = match &args.tools {
            Some(file) => Some(parse_tools(&read(file)?).map_err(|e| in_file(file, e))?),
            None => None,
        };
        let mut options = RenderOptions { add_generation_prompt: true, tools, ..RenderOptions::default() };
        let switch = template.reasoning_switch();
        if let (Some(on), Some(name)) = (args.reasons(), switch) {
            options.extra.insert(name.into(), on.into());
        }
        options.extra.extend(args.template_var.iter().cloned());
        Ok(Prompts { template, options, has_switch: switch.is_some(), is_own: args.chat_template.is_none() })
    }

    /// Says what of the command line will make no difference.
    pub fn warn(&self, args: &Args, console: &Console) {
        if self.template.is_fallback() {
            let name = self.template.names().first().map_or("plain", String::as_str);
            console.warn(&format!(
                "the file has no chat template, as base models don't: turns are written in the form called {name}; \
                 --chat-template FILE gives another, and -p without --chat continues a text"
            ));
        }
        if args.tools.is_some() && !self.template.reads_tools() {
            console.warn("the chat template doesn't mention tools: the model will not hear of them");
        }
        if args.reasons().is_some() && !self.has_switch {
            console.warn("the chat template has no switch for reasoning: --think and --no-think change nothing");
        }
        for (name, _) in args.template_var.iter().filter(|(name, _)| !self.template.reads(name)) {
            console.warn(&format!("the chat template doesn't read the variable {name}"));
        }
    }

    /// The tokens of a conversation, up to where the assistant is to go on.
    ///
    /// # Errors
    /// If the template refuses the messages.
    pub fn encode(&self, model: &Model, messages: &[Message]) -> Result<Vec<u32>, Failure> {
        let prompt = self.template.render(messages, &self.options);
        let prompt = prompt.map_err(|e| if self.is_own { of_model(e.into()) } else { e.into() })?;
        Ok(encode_prompt(model.tokenizer()?, &prompt)?)
    }
}

/// The messages that a conversation begins with.
///
/// # Errors
/// If their file can't be read, or has no list of messages.
pub fn messages(args: &Args, system: Option<&str>) -> Result<Vec<Message>, Failure> {
    let mut messages: Vec<Message> = match &args.messages {
        Some(file) => serde_json::from_str(&read(file)?)
            .map_err(|e| Failure::Input(format!("{}: no list of messages: {e}", file.display())))?,
        None => Vec::new(),
    };
    let has_system = messages.first().is_some_and(|m| m.role == "system");
    // What the command line says goes before what the file says, which goes before the model's default.
    match (&args.system, system) {
        (Some(text), _) if has_system => messages[0] = Message::new("system", text),
        (Some(text), _) => messages.insert(0, Message::new("system", text)),
        (None, Some(text)) if !has_system => messages.insert(0, Message::new("system", text)),
        (None, _) => {}
    }
    Ok(messages)
}

/// What to do about a template of the model's that does not work.
fn of_model(error: hrx::Error) -> Failure {
    match error {
        hrx::Error::Chat(e @ ChatError::Template { .. }) => {
            Failure::Input(format!("{e}; --chat-template FILE uses another template in place of the model's"))
        }
        other => other.into(),
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|source| Failure::File { file: file.into(), action: "read", source })
}

fn in_file(file: &Path, problem: impl std::fmt::Display) -> Failure {
    Failure::Input(format!("{}: {problem}", file.display()))
}
