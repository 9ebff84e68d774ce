//! GPT-2's byte alphabet: one printable character for each byte.
//!
//! The bytes that are printable in Latin-1 (33–126, 161–172, 174–255) are themselves; the other 68, in rising order, are
//! U+0100 and up. Source: `bytes_to_unicode` of OpenAI's GPT-2 encoder.

const fn is_printable(byte: u8) -> bool {
    matches!(byte, 33..=126 | 161..=172 | 174..=255)
}

const CHARACTERS: [char; 256] = {
    let mut characters = ['\0'; 256];
    let mut others = 0;
    let mut byte = 0;
    while byte < 256 {
        characters[byte] = if is_printable(byte as u8) {
            byte as u8 as char
        } else {
            others += 1;
            // The last one is U+0143, far below the surrogates.
            match char::from_u32(0xFF + others) {
                Some(c) => c,
                None => '\0',
            }
        };
        byte += 1;
    }
    characters
};

/// One more than the byte that each character below U+0144 stands for; 0 for none.
const BYTES: [u16; 0x144] = {
    let mut bytes = [0; 0x144];
    let mut byte = 0;
    while byte < 256 {
        bytes[CHARACTERS[byte] as usize] = byte as u16 + 1;
        byte += 1;
    }
    bytes
};

/// Appends the spelling of `bytes` to `out`.
pub fn encode(bytes: &[u8], out: &mut String) {
    out.extend(bytes.iter().map(|b| CHARACTERS[usize::from(*b)]));
}

/// Appends the bytes that `spelling` stands for to `out`. What is not in the alphabet stays as it is.
pub fn decode(spelling: &[u8], out: &mut Vec<u8>) {
    for chunk in spelling.utf8_chunks() {
        for c in chunk.valid().chars() {
            match BYTES.get(c as usize) {
                Some(byte) if *byte > 0 => out.push((byte - 1) as u8),
                _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        out.extend_from_slice(chunk.invalid());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character_and_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let mut spelling = String::new();
        encode(&all, &mut spelling);
        assert_eq!(spelling.chars().count(), 256);
        assert!(spelling.chars().all(|c| !c.is_whitespace() && !c.is_control()));
        assert!(spelling.contains('Ġ') && spelling.contains('Ċ'));
        let mut back = Vec::new();
        decode(spelling.as_bytes(), &mut back);
        assert_eq!(back, all);
    }

    #[test]
    fn characters_outside_the_alphabet_stay() {
        let mut out = Vec::new();
        decode("Ġ漢\u{A0}".as_bytes(), &mut out);
        assert_eq!(out, " 漢\u{A0}".as_bytes());
    }
}
