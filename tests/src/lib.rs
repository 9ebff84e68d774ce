//! Whole-system tests. This library is what they share: reference data and how results are held
//! against it. The tests themselves are in `tests/tests/`.

pub mod golden;
pub mod logits;
