//! Models held to reference logits: the reference data, how far logits may be from it, and how tokens are fed. Tests and
//! `hrx-bench golden` judge by this.

pub mod anchors;
pub mod feeding;
pub mod golden;
pub mod logits;
pub mod together;
pub mod turns;

pub use feeding::Feeding;
pub use golden::Golden;
