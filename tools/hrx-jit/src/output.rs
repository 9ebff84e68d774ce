//! Where results go.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use hrx::compiler::target::amd::{BOARDS, Board};
use hrx::compiler::{CompileError, Emit, Target};
use std::error::Error;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;

/// The argument parser of a kernel's form.
pub fn emit_parser() -> impl TypedValueParser<Value = Emit> {
    // The names are the table's, so each is found.
    PossibleValuesParser::new(Emit::ALL.map(|(name, _)| name)).map(|name| Emit::from_name(&name).unwrap_or(Emit::Tile))
}

/// The argument parser of a target.
pub fn target_parser(name: &str) -> Result<Target, CompileError> {
    Target::from_name(name)
}

/// The argument parser of a board.
pub fn board_parser(name: &str) -> Result<&'static Board, String> {
    // People write names in any case.
    let names: Vec<String> = BOARDS.iter().map(|b| b.name.to_lowercase()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    match pick(&names, &name.to_lowercase(), "the table of boards") {
        Ok(at) => Ok(&BOARDS[at]),
        Err(_) => {
            let all: Vec<&str> = BOARDS.iter().map(|b| b.name).collect();
            Err(format!("no board, or several, of that name; there are: {}", all.join(", ")))
        }
    }
}

/// Writes a result to a file, else to standard output; binary ones not to a terminal.
pub fn write(bytes: &[u8], to: Option<&Path>, binary: bool) -> Result<(), Box<dyn Error>> {
    match to {
        Some(path) => {
            let written = File::create(path).and_then(|mut f| f.write_all(bytes));
            Ok(written.map_err(|e| format!("can't write {}: {e}", path.display()))?)
        }
        None => {
            let mut out = std::io::stdout().lock();
            if binary && out.is_terminal() {
                return Err("an object is not text: write it to a file with -o, or to a pipe".into());
            }
            out.write_all(bytes)?;
            Ok(out.flush()?)
        }
    }
}

/// The one name of a list that `wanted` stands for: that name, else the only one beginning with it, else the only one
/// with it in it. Otherwise an error that lists the candidates.
pub fn pick(names: &[&str], wanted: &str, whose: &str) -> Result<usize, String> {
    let list = |at: &mut dyn Iterator<Item = usize>| at.map(|i| format!("\n  {}", names[i])).collect::<String>();
    let tests: [fn(&str, &str) -> bool; 3] = [|n, w| n == w, |n, w| n.starts_with(w), |n, w| n.contains(w)];
    for test in tests {
        let found: Vec<usize> = (0..names.len()).filter(|&i| test(names[i], wanted)).collect();
        match found[..] {
            [] => {}
            [one] => return Ok(one),
            _ => {
                return Err(format!(
                    "{wanted:?} stands for several kernels of {whose}:{}",
                    list(&mut found.into_iter())
                ));
            }
        }
    }
    Err(format!("no kernel {wanted:?} in {whose}, which has:{}", list(&mut (0..names.len()))))
}

#[cfg(test)]
mod tests {
    use super::pick;

    #[test]
    fn a_name_is_picked_whole_then_by_its_start_then_by_any_part() {
        let names = ["rope_k", "rope", "embed_q4", "matmul_q4_n8", "matmul_q8_n8"];
        let picked = |w| pick(&names, w, "x");
        assert_eq!(picked("rope"), Ok(1), "a whole name before one that begins with it");
        assert_eq!(picked("embed"), Ok(2));
        assert_eq!(picked("q8"), Ok(4));
        assert_eq!(
            picked("matmul").unwrap_err(),
            "\"matmul\" stands for several kernels of x:\n  matmul_q4_n8\n  matmul_q8_n8"
        );
        assert!(
            picked("none").unwrap_err().ends_with(
                "no kernel \"none\" in x, which has:\n  rope_k\n  rope\n  embed_q4\n  matmul_q4_n8\n  matmul_q8_n8"
                    .trim_start()
            )
        );
    }
}
