//! What can go wrong in a run, and where.

use super::super::kernel::{Inst, View};
use std::fmt;

/// A run that ended early: which kernel, where in it, what.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[error("kernel {kernel}{}: {kind}", SiteText(self.site))]
pub struct Fault {
    /// The kernel's name.
    pub kernel: Box<str>,
    /// The program and instruction; none if the launch itself was at fault.
    pub site: Option<Site>,
    /// What happened.
    pub kind: FaultKind,
}

/// Where a program was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site {
    /// The program's ids along the three axes of the grid.
    pub program: [u32; 3],
    /// The instruction; none when a program was about to start.
    pub inst: Option<Inst>,
    /// Its mnemonic.
    pub op: &'static str,
}

struct SiteText(Option<Site>);

impl fmt::Display for SiteText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(site) = self.0 else { return Ok(()) };
        write!(f, ", program {:?}", site.program)?;
        match site.inst {
            Some(inst) => write!(f, ", {inst} ({})", site.op),
            None => Ok(()),
        }
    }
}

/// What went wrong. Indices are those of the first element at fault, one an axis.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum FaultKind {
    /// The arguments do not fit the parameters, or make no launch.
    #[error("{0}")]
    Args(String),
    /// An index outside its axis.
    #[error("{view}{index:?} is out of bounds: axis {axis} has extent {extent}")]
    OutOfBounds {
        /// The view.
        view: View,
        /// The element or block.
        index: Vec<i64>,
        /// The first axis that it leaves.
        axis: usize,
        /// That axis' extent in this launch.
        extent: i64,
    },
    /// An index within the view's bounds whose bytes are not in the buffer that was passed.
    #[error("{view}{index:?} lies at byte {byte}, its buffer has {len}")]
    OutsideBuffer {
        /// The view.
        view: View,
        /// The element or block.
        index: Vec<i64>,
        /// Its first byte.
        byte: u64,
        /// The buffer's length.
        len: usize,
    },
    /// A read of bytes that nothing has written.
    #[error("{view}{index:?} is read but was never written")]
    Uninitialised {
        /// The view.
        view: View,
        /// The element or block.
        index: Vec<i64>,
    },
    /// A byte that two programs touch, at least one of them to write it.
    #[error("{view}{index:?} is also touched by program {other:?}, and one of the two writes")]
    Race {
        /// The view.
        view: View,
        /// The element or block.
        index: Vec<i64>,
        /// The other program.
        other: [u32; 3],
    },
    /// An integer division or remainder by zero.
    #[error("element {element} is divided by zero")]
    DivisionByZero {
        /// The place in the tile, row-major.
        element: usize,
    },
    /// A shift by a negative amount or by the width or more.
    #[error("element {element} is shifted by {amount}, its width is {width}")]
    ShiftAmount {
        /// The place in the tile, row-major.
        element: usize,
        /// The amount.
        amount: i64,
        /// Bits of the type.
        width: u32,
    },
    /// An index of no entry of a table.
    #[error("element {element} looks up entry {index}, the table has {entries}")]
    OutsideTable {
        /// The place in the tile of indices, row-major.
        element: usize,
        /// The index.
        index: i64,
        /// The table's entries.
        entries: u32,
    },
    /// A second factor of `dot4` that targets need not take.
    #[error("the second factor of dot4 is -128 at element {element}")]
    Dot4Range {
        /// The place in the tile, row-major.
        element: usize,
    },
    /// A run of chunks that starts before a row or across blocks.
    #[error("a run starts at chunk {chunk}, which is no multiple of {multiple} from 0 on")]
    RunStart {
        /// The first chunk.
        chunk: i64,
        /// What it should be a multiple of.
        multiple: i64,
    },
    /// A loop whose step is not positive.
    #[error("the loop's step is {0}")]
    LoopStep(i64),
    /// The limit on instructions was reached.
    #[error("more than {0} instructions were executed")]
    Fuel(u64),
    /// Something a verified kernel does not have.
    #[error("the kernel is malformed: {0}")]
    Malformed(String),
}

impl FaultKind {
    pub(super) fn malformed(what: impl Into<String>) -> FaultKind {
        FaultKind::Malformed(what.into())
    }
}
