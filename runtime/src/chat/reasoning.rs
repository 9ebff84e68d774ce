//! Taking a generated answer apart into reasoning and what is said.
//!
//! Two forms are known: reasoning that ends with `</think>` (its beginning may have been a part of the prompt), and the
//! channels of gpt-oss, `<|channel|>NAME<|message|>TEXT<|end|>`.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
/// What a channel's text ends before.
const ENDS: [&str; 4] = ["<|end|>", "<|start|>", "<|return|>", "<|call|>"];

/// An answer's parts.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts {
    /// What the model said to itself.
    pub reasoning: Option<String>,
    /// What it said.
    pub content: String,
    /// Whether it wrote in channels.
    pub in_channels: bool,
}

/// Takes an answer apart. Without reasoning all of it is content, to the letter.
pub fn split(answer: &str) -> Parts {
    if answer.contains(CHANNEL) {
        return channels(answer);
    }
    let Some((thought, content)) = answer.split_once(CLOSE) else {
        return Parts { reasoning: None, content: answer.into(), in_channels: false };
    };
    let thought = thought.trim_start().strip_prefix(OPEN).unwrap_or(thought);
    Parts {
        reasoning: Some(thought.trim_matches('\n').into()),
        content: content.trim_start_matches('\n').into(),
        in_channels: false,
    }
}

/// The channel `analysis` is reasoning, `final` is content; where there is no `final`, all others are.
fn channels(answer: &str) -> Parts {
    let (mut reasoning, mut content, mut other) = (None, String::new(), String::new());
    for part in answer.split(CHANNEL).skip(1) {
        let Some((name, text)) = part.split_once(MESSAGE) else { continue };
        let end = ENDS.iter().filter_map(|end| text.find(end)).min().unwrap_or(text.len());
        let text = &text[..end];
        match name.split_whitespace().next() {
            Some("analysis") => reasoning.get_or_insert_with(String::new).push_str(text),
            Some("final") => content.push_str(text),
            _ => other.push_str(text),
        }
    }
    let content = if content.is_empty() { other } else { content };
    Parts { reasoning, content, in_channels: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(answer: &str) -> (Option<String>, String) {
        let parts = split(answer);
        (parts.reasoning, parts.content)
    }

    #[test]
    fn reasoning_ends_with_its_tag() {
        let both = (Some("hm".to_owned()), "Yes.".to_owned());
        for answer in ["<think>\nhm\n</think>\n\nYes.", "hm\n</think>\n\nYes.", "\n<think>hm</think>Yes."] {
            assert_eq!(parts(answer), both, "{answer:?}");
        }
        assert_eq!(parts("<think>\n\n</think>\n\nYes."), (Some(String::new()), "Yes.".into()));
        for answer in ["", "\n plain ", "<think>\nnever ends"] {
            assert_eq!(parts(answer), (None, answer.into()), "all of it is content");
        }
    }

    #[test]
    fn channels_are_told_apart() {
        let answer = "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
        assert_eq!(parts(answer), (Some("hm".into()), "Yes.".into()));
        let call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>";
        assert_eq!(parts(call), (None, "{\"a\":1}".into()));
        assert_eq!(parts("<|channel|>analysis"), (None, String::new()));
    }
}
