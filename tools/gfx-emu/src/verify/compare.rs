//! What was computed against what it should be.

use hrx_ir::tile::interp::{Buffers, Interpreted, Memory};
use hrx_ir::tile::{Content, Elem, Kernel, Op, Param, UnaryOp};
use std::fmt;

/// The largest error of a launch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Worst {
    /// The error, relative to the largest element of its buffer.
    pub error: f64,
    /// The argument.
    pub slot: usize,
    /// The element.
    pub element: usize,
}

/// An element that is wrong.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Difference {
    /// The argument.
    pub slot: usize,
    /// The element.
    pub element: usize,
    /// What it is.
    pub got: f64,
    /// What it should be.
    pub want: f64,
    /// How far it may be from that.
    pub room: f64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { slot, element, got, want, room } = self;
        write!(f, "argument {slot}, element {element}: {got:?}, not {want:?} (within {room:.2e})")
    }
}

/// Whether a kernel rounds weights that it has computed to `f16` for the matrix unit, as attention does: a rounding of one
/// may fall to the other side.
fn rounds_weights(kernel: &Kernel) -> bool {
    let has = |wanted: fn(&Op) -> bool| kernel.insts.values().any(|data| wanted(&data.op));
    has(|op| matches!(op, Op::Mma { .. })) && has(|op| matches!(op, Op::Unary { op: UnaryOp::Exp, .. }))
}

/// How far an element may be from what `f64` gives, relative to the largest element of its buffer: for `f32` some
/// hundred roundings of a long sum; what is narrower is rounded once more, and a rounding may fall to the other side.
fn room(elem: Elem, largest: f64) -> f64 {
    let sums = 2e-5 * largest;
    match elem {
        Elem::F32 => sums,
        Elem::F16 => sums + largest / 1024.0,
        Elem::BF16 => sums + largest / 128.0,
        // Codes of activations: their scales have the error of sums.
        Elem::I8 => 1.0,
        _ => 0.0,
    }
}

/// The largest error and the first element that is wrong, of all that the interpreter wrote.
pub fn compare(kernel: &Kernel, want: &Interpreted, got: &Buffers) -> (Option<Worst>, Option<Difference>) {
    let (mut worst, mut difference): (Option<Worst>, Option<Difference>) = (None, None);
    for (slot, (param, got)) in kernel.params.iter().zip(got).enumerate() {
        let (Param::View(v), Some(got), Some(bytes)) = (param, got, want.bytes(slot)) else { continue };
        let Content::Elem(elem) = kernel.views[*v].content else { continue };
        if !kernel.views[*v].access.writes() {
            continue;
        }
        let size = elem.bytes() as usize;
        let elements = |bytes: &[u8]| {
            let mut memory = Memory::new();
            let id = memory.add(bytes.to_vec());
            memory.elems(id, elem)
        };
        let (want_elems, got_elems) = (elements(bytes), elements(got));
        let written: Vec<usize> = (0..want_elems.len()).filter(|&i| want.is_written(slot, i * size)).collect();
        let largest = written.iter().map(|&i| want_elems[i].abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        let weights = if rounds_weights(kernel) { largest / 4096.0 } else { 0.0 };
        let room = room(elem, largest) + weights;
        for i in written {
            let (g, w) = (got_elems[i], want_elems[i]);
            let off = if g == w || (g.is_nan() && w.is_nan()) { 0.0 } else { (g - w).abs() };
            let error = if largest > 0.0 { off / largest } else { off };
            // NaN where there should be none is further off than any number.
            let error = if error.is_nan() { f64::INFINITY } else { error };
            if worst.is_none_or(|o| error > o.error) {
                worst = Some(Worst { error, slot, element: i });
            }
            if difference.is_none() && (off > room || error.is_infinite()) {
                difference = Some(Difference { slot, element: i, got: g, want: w, room });
            }
        }
    }
    (worst, difference)
}
