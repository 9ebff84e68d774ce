//! Values written as Python writes them, because templates are written for Python's Jinja.
//!
//! Where minijinja writes values itself, in `~` and `join`, lists and booleans look as in JSON; and there is no `Markup`: a
//! string marked `safe` is joined like any other.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde_json::Value as Json;

/// `str(value)`: what `{{ value }}` prints.
pub fn to_str(value: &Value) -> String {
    match value.kind() {
        ValueKind::Undefined => String::new(),
        ValueKind::String => value.to_string(),
        _ => repr(value),
    }
}

/// `repr(value)`: how a value looks inside a printed list or dict.
fn repr(value: &Value) -> String {
    let items = || value.try_iter().into_iter().flatten();
    match value.kind() {
        ValueKind::None => "None".into(),
        ValueKind::Bool => if value.is_true() { "True" } else { "False" }.into(),
        ValueKind::String => quote(value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<_> = items().map(|item| repr(&item)).collect();
            format!("[{}]", items.join(", "))
        }
        ValueKind::Map => {
            let pair = |key: Value| {
                let item = value.get_item(&key).unwrap_or_default();
                format!("{}: {}", repr(&key), repr(&item))
            };
            format!("{{{}}}", items().map(pair).collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}

/// A Python string literal.
fn quote(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if (c as u32) < 0x20 || c as u32 == 0x7F => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// The filter `tojson` as transformers defines it: `json.dumps(value, ensure_ascii=False)`, nothing escaped for HTML.
///
/// # Errors
/// An undefined value, or a keyword argument of the wrong type.
pub fn to_json(value: &Value, arguments: &Kwargs) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(Error::new(ErrorKind::UndefinedError, "an undefined value cannot be written as JSON"));
    }
    let indent: Option<usize> = arguments.get("indent")?;
    let separators: Option<Vec<String>> = arguments.get("separators")?;
    let sort_keys: Option<bool> = arguments.get("sort_keys")?;
    let ensure_ascii: Option<bool> = arguments.get("ensure_ascii")?;
    arguments.assert_all_used()?;
    let (item, key) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(Error::new(ErrorKind::InvalidOperation, "separators must be a pair")),
        None => (if indent.is_some() { "," } else { ", " }.into(), ": ".into()),
    };
    let json = serde_json::to_value(value).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    let mut writer = JsonWriter { out: String::new(), indent, item, key, sort_keys: sort_keys == Some(true) };
    writer.write(&json, 0);
    Ok(if ensure_ascii == Some(true) { escape_non_ascii(&writer.out) } else { writer.out })
}

/// JSON with `\uNNNN` for every UTF-16 unit outside ASCII; such characters occur in strings only.
fn escape_non_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

struct JsonWriter {
    out: String,
    indent: Option<usize>,
    item: String,
    key: String,
    sort_keys: bool,
}

impl JsonWriter {
    fn write(&mut self, json: &Json, depth: usize) {
        match json {
            Json::Array(items) => {
                self.nest(['[', ']'], items.iter(), depth, |w, item| w.write(item, depth + 1));
            }
            Json::Object(map) => {
                let mut pairs: Vec<_> = map.iter().collect();
                if self.sort_keys {
                    pairs.sort_by_key(|pair| pair.0);
                }
                self.nest(['{', '}'], pairs.into_iter(), depth, |w, (key, item)| {
                    w.out.push_str(&Json::from(key.as_str()).to_string());
                    w.out.push_str(&w.key);
                    w.write(item, depth + 1);
                });
            }
            scalar => self.out.push_str(&scalar.to_string()),
        }
    }

    fn nest<T>(
        &mut self,
        [open, close]: [char; 2],
        items: impl ExactSizeIterator<Item = T>,
        depth: usize,
        mut write: impl FnMut(&mut Self, T),
    ) {
        self.out.push(open);
        let empty = items.len() == 0;
        for (index, item) in items.enumerate() {
            if index > 0 {
                self.out.push_str(&self.item);
            }
            self.new_line(depth + 1);
            write(self, item);
        }
        if !empty {
            self.new_line(depth);
        }
        self.out.push(close);
    }

    fn new_line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent.saturating_mul(depth).min(4096)));
        }
    }
}
