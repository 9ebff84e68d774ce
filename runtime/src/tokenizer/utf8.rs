//! UTF-8 that may be broken: reading it for a byte-level vocabulary, and writing it as tokens arrive.

use std::borrow::Cow;

use super::TokenizerError;

/// Text made ready for a pre-tokenizer.
///
/// `text` is what the regular expressions see and `bytes` is what becomes tokens. They have the same length and differ
/// only in lone surrogates, which `str` cannot hold: each is a private-use character of the same width in `text`.
#[derive(Debug)]
pub struct Repaired<'a> {
    /// Valid UTF-8 for matching.
    pub text: Cow<'a, str>,
    /// The bytes to encode.
    pub bytes: Cow<'a, [u8]>,
}

/// Reads `input` as UTF-8 the way byte-level vocabularies were trained to see it.
///
/// Valid text is borrowed unchanged. A byte that starts no sequence becomes U+FFFD, overlong sequences are shortened, and
/// lone surrogates are kept.
///
/// # Errors
/// [`TokenizerError::CodePointTooLarge`] for a four-byte sequence above U+10FFFF.
pub fn repair(input: &[u8]) -> Result<Repaired<'_>, TokenizerError> {
    if let Ok(text) = std::str::from_utf8(input) {
        return Ok(Repaired { text: Cow::Borrowed(text), bytes: Cow::Borrowed(input) });
    }
    let mut text = String::with_capacity(input.len() + 16);
    let mut bytes = Vec::with_capacity(input.len() + 16);
    let mut at = 0;
    while at < input.len() {
        let (code, width) = lenient_code_point(&input[at..]);
        if let Some(c) = char::from_u32(code) {
            text.push(c);
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        } else if code <= 0x10FFFF {
            text.push('\u{E000}');
            bytes.extend_from_slice(&[
                0xE0 | (code >> 12) as u8,
                0x80 | (code >> 6 & 0x3F) as u8,
                0x80 | (code & 0x3F) as u8,
            ]);
        } else {
            return Err(TokenizerError::CodePointTooLarge { offset: at, code });
        }
        at += width;
    }
    Ok(Repaired { text: Cow::Owned(text), bytes: Cow::Owned(bytes) })
}

/// The code point at the start of non-empty `input` and its width, without the checks for overlong forms and surrogates.
fn lenient_code_point(input: &[u8]) -> (u32, usize) {
    const BROKEN: (u32, usize) = (0xFFFD, 1);
    let lead = input[0];
    let (width, bits) = match lead {
        0x00..=0x7F => return (u32::from(lead), 1),
        0xC0..=0xDF => (2, lead & 0x1F),
        0xE0..=0xEF => (3, lead & 0x0F),
        0xF0..=0xF7 => (4, lead & 0x07),
        _ => return BROKEN,
    };
    let Some(tail) = input.get(1..width) else { return BROKEN };
    if tail.iter().any(|b| b & 0xC0 != 0x80) {
        return BROKEN;
    }
    (tail.iter().fold(u32::from(bits), |code, b| code << 6 | u32::from(b & 0x3F)), width)
}

/// The width that a lead byte announces, 1 for anything that is not a lead byte of a longer sequence.
pub fn announced_width(lead: u8) -> usize {
    match lead {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
        _ => 1,
    }
}

/// Turns bytes that arrive in pieces into text, holding back a character until its last byte is there.
#[derive(Debug, Default, Clone)]
pub struct Utf8Stream {
    pending: Vec<u8>,
}

impl Utf8Stream {
    /// Takes `bytes` and returns the text that is complete with them. Bytes that can never become valid are U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut out = String::with_capacity(self.pending.len());
        let mut rest = self.pending.as_slice();
        for chunk in self.pending.utf8_chunks() {
            out.push_str(chunk.valid());
            let invalid = chunk.invalid();
            rest = &rest[chunk.valid().len()..];
            // The last chunk may be the start of a character rather than an error.
            let is_last = invalid.len() == rest.len();
            if is_last && std::str::from_utf8(rest).is_err_and(|e| e.error_len().is_none()) {
                break;
            }
            rest = &rest[invalid.len()..];
            if !invalid.is_empty() {
                out.push(char::REPLACEMENT_CHARACTER);
            }
        }
        let kept = rest.len();
        self.pending.drain(..self.pending.len() - kept);
        out
    }

    /// Ends the stream: what was held back becomes one U+FFFD.
    pub fn finish(&mut self) -> String {
        let held = !self.pending.is_empty();
        self.pending.clear();
        if held { char::REPLACEMENT_CHARACTER.to_string() } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_what_a_vocabulary_cannot_spell() {
        for (input, bytes) in [
            (&b"\xff\xfe x"[..], "\u{FFFD}\u{FFFD} x".as_bytes()),
            (b"trunc \xe2\x82 x", "trunc \u{FFFD}\u{FFFD} x".as_bytes()),
            (b"\xc0\x80", b"\0"),
            (b"\xed\xa0\x80 x", b"\xed\xa0\x80 x"),
            (b"abc\xc3", "abc\u{FFFD}".as_bytes()),
        ] {
            let repaired = repair(input).unwrap();
            assert_eq!(repaired.bytes.as_ref(), bytes, "{input:x?}");
            assert_eq!(repaired.text.len(), bytes.len(), "{input:x?}");
        }
        let error = repair(b"ab \xf5\x80\x80\x80").unwrap_err();
        assert!(matches!(error, TokenizerError::CodePointTooLarge { offset: 3, code: 0x140000 }), "{error}");
    }

    #[test]
    fn a_stream_cut_anywhere_gives_the_whole_text() {
        let text = "aé漢😁\u{FFFD}z";
        for cut in 0..=text.len() {
            let mut stream = Utf8Stream::default();
            let mut out = stream.push(&text.as_bytes()[..cut]);
            assert!(text.starts_with(&out));
            out += &stream.push(&text.as_bytes()[cut..]);
            out += &stream.finish();
            assert_eq!(out, text, "cut at {cut}");
        }
    }

    #[test]
    fn a_stream_replaces_what_can_never_be_valid() {
        let mut stream = Utf8Stream::default();
        assert_eq!(stream.push(b"a\xffb\xe2\x82"), "a\u{FFFD}b");
        assert_eq!(stream.push(b"c"), "\u{FFFD}c");
        assert_eq!(stream.push(b"\xf0\x9f"), "");
        assert_eq!(stream.finish(), "\u{FFFD}");
        assert_eq!(stream.finish(), "");
    }
}
