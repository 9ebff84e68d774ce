//! The template crate's own cases, with every launch also compiled for AMD GPUs and run in the emulator, which must have
//! nothing to report. Chips take turns; with `HRX_ALL=1` every launch runs for each, and `HRX_CHIP=gfx942` names one.
//!
//! The case files are those of `kernel-templates/tests/templates`; only the `launch` that they call is another one.

#[path = "../../../kernel-templates/tests/templates/attention.rs"]
mod attention;
#[path = "../../../kernel-templates/tests/templates/experts.rs"]
mod experts;
#[path = "../../../kernel-templates/tests/templates/groups.rs"]
mod groups;
#[path = "../../../kernel-templates/tests/templates/linear.rs"]
mod linear;
#[path = "../../../kernel-templates/tests/templates/own_heads.rs"]
mod own_heads;
#[path = "../../../kernel-templates/tests/templates/rope.rs"]
mod rope;
#[path = "../../../kernel-templates/tests/templates/rows.rs"]
mod rows;
#[path = "../../../kernel-templates/tests/templates/sequence.rs"]
mod sequence;
mod support;
#[path = "../../../kernel-templates/tests/templates/together.rs"]
mod together;
