//! Splits the text into tokens, one at a time.

use std::fmt;

/// A piece of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    /// A keyword or the name of an operation, a type, a value, a view: a letter or `_`, then also digits.
    Word(&'a str),
    /// The name of a kernel: `@` and word characters.
    Kernel(&'a str),
    /// A number that begins with a digit or with `-` and a digit; also `-inf`.
    Number(&'a str),
    /// `..` or a character that stands for itself.
    Mark(&'a str),
    /// The end of the text.
    End,
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |s: &str| s.chars().take(40).collect::<String>();
        match self {
            Token::Word(s) | Token::Number(s) | Token::Mark(s) => write!(f, "`{}`", short(s).escape_debug()),
            Token::Kernel(s) => write!(f, "`@{}`", short(s)),
            Token::End => f.write_str("the end of the text"),
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Reads tokens from `source`.
pub(super) struct Lexer<'a> {
    source: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(source: &'a str) -> Lexer<'a> {
        Lexer { source, at: 0 }
    }

    /// The length of the longest prefix of `s` whose characters are all `ok`.
    fn prefix(s: &str, ok: impl Fn(char) -> bool) -> usize {
        s.find(|c| !ok(c)).unwrap_or(s.len())
    }

    /// The next token and the offset at which it starts.
    pub fn next(&mut self) -> (Token<'a>, usize) {
        loop {
            let rest = &self.source[self.at..];
            self.at += Lexer::prefix(rest, char::is_whitespace);
            if !self.source[self.at..].starts_with("//") {
                break;
            }
            self.at += Lexer::prefix(&self.source[self.at..], |c| c != '\n');
        }
        let (start, rest) = (self.at, &self.source[self.at..]);
        let mut chars = rest.chars();
        let Some(first) = chars.next() else { return (Token::End, start) };
        let second = chars.next().unwrap_or(' ');
        let (len, make): (usize, fn(&'a str) -> Token<'a>) = match first {
            '@' => (1 + Lexer::prefix(&rest[1..], is_word), |s| Token::Kernel(&s[1..])),
            'a'..='z' | 'A'..='Z' | '_' => (Lexer::prefix(rest, is_word), Token::Word),
            '0'..='9' => (number(rest), Token::Number),
            '-' if second.is_ascii_digit() => (1 + number(&rest[1..]), Token::Number),
            '-' if is_word(second) => (1 + Lexer::prefix(&rest[1..], is_word), Token::Number),
            '.' if second == '.' => (2, Token::Mark),
            c => (c.len_utf8(), Token::Mark),
        };
        self.at += len;
        (make(&rest[..len]), start)
    }
}

/// The length of the number at the start of `s`: word characters, a dot if a digit follows it, a sign behind `e`.
fn number(s: &str) -> usize {
    let b = s.as_bytes();
    let hex = s.starts_with("0x");
    let mut n = 0;
    while n < b.len() {
        let digit_next = b.get(n + 1).is_some_and(u8::is_ascii_digit);
        let more = match b[n] {
            b'.' => digit_next,
            b'+' | b'-' => !hex && digit_next && n > 0 && matches!(b[n - 1], b'e' | b'E'),
            c => c.is_ascii_alphanumeric() || c == b'_',
        };
        if !more {
            break;
        }
        n += 1;
    }
    n
}
