//! The tile interpreter: runs a verified kernel over its whole grid on host memory. It is the oracle that compiled code
//! is compared with, so it shares nothing with the compiler but the IR and the table of quant formats.
//!
//! * [`Precision::F64`] holds float tiles in f64 and rounds only where memory or a `convert` asks for it: what the
//!   kernel means.
//! * [`Precision::Exact`] rounds each operation to f32 and keeps the documented orders: what a target must give, bit for
//!   bit but for `exp` and `tanh` (which are correctly rounded here) and the payload of a NaN.
//!
//! What a target would leave undefined is a [`Fault`] here: accesses out of bounds, reads of bytes nobody wrote, races
//! between programs, division by zero. Programs run one after another, the first axis of the grid fastest.
//!
//! ```
//! use hrx_ir::tile::interp::{Arg, Memory, Options, run};
//! use hrx_ir::tile::{Access, Builder, Elem};
//! let mut b = Builder::new("double");
//! let x = b.view_param(Elem::F32, &[4.into()], Access::In);
//! let y = b.view_param(Elem::F32, &[4.into()], Access::Out);
//! let zero = b.index(0);
//! let tile = b.load(x, &[zero], &[4], None);
//! let sum = b.add(tile, tile);
//! b.store(y, &[zero], sum, None);
//! let kernel = b.finish();
//!
//! let mut memory = Memory::new();
//! let x = memory.add_elems(Elem::F32, &[1.0, 2.0, 3.0, 4.0]);
//! let y = memory.add_uninit(16);
//! let report = run(&kernel, &[Arg::buffer(x), Arg::buffer(y)], &mut memory, &Options::default())?;
//! assert_eq!(memory.elems(y, Elem::F32), [2.0, 4.0, 6.0, 8.0]);
//! assert_eq!(report.programs, 1);
//! # Ok::<(), hrx_ir::tile::interp::Fault>(())
//! ```

mod access;
mod arith;
mod bits;
mod exec;
mod fault;
mod launch;
mod memory;
mod race;
mod shape;
mod slots;

pub use fault::{Fault, FaultKind, Site};
pub use launch::run;
pub use memory::{BufferId, Memory};
pub use slots::{Buffers, Input, Interpreted};

/// How float arithmetic rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precision {
    /// In f64; rounded to an element type only by `convert`, `bitcast` and stores. Literals have their element type.
    #[default]
    F64,
    /// Each `f32` operation rounded to f32, `fma` once, reductions and dots in the documented order.
    Exact,
}

/// How to run a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// How float arithmetic rounds.
    pub precision: Precision,
    /// The most instructions executed, all programs together; starting a program counts as one.
    pub fuel: u64,
    /// Whether a byte that one program writes and another one touches is a fault.
    pub check_races: bool,
    /// How many programs are run at most: if the grid has more, so many of it, evenly spread, the first and the last among
    /// them.
    pub most_programs: u32,
}

impl Default for Options {
    /// The oracle's arithmetic, 10⁹ instructions, races checked, all programs.
    fn default() -> Options {
        Options { precision: Precision::F64, fuel: 1_000_000_000, check_races: true, most_programs: u32::MAX }
    }
}

impl Options {
    /// The defaults with the device's arithmetic.
    pub fn exact() -> Options {
        Options { precision: Precision::Exact, ..Options::default() }
    }
}

/// What is passed to one argument slot.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arg {
    /// A view that starts so many bytes into a buffer. Any number of slots may name one buffer.
    Buffer(BufferId, usize),
    /// A scalar `i32`.
    I32(i32),
    /// A scalar `f32`.
    F32(f32),
}

impl Arg {
    /// A view of a buffer from its first byte on.
    pub fn buffer(id: BufferId) -> Arg {
        Arg::Buffer(id, 0)
    }
}

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Programs that were run.
    pub programs: u64,
    /// Instructions executed, all programs together.
    pub instructions: u64,
}
