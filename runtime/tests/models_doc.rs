//! docs/models.md is written from the table of architectures.

use hrx::models::ARCHITECTURES;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Models

What a GGUF file names in `general.architecture`, which models that is (among others), and what the graph that is built
of it is held to: golden models, whose reference logits the graph's f64 interpreter meets with an error below 1e-9.
Those called own were made for this project with llama.cpp (tests/golden/README.md).

A file of another architecture is refused, and one with a tensor that its architecture does not have. Tensors of blocks
that predict tokens after the next (`blk.N.nextn.*`, and blocks behind the last layer) are left out. Experts may have a
tensor each (`blk.N.ffn_gate.E.weight`, in files of before April 2024): they are put together when the model is loaded. To
add an architecture: CONTRIBUTING.md.

| architecture | models | held to |
|---|---|---|
";

fn text() -> String {
    let mut text = String::from(HEAD);
    for a in ARCHITECTURES {
        let (shared, own) = (a.goldens.join(", "), a.own_goldens.join(", "));
        let held = match (a.goldens, a.own_goldens) {
            ([], []) => "unit tests".into(),
            (_, []) => shared,
            ([], _) => format!("own: {own}"),
            _ => format!("{shared}; own: {own}"),
        };
        writeln!(text, "| {} | {} | {held} |", a.name, a.models).unwrap();
    }
    text.push_str("\nWritten by `HRX_UPDATE=1 cargo test -p hrx --test models_doc`.\n");
    text
}

#[test]
fn the_page_is_true_to_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/models.md");
    if std::env::var_os("HRX_UPDATE").is_some_and(|v| v == "1") {
        std::fs::write(&path, text()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == text(), "docs/models.md is out of date: HRX_UPDATE=1 cargo test -p hrx --test models_doc");
}
