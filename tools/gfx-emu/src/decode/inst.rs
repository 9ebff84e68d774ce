//! Decoded instructions: what is left of assembly when it runs.

use super::simple::Simple;
use super::stretch::Stretch;
use crate::exec::matrix::Product;
use crate::exec::valu::{Env, InPlaceFn};
use crate::exec::{LaneOp, MemOp, SaluFn, ValuFn};
use hrx_compiler::inspect::asm::{File, Op, Operand};

/// Numbers of scalar registers beyond those of the assembly's parser.
pub mod scalar {
    pub use hrx_compiler::inspect::asm::special::{COUNT, EXEC, M0, NULL, SCC, TTMP0, VCC};
    /// High half of the address at which flat accesses see LDS; a low half of zero before it.
    pub const SHARED_BASE: u16 = COUNT;
    /// The same of scratch memory.
    pub const PRIVATE_BASE: u16 = COUNT + 2;
    /// Where LDS ends.
    pub const SHARED_LIMIT: u16 = COUNT + 4;
    /// Where scratch memory ends.
    pub const PRIVATE_LIMIT: u16 = COUNT + 6;
    /// The address of scratch memory (gfx9's FLAT_SCRATCH).
    pub const FLAT_SCRATCH: u16 = COUNT + 8;
    /// XNACK_MASK.
    pub const XNACK: u16 = COUNT + 10;
    /// Whether VCC is zero, computed when read.
    pub const VCCZ: u16 = COUNT + 12;
    /// Whether EXEC is zero.
    pub const EXECZ: u16 = COUNT + 13;
    /// Registers in all.
    pub const ALL: usize = COUNT as usize + 16;
}

/// Vector registers come first in a wave's file, accumulators after them.
pub const ACCUMULATORS: u16 = 256;

/// What a vector instruction makes of a value's bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ty {
    /// 32 bits.
    W,
    /// 32 bits with a sign.
    I,
    /// binary32.
    F,
    /// 16 bits.
    U16,
    /// 16 bits with a sign.
    I16,
    /// binary16.
    H,
    /// bfloat16.
    B,
    /// 64 bits.
    D,
    /// 64 bits with a sign.
    Q,
    /// binary64.
    FD,
    /// Two of 16 bits.
    P,
    /// Two of binary16.
    PH,
    /// Two of bfloat16.
    PB,
    /// Two registers of 32 bits.
    PW,
    /// Two of binary32 in two registers.
    PF,
    /// binary32, or binary16 by the instruction's selectors.
    MX,
    /// A bit for each lane.
    M,
}

impl Ty {
    /// Registers.
    pub const fn words(self) -> u8 {
        match self {
            Ty::D | Ty::Q | Ty::FD | Ty::PW | Ty::PF => 2,
            Ty::M => 0,
            _ => 1,
        }
    }

    /// Whether it is half a register.
    pub const fn is_half(self) -> bool {
        matches!(self, Ty::U16 | Ty::I16 | Ty::H | Ty::B)
    }
}

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reg {
    /// In vector registers.
    V(u16),
    /// In scalar registers.
    S(u16),
    /// In the instruction.
    K,
}

/// A part of a register that SDWA selects: first bit and bits.
pub type Select = (u8, u8);

/// A source of a vector instruction.
#[derive(Clone, Debug)]
pub struct VSrc {
    pub reg: Reg,
    pub ty: Ty,
    pub words: u8,
    /// A constant's bits.
    pub bits: [u32; 2],
    pub neg: bool,
    pub abs: bool,
    pub sext: bool,
    /// The high half: of a half; of a packed value, what its low and its high half are taken from.
    pub high: [bool; 2],
    /// Of a packed value, which halves are negated; of others, the instruction's own use of the bits.
    pub neg_half: [bool; 2],
    pub select: Option<Select>,
    /// Whether the bits are the registers' as they are.
    pub plain: bool,
}

impl VSrc {
    /// A source of registers, or a constant, as it is.
    pub fn new(reg: Reg, ty: Ty, bits: [u32; 2]) -> VSrc {
        VSrc {
            reg,
            ty,
            words: ty.words(),
            bits,
            neg: false,
            abs: false,
            sext: false,
            high: [false; 2],
            neg_half: [false; 2],
            select: None,
            plain: true,
        }
    }
}

/// How a result goes into its register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// As a whole.
    Whole,
    /// Into the low half, the high one kept.
    Low,
    /// Into the high half, the low one kept.
    High,
    /// A part: first bit, bits, and what becomes of the rest: zeros, the sign, or what it was.
    Part(u8, u8, Rest),
}

/// What becomes of the rest of a register that a part is written of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    Zero,
    Sign,
    Keep,
}

/// Lanes that the first source comes from.
#[derive(Clone, Debug)]
pub struct Dpp {
    /// The lane that each reads; [`Dpp::NONE`] where there is none.
    pub from: [u8; 64],
    /// Lanes that have one.
    pub there: u64,
    /// Lanes whose row and bank are enabled.
    pub enabled: u64,
    /// Whether a lane without a source reads zero; if not, it is not written.
    pub zero: bool,
    /// Whether lanes that are not active are read.
    pub inactive: bool,
}

impl Dpp {
    /// No lane.
    pub const NONE: u8 = 255;
}

/// A vector operation.
#[derive(Clone, Debug)]
pub struct Valu {
    pub f: ValuFn,
    pub in_place: Option<InPlaceFn>,
    pub src: Vec<VSrc>,
    pub dst: Reg,
    pub dst_ty: Ty,
    pub put: Put,
    /// Scalar registers that a mask of lanes goes to, and from which one comes.
    pub mask_out: Option<u16>,
    pub mask_in: Option<u16>,
    /// Whether the mask becomes EXEC as well.
    pub to_exec: bool,
    /// Whether the operation is done in all lanes, whatever EXEC says.
    pub clamp: bool,
    /// Power of two that the result is multiplied by.
    pub omod: i8,
    pub dpp: Option<Box<Dpp>>,
    /// Whether subnormals go by the mode.
    pub arithmetic: bool,
    /// Whether a result of binary16 may be too large, other than for a division by zero.
    pub overflows: bool,
    /// Bits of the mode that make the operation another than what its row does.
    pub matters: u32,
    /// Whether the row asks for more than what is fixed, which is here.
    pub needs_env: bool,
    pub env: Env,
    /// The operation again, if operands are taken as they are and results go to registers as they are.
    pub simple: Option<Simple>,
    /// Whether the low half of a result depends on low halves of the sources alone.
    pub low_alone: bool,
    /// Choice between two sources by the mask, for which only what is chosen must be known.
    pub select: bool,
}

/// Two vector operations in one instruction.
#[derive(Clone, Debug)]
pub struct Pair {
    pub ops: [Valu; 2],
    /// What of it the hardware does not take.
    pub illegal: Option<Box<str>>,
}

/// A scalar source.
#[derive(Clone, Copy, Debug)]
pub enum SSrc {
    Reg(u16, u8),
    Const(u64),
}

/// A scalar operation.
#[derive(Clone, Debug)]
pub struct Salu {
    pub f: SaluFn,
    pub dst: Option<(u16, u8)>,
    pub src: [SSrc; 3],
    pub reads_scc: bool,
    pub writes_scc: bool,
    /// Whether EXEC is the result, and the destination gets what it was, or, if the third source is 2, what it becomes.
    pub saves_exec: bool,
    /// Registers that it reads and writes, SCC among them, a bit each.
    pub reads: ScalarSet,
    pub writes: ScalarSet,
}

/// Scalar registers, a bit each.
pub type ScalarSet = [u64; 3];

impl Salu {
    /// Notes which registers it reads and writes.
    pub fn noted(mut self) -> Salu {
        let add = |set: &mut ScalarSet, first: u16, words: u8| {
            for register in (first..first + u16::from(words)).filter(|&r| r != scalar::NULL) {
                set[register as usize / 64] |= 1 << (register % 64);
            }
        };
        let (mut reads, mut writes) = ([0; 3], [0; 3]);
        for src in self.src {
            if let SSrc::Reg(first, words) = src {
                add(&mut reads, first, words);
            }
        }
        if let Some((first, words)) = self.dst {
            add(&mut writes, first, words);
        }
        if self.reads_scc {
            add(&mut reads, scalar::SCC, 1);
        }
        if self.writes_scc {
            add(&mut writes, scalar::SCC, 1);
        }
        (self.reads, self.writes) = (reads, writes);
        self
    }
}

/// When a jump is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    Always,
    Scc(bool),
    VccZero(bool),
    ExecZero(bool),
}

/// A scalar load.
#[derive(Clone, Debug)]
pub struct Smem {
    pub dst: u16,
    pub words: u8,
    /// Bytes and sign of a load of part of a word.
    pub narrow: Option<(u8, bool)>,
    pub base: u16,
    pub buffer: bool,
    pub offset: SSrc,
    pub imm: i64,
}

/// Which memory an instruction accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    Buffer,
    Global,
    Flat,
    Scratch,
}

/// An access of lanes to memory.
#[derive(Clone, Debug)]
pub struct Mem {
    pub space: Space,
    pub op: MemOp,
    /// Registers loaded to.
    pub dst: u16,
    /// Registers stored from.
    pub data: u16,
    /// A vector register or pair with an address or offset.
    pub vaddr: Option<u16>,
    /// Scalar address (pair), or a resource.
    pub saddr: Option<u16>,
    /// Scalar offset of buffers.
    pub soffset: SSrc,
    pub offset: i64,
    pub offen: bool,
    pub idxen: bool,
    /// Whether 64 bits of vaddr are an address.
    pub wide: bool,
    /// Whether what is loaded goes to LDS, from where M0 says on, a word for each lane.
    pub to_lds: bool,
}

/// An access of lanes to LDS.
#[derive(Clone, Debug)]
pub struct Ds {
    pub op: MemOp,
    pub dst: u16,
    pub addr: Option<u16>,
    pub data: [u16; 2],
    /// One offset or two.
    pub offsets: [u32; 2],
    pub two: bool,
}

/// A move between lanes, or between lanes and scalars.
#[derive(Clone, Debug)]
pub struct Lanes {
    pub op: LaneOp,
    pub dst: Reg,
    pub src: [VSrc; 3],
    /// For permlanes: lanes that are not active are read; a lane without a source reads zero.
    pub inactive: bool,
    pub zero: bool,
    /// ds_swizzle's pattern, or what else is a constant.
    pub imm: u32,
}

/// A counter of outstanding operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Counter {
    /// Loads of vector memory; before gfx10 stores too.
    Load,
    /// Stores of vector memory.
    Store,
    /// LDS.
    Lds,
    /// Scalar loads.
    Scalar,
}

/// How many counters there are.
pub const COUNTERS: usize = 4;

/// Waits: for each counter, how many operations may remain.
#[derive(Clone, Debug)]
pub struct Waits {
    /// None where a counter is not waited for. LDS and scalar loads have one in common before gfx12: both are set.
    pub left: [Option<u32>; COUNTERS],
}

/// What directs a wave.
#[derive(Clone, Debug)]
pub enum Control {
    Branch(When, u32),
    End,
    Barrier,
    Signal,
    SignalFirst(u16),
    BarrierWait,
    GetPc(u16),
    SetPc(SSrc),
    SwapPc(u16, SSrc),
    Call(u16, u32),
    /// Reads of a hardware register: which, first bit, bits.
    GetReg(u16, u8, u8, u8),
    SetReg(SSrc, u8, u8, u8),
    RoundMode(u32),
    DenormMode(u32),
    Trap,
    /// A move in which M0 is added to the number of the source, or else of the result: so many words.
    Relative {
        to: u16,
        from: SSrc,
        words: u8,
        source: bool,
    },
    /// What makes writes of other workgroups visible.
    Acquire,
    Time(u16, u8),
    Nop,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub enum Body {
    Valu(Box<Valu>),
    Pair(Box<Pair>),
    Salu(Salu),
    Smem(Smem),
    Mem(Box<Mem>),
    Ds(Box<Ds>),
    Lanes(Box<Lanes>),
    Matrix(Box<Product>),
    Wait(Waits),
    Control(Control),
    /// What is not known of it.
    Unknown(Box<str>),
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Inst {
    pub body: Body,
    /// Its class, as an index of counters.
    pub class: u8,
    /// Bytes from the start of the code.
    pub offset: u32,
    /// Where it is in a stretch.
    pub stretch: Stretch,
    /// How many registers there must be for those that it names.
    pub needs: Registers,
}

/// Numbers of registers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Registers {
    pub vectors: u16,
    pub accumulators: u16,
}

impl Registers {
    /// What an instruction's text names.
    pub fn named(ops: &[Op]) -> Registers {
        let mut needs = Registers::default();
        for regs in ops.iter().flat_map(|op| &op.operands).filter_map(Operand::regs) {
            let count = regs.first + regs.count;
            match regs.file {
                File::V => needs.vectors = needs.vectors.max(count),
                File::A => needs.accumulators = needs.accumulators.max(count),
                // Their count is rounded up to what there is at most.
                File::S => {}
            }
        }
        needs
    }

    /// What of it is more than there is.
    pub fn beyond(self, there: Registers) -> Option<(&'static str, u16, u16)> {
        let all = [("v", self.vectors, there.vectors), ("a", self.accumulators, there.accumulators)];
        all.into_iter().find(|(_, needs, has)| needs > has)
    }
}
