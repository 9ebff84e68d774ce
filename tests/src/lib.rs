//! hrx-tests
