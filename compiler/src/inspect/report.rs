//! What an inspection finds. A field that is `None` is not known; it is left out of every form of the report.

use super::class::Class;
use serde::Serialize;
use std::collections::BTreeMap;

/// A code object, inspected.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Inspection {
    /// What it is for, as ROCm writes it: `gfx90a:sramecc+:xnack-`.
    pub target: String,
    /// The processor, as LLVM calls it.
    pub processor: String,
    /// AMD's name of the generation, if the table of chips has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<String>,
    /// Code object version.
    pub code_object_version: u32,
    /// Its kernels.
    pub kernels: Vec<KernelReport>,
}

/// A kernel, inspected.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct KernelReport {
    /// Its name.
    pub name: String,
    /// Bytes of its code, without padding.
    pub code_bytes: usize,
    /// Lanes of a wave.
    pub wave: u32,
    /// Its workgroups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workgroup: Option<Workgroup>,
    /// Registers and memory that it takes.
    pub resources: Resources,
    /// How many waves are resident.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<Occupancy>,
    /// What it executes: outside of loops first, then in each loop.
    pub regions: Vec<Region>,
    /// Accesses to global memory by lanes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub global: Vec<GlobalAccess>,
    /// Accesses that share lines of the cache.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<LineGroup>,
    /// What a workgroup accesses through each pointer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reaches: Vec<Reach>,
    /// Accesses to LDS.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lds: Vec<LdsAccess>,
    /// Waits for memory.
    pub waits: Vec<Wait>,
    /// Its place under the roofs of a board.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roofline: Option<Roofline>,
    /// What was left out, and why; what was assumed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Its instructions.
    pub listing: Vec<Line>,
}

/// A workgroup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Workgroup {
    /// Work items.
    pub work_items: u32,
    /// In x, y and z; if launches may have no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<[u32; 3]>,
    /// Whether launches may have fewer work items.
    pub at_most: bool,
    /// Waves.
    pub waves: u32,
}

/// Registers and memory of a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Resources {
    /// VGPRs of a wave that code uses; where accumulators are part of the same file, with these.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vgprs: Option<u32>,
    /// VGPRs that a wave gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vgprs_allocated: Option<u32>,
    /// Accumulators among them, or apart from them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agprs: Option<u32>,
    /// SGPRs of a wave, VCC and the like included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sgprs: Option<u32>,
    /// VGPRs that were spilled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vgpr_spills: Option<u32>,
    /// SGPRs that were spilled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sgpr_spills: Option<u32>,
    /// Bytes of LDS of a workgroup, without what a launch adds.
    pub lds_bytes: u32,
    /// Bytes of scratch memory of a lane.
    pub scratch_bytes: u32,
    /// Whether scratch memory may grow beyond that.
    pub dynamic_stack: bool,
    /// Bytes of arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_bytes: Option<u64>,
}

/// How many waves are resident.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Occupancy {
    /// What a workgroup has for itself and shares with others: `CU` or `WGP`.
    pub block: String,
    /// Workgroups of a block.
    pub workgroups: u32,
    /// Waves of a SIMD.
    pub waves_per_simd: u32,
    /// Most waves of a SIMD.
    pub max_waves_per_simd: u32,
    /// Everything that would have to be used less for one more workgroup.
    pub limits: Vec<String>,
    /// What one more workgroup needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextOccupancy>,
}

/// What one more workgroup of a block needs: all of it at once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NextOccupancy {
    /// Workgroups of a block then.
    pub workgroups: u32,
    /// Waves of a SIMD then.
    pub waves_per_simd: u32,
    /// VGPRs of a wave, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vgprs: Option<u32>,
    /// SGPRs of a wave, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sgprs: Option<u32>,
    /// Bytes of LDS of a workgroup, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lds_bytes: Option<u32>,
}

/// A loop of a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LoopReport {
    /// Where its first instruction is, in bytes from the start of the code.
    pub offset: usize,
    /// How many loops it is in, itself included.
    pub depth: u32,
    /// The loop that it is directly in, by its place in the list of regions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<usize>,
    /// Whether no other loop is in it.
    pub innermost: bool,
    /// How often it is executed each time that it is entered, where code compares constants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trips: Option<u64>,
}

/// What one pass through a region executes: the instructions of a loop that are in no inner one, or of none.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Region {
    /// The loop; none for what is outside of loops.
    #[serde(rename = "loop", skip_serializing_if = "Option::is_none")]
    pub of: Option<LoopReport>,
    /// Instructions.
    pub instructions: u32,
    /// How many of each kind.
    pub mix: BTreeMap<Class, u32>,
    /// Bytes that a lane moves to and from global memory, what lanes share being counted for each.
    pub global_bytes_of_lane: Moved,
    /// Bytes that a lane reads from and writes to LDS.
    pub lds_bytes_of_lane: Moved,
    /// Bytes that a lane moves to and from scratch memory.
    pub scratch_bytes_of_lane: Moved,
    /// Bytes of scalar loads of a wave.
    pub scalar_bytes: u32,
    /// Instructions that move bytes and don't say how many.
    pub unsized_accesses: u32,
    /// Operations of a lane on fractions and of dot products, a multiply-add being two.
    pub lane_ops: u64,
    /// Operations of matrix instructions of a wave; none if there is one whose shape is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix_ops: Option<u64>,
}

/// Bytes in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Moved {
    /// Into registers.
    pub read: u32,
    /// Out of registers; those of atomics are here.
    pub written: u32,
}

impl Moved {
    /// Both.
    pub fn sum(self) -> u32 {
        self.read + self.written
    }
}

/// An access to global memory, if all lanes are active but for those that code sends out of bounds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GlobalAccess {
    /// The instruction's offset in the code.
    pub offset: usize,
    /// The region, by its place in the list.
    pub region: usize,
    /// Whether it is a load, a store or an atomic.
    pub class: Class,
    /// What it accesses: an argument by its number and name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Bytes of a lane.
    pub bytes: u32,
    /// Lanes that take part.
    pub lanes: u32,
    /// Bytes from each lane to the next, where all are alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<i64>,
    /// Different bytes that are touched.
    pub distinct_bytes: u32,
    /// Lines that are touched.
    pub lines: LineCount,
    /// The least number of lines that so many bytes can be in.
    pub least_lines: u32,
    /// How far the addresses move from one iteration to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<i64>,
}

/// Lines that accesses touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct LineCount {
    /// At least.
    pub least: u32,
    /// At most: more, where it depends on what is not known.
    pub most: u32,
}

/// Accesses of one region to the same resource, whose addresses differ by what is known: lines that one has fetched are
/// in the cache for the others.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LineGroup {
    /// The region, by its place in the list.
    pub region: usize,
    /// What is accessed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Whether they are loads, stores or atomics.
    pub class: Class,
    /// Offsets of the instructions.
    pub offsets: Vec<usize>,
    /// Different bytes that they touch.
    pub distinct_bytes: u32,
    /// Lines that they touch.
    pub lines: LineCount,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Part of the fetched bytes that is used, at worst.
    pub used: f64,
}

/// Bytes and the lines that they are in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Touched {
    /// Different bytes.
    pub bytes: u32,
    /// Lines.
    pub lines: LineCount,
}

impl Touched {
    /// Part of the fetched bytes that is used, at worst, with lines of so many bytes.
    pub fn used(&self, line: u32) -> f64 {
        f64::from(self.bytes) / (f64::from(self.lines.most) * f64::from(line))
    }
}

/// What all waves of a workgroup access through a pointer, each line counted once.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reach {
    /// The pointer.
    pub resource: String,
    /// Whether it is loads, stores or atomics.
    pub class: Class,
    /// What a workgroup touches.
    pub workgroup: Touched,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// What so many workgroups touch that follow each other, where each touches something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<(u32, Touched)>,
}

impl Reach {
    /// Part of the fetched bytes that is used, at worst, with what workgroups share.
    pub fn used(&self) -> f64 {
        let of_groups = self.beside.map_or(0.0, |(_, t)| t.used(self.line_bytes));
        self.workgroup.used(self.line_bytes).max(of_groups)
    }
}

/// An access to LDS, if all lanes are active.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct LdsAccess {
    /// The instruction's offset in the code.
    pub offset: usize,
    /// The region, by its place in the list.
    pub region: usize,
    /// Whether it is a read, a write or an atomic.
    pub class: Class,
    /// Bytes of a lane.
    pub bytes: u32,
    /// Bytes from each lane to the next, where all are alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<i64>,
    /// Cycles that the banks are busy.
    pub cycles: u32,
    /// Whether that is a lower bound: how the chip divides such an access into phases is not documented.
    pub at_least: bool,
    /// Cycles that so many different words take without conflicts.
    pub best_cycles: u32,
}

/// A wait for memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Wait {
    /// The instruction's offset in the code.
    pub offset: usize,
    /// The region, by its place in the list.
    pub region: usize,
    /// What it waits for.
    pub counters: Vec<WaitCounter>,
}

/// One counter that a wait is for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WaitCounter {
    /// LLVM's name of the counter.
    pub name: String,
    /// What it counts.
    pub counts: String,
    /// How many may remain.
    pub left: u32,
    /// The last instruction that has to be done, if it is in the same block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest: Option<usize>,
    /// Instructions between that one and the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between: Option<u32>,
}

/// What can bound a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Bandwidth of memory.
    Memory,
    /// Issue of vector instructions.
    Issue,
    /// The matrix unit.
    Matrix,
}

impl Bound {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Memory => "memory",
            Bound::Issue => "issue of vector instructions",
            Bound::Matrix => "matrix unit",
        }
    }
}

/// A kernel's place under the roofs of a board, by one pass through its hottest region.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Roofline {
    /// The board.
    pub board: String,
    /// Its bandwidth in GB/s.
    pub bandwidth: f64,
    /// Whether it was measured; else it is the published one.
    pub bandwidth_measured: bool,
    /// Its clock in MHz.
    pub clock_mhz: u32,
    /// Its compute units.
    pub cus: u32,
    /// Peak of `f32` outside the matrix unit in Gop/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vector_peak: Option<f64>,
    /// Peak of the matrix instructions that the region has, in Gop/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix_peak: Option<f64>,
    /// The region, by its place in the list.
    pub region: usize,
    /// Operations of a wave in one pass.
    pub ops: u64,
    /// Bytes of memory that a wave touches in one pass.
    pub bytes: u64,
    /// Whether these are the different bytes; else what lanes share is counted for each.
    pub bytes_distinct: bool,
    /// Operations a byte; none without either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intensity: Option<f64>,
    /// Cycles of one SIMD for each bound, in one pass of a wave.
    pub memory_cycles: f64,
    /// Cycles that a SIMD issues vector instructions.
    pub issue_cycles: f64,
    /// Cycles that its matrix unit is busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix_cycles: Option<f64>,
    /// The largest of them.
    pub bound: Bound,
    /// Gop/s at that bound, with all SIMDs at work; none without operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attainable: Option<f64>,
}

/// A line of the listing.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Line {
    /// Bytes from the start of the code.
    pub offset: usize,
    /// Assembly.
    pub text: String,
    /// Its kind; none of what is no instruction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The region, by its place in the list.
    pub region: usize,
    /// Loops that it is in.
    pub depth: u32,
    /// What is to be said of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
}
