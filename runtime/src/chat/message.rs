//! Messages of a conversation, as JSON has them in OpenAI's chat interface and in transformers.

use super::reasoning;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a message says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(untagged, expecting = "content is a text, a list of parts, or null")]
pub enum Content {
    /// `null`, as beside tool calls.
    Null,
    /// A text.
    Text(String),
    /// Parts such as `{"type": "text", "text": "..."}`.
    Parts(Vec<Value>),
    /// The message has no such field.
    #[default]
    #[serde(skip)]
    Absent,
}

impl Content {
    fn is_absent(&self) -> bool {
        matches!(self, Content::Absent)
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Content::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl<T: Into<String>> From<T> for Content {
    fn from(text: T) -> Content {
        Content::Text(text.into())
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool`, or what else the template knows.
    pub role: String,
    /// What is said.
    #[serde(default, skip_serializing_if = "Content::is_absent")]
    pub content: Content,
    /// Further fields that some templates read, such as `tool_calls` or `reasoning_content`.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Message {
    /// A message with nothing but text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: Content::Text(content.into()), more: Map::new() }
    }

    /// What a model has generated as its answer. Reasoning that it wrote before is taken out of the text, to where templates
    /// look for it: `reasoning_content`, and `thinking` for gpt-oss's.
    pub fn answer(generated: &str) -> Message {
        let parts = reasoning::split(generated);
        let mut message = Message::new("assistant", parts.content);
        if let Some(thought) = parts.reasoning {
            let field = if parts.in_channels { "thinking" } else { "reasoning_content" };
            message.more.insert(field.into(), thought.into());
        }
        message
    }
}
