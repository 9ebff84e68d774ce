//! What the sanitizer has to say, and what was counted.

use hrx_compiler::inspect::Class;
use std::fmt;

/// What a kernel did that it must not do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// An access to memory, LDS or scratch that nobody allocated.
    OutOfBounds,
    /// An address that the instruction does not take.
    Misaligned,
    /// An access to memory that was freed.
    UseAfterFree,
    /// A read of memory that nobody wrote.
    UninitialisedMemory,
    /// A read of LDS that nobody wrote.
    UninitialisedLds,
    /// A register that nobody wrote decides an address, a jump, or what is stored.
    UninitialisedRegister,
    /// Two waves of a workgroup access the same LDS without a barrier in between, and one of them writes.
    LdsRace,
    /// Two waves access the same memory without synchronisation, and one of them writes.
    GlobalRace,
    /// Not all work items of a workgroup came to the same barrier.
    BarrierDivergence,
    /// Waves wait for what never comes.
    Deadlock,
    /// A register was used or overwritten before the wait for what loads it.
    MissingWait,
    /// Two operations of a pair use the same bank of registers.
    VopdBanks,
    /// A register that the kernel descriptor does not ask for.
    RegisterCount,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 13] = [
        Kind::OutOfBounds,
        Kind::Misaligned,
        Kind::UseAfterFree,
        Kind::UninitialisedMemory,
        Kind::UninitialisedLds,
        Kind::UninitialisedRegister,
        Kind::LdsRace,
        Kind::GlobalRace,
        Kind::BarrierDivergence,
        Kind::Deadlock,
        Kind::MissingWait,
        Kind::VopdBanks,
        Kind::RegisterCount,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::OutOfBounds => "out of bounds",
            Kind::Misaligned => "misaligned",
            Kind::UseAfterFree => "use after free",
            Kind::UninitialisedMemory => "uninitialised memory",
            Kind::UninitialisedLds => "uninitialised LDS",
            Kind::UninitialisedRegister => "uninitialised register",
            Kind::LdsRace => "LDS race",
            Kind::GlobalRace => "global race",
            Kind::BarrierDivergence => "barrier divergence",
            Kind::Deadlock => "deadlock",
            Kind::MissingWait => "missing wait",
            Kind::VopdBanks => "VOPD banks",
            Kind::RegisterCount => "register count",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One fault. Faults of one kind at one instruction are reported once, with the first place that had it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The kernel.
    pub kernel: String,
    /// The instruction's address in the code object.
    pub pc: u64,
    /// Its disassembly.
    pub instruction: String,
    /// The workgroup.
    pub workgroup: [u32; 3],
    /// The wave in the workgroup.
    pub wave: u32,
    /// The lane, if it is one lane's fault.
    pub lane: Option<u32>,
    /// What kind of fault.
    pub kind: Kind,
    /// What happened, in words.
    pub message: String,
    /// How often it happened in the launch, the first time included.
    pub times: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.workgroup;
        let Report { kernel, pc, instruction, wave, kind, message, .. } = self;
        write!(f, "{kind}: {message}; {kernel}+{pc:#x} `{instruction}`, workgroup {x},{y},{z}, wave {wave}")?;
        if let Some(lane) = self.lane {
            write!(f, ", lane {lane}")?;
        }
        if self.times > 1 {
            write!(f, " (and {} times more)", self.times - 1)?;
        }
        Ok(())
    }
}

/// Counts of a launch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Wave instructions by class; a pair of operations is one.
    pub issued: [u64; Class::ALL.len()],
    /// Accesses of waves to memory, and the cache lines of 128 bytes that each touched, summed.
    pub vmem_accesses: u64,
    /// See [`Counters::vmem_accesses`].
    pub vmem_lines: u64,
    /// Accesses of waves to LDS, but for moves between lanes.
    pub lds_accesses: u64,
    /// Cycles that LDS takes beyond the least, for lanes whose words are in the same bank.
    pub lds_conflicts: u64,
    /// Waits that found something outstanding that they wait for.
    pub exposed_waits: u64,
    /// Waits that found nothing.
    pub idle_waits: u64,
    /// Cycles of matrix units that products take, and products of which that is not known.
    pub matrix_cycles: u64,
    /// See [`Counters::matrix_cycles`].
    pub matrix_unknown: u64,
    /// Workgroups.
    pub workgroups: u64,
    /// Waves.
    pub waves: u64,
}

impl Counters {
    /// Wave instructions of all classes.
    pub fn total(&self) -> u64 {
        self.issued.iter().sum()
    }

    /// Wave instructions of a class.
    pub fn of(&self, class: Class) -> u64 {
        self.issued[class as usize]
    }

    /// Adds what another part of a launch counted.
    pub(crate) fn add(&mut self, other: &Counters) {
        for (all, more) in self.issued.iter_mut().zip(&other.issued) {
            *all += more;
        }
        self.vmem_accesses += other.vmem_accesses;
        self.vmem_lines += other.vmem_lines;
        self.lds_accesses += other.lds_accesses;
        self.lds_conflicts += other.lds_conflicts;
        self.exposed_waits += other.exposed_waits;
        self.idle_waits += other.idle_waits;
        self.matrix_cycles += other.matrix_cycles;
        self.matrix_unknown += other.matrix_unknown;
        self.workgroups += other.workgroups;
        self.waves += other.waves;
    }
}

/// What came of a launch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// Faults, those of the first workgroups first.
    pub reports: Vec<Report>,
    /// Counts.
    pub counters: Counters,
}
