//! Every family against a plain f64 reference, run by the tile interpreter.

mod attention;
mod linear;
mod refusals;
mod rope;
mod rows;
mod snapshots;
mod support;
