//! Texts that end an answer, in a text that comes in pieces.

/// Looks for stop texts. What may be the beginning of one is held back until it is known.
#[derive(Debug, Default)]
pub(crate) struct StopTexts {
    texts: Vec<String>,
    held: String,
}

impl StopTexts {
    /// A search for these texts; empty ones are none.
    pub(crate) fn new(texts: &[String]) -> StopTexts {
        StopTexts { texts: texts.iter().filter(|t| !t.is_empty()).cloned().collect(), held: String::new() }
    }

    /// Adds a piece. Returns what is certainly text, and whether a stop text came after it; nothing may be added then.
    pub(crate) fn push(&mut self, piece: &str) -> (String, bool) {
        self.held.push_str(piece);
        let first = self.texts.iter().filter_map(|t| self.held.find(t.as_str())).min();
        if let Some(at) = first {
            self.held.truncate(at);
            return (std::mem::take(&mut self.held), true);
        }
        let begins = |at: &usize| self.texts.iter().any(|t| t.starts_with(&self.held[*at..]));
        let keep = self.held.char_indices().map(|(at, _)| at).find(begins).unwrap_or(self.held.len());
        let rest = self.held.split_off(keep);
        (std::mem::replace(&mut self.held, rest), false)
    }

    /// The text that was held back when no more comes.
    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(stop: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let mut texts = StopTexts::new(&stop.iter().map(|s| s.to_string()).collect::<Vec<_>>());
        let mut out = Vec::new();
        for piece in pieces {
            let (text, stopped) = texts.push(piece);
            out.push(text);
            if stopped {
                return (out, true);
            }
        }
        out.push(texts.finish());
        (out, false)
    }

    #[test]
    fn text_ends_before_the_first_stop_text() {
        assert_eq!(run(&["END"], &["abc END x"]), (vec!["abc ".into()], true));
        assert_eq!(run(&["END", "c"], &["abc END"]), (vec!["ab".into()], true));
        assert_eq!(run(&["\n\n"], &["a\n", "\nb"]), (vec!["a".into(), "".into()], true));
        assert_eq!(run(&["aab"], &["a", "a", "a", "b"]).0.concat(), "a");
    }

    #[test]
    fn what_may_begin_one_is_held_back_and_given_in_the_end() {
        assert_eq!(
            run(&["END"], &["xE", "N", "O", "E"]),
            (["x", "", "ENO", "", "E"].map(String::from).to_vec(), false)
        );
        assert_eq!(run(&[], &["a", "b"]), (["a", "b", ""].map(String::from).to_vec(), false));
        assert_eq!(run(&["", "é!"], &["é", "?"]).0.concat(), "é?");
    }

    #[test]
    fn cuts_into_pieces_make_no_difference() {
        let (text, stop) = ("ab<|e<|end|>rest", "<|end|>");
        for cut in 0..=text.len() {
            let (out, stopped) = run(&[stop], &[&text[..cut], &text[cut..]]);
            assert_eq!((out.concat().as_str(), stopped), ("ab<|e", true), "cut at {cut}");
        }
    }
}
