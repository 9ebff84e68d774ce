//! What instructions do.

pub(crate) mod access;
mod buffer;
mod control;
mod flat;
mod lane_ops;
mod lds;
mod lds_wide;
pub mod matrix;
pub mod memop;
pub mod mode;
pub mod number;
pub mod salu;
mod scalar;
mod simple;
mod smem;
pub mod stretch;
pub mod valu;
mod vector;
mod wide;

pub use control::Next;
pub use lane_ops::LaneOp;
pub use memop::MemOp;
pub use salu::SaluFn;
pub use valu::ValuFn;

/// Minima and maxima of binary32, which scalars, atomics and vectors share.
pub(crate) mod valu_float {
    pub use super::valu::float::{max, maximum, min, minimum};
}

use crate::decode::{Body, Inst, Space};
use crate::run::{Context, Wave};

/// Runs one instruction.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
pub fn step(w: &mut Wave, cx: &mut Context<'_>, inst: &Inst) -> Next {
    match &inst.body {
        Body::Valu(v) => vector::run(w, cx, v),
        Body::Pair(pair) => vector::pair(w, cx, pair),
        Body::Salu(op) => scalar::run(w, cx, op),
        Body::Smem(m) => smem::run(w, cx, m),
        Body::Mem(m) if m.space == Space::Buffer => buffer::run(w, cx, m),
        Body::Mem(m) => flat::run(w, cx, m),
        Body::Ds(d) => lds::run(w, cx, d),
        Body::Lanes(l) => lane_ops::run(w, cx, l),
        Body::Matrix(p) => matrix::step::run(w, cx, p),
        Body::Wait(waits) => control::wait(w, cx, waits),
        Body::Control(c) => return control::run(w, cx, c),
        Body::Unknown(reason) => return cx.unknown(reason),
    }
    Next::Follows
}
