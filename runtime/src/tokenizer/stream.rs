//! Text from tokens, as they come.

use super::Tokenizer;
use super::utf8::Utf8Stream;

/// Decodes tokens one at a time. A character whose bytes are spread over several tokens appears with the last of them.
///
/// Unlike [`Tokenizer::decode`] it never takes back text: no spaces are removed.
#[derive(Debug, Clone)]
pub struct StreamDecoder<'t> {
    tokenizer: &'t Tokenizer,
    special: bool,
    stream: Utf8Stream,
}

impl<'t> StreamDecoder<'t> {
    /// A decoder at the start of a text. With `special`, control and unknown tokens appear as they are spelled.
    pub fn new(tokenizer: &'t Tokenizer, special: bool) -> StreamDecoder<'t> {
        StreamDecoder { tokenizer, special, stream: Utf8Stream::default() }
    }

    /// Takes a token and returns the text that is complete with it, which may be empty.
    pub fn push(&mut self, token: u32) -> String {
        self.stream.push(self.tokenizer.piece(token, self.special))
    }

    /// Ends the text. An unfinished character becomes U+FFFD. The decoder can then be used for another text.
    pub fn finish(&mut self) -> String {
        self.stream.finish()
    }
}
