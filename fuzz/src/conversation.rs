//! Messages and tools in JSON.

use hrx::chat::{Message, parse_tools};

use crate::Reached;

/// Reads the bytes as a list of messages and as one of tools. Messages are written as the same JSON again.
pub fn conversation(data: &[u8]) -> Reached {
    let text = String::from_utf8_lossy(data);
    let tools = parse_tools(&text);
    if let Err(problem) = &tools {
        assert_eq!(problem.to_string().lines().count(), 1, "not one line: {problem}");
    }
    match serde_json::from_str::<Vec<Message>>(&text) {
        Ok(messages) => {
            let written = serde_json::to_string(&messages).expect("a message is JSON");
            let again: Vec<Message> = serde_json::from_str(&written).expect("what was written can be read");
            assert_eq!(again, messages);
            messages.iter().filter_map(|m| m.content.as_str()).for_each(|text| drop(Message::answer(text)));
            Reached::End
        }
        Err(_) if tools.is_ok() => Reached::End,
        Err(e) if e.is_data() => Reached::Inside,
        Err(_) if text.starts_with(['[', '{']) => Reached::Inside,
        Err(_) => Reached::FirstCheck,
    }
}
