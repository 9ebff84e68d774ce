//! Lists of tools that a model may call.

use super::ChatError;
use serde_json::{Value, json};

/// Reads a list of tools in OpenAI's form, `[{"type": "function", "function": {"name": ...}}]`, which templates expect. Plain
/// functions, `{"name": ..., "parameters": ...}`, are wrapped so; an object with a field `tools` is as good as the list.
///
/// # Errors
/// [`ChatError::Tools`], which says which tool is none.
pub fn parse_tools(text: &str) -> Result<Value, ChatError> {
    let parsed: Value = serde_json::from_str(text).map_err(|e| ChatError::Tools(format!("no JSON: {e}")))?;
    let list = match parsed {
        Value::Object(mut map) => match map.remove("tools") {
            Some(list) => list,
            None => Value::Array(vec![Value::Object(map)]),
        },
        other => other,
    };
    let Value::Array(items) = list else {
        return Err(ChatError::Tools("not a list of tools".into()));
    };
    let tool = |(index, item): (usize, Value)| {
        let wrapped = if item.get("function").is_some() { item } else { json!({"type": "function", "function": item}) };
        match &wrapped["function"]["name"] {
            Value::String(name) if !name.is_empty() => Ok(wrapped),
            _ => Err(ChatError::Tools(format!("number {} of the list has no name", index + 1))),
        }
    };
    items.into_iter().enumerate().map(tool).collect::<Result<Vec<_>, _>>().map(Value::Array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_come_in_several_wrappings() {
        let function = json!({"name": "f", "parameters": {"type": "object"}});
        let wanted = json!([{"type": "function", "function": function}]);
        for form in [wanted.clone(), json!([function]), json!({"tools": wanted}), function.clone()] {
            assert_eq!(parse_tools(&form.to_string()).unwrap(), wanted, "{form}");
        }
        assert_eq!(parse_tools("[]").unwrap(), json!([]));
        for (text, words) in [
            ("[", "tools: no JSON"),
            ("3", "not a list"),
            (r#"[{"name":"f"},{"type":"function"}]"#, "number 2 of the list has no name"),
            (r#"{"tools":{}}"#, "not a list"),
        ] {
            let error = parse_tools(text).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
