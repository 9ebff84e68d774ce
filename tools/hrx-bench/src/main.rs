//! hrx-bench
fn main() {}
