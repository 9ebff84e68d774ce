//! hrx-fuzz
