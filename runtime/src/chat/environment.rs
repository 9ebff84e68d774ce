//! The Jinja environment that transformers gives to chat templates, in minijinja.
//!
//! Settings, functions and filters are those of `transformers.utils.chat_template_utils`: blocks trimmed on both sides,
//! loop controls, `raise_exception`, `strftime_now`, `tojson` without HTML escapes, Python's methods on values.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

use super::{filters, python};

/// Instructions of a rendering. Real ones take some ten for each line of a template and message; one that takes more than
/// this does not end.
const MOST_INSTRUCTIONS: u64 = 10_000_000;

/// Stack of a rendering in bytes, of which only what is used takes memory: enough to let go of the deepest list that so many
/// instructions can make.
pub const STACK: usize = 1 << 30;

/// Takes the place of `[::-1]` in [`adapted`] sources.
const REVERSE: &str = "|_rev_";

/// An environment without templates.
pub fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_fuel(Some(MOST_INSTRUCTIONS));
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(|out, _state, value| out.write_str(&python::to_str(value)?).map_err(Error::from));
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| local_time(&format, now()));
    environment.add_filter("tojson", |value: Value, arguments: Kwargs| python::to_json(&value, &arguments));
    environment.add_filter(&REVERSE[1..], |value: Value| value.reverse());
    filters::add(&mut environment);
    // In Python a string is a sequence of its characters, and a dict can be indexed and iterated. What is undefined is both
    // to Jinja, with nothing in it.
    fn is_sequence(value: Value) -> bool {
        matches!(value.kind(), ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map)
    }
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", |value: Value| value.kind() == ValueKind::Iterable || is_sequence(value));
    environment
}

/// `source` as minijinja takes it, of the same length, so that places in it stay places in the source:
///
/// * transformers' `generation` tags, which mark text for training and print what they hold, become comments, with the same
///   effect on the white space around them;
/// * `[::-1]` becomes a filter: minijinja 2.24 panics at an empty list there.
pub fn adapted(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min() {
        let kind = rest.as_bytes()[start + 1];
        let close = match kind {
            b'{' => "}}",
            b'%' => "%}",
            _ => "#}",
        };
        let inside = &rest[start + 2..];
        let length = if kind == b'#' { inside.find(close) } else { end_of_code(inside, close) };
        let Some(length) = length else { break };
        let (inner, open) = (&inside[..length], &rest[start..start + 2]);
        out.push_str(&rest[..start]);
        match (kind, inner.trim_matches(['-', '+']).trim()) {
            (b'%', "generation" | "endgeneration") => out.extend(["{#", inner, "#}"]),
            (b'#', _) => out.extend([open, inner, close]),
            _ => out.extend([open, &reversed_by_filter(inner), close]),
        }
        rest = &inside[length + 2..];
    }
    out + rest
}

/// Where a tag's or expression's code ends: at `close`, but not inside a string.
fn end_of_code(code: &str, close: &str) -> Option<usize> {
    let bytes = code.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            _ if code.as_bytes()[at..].starts_with(close.as_bytes()) => return Some(at),
            quote @ (b'"' | b'\'') => at = after_string(bytes, at, quote),
            _ => at += 1,
        }
    }
    None
}

/// Where a string that begins at `at` is over.
fn after_string(bytes: &[u8], at: usize, quote: u8) -> usize {
    let mut at = at + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

fn reversed_by_filter(code: &str) -> String {
    const SLICE: &str = "[::-1]";
    let (mut out, mut from, mut at) = (String::new(), 0, 0);
    let bytes = code.as_bytes();
    while at < bytes.len() {
        if bytes[at] == b'"' || bytes[at] == b'\'' {
            at = after_string(bytes, at, bytes[at]);
        } else if bytes[at..].starts_with(SLICE.as_bytes()) {
            let next = code[at + SLICE.len()..].trim_start();
            // A filter can't be followed by what an element can.
            if !next.starts_with(['[', '.', '(']) {
                out.extend([&code[from..at], REVERSE]);
                from = at + SLICE.len();
            }
            at += SLICE.len();
        } else {
            at += 1;
        }
    }
    out + &code[from..]
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map(|d| d.as_secs() as i64).unwrap_or(0)
}

/// C's `strftime` on the local time of `seconds` after 1970.
fn local_time(format: &str, seconds: i64) -> Result<String, Error> {
    let bad = |problem: &str| Error::new(ErrorKind::InvalidOperation, format!("strftime_now: {problem}"));
    let text = std::ffi::CString::new(format).map_err(|_| bad("the format holds a NUL"))?;
    let seconds = seconds as libc::time_t;
    // SAFETY: `tm` is plain numbers and a pointer that may be null; all zeros is a value of it.
    let mut time: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live, properly aligned locals.
    if unsafe { libc::localtime_r(&seconds, &mut time) }.is_null() {
        return Err(bad("the clock is out of range"));
    }
    let mut buffer = vec![0u8; 256 + 16 * format.len()];
    // SAFETY: `buffer` has the size given, `text` ends with NUL, `time` was filled by localtime_r.
    let written = unsafe { libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), text.as_ptr(), &time) };
    buffer.truncate(written);
    String::from_utf8(buffer).map_err(|_| bad("the result is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_c_does() {
        // 2 July 2024, noon UTC: the same month in every time zone.
        assert_eq!(local_time("%b %Y %%", 1_719_921_600).unwrap(), "Jul 2024 %");
        assert_eq!(local_time("", 0).unwrap(), "");
        assert!(local_time("a\0", 0).is_err());
    }

    #[test]
    fn sources_are_adapted_where_code_is() {
        for (source, wanted) in [
            (
                "a {%- generation -%} b {% endgeneration %}{% if x %}{{ y }}",
                "a {#- generation -#} b {# endgeneration #}{% if x %}{{ y }}",
            ),
            ("no end {% generation", "no end {% generation"),
            ("{%%}", "{%%}"),
            ("{% for m in x[::-1] -%}{{ x[1:] [::-1] }}", "{% for m in x|_rev_ -%}{{ x[1:] |_rev_ }}"),
            ("[::-1]{{ '[::-1]' ~ \"\\\"[::-1]\" }}{# [::-1] #}", "[::-1]{{ '[::-1]' ~ \"\\\"[::-1]\" }}{# [::-1] #}"),
            ("{{ x[::-1][0] }}{{ x[::-1] .y }}", "{{ x[::-1][0] }}{{ x[::-1] .y }}"),
            ("{{ '}}' + x[::-1] }} {{ 'é\\", "{{ '}}' + x|_rev_ }} {{ 'é\\"),
            ("{# {{ ' #}{{ x[::-1] }}", "{# {{ ' #}{{ x|_rev_ }}"),
        ] {
            assert_eq!(adapted(source), wanted);
            assert_eq!(source.len(), wanted.len());
        }
    }
}
