//! The Jinja environment that transformers gives to chat templates, in minijinja.
//!
//! Settings, functions and filters are those of `transformers.utils.chat_template_utils`: blocks trimmed on both sides,
//! loop controls, `raise_exception`, `strftime_now`, `tojson` without HTML escapes, Python's methods on values.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

use super::python;

/// An environment without templates.
pub fn new() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    environment.set_formatter(|out, _state, value| out.write_str(&python::to_str(value)).map_err(Error::from));
    environment.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    environment.add_function("strftime_now", |format: String| local_time(&format, now()));
    environment.add_filter("tojson", |value: Value, arguments: Kwargs| python::to_json(&value, &arguments));
    environment.add_filter("string", |value: Value| python::to_str(&value));
    // In Python a string is a sequence of its characters, and a dict can be indexed and iterated.
    fn is_sequence(value: Value) -> bool {
        matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Map)
    }
    environment.add_test("sequence", is_sequence);
    environment.add_test("iterable", |value: Value| value.kind() == ValueKind::Iterable || is_sequence(value));
    environment
}

/// `source` without transformers' `generation` blocks, which mark text for training and print what they hold. Each tag
/// becomes a comment of the same length, with the same effect on the white space around it.
pub fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start + 2..].find("%}") else { break };
        let inner = &rest[start + 2..start + 2 + length];
        let name = inner.trim_matches(['-', '+']).trim();
        out.push_str(&rest[..start]);
        if name == "generation" || name == "endgeneration" {
            out.extend(["{#", inner, "#}"]);
        } else {
            out.extend(["{%", inner, "%}"]);
        }
        rest = &rest[start + length + 4..];
    }
    out + rest
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
    fn generation_tags_become_comments() {
        assert_eq!(
            without_generation_tags("a {%- generation -%} b {% endgeneration %}{% if x %}{{ y }}"),
            "a {#- generation -#} b {# endgeneration #}{% if x %}{{ y }}"
        );
        assert_eq!(without_generation_tags("no end {% generation"), "no end {% generation");
        assert_eq!(without_generation_tags("{%%}"), "{%%}");
    }
}
