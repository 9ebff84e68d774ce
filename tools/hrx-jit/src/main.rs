//! hrx-jit
fn main() {}
