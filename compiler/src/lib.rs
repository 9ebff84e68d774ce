//! hrx-compiler
