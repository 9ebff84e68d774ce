//! Chat templates.

use std::sync::OnceLock;

use hrx::chat::{ChatError, ChatTemplate, Message, RenderOptions};
use hrx::tokenizer::{Tokenizer, TokenizerConfig};

use crate::Reached;

/// What templates are tried on.
struct Given {
    tokenizer: Tokenizer,
    messages: Vec<Message>,
    options: RenderOptions,
}

/// A conversation with everything that templates look at.
fn given() -> &'static Given {
    static GIVEN: OnceLock<Given> = OnceLock::new();
    GIVEN.get_or_init(|| {
        let tokens: [&[u8]; 3] = [b"<unk>", b"<s>", b"</s>"];
        let config = TokenizerConfig {
            model: "llama",
            tokens: tokens.to_vec(),
            scores: vec![0.0; 3],
            token_types: vec![3; 3],
            ..TokenizerConfig::default()
        };
        let messages = serde_json::json!([
            {"role": "system", "content": "S"},
            {"role": "user", "content": "A"},
            {"role": "assistant", "content": null, "reasoning_content": "hm",
             "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": {"x": [1, {"y": null}]}}}]},
            {"role": "tool", "content": "1"},
            {"role": "assistant", "content": "<think>t</think>B"}
        ]);
        let tool =
            serde_json::json!({"function": {"name": "f", "parameters": {"properties": {"x": {"type": "array"}}}}});
        Given {
            tokenizer: Tokenizer::new(&config).expect("a vocabulary"),
            messages: serde_json::from_value(messages).expect("messages"),
            options: RenderOptions {
                add_generation_prompt: true,
                tools: Some([tool].into()),
                ..RenderOptions::default()
            },
        }
    })
}

/// Parses a template, asks what it reads and renders it. A refusal must be one line.
pub fn template(data: &[u8]) -> Reached {
    let Ok(source) = std::str::from_utf8(data) else { return Reached::FirstCheck };
    let given = given();
    let parsed = ChatTemplate::from_sources(&[("fuzz", source)], &given.tokenizer);
    let rendered = parsed.and_then(|template| {
        let _ = (template.reads_tools(), template.reasoning_switch());
        template.render(&given.messages, &given.options)
    });
    match rendered {
        Ok(_) => Reached::End,
        Err(error) => {
            assert!(matches!(error, ChatError::Template { .. }), "{error}");
            assert_eq!(error.to_string().lines().count(), 1, "not one line: {error}");
            Reached::Inside
        }
    }
}
