//! Chat templates: messages to the prompt text that a model was trained on.
//!
//! A file's template is Jinja as Hugging Face's transformers runs it; `environment` recreates that in minijinja, and
//! `python` prints values as Python does, for `filters` too. A file without a template gets one of `fallback`'s. `tools` reads lists of tools,
//! and `reasoning` takes an answer apart again.

mod environment;
mod error;
mod fallback;
mod filters;
mod message;
mod python;
mod reasoning;
mod tools;

pub use error::ChatError;
pub use message::{Content, Message};
pub use tools::parse_tools;

use minijinja::value::Value;
use serde::{Deserialize, Serialize};
use std::thread::Builder;

use crate::gguf::Metadata;
use crate::tokenizer::{Tokenizer, TokenizerError};

const KEY: &str = "tokenizer.chat_template";
const DEFAULT: &str = "default";
/// Variables that switch reasoning: of Qwen3, GLM-4.5, SmolLM3 and others; of DeepSeek-V3.1 and Granite 3.2.
const REASONING_SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];
/// The name of the thread that a template is rendered on. A panic there is reported as an error, so that a program's panic hook
/// need not.
pub const RENDER_THREAD: &str = "chat template";
/// The variant that is meant for requests with tools.
const TOOL_USE: &str = "tool_use";

/// What a prompt is to contain besides the messages.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RenderOptions {
    /// End with the opening of the assistant's turn, so that the model answers.
    pub add_generation_prompt: bool,
    /// Tools that the model may call: JSON schemas in the shape that the model's template expects.
    pub tools: Option<serde_json::Value>,
    /// Further variables, such as `enable_thinking`. They win over variables of the same name.
    pub extra: serde_json::Map<String, serde_json::Value>,
}

/// A model's chat template with its named variants, parsed.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: minijinja::Environment<'static>,
    /// The one used where no other is asked for.
    selected: String,
    names: Vec<String>,
    /// The sources as they were, one for each name.
    sources: Vec<String>,
    /// `bos_token` and `eos_token`, where the vocabulary has them.
    special_tokens: Vec<(&'static str, String)>,
    is_fallback: bool,
}

impl ChatTemplate {
    /// The template of a model file, with all its variants (`tokenizer.chat_template.NAME`).
    ///
    /// A file without one gets ChatML if its vocabulary has `<|im_start|>`, Gemma's turns if it has `<start_of_turn>`, else
    /// lines of `role: text`.
    ///
    /// # Errors
    /// [`ChatError::Template`] if one does not parse, [`ChatError::Metadata`] if one is no text.
    pub fn from_metadata(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        let mut sources = Vec::new();
        if let Some(source) = metadata.str(KEY)? {
            sources.push((DEFAULT, source));
        }
        for (key, _) in metadata.iter() {
            let variant = key.strip_prefix(KEY).and_then(|rest| rest.strip_prefix('.'));
            if let Some(name) = variant
                && let Some(source) = metadata.str(key)?
            {
                sources.push((name, source));
            }
        }
        let is_fallback = sources.is_empty();
        if is_fallback {
            sources.push(fallback::choose(tokenizer));
        }
        let mut template = ChatTemplate::from_sources(&sources, tokenizer)?;
        template.is_fallback = is_fallback;
        Ok(template)
    }

    /// Templates given by name and Jinja source; the first is the default.
    ///
    /// # Errors
    /// [`ChatError::Template`] if one does not parse, [`ChatError::NoSuchTemplate`] if there is none.
    pub fn from_sources(sources: &[(&str, &str)], tokenizer: &Tokenizer) -> Result<ChatTemplate, ChatError> {
        let spelled = |name, id: Option<u32>| {
            let text = tokenizer.spelling(id?)?;
            Some((name, String::from_utf8_lossy(text).into_owned()))
        };
        let tokens = [spelled("bos_token", tokenizer.bos()), spelled("eos_token", tokenizer.eos())];
        ChatTemplate::parse(sources, tokens.into_iter().flatten().collect())
    }

    fn parse(sources: &[(&str, &str)], special_tokens: Vec<(&'static str, String)>) -> Result<ChatTemplate, ChatError> {
        let mut environment = environment::new();
        for (name, source) in sources {
            environment
                .add_template_owned(name.to_string(), environment::adapted(source))
                .map_err(|e| ChatError::template(name, source, &e))?;
        }
        let names: Vec<_> = sources.iter().map(|(name, _)| name.to_string()).collect();
        let none = || ChatError::NoSuchTemplate { name: DEFAULT.into(), known: String::new() };
        let selected = names.first().ok_or_else(none)?.clone();
        let sources = sources.iter().map(|(_, source)| source.to_string()).collect();
        Ok(ChatTemplate { environment, selected, names, sources, special_tokens, is_fallback: false })
    }

    /// Names of the variants, in the file's order; the first is the default.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether the file had no template and this is a stand-in (its name says which).
    pub fn is_fallback(&self) -> bool {
        self.is_fallback
    }

    /// Whether a variant reads the variable `name`; what it does with it is not known.
    pub fn reads(&self, name: &str) -> bool {
        self.environment.templates().any(|(_, template)| template.undeclared_variables(false).contains(name))
    }

    /// Whether tools make a difference to a prompt.
    pub fn reads_tools(&self) -> bool {
        self.reads("tools")
    }

    /// The variable that switches reasoning on and off, if the template has one of those that models use.
    pub fn reasoning_switch(&self) -> Option<&'static str> {
        REASONING_SWITCHES.iter().copied().find(|name| self.reads(name))
    }

    /// Uses the variant `name` from now on.
    ///
    /// # Errors
    /// [`ChatError::NoSuchTemplate`], which lists those there are.
    pub fn select(&mut self, name: &str) -> Result<(), ChatError> {
        if !self.names.iter().any(|n| n == name) {
            return Err(ChatError::NoSuchTemplate { name: name.into(), known: self.names.join(", ") });
        }
        self.selected = name.into();
        Ok(())
    }

    /// The prompt for `messages`. With tools, a variant called `tool_use` is taken if the default one is selected.
    ///
    /// # Errors
    /// [`ChatError::Template`] if the template refuses the messages or fails on them.
    pub fn render(&self, messages: &[Message], options: &RenderOptions) -> Result<String, ChatError> {
        let wants_tools = options.tools.is_some() && self.names.first() == Some(&self.selected);
        let name = match self.names.iter().find(|n| *n == TOOL_USE) {
            Some(tool_use) if wants_tools => tool_use,
            _ => &self.selected,
        };
        let mut variables: Vec<(&str, Value)> = vec![
            ("messages", Value::from_serialize(messages)),
            ("add_generation_prompt", Value::from(options.add_generation_prompt)),
            ("tools", Value::from_serialize(&options.tools)),
            ("documents", Value::from(())),
        ];
        variables.extend(self.special_tokens.iter().map(|(n, text)| (*n, Value::from(text.as_str()))));
        variables.extend(options.extra.iter().map(|(n, v)| (n.as_str(), Value::from_serialize(v))));
        let context: Value = variables.into_iter().collect();
        let source = self.names.iter().position(|n| n == name).and_then(|at| self.sources.get(at));
        let fault = |problem: String| ChatError::Template { name: name.clone(), line: None, problem, construct: None };
        // A template can nest lists as deeply as its fuel lasts, and the engine walks them by recursion when they go. A fault
        // of the engine's must not be the end of a program that only wanted a prompt, either: so it has a thread of its own.
        // The engine's errors hold values, too: they must not leave the thread.
        let render = || {
            let rendered = self.environment.get_template(name).and_then(|template| template.render(context));
            rendered.map_err(|e| ChatError::template(name, source.map_or("", String::as_str), &e))
        };
        std::thread::scope(|scope| {
            let thread = Builder::new().name(RENDER_THREAD.into()).stack_size(environment::STACK);
            let thread = thread.spawn_scoped(scope, render);
            let thread = thread.map_err(|e| fault(format!("no thread to render it: {e}")))?;
            thread.join().unwrap_or_else(|_| Err(fault("the template engine failed at something in it".into())))
        })
    }
}

/// The tokens of a rendered prompt: special tokens in it are parsed, and the beginning-of-sequence token is there once,
/// whether or not the template writes it. An end-of-sequence token is never added: the model is to go on.
///
/// # Errors
/// As [`Tokenizer::encode`].
pub fn encode_prompt(tokenizer: &Tokenizer, prompt: &str) -> Result<Vec<u32>, TokenizerError> {
    let mut tokens = tokenizer.encode(prompt, false, true)?;
    if let (true, Some(bos)) = (tokenizer.adds_bos(), tokenizer.bos())
        && tokens.first() != Some(&bos)
    {
        tokens.insert(0, bos);
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests;
