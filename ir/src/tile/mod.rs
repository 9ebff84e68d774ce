//! Tile IR: one kernel as SSA over statically shaped tiles.
//!
//! A kernel has parameters (strided [views](kernel::ViewData) of memory and scalars), a launch [grid](kernel::GridExpr)
//! of independent programs, and a body that is given its program ids as values. Tiles are loaded, computed on and
//! stored; loops carry values; quantised weights are read a [part of a block](op::BlockPart) or of a
//! [run of chunks](op::RunPart) at a time, by the description in [`crate::quant`].

pub mod beside;
#[cfg(test)]
mod beside_tests;
pub mod bound;
pub mod builder;
pub mod interp;
pub mod kernel;
pub mod op;
pub mod parse;
pub mod print;
#[cfg(any(test, feature = "random"))]
pub mod random;
#[cfg(test)]
mod text_tests;
pub mod types;
pub mod typing;
pub mod verify;
pub mod walk;

pub use beside::{Part, side_by_side};
pub use builder::Builder;
pub use kernel::{Access, Block, Content, Extent, GridExpr, Inst, Kernel, Param, Value, ValueDef, View, ViewData};
pub use op::{BinaryOp, BlockPart, CmpOp, Literal, Op, ReduceOp, RunPart, UnaryOp};
pub use parse::{ParseError, parse_kernel, parse_module};
pub use print::inst_text;
pub use types::{Elem, MAX_RANK, Shape, Type};
pub use typing::result_type;
pub use verify::{MAX_LOCAL_BYTES, VerifyErrors, verify};
pub use walk::MAX_NESTING;
