//! hrx-ir
