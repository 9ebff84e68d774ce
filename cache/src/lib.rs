//! hrx-cache
