//! Values written as Python writes them, because templates are written for Python's Jinja.
//!
//! Where minijinja writes values itself, in `~`, lists and booleans look as in JSON; and there is no `Markup`: a string
//! marked `safe` is joined like any other.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use serde_json::Value as Json;

/// Lists and dicts inside each other that are written. Python's own limit is near a thousand.
const DEEPEST: usize = 200;
/// Values of a list or dict that are written, with those inside. A template can make lists that hold themselves many times.
const MOST: usize = 1_000_000;

/// `str(value)`: what `{{ value }}` prints.
///
/// # Errors
/// A list or dict that is nested too deeply or too large.
pub fn to_str(value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined => Ok(String::new()),
        ValueKind::String => Ok(value.to_string()),
        _ => {
            measure(value, DEEPEST, &mut MOST.clone())?;
            Ok(repr(value))
        }
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
        ValueKind::Number if !value.is_integer() => f64::try_from(value.clone()).map_or(value.to_string(), float),
        _ => value.to_string(),
    }
}

/// `repr` of a float: the shortest digits that give it back, with an exponent where it is below -4 or from 16.
fn float(value: f64) -> String {
    let shortest = format!("{value:e}");
    let Some((digits, exponent)) = shortest.split_once('e') else {
        return if value.is_nan() { "nan".into() } else { shortest };
    };
    match exponent.parse::<i32>() {
        Ok(n) if !(-4..16).contains(&n) => format!("{digits}e{}{:02}", if n < 0 { '-' } else { '+' }, n.abs()),
        _ if value.fract() == 0.0 => format!("{value:.1}"),
        _ => value.to_string(),
    }
}

/// Refuses what can't be written in reasonable space: more than `deeper` levels, or than `left` values.
fn measure(value: &Value, deeper: usize, left: &mut usize) -> Result<(), Error> {
    let is_map = value.kind() == ValueKind::Map;
    if !is_map && !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(());
    }
    for item in value.try_iter()? {
        let item = if is_map { value.get_item(&item)? } else { item };
        let (Some(deeper), Some(fewer)) = (deeper.checked_sub(1), left.checked_sub(1)) else {
            let limits = format!("more than {DEEPEST} levels, or {MOST} values");
            return Err(Error::new(ErrorKind::InvalidOperation, format!("a value has {limits}")));
        };
        *left = fewer;
        measure(&item, deeper, left)?;
    }
    Ok(())
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
/// An undefined value, one that is nested too deeply or too large, or a keyword argument of the wrong type.
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
    measure(value, DEEPEST, &mut MOST.clone())?;
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
            Json::Number(number) if number.is_f64() => {
                self.out.push_str(&number.as_f64().map_or(number.to_string(), float));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded with Python 3.11.
    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, wanted) in [
            (1e16, "1e+16"),
            (1e15, "1000000000000000.0"),
            (1e-5, "1e-05"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (-0.0, "-0.0"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (123456789.125, "123456789.125"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(float(value), wanted);
        }
    }
}
