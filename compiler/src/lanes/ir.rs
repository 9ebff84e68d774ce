//! The lane form: what one lane of a wave does.
//!
//! A value is one 32-bit register of a lane, or a predicate. Narrow elements are packed: four bytes or two 16-bit halves
//! in a word. Control flow is uniform: loops run equally often in all lanes of a workgroup, and what only some lanes do
//! is a predicate on a load or store. Lanes meet in [`Op::ShuffleXor`], [`Op::Mma`], LDS and [`Op::Barrier`].

use crate::target::amd::MatrixOp;
use cranelift_entity::{PrimaryMap, entity_impl};
use hrx_ir::quant::Table;
use hrx_ir::tile;

/// A register of each lane.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Val(u32);
entity_impl!(Val, "r");

/// What a register holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ty {
    /// 32 bits: an integer or packed narrow elements.
    I32,
    /// A binary32.
    F32,
    /// A predicate.
    B1,
}

impl Ty {
    /// The name in the printed form.
    pub fn name(self) -> &'static str {
        match self {
            Ty::I32 => "i32",
            Ty::F32 => "f32",
            Ty::B1 => "b1",
        }
    }
}

/// Operations of one operand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Un {
    /// Square root of a float, correctly rounded.
    Sqrt,
    /// Largest whole number not above.
    Floor,
    /// Nearest whole number, ties to even.
    RoundEven,
    /// Signed integer to float.
    SToF,
    /// Unsigned integer to float.
    UToF,
    /// Float to signed integer, saturating, NaN to 0.
    FToS,
    /// Float to unsigned integer, saturating, NaN to 0.
    FToU,
    /// Byte of a word to float.
    ByteToF(u8),
    /// Half of a word, a binary16, to float: 0 the low one.
    HalfToF(u8),
    /// Float to binary16 in the low half, the high half zero.
    FToHalf,
    /// Sign-extends the low bits, this many.
    SExt(u8),
    /// The bits of a float as a word.
    Bits,
    /// A word's bits as a float.
    Float,
    /// A predicate's negation.
    Not,
    /// A predicate as 0 or 1.
    BToI,
    /// How many bits of a word are set.
    Ones,
}

/// Operations of two operands. Integers wrap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bin {
    /// Integer sum.
    Add,
    /// Integer difference.
    Sub,
    /// Integer product.
    Mul,
    /// Signed quotient; the divisor is neither 0 nor, for the least integer, -1.
    SDiv,
    /// Unsigned quotient; the divisor is not 0.
    UDiv,
    /// Signed remainder, as for the quotient.
    SRem,
    /// Unsigned remainder.
    URem,
    /// Bitwise and, of predicates too.
    And,
    /// Bitwise or, of predicates too.
    Or,
    /// Bitwise exclusive or, of predicates too.
    Xor,
    /// Left shift by less than 32.
    Shl,
    /// Logical right shift by less than 32.
    LShr,
    /// Arithmetic right shift by less than 32.
    AShr,
    /// Float sum.
    FAdd,
    /// Float difference.
    FSub,
    /// Float product.
    FMul,
    /// Float quotient, correctly rounded.
    FDiv,
    /// The smaller float; a number before a NaN, -0 below +0.
    FMin,
    /// The larger float; a number before a NaN, -0 below +0.
    FMax,
    /// Two words' low halves as one word: the first low.
    Pack,
    /// The word's bits 4n..4n+4 spread to bytes of 0 or 1, lowest first; the second operand is 4n.
    Spread,
}

/// Comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cmp {
    /// Of integers: equal, not equal.
    Eq,
    /// Not equal.
    Ne,
    /// Signed less.
    SLt,
    /// Signed less or equal.
    SLe,
    /// Unsigned less.
    ULt,
    /// Unsigned less or equal.
    ULe,
    /// Of floats, false with a NaN: equal.
    FEq,
    /// Not equal or a NaN.
    FNe,
    /// Less.
    FLt,
    /// Less or equal.
    FLe,
}

/// Where a load or store goes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// A view in device memory: the offset is in bytes from its base.
    Global(tile::View),
    /// LDS: the offset is the byte's address.
    Lds,
}

/// An address: `base + lane + imm` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// The memory.
    pub space: Space,
    /// The part that all lanes of the workgroup share.
    pub uniform: Val,
    /// The part that differs.
    pub lane: Val,
    /// A constant part.
    pub imm: u32,
    /// A power of two that divides the address, as far as is known.
    pub align: u32,
}

/// An operation.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// A constant's bits.
    Const(u32),
    /// The lane's number in its wave.
    Lane,
    /// The wave's number in its workgroup; the same in all its lanes.
    Wave,
    /// The program id along an axis.
    Program(u8),
    /// A scalar argument.
    Param(tile::Value),
    /// One operand.
    Un(Un, Val),
    /// Two operands.
    Bin(Bin, Val, Val),
    /// A comparison.
    Cmp(Cmp, Val, Val),
    /// `c ? a : b`.
    Select(Val, Val, Val),
    /// `a * b + c` with one rounding.
    Fma(Val, Val, Val),
    /// Four products of bytes added to c; the first factor's bytes signed or not, the second's signed.
    Dot4 {
        /// Whether the first factor is signed.
        signed: bool,
        /// Factors and addend.
        args: [Val; 3],
    },
    /// For each byte of a word an entry of a table of 16 bytes; bits above the lowest four mean nothing.
    Lookup(&'static Table, Val),
    /// One or two neighbouring words of a table, from a word of this number on, which is even for two.
    Table(&'static Table, Val),
    /// Two products of binary16 halves added to a float.
    Dot2([Val; 3]),
    /// The value of the lane whose number differs in these bits.
    ShuffleXor(Val, u32),
    /// Loads 1, 2, 4, 8, 12 or 16 bytes: a register a word, narrow ones zero-extended. Where the predicate is false:
    /// zeros. An access beyond a view's end is zero, too.
    Load {
        /// Where from.
        at: Address,
        /// How many bytes.
        bytes: u32,
        /// Which lanes.
        mask: Option<Val>,
    },
    /// Loads one, two or four matrices of 8 rows of 16 bytes from LDS, a register each: lane 8m + r has the address of
    /// row r of matrix m, and lane 4r + w gets the word w of row r of each; of transposed ones the halves r of the rows 2w
    /// and 2w + 1.
    LoadMatrices {
        /// The row's address.
        at: Address,
        /// How many matrices.
        count: u32,
        /// Whether they are transposed on the way, each for itself.
        transposed: bool,
    },
    /// Stores what a load would read.
    Store {
        /// Where to.
        at: Address,
        /// How many bytes.
        bytes: u32,
        /// A register a word.
        values: Vec<Val>,
        /// Which lanes.
        mask: Option<Val>,
    },
    /// All waves of the workgroup have done their LDS accesses before any goes on.
    Barrier,
    /// A matrix instruction: fragments a, b, c; the result is a fragment like c.
    Mma {
        /// Which one.
        inst: &'static MatrixOp,
        /// Registers of a.
        a: Vec<Val>,
        /// Registers of b.
        b: Vec<Val>,
        /// Registers of c.
        c: Vec<Val>,
    },
    /// A loop over `lower..upper` by a positive `step`, all uniform.
    For {
        /// Bounds and step.
        bounds: [Val; 3],
        /// Initial values.
        inits: Vec<Val>,
        /// The counter, then what is carried.
        params: Vec<Val>,
        /// The body.
        body: Block,
        /// The next values of what is carried.
        yields: Vec<Val>,
    },
}

/// An operation and what it defines.
#[derive(Clone, PartialEq, Debug)]
pub struct Inst {
    /// What it does.
    pub op: Op,
    /// The registers it defines.
    pub results: Vec<Val>,
}

/// Instructions in order.
pub type Block = Vec<Inst>;

/// A kernel in lane form.
#[derive(Clone, Debug)]
pub struct LaneKernel {
    /// The tile kernel's name.
    pub name: String,
    /// Lanes of a wave.
    pub wave: u32,
    /// Waves of a workgroup.
    pub waves: u32,
    /// Bytes of LDS.
    pub lds: u32,
    /// The type of each register.
    pub types: PrimaryMap<Val, Ty>,
    /// The body.
    pub body: Block,
}
