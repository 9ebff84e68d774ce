//! GGUF files.

use hrx::gguf::{Gguf, GgufError, Rule};

use crate::Reached;

/// Opens the bytes as a GGUF file and looks at everything that it says it has. A refusal must be
/// one line.
pub fn gguf(data: &[u8]) -> Reached {
    match Gguf::from_bytes(data) {
        Ok(gguf) => {
            gguf.walk();
            Reached::End
        }
        Err(error) => {
            let message = error.to_string();
            assert_eq!(message.lines().count(), 1, "not one line: {message:?}");
            match error {
                GgufError::Format { rule: Rule::Magic | Rule::Endianness | Rule::Version, .. } => Reached::FirstCheck,
                _ => Reached::Inside,
            }
        }
    }
}
