//! AMD GPUs: one table of what is known of each chip, for host and device code.
//!
//! A [`Chip`] is a row. Rows of one generation are its common row with a few fields replaced (`chips.rs`). What LLVM
//! knows is held to LLVM by tests (`tests/amd_facts`); what it does not know is a [`Fact`], which names its source or
//! is unknown, and a question that needs an unknown fact is refused with the names of chip and fact. Boards, which say how
//! many CUs run how fast on what memory, are rows of their own ([`BOARDS`]).

mod boards;
mod chips;
mod dot;
mod matrix;
mod registers;
mod report;

pub use super::fact::{Fact, FactError, Known, Source};
pub use boards::{BOARDS, Board};
pub use chips::CHIPS;
pub use dot::{ALL as DOT_OPS, DotCall, DotOp, DotType};
pub use matrix::{Bit, Fragment, Layout, MatrixCall, MatrixOp, MatrixType, Operand, Scalar};
pub use registers::{Accumulators, Block, Limit, Occupancy, Resources, Sgprs, Vgprs};
pub use report::{Row, report};

use std::hash::{Hash, Hasher};

/// What a GPU is to the code generator and to the host.
#[derive(Debug)]
pub struct Chip {
    /// LLVM's name of the processor.
    pub name: &'static str,
    /// AMD's name of its generation.
    pub generation: &'static str,
    /// The processors that a generic target's code runs on; none if the chip is one itself. Code of generic targets
    /// needs code object version 6.
    pub members: &'static [&'static str],

    /// Lanes of a wave in the code that is generated for it.
    pub wave: u32,
    /// The matrix unit.
    pub matrix: Matrix,
    /// Its instructions.
    pub matrix_ops: &'static [MatrixOp],
    /// Dot products of four bytes.
    pub dot4: Dot4,
    /// Whether there is a dot product of two `f16` pairs added to an `f32` (v_dot2_f32_f16).
    pub dot2: bool,
    /// All dot products.
    pub dots: &'static [DotOp],
    /// The 8-bit floats of its instructions; none if no instruction has any.
    pub fp8: Fact<Fp8>,
    /// Most bytes of LDS of a workgroup.
    pub lds: u32,
    /// Word 3 of a buffer resource whose offsets are bytes: the flags of `llvm.amdgcn.make.buffer.rsrc`.
    pub buffer_word3: u32,

    /// What the waves of a workgroup share.
    pub block: Block,
    /// SIMDs of a block.
    pub simds: u32,
    /// Most waves of a SIMD.
    pub max_waves: u32,
    /// Most workgroups of more than one wave in a block.
    pub max_workgroups: u32,
    /// Most work items of a workgroup.
    pub max_work_items: u32,
    /// Vector registers, a row for each size of waves; that of [`Chip::wave`] is the first.
    pub vgprs: &'static [Vgprs],
    /// Accumulators of the matrix unit.
    pub accumulators: Accumulators,
    /// Scalar registers.
    pub sgprs: Sgprs,
    /// Bytes of LDS of a block.
    pub lds_block: u32,
    /// LDS is allocated in multiples of so many bytes.
    pub lds_granule: Known<u32>,
    /// LDS banks of a CU, each 4 bytes wide.
    pub lds_banks: Fact<u32>,

    /// KiB of the vector cache of a CU (L1; L0 on RDNA).
    pub vector_cache: Fact<u32>,
    /// Bytes of its lines.
    pub vector_line: Fact<u32>,
    /// KiB of L2 of one die, on the full chip.
    pub l2: Fact<u32>,
    /// Bytes of its lines.
    pub l2_line: Fact<u32>,
    /// MiB of the cache behind L2 on the full chip, or that there is none. Boards may have less of it.
    pub last_level: Fact<Option<u32>>,
    /// `f32` operations of one clock of one CU outside the matrix unit, a fused multiply-add being two.
    pub f32_rate: Fact<u32>,
}

/// Chips are the rows of [`CHIPS`], and a name is that of one row.
impl PartialEq for Chip {
    fn eq(&self, other: &Chip) -> bool {
        self.name == other.name
    }
}

impl Eq for Chip {}

impl Hash for Chip {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// A matrix unit, by the shapes and fragment layouts of its instructions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Matrix {
    /// None.
    None,
    /// WMMA as gfx11 has it.
    Wmma11,
    /// WMMA as gfx12 has it.
    Wmma12,
    /// MFMA as gfx908 and gfx90a have it.
    MfmaA,
    /// MFMA as gfx942 has it.
    MfmaB,
    /// MFMA as gfx950 has it.
    MfmaC,
}

/// Dot products of four pairs of bytes added to 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dot4 {
    /// None.
    None,
    /// Factors of one signedness.
    Same,
    /// Each factor signed or not.
    Mixed,
}

/// Encodings of 8-bit floats.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fp8 {
    /// E4M3FNUZ and E5M2FNUZ: no infinities, no negative zero, a bias larger by one.
    Fnuz,
    /// E4M3FN and E5M2 of the Open Compute Project.
    Ocp,
}

/// The chip of that name.
pub fn find(name: &str) -> Option<&'static Chip> {
    CHIPS.iter().find(|c| c.name == name)
}

/// What code for a processor is generated for: the row of that name, else the generic target that the processor is a
/// member of. A generic target may have a row and be asked for by its own name, too.
pub fn for_processor(name: &str) -> Option<&'static Chip> {
    find(name).or_else(|| CHIPS.iter().find(|c| c.members.contains(&name)))
}

impl Chip {
    /// The version of the code object format that the chip's code is in.
    pub fn code_object_version(&self) -> u32 {
        if self.members.is_empty() { 5 } else { 6 }
    }

    /// Whether DPP can take any lane of the row by exclusive or, and there is v_permlanex16: from gfx10 on.
    pub fn has_row_xmask(&self) -> bool {
        self.wave == 32
    }

    /// A fact's value.
    ///
    /// # Errors
    /// If it is not known.
    pub fn known<T: Copy>(&self, name: &str, fact: Fact<T>) -> Result<T, FactError> {
        fact.map(|k| k.value).ok_or_else(|| FactError::Unknown { chip: self.name, fact: name.into() })
    }

    /// KiB of L2 of one die.
    ///
    /// # Errors
    /// If it is not known.
    pub fn l2_kib(&self) -> Result<u32, FactError> {
        self.known("L2 cache", self.l2)
    }

    /// MiB of the cache behind L2; none if there is no such cache.
    ///
    /// # Errors
    /// If it is not known.
    pub fn last_level_mib(&self) -> Result<Option<u32>, FactError> {
        self.known("last-level cache", self.last_level)
    }

    /// Bytes of a line of the L2 cache.
    ///
    /// # Errors
    /// If it is not known.
    pub fn l2_line_bytes(&self) -> Result<u32, FactError> {
        self.known("L2 cache line", self.l2_line)
    }

    /// Bytes of a line of the vector cache.
    ///
    /// # Errors
    /// If it is not known.
    pub fn vector_line_bytes(&self) -> Result<u32, FactError> {
        self.known("vector cache line", self.vector_line)
    }

    /// KiB of the vector cache of a CU.
    ///
    /// # Errors
    /// If it is not known.
    pub fn vector_cache_kib(&self) -> Result<u32, FactError> {
        self.known("vector cache", self.vector_cache)
    }

    /// LDS banks of a CU.
    ///
    /// # Errors
    /// If they are not known.
    pub fn lds_bank_count(&self) -> Result<u32, FactError> {
        self.known("number of LDS banks", self.lds_banks)
    }

    /// The typical board of the chip: the first of [`BOARDS`].
    ///
    /// # Errors
    /// If none is known.
    pub fn board(&self) -> Result<&'static Board, FactError> {
        BOARDS
            .iter()
            .find(|b| b.chip == self.name)
            .ok_or_else(|| FactError::Unknown { chip: self.name, fact: "a typical board".into() })
    }
}
