//! docs/models.md is written from the table of architectures.

use hrx::models::{ARCHITECTURES, Evidence};
use std::fmt::Write;
use std::path::Path;

fn text() -> String {
    let mut text = String::from(
        "# Models\n\n\
         What a GGUF file names in `general.architecture`, which models that is (among others), and what the graph that is \
         built of it is held to:\n\n\
         * a name: reference logits of that golden model, which the graph's f64 interpreter meets with an error below 1e-9;\n\
         * (own): a golden model that was made for this project with llama.cpp (`tests/golden/README.md`);\n\
         * unit tests: sizes, names and errors, no logits.\n\n\
         A file with another architecture, or with a tensor that its architecture does not have, is refused by name. Tensors \
         of blocks that predict tokens after the next (`blk.N.nextn.*`, and blocks behind the last layer) are left out. To \
         add one: CONTRIBUTING.md, \"Add an architecture\".\n\n\
         | architecture | models | held to |\n|---|---|---|\n",
    );
    for a in ARCHITECTURES {
        let names = a.evidence.goldens().join(", ");
        let held = match a.evidence {
            Evidence::Goldens(_) => names,
            Evidence::Own(_) => format!("{names} (own)"),
            Evidence::UnitTests => "unit tests".into(),
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
