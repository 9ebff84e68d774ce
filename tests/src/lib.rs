//! Whole-system tests, and what they share.

pub mod filetest;
