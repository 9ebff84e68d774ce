//! The JSON of Ollama's store.

use hrx::names::ollama::{Manifest, parse_params};

use crate::Reached;

/// Reads the bytes as a manifest and as parameters. A digest that passes names a file of the store and nothing outside.
pub fn ollama(data: &[u8]) -> Reached {
    let params = parse_params(data);
    match Manifest::parse(data) {
        Ok(manifest) => {
            for layer in &manifest.layers {
                assert!(layer.digest.is_ascii() && !layer.digest.contains(['/', '.']), "{}", layer.digest);
            }
            Reached::End
        }
        Err(problem) => {
            assert_eq!(problem.lines().count(), 1, "not one line: {problem:?}");
            match (params, data.first()) {
                (Ok(_), _) => Reached::End,
                (Err(_), Some(b'{')) => Reached::Inside,
                (Err(_), _) => Reached::FirstCheck,
            }
        }
    }
}
