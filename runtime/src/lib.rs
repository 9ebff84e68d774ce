//! hrx
