//! The kernels of `filetests/amd` are what the templates make now. Their heads, which say what the instructions are to
//! be, are written by hand.

use hrx_tests::small_kernels::{differing, names};
use std::path::{Path, PathBuf};

/// How to write the files again.
const UPDATE: &str = "HRX_UPDATE=1 cargo test -p hrx-tests --test amd_filetests";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests/amd")
}

#[test]
fn kernels_are_those_of_the_templates() {
    let differing = differing(&folder());
    assert!(differing.is_empty(), "templates make other kernels of {differing:?}; if that is right: {UPDATE}");
}

#[test]
fn every_file_is_of_a_template() {
    let [names, found] = names(&folder());
    assert_eq!(found, names);
}
