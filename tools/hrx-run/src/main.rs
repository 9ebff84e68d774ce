//! hrx-run
fn main() {}
