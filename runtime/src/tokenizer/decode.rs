//! Text of a whole sequence of tokens.

use super::Tokenizer;

pub(super) fn decode(tokenizer: &Tokenizer, tokens: &[u32], special: bool) -> Vec<u8> {
    let mut text = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let piece = tokenizer.piece(*token, special);
        let prefix = index == 0 && tokenizer.add_space_prefix && piece.first() == Some(&b' ');
        text.extend_from_slice(&piece[usize::from(prefix)..]);
    }
    if tokenizer.clean_spaces { clean_spaces(&text) } else { text }
}

/// Removes the spaces that word-level tokenization leaves: before `? ! . ,`, around an apostrophe on its own, and before
/// `'s 'm 're 've`. Source: `clean_up_tokenization_spaces` of Hugging Face's tokenizers, without its `n't`.
fn clean_spaces(text: &[u8]) -> Vec<u8> {
    let text = replace(text, |rest| match rest {
        [b' ', next @ (b'?' | b'!' | b'.' | b','), ..] => Some((2, vec![*next])),
        _ => None,
    });
    let text = replace(&text, |rest| rest.starts_with(b" ' ").then(|| (3, b"'".to_vec())));
    replace(&text, |rest| {
        let contraction = [&b"'s"[..], b"'m", b"'re", b"'ve"]
            .iter()
            .any(|c| rest.strip_prefix(b" ").is_some_and(|r| r.starts_with(c)));
        contraction.then(|| (2, b"'".to_vec()))
    })
}

/// Replaces what `rule` finds at each position: how many bytes, and by what.
fn replace(text: &[u8], rule: impl Fn(&[u8]) -> Option<(usize, Vec<u8>)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.first() {
        match rule(rest) {
            Some((length, by)) => {
                out.extend(by);
                rest = &rest[length..];
            }
            None => {
                out.push(*first);
                rest = &rest[1..];
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::clean_spaces;

    #[test]
    fn spaces_before_punctuation_and_contractions_go() {
        for (text, expected) in [
            ("a . b , c ? d ! e ; f", "a. b, c? d! e ; f"),
            ("it 's we 're they 've I 'm he 'll I 'd can 't", "it's we're they've I'm he 'll I 'd can 't"),
            ("rock ' n", "rock'n"),
            (" ? ", "? "),
            ("  .", " ."),
            ("", ""),
        ] {
            assert_eq!(String::from_utf8(clean_spaces(text.as_bytes())).unwrap(), expected, "{text:?}");
        }
    }
}
