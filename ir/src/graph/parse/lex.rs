//! Words, strings and punctuation with their places.

use super::ParseError;

/// A place in the text.
#[derive(Clone, Copy)]
pub(super) struct Place {
    line: usize,
    column: usize,
}

impl Place {
    pub(super) fn error(self, what: String) -> ParseError {
        ParseError { line: self.line, column: self.column, what }
    }
}

#[derive(Clone, PartialEq)]
pub(super) enum Token {
    /// A name or a number.
    Word(String),
    /// What stands between quotes; there are no escapes.
    Text(String),
    Punct(char),
    End,
}

impl Token {
    fn describe(&self) -> String {
        match self {
            Token::Word(w) => format!("`{w}`"),
            Token::Text(s) => format!("\"{s}\""),
            Token::Punct(c) => format!("`{c}`"),
            Token::End => "the end of the text".into(),
        }
    }
}

/// The tokens of a text; the last one is [`Token::End`] and never passed.
pub(super) struct Lexer {
    tokens: Vec<(Place, Token)>,
    at: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+')
}

impl Lexer {
    pub(super) fn new(text: &str) -> Result<Lexer, ParseError> {
        let mut tokens = Vec::new();
        let mut end = Place { line: 1, column: 1 };
        for (n, line) in text.lines().enumerate() {
            let mut chars = line.chars().enumerate().peekable();
            while let Some((i, c)) = chars.next() {
                let place = Place { line: n + 1, column: i + 1 };
                let token = match c {
                    ';' => break,
                    c if c.is_whitespace() => continue,
                    '"' => {
                        let mut s = String::new();
                        loop {
                            match chars.next() {
                                Some((_, '"')) => break Token::Text(s),
                                Some((_, c)) => s.push(c),
                                None => return Err(place.error("the string does not end on its line".into())),
                            }
                        }
                    }
                    ':' | '=' | ',' | '[' | ']' | '{' | '}' => Token::Punct(c),
                    c if is_word(c) => {
                        let mut s = String::from(c);
                        while let Some((_, c)) = chars.next_if(|&(_, c)| is_word(c)) {
                            s.push(c);
                        }
                        Token::Word(s)
                    }
                    c => return Err(place.error(format!("a character that means nothing here: {c:?}"))),
                };
                tokens.push((place, token));
            }
            end = Place { line: n + 1, column: line.chars().count() + 1 };
        }
        tokens.push((end, Token::End));
        Ok(Lexer { tokens, at: 0 })
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at].1
    }

    /// Where the next token begins.
    pub(super) fn place(&self) -> Place {
        self.tokens[self.at].0
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn wanted<T>(&self, what: &str) -> Result<T, ParseError> {
        Err(self.place().error(format!("found {}, want {what}", self.peek().describe())))
    }

    pub(super) fn word(&mut self, what: &str) -> Result<(Place, String), ParseError> {
        let place = self.place();
        let Token::Word(w) = self.peek().clone() else { return self.wanted(what) };
        self.advance();
        Ok((place, w))
    }

    pub(super) fn keyword(&mut self, keyword: &str) -> Result<(), ParseError> {
        let place = self.place();
        let (_, found) = self.word(&format!("`{keyword}`"))?;
        if found == keyword { Ok(()) } else { Err(place.error(format!("found `{found}`, want `{keyword}`"))) }
    }

    pub(super) fn string(&mut self, what: &str) -> Result<String, ParseError> {
        let Token::Text(s) = self.peek().clone() else { return self.wanted(&format!("{what} in quotes")) };
        self.advance();
        Ok(s)
    }

    pub(super) fn try_punct(&mut self, c: char) -> bool {
        let found = *self.peek() == Token::Punct(c);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn punct(&mut self, c: char) -> Result<(), ParseError> {
        if self.try_punct(c) { Ok(()) } else { self.wanted(&format!("`{c}`")) }
    }

    /// A word with `=` behind it.
    pub(super) fn try_key(&mut self) -> Option<(Place, String)> {
        let place = self.place();
        let Token::Word(key) = self.peek().clone() else { return None };
        if self.tokens.get(self.at + 1).map(|t| &t.1) != Some(&Token::Punct('=')) {
            return None;
        }
        self.at += 2;
        Some((place, key))
    }

    pub(super) fn end(&mut self) -> Result<(), ParseError> {
        if *self.peek() == Token::End { Ok(()) } else { self.wanted("the end of the text") }
    }
}
