//! Every family against a plain f64 reference, run by the tile interpreter.

mod attention;
mod experts;
mod groups;
mod linear;
mod own_heads;
mod panels;
mod refusals;
mod rope;
mod rows;
mod sequence;
mod snapshots;
mod support;
mod together;
